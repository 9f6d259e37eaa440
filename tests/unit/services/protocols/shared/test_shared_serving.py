"""Models whose weights stay shared: what is frozen, once, and what a request tells whom."""

import secrets
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attacks.bayes.method_of_moments import MethodOfMoments
from defences import load
from services.adversary.knowledge import own_class_rows
from services.common.errors import InvalidMessage, NotAllowed, OutOfOrder
from services.party.asked_once import AskedOnce
from services.party.model_file import KeptModel, packed, unpacked
from services.party.party_model import PartyModel
from services.protocols.shared.share_messages import Kind
from services.protocols.shared.shared_serving import SharedPart, SharedServer, records_at_once
from services.protocols.shared.shared_steps import SharedSteps
from services.protocols.shared.shared_terms import SharedTerms
from services.protocols.shared.side_on_shares import made_key
from tests.harness.parties import ACTIVE, House, active_data, house, party_data, small_settings
from tests.harness.shared_sessions import SHARED_PLAN, SharedProblem, SharedSession
from tests.harness.shared_wiring import as_session, joined_weights, run_all, wired_shares
from vfl.arrays import FloatArray
from vfl.crypto import Engine, PublicKey, to_bytes
from vfl.learning.confidence import confidence_scores

ROWS = range(60)
SERVED = SHARED_PLAN.changed(epochs=1, protocol="shared", serving="shared")


@pytest.fixture(scope="module", params=[2, 3])
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A federation of two or three that has trained, with three classes."""
    passive = [party_data(rows=ROWS, seed=seed) for seed in range(1, request.param)]
    active = active_data(rows=ROWS, labels=[("a", "b", "c")[row % 3] for row in ROWS])
    settings = small_settings(protocol="shared", batch_size=42, patience=0, disclose=True)
    folder = tmp_path_factory.mktemp("run")
    with house(folder, active=active, passive=passive, settings=settings) as one:
        one.train()
        yield one


def models_of(found: House) -> dict[str, PartyModel]:
    """Each party's part, as it is served."""
    newest = found.active._serving.newest
    assert newest is not None
    models = {"active": newest.model}
    for name, party in found.passive.items():
        kept = party._models.of_session(newest.session_id)
        assert kept is not None
        models[name] = kept.model
    return models


def test_scores_are_those_of_the_weights_that_nobody_has(served: House) -> None:
    models = models_of(served)
    weights = joined_weights(models)
    newest = served.active._serving.newest
    assert newest is not None
    ids = ["id-3", "id-1", "id-17", "id-59"]
    places = [newest.row_of_id[one] for one in ids]
    logits = np.sum([model.features[places] @ weights[name] for name, model in models.items()], axis=0)
    first, again = served.active.predict(ids), served.active.predict(ids[::-1])
    assert np.array_equal(first.scores, confidence_scores(logits))
    # Whatever the masks, and whatever else is asked for with it.
    assert np.array_equal(first.scores, again.scores[::-1])
    assert all(0.01 < np.abs(one).max() < 4 for one in weights.values())


def test_a_label_party_with_chosen_columns_reads_its_own_class_rows_off_scores(served: House) -> None:
    """In one request more, about one record, than it has columns, its bias included."""
    newest, asked = served.active._serving.newest, list[int]()
    assert newest is not None

    def score(model: PartyModel, rows: Sequence[int]) -> FloatArray:
        asked.append(len(rows))
        return served.active._scoring.scores(model, rows)

    found = own_class_rows(newest.model, score)
    truth = joined_weights(models_of(served))["active"].T
    assert found is not None
    assert np.abs(found - (truth - truth[0])).max() < 1e-9
    assert asked == [1] * (newest.model.features.shape[1] + 1)
    defended = replace(newest.model.agreement, score_defences=("score_rounding",))
    assert own_class_rows(replace(newest.model, agreement=defended), score) is None


@pytest.mark.parametrize("opening", ["always", "guarded"])
def test_an_adversary_is_given_its_own_class_rows_where_nothing_is_opened(tmp_path: Path, opening: str) -> None:
    with house(tmp_path, settings=small_settings(protocol="shared", opening=opening, batch_size=19, epochs=1)) as home:
        home.train()
        newest = home.active._serving.newest
        assert newest is not None
        known = home.active._attacks._knowledge_of(newest)
        tests = newest.model.rows.test
        view = known.view(tests, home.active._scoring.scores(newest.model, tests.tolist()))
    assert (known.own_rows is None) == (opening == "always")
    assert view.weights_active is not None
    assert view.bias is not None
    assert view.weights_passive is None
    assert np.isfinite(MethodOfMoments().reconstruct(view)).all()


def test_no_share_is_written_beside_another(served: House) -> None:
    """Run folders are read together by an auditor; a share is in its own party's state alone."""
    names = {path.name for path in served.folder.iterdir()}
    assert names == {"active-test-scores.npz", *(f"{name}.json" for name in ("active", *served.passive))}
    content = b"".join(path.read_bytes() for path in served.folder.iterdir())
    for model in models_of(served).values():
        assert model.part.arrays()["share"].tobytes() not in content
        assert model.part.class_rows is None
        assert "share" not in repr(model.part)
    training = served.active_training
    assert not np.any(training.half.weights)
    assert all(one is training.side.part for one in training.models._parts)


