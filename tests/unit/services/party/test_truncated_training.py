"""Training with truncated answers and under the guard: what stays exact, what is stopped, what is let through."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from attacks import HonestFactory, SessionTerms, TrainingAttack
from attacks.training.auxiliary_ciphertext import (
    AuxiliaryCiphertext,
    AuxiliaryMessages,
    AuxiliaryPlan,
    compress,
    extend,
)
from attacks.training.label_recovery import LabelRecovery
from attacks.training.label_search import sign_solutions
from defences import load
from plumbline.judge.training import TrainingFinding, read_training_findings
from services.common.agreement import Agreement, PartyDescription
from services.common.errors import FederationError
from services.common.identity import Identity
from services.common.run_folder import RunFolder
from services.common.settings import Settings
from services.coordinator.sessions import Sessions
from services.exchange.outgoing import OutgoingVector
from services.exchange.tape import Tape
from services.exchange.vectors import DecryptedVector, WireVector
from services.protocols.hu.gradient_exchange import GradientExchange
from tests.harness.defended import PLAIN, with_defences
from tests.harness.exchanges import (
    names_of,
)
from tests.harness.parties import active_data, house, party_data, small_settings
from tests.harness.processes import weights_of
from vfl.arrays import FloatArray
from vfl.crypto import CipherVector, mask_vector, matvec
from vfl.crypto.messages import Combination, Question

# -- truncation changes nothing but the size of answers ---------------------------------------------------------------


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, DecryptedVector]]:
    """Every answer that is given: by whom, and what."""
    given: list[tuple[str, DecryptedVector]] = []
    answer_sums = GradientExchange.answer

    def spying(self: GradientExchange, peer: str, kind: str, step: int, vector: WireVector) -> DecryptedVector:
        answer = answer_sums(self, peer, kind, step, vector)
        given.append((self._cipher._name, answer))  # type: ignore[attr-defined]
        return answer

    monkeypatch.setattr(GradientExchange, "answer", spying)
    return given


@pytest.mark.parametrize("packing", [False, True], ids=["unpacked", "packed"])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("parties", [2, pytest.param(3, marks=pytest.mark.thorough)])
def test_truncation_leaves_training_bit_identical_and_shrinks_answers(
    tmp_path: Path, answers: list[tuple[str, DecryptedVector]], parties: int, classes: int, packing: bool
) -> None:
    labels = [f"class-{row % classes}" for row in range(60)]
    settings = small_settings(steps="plain", packing=packing, epochs=1, initialisation="xavier", l2=0.01)
    passive = [party_data(rows=range(59, 25, -1), seed=seed) for seed in range(1, parties)]
    outcomes = {}
    for truncating in ((), ("active",), ("passive",), ("active", "passive")):
        folder = tmp_path / "-".join(truncating)
        answers.clear()
        with house(
            folder,
            settings=settings.model_copy(update={"truncate_answers": "active" in truncating}),
            passive_settings=settings.model_copy(update={"truncate_answers": "passive" in truncating}),
            active=active_data(labels=labels),
            passive=passive,
        ) as home:
            home.train()
            scores = np.array(list(home.active.predict([f"id-{row}" for row in range(26, 60)]).values()))
        outcomes[truncating] = [*weights_of(folder, names_of(parties)), scores]
        for side in ("active", "passive"):
            widths = {answer.width for key_holder, answer in answers if key_holder.startswith(side)}
            assert (max(widths) < 64) == (side in truncating)
            assert widths == {64} or side in truncating
            assert widths <= {8, 64} or packing
    for truncating, outcome in outcomes.items():
        for one, other in zip(outcome, outcomes[()], strict=True):
            assert one.tobytes() == other.tobytes(), truncating


def test_without_encryption_there_is_nothing_to_truncate_and_the_weights_are_the_same(tmp_path: Path) -> None:
    weights = []
    for truncates in (False, True):
        folder = tmp_path / str(truncates)
        with house(folder, settings=PLAIN.model_copy(update={"truncate_answers": truncates})) as home:
            home.train()
        weights.append(b"".join(one.tobytes() for one in weights_of(folder, names_of(2))))
    assert weights[0] == weights[1]


def test_a_coordinator_cant_switch_a_partys_truncation_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    join = Sessions.join

    def lying(self: Sessions, caller: Identity, session_id: str, party: PartyDescription) -> Agreement:
        told = join(self, caller, session_id, party)
        return replace(told, parties=tuple(replace(one, truncates_answers=False) for one in told.parties))

    monkeypatch.setattr(Sessions, "join", lying)
    with (
        house(tmp_path, settings=small_settings(epochs=1)) as home,
        pytest.raises(FederationError, match=r"describes .* otherwise than it described itself"),
    ):
        home.train()


def test_a_coordinator_cant_describe_a_party_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    join = Sessions.join

    def lying(self: Sessions, caller: Identity, session_id: str, party: PartyDescription) -> Agreement:
        told = join(self, caller, session_id, party)
        others = tuple(replace(one, truncates_answers=False) for one in told.parties[1:])
        return replace(told, parties=(told.parties[0], *others, *told.parties[1:]))

    monkeypatch.setattr(Sessions, "join", lying)
    with (
        house(tmp_path, settings=small_settings(epochs=1)) as home,
        pytest.raises(FederationError, match="describes passive otherwise"),
    ):
        home.train()


# -- the attack that truncation is for --------------------------------------------------------------------------------

# 511 bits hold 8 sums of 60 to 61 bits: 24 equations for three features unpacked, 8 packed into one answer.
ATTACKED = [
    pytest.param(False, 20, id="unpacked"),
    pytest.param(True, 7, id="packed"),
]


def attacked(
    folder: Path, settings: Settings, attack: TrainingAttack, *, labels: Sequence[object] | None = None
) -> tuple[TrainingFinding, list[FloatArray]]:
    """A job with one attack at the passive party: what it found, and the weights of both."""
    if labels is None:
        labels = np.random.default_rng(8).permutation(["no", "yes"] * 30).tolist()
    with house(
        folder,
        settings=settings,
        active=active_data(labels=labels),
        passive_adversary={attack.name: attack},
    ) as home:
        home.train()
    (found,) = read_training_findings(RunFolder(folder))
    return found, weights_of(folder, names_of(2))


@pytest.mark.parametrize(("packing", "batch_size"), ATTACKED)
def test_algorithm_2_reads_every_label_in_the_first_epoch_where_answers_are_whole(
    tmp_path: Path, packing: bool, batch_size: int
) -> None:
    settings = small_settings(
        steps="plain",
        packing=packing,
        batch_size=batch_size,
        learning_rate=0.01,
        record_features=True,
        truncate_answers=False,
    )
    found, _ = attacked(tmp_path, settings, AuxiliaryCiphertext())
    assert (found.kind, found.success, found.resolved, found.by_epoch) == ("labels", 1.0, 1.0, (1.0, 1.0))


@pytest.mark.parametrize("packing", [False, True], ids=["unpacked", "packed"])
def test_truncated_answers_tell_all_labels_of_a_batch_that_the_guard_counts_and_training_goes_on(
    tmp_path: Path, packing: bool
) -> None:
    """Two residuals in each of three answers, or five in one: labels, and with them the honest sums."""
    settings = small_settings(
        steps="plain", packing=packing, batch_size=6 if not packing else 5, learning_rate=0.01, record_features=True
    )
    found, weights = attacked(tmp_path / "on", settings, AuxiliaryCiphertext())
    assert (found.success, found.resolved, found.reason) == (1.0, 1.0, "")
    if not packing:
        assert found.by_epoch == (1.0, 1.0)
    _, honest = attacked(tmp_path / "off", settings, LabelRecovery())
    for one, other in zip(weights, honest, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-6)


@pytest.mark.parametrize("packing", [False, True], ids=["unpacked", "packed"])
def test_truncated_answers_tell_labels_of_a_part_of_each_batch_until_all_are_known(
    tmp_path: Path, packing: bool
) -> None:
    """The guard is silent about 38 rows; the attack reads other rows in every epoch, then sends honest messages."""
    settings = small_settings(
        steps="plain", packing=packing, batch_size=38, epochs=9, learning_rate=0.5, record_features=True
    )
    found, weights = attacked(tmp_path / "on", settings, AuxiliaryCiphertext())
    assert RunFolder(tmp_path / "on").record("active").guard == ()
    assert (found.success, found.resolved) == (1.0, 1.0)
    told, reading = 6, 7
    assert found.by_epoch == (told / 38,) * reading + (0.0,) * (9 - reading)
    # What it trained with stands for the batch on average: another model than the honest one, not another kind.
    _, honest = attacked(tmp_path / "off", settings, LabelRecovery())
    moved = [np.abs(one - other).max() for one, other in zip(weights, honest, strict=True)]
    assert 1e-3 < max(moved) < 0.5


def test_with_peers_of_both_kinds_each_is_asked_for_what_its_answers_hold(tmp_path: Path) -> None:
    """The active party cuts its answers, the other passive one doesn't: all shares of the rows read follow."""
    settings = small_settings(
        steps="plain", packing=False, batch_size=19, epochs=5, learning_rate=0.1, record_features=True
    )
    with house(
        tmp_path,
        settings=settings,
        passive_settings=settings.model_copy(update={"truncate_answers": False}),
        active=active_data(labels=np.random.default_rng(8).permutation(["no", "yes"] * 30).tolist()),
        passive=[party_data(rows=range(59, 4, -1), seed=seed) for seed in (1, 2)],
        passive_adversary={"auxiliary_ciphertext": AuxiliaryCiphertext()},
    ) as home:
        home.train()
    for found in read_training_findings(RunFolder(tmp_path)):
        assert (found.success, found.resolved, found.reason) == (1.0, 1.0, "")


