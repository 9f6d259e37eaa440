"""A model from a state file answers as the trained one, to the bit, and the file holds no more than it needs."""

import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from defences import load
from services.common.errors import NotAllowed, OutOfOrder
from services.common.state_folder import StateError, StateInMemory
from services.party.features import PartyData
from services.party.model_file import KeptModel, TableChanged, packed, summary_of, unpacked
from services.party.party_defences import PartyDefences
from services.party.party_model import PartyModel
from services.party.served_models import ServedModels
from tests.harness.defended import INSTALLED, Turn, party_training
from tests.harness.parties import (
    ACTIVE,
    active_data,
    data_of,
    house,
    party_data,
    small_settings,
    values_of,
    with_values,
)
from tests.harness.restarts import IDS, Town, town
from vfl.arrays import IntArray, write_arrays
from vfl.learning.networks import DenseNetwork, save_network

LABEL = load("class_label")
SCHEME = load("score_scheme1")
WORDS = ["setosa", "versicolor", "virginica"]


def kept_by(home: Town, name: str) -> KeptModel:
    models = home.active._serving._models if name == "active" else home.passive(name)._models
    assert models.served is not None
    return models.served


def assert_same(one: PartyModel, other: PartyModel) -> None:
    assert one.agreement == other.agreement
    assert (one.name, one.epochs, one.token_key) == (other.name, other.epochs, other.token_key)
    rows = list(range(len(one.features)))
    mine, theirs = one.share_of(rows, one.partial_scores(rows)), other.share_of(rows, other.partial_scores(rows))
    assert mine.products.tobytes() == theirs.products.tobytes()
    assert mine.record_tokens == theirs.record_tokens
    assert mine.same_as(theirs)
    if one.labels is not None:
        np.testing.assert_array_equal(one.labels, other.labels)
    for split in ("train", "validation", "test"):
        np.testing.assert_array_equal(getattr(one.rows, split), getattr(other.rows, split))


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("cipher", ["plain", "paillier"])
def test_a_restored_model_is_the_trained_one_to_the_bit(tmp_path: Path, classes: int, cipher: str) -> None:
    table = active_data(labels=[WORDS[row % classes] for row in range(60)])
    with town(tmp_path, parties=3, active=table, score_defences=[SCHEME], cipher=cipher) as home:
        home.train()
        before = {name: kept_by(home, name) for name in home.data}
        home.restart(*home.names)
        for name, kept in before.items():
            restored = kept_by(home, name)
            assert restored is not kept
            assert_same(restored.model, kept.model)
            np.testing.assert_array_equal(restored.order, kept.order)
            assert restored.model.token_key
            assert (restored.kept_at, restored.warnings) == (kept.kept_at, kept.warnings)
        assert home.active.class_names == tuple(WORDS[:classes])


def test_an_installed_network_is_kept_as_it_is() -> None:
    generator = np.random.default_rng(3)
    deep = DenseNetwork(
        (generator.normal(size=(2, 3)), generator.normal(size=(3, 2))), (generator.normal(size=3), np.zeros(2)), "relu"
    )
    model = party_training(INSTALLED, deep, PartyDefences()).model
    data = data_of(model.features)
    # On the grid, as every session takes its features.
    model = replace(model, features=data.aligned(np.arange(20), INSTALLED.plan).features)
    again = unpacked(packed(KeptModel.of(model, np.arange(20)), data), data).model
    assert_same(again, model)
    assert again.part.arrays()["activation"] == "relu"


def test_a_model_that_was_kept_before_plans_named_a_learner_is_read(tmp_path: Path) -> None:
    with town(tmp_path) as home:
        home.train()
        kept, data = kept_by(home, "passive"), home.data["passive"]
    arrays = dict(np.load(io.BytesIO(packed(kept, data))))
    header = json.loads(arrays["header"].tobytes())
    plan = header["agreement"]["plan"]
    assert (plan.pop("learner"), plan.pop("protocol")) == ("linear", "hu")
    assert (plan["learning_rate"], plan["l2"], plan["initialisation"]) == (0.5, 0.0, "xavier")
    plan["installed_model"] = False
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    weights = arrays.pop("own_weights")
    layer = {"own_weights_0": weights, "own_biases_0": np.zeros(1), "own_activation": np.array("sigmoid")}
    file = io.BytesIO()
    write_arrays(file, arrays | layer)
    assert_same(unpacked(file.getvalue(), data).model, kept.model)