def test_a_model_comes_back_from_the_partys_state(served: House) -> None:
    passive = served.passive[next(iter(served.passive))]
    for party, data, labels in (
        (served.active, served.active._context.data, served.active.labels),
        (passive, passive._context.data, None),
    ):
        kept = party._serving.newest.kept if labels is not None else passive._models.served  # type: ignore[union-attr]
        assert isinstance(kept, KeptModel)
        again = unpacked(packed(kept, data), data, labels)
        for name, array in kept.model.part.arrays().items():
            assert array.tobytes() == again.model.part.arrays()[name].tobytes()
        assert isinstance(again.model.part, SharedPart)
        told = [
            name for name in ("share=", "frozen=", "serving_key=", "own=", "turn=") if name in repr(again.model.part)
        ]
        assert not told, "what a log may have"
        assert again.model.part.own_key.p == kept.model.part.own_key.p  # type: ignore[attr-defined]


def test_nothing_is_disclosed_of_what_nobody_knows(served: House) -> None:
    for party in served.passive.values():
        with pytest.raises(OutOfOrder, match="weights stay shared"):
            party.disclose_parameters(ACTIVE, served.active.session_id)
        assert served.record(party.name)["discloses"] is False


def asking(served: House, rows: list[int]) -> tuple[str, bytes]:
    """The helper's name, and the active party's masked products for it."""
    model = models_of(served)["active"]
    name = SharedTerms(model.agreement).holder("active")
    return name, model.agreement.serving.ask(model, rows, Engine()).masked_for(name)


def test_the_same_request_gets_the_same_bytes_and_another_in_its_place_is_refused(served: House) -> None:
    rows = [1, 2, 3]
    name, masked = asking(served, rows)
    helper, session = served.passive[name], served.active.session_id
    first = helper.contribute_scores(ACTIVE, session, 7, rows, masked)
    assert helper.contribute_scores(ACTIVE, session, 7, rows, masked) == first
    assert helper.contribute_scores(ACTIVE, session, 8, rows, masked) != first
    with pytest.raises(OutOfOrder, match="other records"):
        helper.contribute_scores(ACTIVE, session, 7, [1, 2, 4], masked)
    with pytest.raises(OutOfOrder, match="other records"):
        helper.contribute_scores(ACTIVE, session, 7, rows, asking(served, rows)[1])


def server_of(model: PartyModel) -> SharedServer:
    assert isinstance(model.part, SharedPart)
    return SharedServer(SharedTerms(model.agreement), model.name, model.part, Engine())