def test_truncation_doesnt_help_where_the_honest_sums_are_enough(tmp_path: Path) -> None:
    """s <= d: three rows, three features (Hu, Corollary 3.2). The guard says so."""
    settings = small_settings(steps="plain", batch_size=3, learning_rate=0.01, record_features=True, epochs=1)
    found, _ = attacked(tmp_path, settings, LabelRecovery())
    assert found.resolved > 0.9
    assert found.success > 0.9
    warnings = json.loads((tmp_path / "active.json").read_text())["guard"]
    # The other is of all sessions: so few records have as many sums as labels.
    assert ["PLUMBLINE_MOST_SUMS" in warning for warning in warnings] == [False, True]
    assert "truncate_answers" not in warnings[0]


@pytest.mark.parametrize("initialisation", ["zero", "xavier"])
def test_what_truncation_doesnt_stop_the_first_batchs_labels_where_weights_start_at_zero(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, initialisation: str
) -> None:
    """At step 0 of initialisation=zero the label party's share is -2 y whatever its features are (Hu, Theorem 4.1).

    Three honest sums over 16-bit features then fit one choice of 19 signs only: no equation but what every party gets.
    Private random weights take that away, and so does dp_noise.
    """
    sums: list[FloatArray] = []
    gradient_share = GradientExchange.gradient_share

    def watching(self: GradientExchange, peer: str, answer: DecryptedVector, tape: Tape | None) -> FloatArray:
        share = gradient_share(self, peer, answer, tape)
        if peer == "active":
            sums.append(share)
        return share

    monkeypatch.setattr(GradientExchange, "gradient_share", watching)
    settings = small_settings(steps="plain", batch_size=20, epochs=1, initialisation=initialisation)
    labels = np.random.default_rng(8).permutation(["no", "yes"] * 30).tolist()
    with house(
        tmp_path,
        settings=settings,
        active=active_data(labels=labels),
    ) as home:
        home.train()
        active, session = home.active_training, home.passive["passive"]._session
        assert session is not None
        assert session.joined is not None
        training = session.joined.training
        batch = next(active.schedule.epoch(0))
        matrix = training.gridded.integers_of(training.model.features_of(batch))
        truth = np.where(active.model.labels_of(batch) == 1, 1.0, -1.0)
    assert matrix.shape == (19, 3)
    found = sign_solutions(matrix, sums[0][:, 0] / -2)
    if initialisation == "zero":
        assert len(found) == 1
        np.testing.assert_array_equal(found[0], truth)
    else:
        assert found == []