def test_an_installed_models_record_has_its_part_and_no_weights_of_a_training(tmp_path: Path) -> None:
    """Once the random start weights of a model that nobody trained were written as the party's."""
    generator = np.random.default_rng(3)
    for name, inputs in (("active", 2), ("passive", 3)):
        weights = generator.normal(size=(inputs, 4)), generator.normal(size=(4, 2))
        save_network(tmp_path / f"{name}.npz", DenseNetwork(weights, (np.zeros(4), np.zeros(2))))
    with town(tmp_path, active=replace(active_data(), has_bias=False), model=tmp_path / "active.npz") as home:
        home.running["passive"]._context = replace(
            home.passive()._context, settings=home.settings.model_copy(update={"model": tmp_path / "passive.npz"})
        )
        home.train()
    with np.load(tmp_path / "active-weights.npz") as written, np.load(tmp_path / "active.npz") as own:
        assert "weights" not in written
        np.testing.assert_array_equal(written["weights_0"], own["weights_0"])


def test_parameters_are_disclosed_as_first_disclosed_also_by_another_secret(tmp_path: Path) -> None:
    with town(tmp_path, disclosing=[Turn()], disclose=True) as home:
        session = home.train()
        first = home.passive().disclose_parameters(ACTIVE, session)
        plain = kept_by(home, "passive").model.part
        assert np.abs(first.arrays()["weights"] - plain.arrays()["weights"]).max() > 1e-6
        home.restart("passive")
        again = home.passive().disclose_parameters(ACTIVE, session)
        assert again.arrays()["weights"].tobytes() == first.arrays()["weights"].tobytes()
        # The secret is kept as well: a model that hasn't been disclosed yet is distorted as it would have been.
        home.kill("passive")
        (tmp_path / "state" / "passive" / "secret").write_bytes(bytes(32))
        home.start("passive")
        again = home.passive().disclose_parameters(ACTIVE, session)
        assert again.arrays()["weights"].tobytes() == first.arrays()["weights"].tobytes()


def test_the_next_session_distorts_by_the_same_secret_after_a_restart(tmp_path: Path) -> None:
    shown = []
    with town(tmp_path, disclosing=[Turn()], disclose=True, private_seed=1) as home:
        for _ in range(2):
            session = home.train()
            shown.append(home.passive().disclose_parameters(ACTIVE, session).arrays()["weights"])
            home.restart("passive")
    # Records stand batch by batch from the second session on: means of columns may differ in their last bit.
    np.testing.assert_allclose(shown[0], shown[1], rtol=1e-9)