def anything(key: PublicKey, count: int) -> bytes:
    return to_bytes([secrets.randbelow(key.n_squared - 1) + 1 for _ in range(count)], key.bits // 4)


def test_nothing_depends_on_what_a_message_holds(served: House) -> None:
    """Random ciphertexts are answered as honest ones are, at both ends; another count or no ciphertext is refused."""
    rows = [1, 2, 3]
    name, masked = asking(served, rows)
    helper, session, models = served.passive[name], served.active.session_id, models_of(served)
    key, width = models["active"].part.key, 2 * 512 // 8  # type: ignore[attr-defined]
    other = anything(key, len(masked) // width)
    answer = helper.contribute_scores(ACTIVE, session, 70, rows, masked)
    assert len(helper.contribute_scores(ACTIVE, session, 71, rows, other)) == len(answer)
    server = server_of(models["active"])
    key = models["active"].part.own_key  # type: ignore[attr-defined]
    found = server.keep(name, anything(key.public_key, len(answer) // width), len(rows))
    assert found.shape == server.keep(name, answer, len(rows)).shape == (3, 3)
    for bad in (b"", answer[:-1], answer + b"\0" * width, b"\0" * len(answer), b"\xff" * len(answer)):
        with pytest.raises(InvalidMessage, match="masked products are refused"):
            server.keep(name, bad, len(rows))
        # What was refused is not remembered.
        with pytest.raises(InvalidMessage, match="masked products are refused"):
            helper.contribute_scores(ACTIVE, session, 72, rows, bad)
    for name, model in models.items():
        strangers = {name, "active" if name not in ("active", helper.name) else "nobody"}
        for owner in strangers:
            with pytest.raises(NotAllowed):
                server_of(model).keep(owner, answer, len(rows))


@pytest.mark.parametrize(("size", "count", "kept"), [(3 << 20, 40, 21), (1_000, 200, 128), (65 << 20, 2, 1)])
def test_answers_that_are_kept_are_bounded_in_number_and_in_bytes(size: int, count: int, kept: int) -> None:
    """The largest messages fill 64 MiB long before 128 requests do."""
    asked, drawn = AskedOnce(), list[int]()

    def ask(request: int) -> bytes:
        def draw() -> tuple[bytes, Any]:
            drawn.append(request)
            return bytes(size), np.zeros((1, 1), dtype=np.uint64)

        return asked(("session", request), request, draw)[0]

    for request in range(count):
        assert len(ask(request)) == size
        ask(request)
    assert drawn == list(range(count))
    for request in range(count - kept, count):
        ask(request)
    assert len(drawn) == count
    ask(count - kept - 1)
    assert drawn[count:] == [count - kept - 1]


def test_numbers_are_no_answer_where_weights_stay_shared(served: House) -> None:
    with pytest.raises(InvalidMessage, match="scores as residues"):
        served.sessions.score(ACTIVE, served.active.session_id, 5, np.zeros((1, 3)))


def test_score_defences_are_as_ever(tmp_path: Path) -> None:
    rounding = load("score_rounding", decimals=2)
    settings = small_settings(protocol="shared", serving="shared", patience=0)
    with house(tmp_path, active=active_data(rows=ROWS), settings=settings, score_defences=[rounding]) as one:
        one.train()
        scores = one.active.predict(["id-5", "id-6", "id-5"]).scores
        assert np.array_equal(scores, np.round(scores, 2))
        assert np.array_equal(one.active.predict(["id-6"]).scores[0], scores[1])


def test_requests_fit_a_message() -> None:
    for classes, most in ((2, 4096), (100, 4096)):
        terms = SharedTerms(SharedProblem.random(classes=classes).agreement(SERVED.changed(key_bits=2048)))
        records = records_at_once(terms)
        assert 0 < records <= most
        assert terms.scores.groups(records) * terms.formats.outputs * 512 <= 3 << 20


# --- what is frozen ---


@pytest.fixture(scope="module")
def trained() -> Iterator[tuple[dict[str, SharedSteps], SharedSession]]:
    problem = SharedProblem.random(columns=(3, 2, 1), classes=3)
    with wired_shares(problem, SERVED) as parties:
        session = as_session(problem, SERVED, parties)
        run_all(parties, session.terms)
        yield parties, session


Trained = tuple[dict[str, SharedSteps], SharedSession]


def test_what_is_frozen_is_sent_once(trained: Trained) -> None:
    parties, session = trained
    expected, weights = session.joined(), {name: one.half.weights for name, one in parties.items()}
    with ThreadPoolExecutor(3) as threads:
        parts = {name: threads.submit(one.freeze) for name, one in parties.items()}
    served = session.terms.scores
    for name, part in ((name, one.result()) for name, one in parts.items()):
        key = parts[session.terms.holder(name)].result().own_key
        v = np.array([Engine().decrypt(key, column) for column in part.by_output], dtype=np.uint64).T
        assert np.abs(served.sums([part.share, v]) * 2.0**16 - expected[name]).max() <= 2.0**-16
        # The key is neither that of the training nor another party's.
        assert key.public_key.n != parties[session.terms.holder(name)].exchange._own_key.n
    active, passive = parties["active"].exchange, parties["passive-1"].exchange
    # Whatever has become of the weights, and whatever key is offered: the same bytes.
    before = active.freeze(weights["active"], made_key(512))  # type: ignore[arg-type]
    assert active.freeze(-weights["active"], made_key(512)) == before  # type: ignore[arg-type]
    message = next(one for one in before if one.receiver == "passive-1")
    passive.receive("active", message.kind, message.step, message.vector)
    data = message.vector.data[message.vector.width :] + message.vector.data[: message.vector.width]
    with pytest.raises(OutOfOrder, match="taken once"):
        passive.receive("active", message.kind, message.step, replace(message.vector, data=data))
    with pytest.raises(OutOfOrder, match="one key a party"):
        passive.receive_key("active", active.serving_key(made_key(512)))
    with pytest.raises(OutOfOrder, match="no further step"):
        active.forward(0, next(session.batches())[1], weights["active"])  # type: ignore[arg-type]
    opened = replace(message.vector, key_id="", width=3)
    with pytest.raises(NotAllowed, match="no opened"):
        passive.receive("active", Kind.OPENED, message.step, opened)


def test_a_serving_key_is_made_and_proved_anew() -> None:
    problem = SharedProblem.random()
    with wired_shares(problem, SERVED) as parties:
        active, passive = parties["active"].exchange, parties["passive-1"].exchange
        # Else the key of the training could come second, and be the same.
        with pytest.raises(OutOfOrder, match="before its serving key"):
            passive.receive_key("active", active.serving_key(made_key(512)))
        passive.receive_key("active", active.public_key)
        with pytest.raises(InvalidMessage, match="make another"):
            passive.receive_key("active", replace(active.public_key, purpose="serving"))
        # Proved for training, it isn't for serving.
        other: Any = parties["passive-1"].exchange.public_key
        with pytest.raises(InvalidMessage, match="refused"):
            passive.receive_key("active", replace(other, purpose="serving"))
    with wired_shares(problem) as parties:
        active, passive = parties["active"].exchange, parties["passive-1"].exchange
        with pytest.raises(NotAllowed, match="no serving key"):
            passive.receive_key("active", active.serving_key(made_key(512)))