class StubbornMessages(AuxiliaryMessages):
    """Algorithm 2 as if nobody truncated: it asks for everything, and reads the slots of short answers all the same."""

    kept: ClassVar[list[tuple[int, FloatArray, FloatArray]]] = []

    def combine(self, step: int, peer: str, features: FloatArray, residuals: CipherVector) -> Combination:
        assert isinstance(self._plan, AuxiliaryPlan)
        fixed_point = self._formats.feature
        matrix = extend(features * 2.0**-16, self._plan, fixed_point, self._attack.generator(step))
        product = matvec(matrix, residuals, features=fixed_point)
        # On the wire sums of whole numbers look alike.
        return Combination(matrix, replace(compress(product, self._plan), exponent=residuals.exponent))

    def mask(self, step: int, peer: str, combination: Combination) -> Question:
        masked, mask = mask_vector(combination.encrypted)

        def read(residues: Sequence[int]) -> FloatArray:
            offset = sum(2**63 << 64 * slot for slot in range(7))
            lifted = [
                (residue - summand + offset) % mask.public_key.n
                for residue, summand in zip(residues, mask.summands, strict=True)
            ]
            extra = [(value >> 64 * slot & 2**64 - 1) - 2**63 for slot in range(1, 7) for value in lifted]
            self.kept.append((step, combination.matrix, np.array(extra) * 2.0**-48))
            return np.zeros((combination.matrix.shape[1], 1))

        return Question(masked, read)