def test_nothing_of_protocol_1_is_in_the_state(tmp_path: Path) -> None:
    """Neither prime of either party's key, in either order of bytes, nor as text."""
    with town(tmp_path, cipher="paillier") as home:
        home.train()
        home.scores()
        secrets = []
        session = home.passive()._session
        assert session is not None
        for joined in (home.active._trained, session.joined):
            assert joined is not None
            exchange = joined.training.exchange
            key = exchange._cipher._messages.private_key
            secrets += [int(key.p), int(key.q)]
        content = b"".join(file.read_bytes() for file in (tmp_path / "state").rglob("*") if file.is_file())
    assert len(content) > 5000
    assert len(set(secrets)) == 4
    for secret in secrets:
        size = (secret.bit_length() + 7) // 8
        for written in (secret.to_bytes(size, "big"), secret.to_bytes(size, "little")):
            assert written not in content
            assert written[: size // 2] not in content
        for text in (str(secret), f"{secret:x}", f"{secret:X}"):
            assert text.encode() not in content


def test_neither_ids_nor_features_nor_labels_are_in_the_state(tmp_path: Path) -> None:
    table = active_data(labels=[WORDS[row % 2] for row in range(60)])
    with town(tmp_path, active=table) as home:
        home.train()
        content = b"".join(file.read_bytes() for file in (tmp_path / "state").rglob("*") if file.is_file())
        features = kept_by(home, "passive").model.features
    assert not [one for one in (*IDS, *WORDS) if one.encode() in content]
    assert not [row for row in features if row.tobytes() in content]


@pytest.mark.parametrize("change", ["ids", "names", "values", "labels", "fewer", "gap", "encoding", "encoder", "bias"])
def test_another_table_is_told_from_the_one_that_was_trained_on(change: str) -> None:
    data = active_data()
    assert data.labels is not None
    labels = data.labels.copy()
    labels[3] = "yes" if labels[3] == "no" else "no"
    values, gap = values_of(data), values_of(data)
    values[3, 1] = np.nextafter(values[3, 1], 2.0)
    gap[3, 1] = np.nan
    table, frame, plans = data.table, data.table.frame, data.table.plans
    renamed = replace(table, frame=frame.rename(columns={"f0": "g0"}), plans=(replace(plans[0], name="g0"), *plans[1:]))
    fewer = replace(table, ids=data.ids[1:], frame=frame.iloc[1:], labels=data.labels[1:])
    changed = {
        "ids": replace(data, table=replace(table, ids=("id", *data.ids[1:]))),
        "names": replace(data, table=renamed),
        "values": with_values(data, values),
        "labels": replace(data, table=replace(table, labels=labels)),
        "fewer": replace(data, table=fewer),
        "gap": with_values(data, gap),
        "encoding": replace(data, table=replace(table, plans=(replace(plans[0], encoding="ordinal"), *plans[1:]))),
        "encoder": replace(data, encoder="minmax"),
        "bias": replace(data, has_bias=False),
    }[change]
    assert changed.table_hash != data.table_hash
    assert with_values(data, values_of(data)).table_hash == data.table_hash


def model_of(session: str) -> tuple[KeptModel, PartyData]:
    network = DenseNetwork((np.ones((3, 2)),), (np.zeros(2),))
    data = party_data(rows=range(20))
    order: IntArray = np.arange(20)[::-1]
    agreement = replace(INSTALLED, session_id=session)
    features = data.aligned(order, agreement.plan).features
    return KeptModel.of(PartyModel(agreement, "passive", features, network, 0, b"k" * 32), order), data


def test_a_summary_shows_no_weight_and_no_key() -> None:
    kept, data = model_of("one")
    summary = summary_of(packed(kept, data))
    assert (summary.session_id, summary.parties, summary.classes) == ("one", ("active", "passive"), 2)
    assert summary.table == data.table_hash
    assert "6b6b" not in json.dumps(vars(summary))


def test_a_model_of_another_table_stays_on_disk_and_answers_nothing() -> None:
    kept, data = model_of("one")
    state = StateInMemory()
    models = ServedModels("passive", data, state)
    models.keep_candidate(kept)
    models.serve("one", "active")
    other = with_values(data, values_of(data) * 0.5)
    for table, answers in ((other, False), (data, True)):
        again = ServedModels("passive", table, state)
        if answers:
            found = again.of_session("one", "active")
            assert found is not None
            assert_same(found.model, kept.model)
        else:
            with pytest.raises(TableChanged, match="put it back, or train again"):
                again.of_session("one", "active")
            assert again.served is None


def test_a_model_of_before_sessions_encoded_tables_is_refused_in_words_and_shown() -> None:
    kept, data = model_of("one")
    with np.load(io.BytesIO(packed(kept, data))) as archive:
        arrays = dict(archive)
    header = json.loads(arrays["header"].tobytes())
    del header["features"]
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    old = io.BytesIO()
    write_arrays(old, arrays)
    with pytest.raises(TableChanged, match=r"passive's model is of an older version of Plumbline.*: train again\.$"):
        unpacked(old.getvalue(), data)
    assert summary_of(old.getvalue()).session_id == "one"


@pytest.mark.parametrize("content", [b"", b"junk", b"PK\x03\x04junk"])
def test_a_broken_model_stops_the_start_with_a_sentence(content: bytes) -> None:
    _, data = model_of("one")
    state = StateInMemory()
    state.write("served.npz", content)
    with pytest.raises(StateError, match=r"state is broken \(.*\): put the folder back from a copy"):
        ServedModels("passive", data, state)


def test_a_torn_model_is_refused() -> None:
    kept, data = model_of("one")
    content = packed(kept, data)
    for size in range(10, len(content), max(1, len(content) // 40)):
        with pytest.raises(StateError):
            unpacked(content[:size], data)


def test_only_the_sessions_active_party_may_ask_and_only_for_a_model_that_is_here() -> None:
    kept, data = model_of("one")
    models = ServedModels("passive", data, StateInMemory())
    with pytest.raises(OutOfOrder, match="passive has no finished model of session one"):
        models.serve("one", "active")
    models.keep_candidate(kept)
    for ask in (models.serve, models.of_session):
        with pytest.raises(NotAllowed, match="other is not this session's active party"):
            ask("one", "other")
    assert models.of_session("two", "active") is None


def test_there_are_never_more_than_the_served_model_and_the_next() -> None:
    state = StateInMemory()
    _, data = model_of("one")
    models = ServedModels("passive", data, state)
    for session in ("one", "two", "three"):
        models.keep_candidate(model_of(session)[0])
    assert models.sessions == {"three"}
    models.serve("three", "active")
    models.serve("three", "active")
    models.keep_candidate(model_of("four")[0])
    assert models.sessions == {"three", "four"}
    models.drop_candidate("three")
    models.drop_candidate("four")
    assert models.sessions == {"three"}
    assert set(state._kept) == {"served.npz"}


def test_a_process_without_a_folder_serves_as_before(tmp_path: Path) -> None:
    with house(tmp_path, settings=small_settings(cipher="plain")) as home:
        home.train()
        assert home.active.obstacle() == ""
        assert len(home.active.predict(IDS)) == len(IDS)