class Stubborn(AuxiliaryCiphertext):
    """Brings them."""

    def messages(self, terms: SessionTerms, honest: HonestFactory) -> AuxiliaryMessages:
        plan = self.plan(
            key_bits=terms.key_bits,
            features=terms.features,
            rows=terms.batch_size,
            residual_format=terms.formats.residual,
            feature_format=terms.formats.feature,
        )
        return StubbornMessages(self, plan, terms, honest)


@pytest.mark.parametrize("truncating", [False, True], ids=["off", "on"])
def test_who_asks_for_the_extra_sums_all_the_same_gets_noise_that_tells_nothing_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, truncating: bool
) -> None:
    shares: dict[int, FloatArray] = {}
    outgoing = GradientExchange.outgoing_residuals

    def watching(self: GradientExchange, step: int, residual: FloatArray) -> OutgoingVector:
        if "active" not in self._peers:
            shares[step] = residual
        return outgoing(self, step, residual)

    monkeypatch.setattr(GradientExchange, "outgoing_residuals", watching)
    monkeypatch.setattr(StubbornMessages, "kept", [])
    with house(
        tmp_path,
        settings=small_settings(
            steps="plain", packing=False, batch_size=20, learning_rate=0.01, epochs=8, truncate_answers=truncating
        ),
        passive_adversary={"auxiliary_ciphertext": Stubborn()},
    ) as home:
        home.train()
    assert len(StubbornMessages.kept) == 16
    truth = np.concatenate([(matrix[:, 3:].T @ shares[step]).ravel() for step, matrix, _ in StubbornMessages.kept])
    read = np.concatenate([extra for _, _, extra in StubbornMessages.kept])
    assert truth.shape == read.shape == (288,)
    if not truncating:
        np.testing.assert_allclose(read, truth, atol=1e-6)
        return
    # 288 pairs: independent ones have a correlation beyond 0.3 less than once in a million times.
    assert abs(np.corrcoef(truth, read)[0, 1]) < 0.3
    # Noise over all 64 bits, 15 of them above the point: hardly any is as small as a sum is.
    assert np.abs(truth).max() < 100
    assert np.median(np.abs(read)) > 2**12


# -- the guard in a session -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("packing", [False, True], ids=["unpacked", "packed"])
def test_each_party_counts_its_own_answers_and_the_active_one_warns(tmp_path: Path, packing: bool) -> None:
    with house(tmp_path, settings=small_settings(steps="plain", packing=packing, truncate_answers=False)) as home:
        home.train()
        for name, peer in (("active", "passive"), ("passive", "active")):
            record = home.record(name)
            (channel,) = record["channels"]
            assert (channel["key_holder"], channel["peer"]) == (name, peer)
            # 38 or 39 training rows in five steps.
            assert channel["rows"] == 7
            assert channel["sum_bits"] == 60
            assert channel["equations"] == (16 if packing else 3 * 16)
            assert len([one for one in record["guard"] if "PLUMBLINE_MOST_SUMS" not in one]) == 1
        assert home.record()["guard"][0] in home.active.warnings


@pytest.mark.parametrize(
    ("who", "what"),
    [("active", "labels of active's records"), ("passive", "passive's part of each record's score")],
)
def test_refuse_stops_the_session_of_whoever_says_so_before_any_answer(
    tmp_path: Path, answers: list[tuple[str, DecryptedVector]], who: str, what: str
) -> None:
    strict, lenient = (small_settings(guard=mode, packing=False, truncate_answers=False) for mode in ("refuse", "off"))
    with house(
        tmp_path,
        settings=strict if who == "active" else lenient,
        passive_settings=strict if who == "passive" else lenient,
    ) as home:
        with pytest.raises(FederationError, match=r"truncate_answers=true.*PLUMBLINE_GUARD=refuse"):
            home.train()
        assert f"could learn {what} from the answers of one step" in home.active.failure
    assert answers == []


def test_a_party_that_adds_noise_is_warned_and_not_refused(tmp_path: Path) -> None:
    strict = small_settings(guard="refuse", packing=False, batch_size=8, residual_integer_bits=8)
    noise = with_defences(load("dp_noise", sigma=5.0))
    with house(tmp_path, settings=strict, active_defences=noise, passive_defences=noise) as home:
        home.train()
        assert any("labels of active's records" in warning for warning in home.record()["guard"])


def test_a_passive_party_refuses_a_learning_rate_that_leaves_its_weights_where_they_are(
    tmp_path: Path, answers: list[tuple[str, DecryptedVector]]
) -> None:
    """Two epochs of five steps: seven rows in each, six equations about them."""
    still = {"packing": False, "learning_rate": 1e-9}
    with house(
        tmp_path,
        settings=small_settings(guard="off", **still),
        passive_settings=small_settings(guard="refuse", **still),
    ) as home:
        with pytest.raises(FederationError, match=r"10 steps together\. learning_rate=1e-09 .*PLUMBLINE_GUARD=refuse"):
            home.train()
        assert answers == []
        home.settings = small_settings(guard="off", packing=False)
        home.train()


def test_with_both_truncating_and_batches_far_above_d_refuse_lets_the_session_through(tmp_path: Path) -> None:
    """Three answers hold three residuals and three parts, six equations: four labels each, and 38 training rows."""
    settings = small_settings(guard="refuse", packing=False, batch_size=38)
    with house(tmp_path, settings=settings) as home:
        home.train()
        assert home.record()["guard"] == home.record("passive")["guard"] == []
        assert not any("equations" in warning for warning in home.active.warnings)
