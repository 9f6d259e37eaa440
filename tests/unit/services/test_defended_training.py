"""Training with defences on, whole parties in one process: what peers see, what stays exact, what is refused when."""

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from attacks.auxiliary_ciphertext import AuxiliaryCiphertext, AuxiliaryPlan, compress, extend
from attacks.label_recovery import LabelRecovery
from attacks.sign_search import sign_solutions
from attacks.training_views import TrainingAttack
from defences import Defence, DefenceError, DefenceSpec, NoiseSource, TrainingTerms, load
from plumbline.judge.training import TrainingFinding, read_training_leakage
from services.adversary.ciphers import AuxiliaryCipher
from services.common.agreement import Agreement, PartyDescription, TrainingPlan
from services.common.errors import Diverged, FederationError, InvalidMessage, OutOfOrder
from services.common.identity import Identity
from services.coordinator.sessions import Sessions
from services.party.party_defences import PartyDefences
from services.party.party_training import PartyTraining
from services.protocol1.cipher import DecryptedVector, PaillierCipher, Unmask, WireVector
from services.protocol1.exchange import GradientExchange
from services.protocol1.peer import Peer
from tests.integration.harness import (
    ACTIVE,
    SMALL_PLAN,
    House,
    Problem,
    Watcher,
    active_data,
    house,
    largest_difference,
    names_of,
    party_data,
    random_problem,
    run_together,
    small_settings,
    weights_of,
    wired,
)
from vfl.arrays import FloatArray
from vfl.crypto import from_bytes, mask_vector
from vfl.learning import BatchSchedule, ResidualScheme, class_rows, initial_weights, split_rows
from vfl.learning.networks import DenseNetwork

PLAIN = small_settings(cipher="plain")
TRUNCATION = load("response_truncation")
INSTALLED = Agreement(
    "session",
    replace(SMALL_PLAN, installed_model=True, cipher="plain"),
    2,
    (PartyDescription("active", 3, 0, False, 20), PartyDescription("passive", 2, 0, False, 20)),
)


@dataclass(frozen=True)
class Expectation:
    size: float


@dataclass(frozen=True)
class Wave:
    """Noise that a test knows: the same wave over the rows of every batch, ``size`` high."""

    size: float = 0.5

    name: ClassVar[str] = "wave"
    spec: ClassVar[DefenceSpec] = DefenceSpec(("active", "passive"), ("residuals",), "nothing", "a test")

    def wave(self, rows: int) -> FloatArray:
        """(rows, 1), on the fixed-point grid."""
        values: FloatArray = np.rint(self.size * np.cos(np.arange(rows)) * 2**20)[:, None] / 2**20
        return values

    def check(self, terms: TrainingTerms) -> None:
        """It never looks."""

    def prediction(self, terms: TrainingTerms) -> Expectation:
        return Expectation(self.size)

    def protect_residuals(self, residuals: FloatArray, terms: TrainingTerms, noise: NoiseSource) -> FloatArray:
        return residuals + self.wave(len(residuals))


@dataclass(frozen=True)
class Careful(Wave):
    """Refuses when the session begins."""

    name: ClassVar[str] = "careful"

    def check(self, terms: TrainingTerms) -> None:
        raise DefenceError(f"careful can't work with {terms.steps} steps as the {terms.role} party: choose fewer.")


@dataclass(frozen=True)
class Late(Wave):
    """Notices in the midst of training that it can't work."""

    name: ClassVar[str] = "late"

    def protect_residuals(self, residuals: FloatArray, terms: TrainingTerms, noise: NoiseSource) -> FloatArray:
        raise DefenceError("late works for other numbers only: drop it.")


@dataclass(frozen=True)
class Flip:
    """1 - x in place of every feature."""

    name: ClassVar[str] = "flip"
    spec: ClassVar[DefenceSpec] = DefenceSpec(("passive",), ("features",), "scores", "a test")

    def transform_features(self, features: FloatArray, noise: NoiseSource) -> FloatArray:
        return 1.0 - features


@dataclass(frozen=True)
class Turn:
    """Parameters times a random orthonormal matrix, drawn anew whenever it is asked."""

    name: ClassVar[str] = "turn"
    spec: ClassVar[DefenceSpec] = DefenceSpec(
        ("passive",), ("parameters",), "scores", "a test", replaces="disclosed parameters"
    )

    def disclose(self, weights: FloatArray, features: FloatArray, noise: NoiseSource) -> FloatArray:
        turned: FloatArray = weights @ np.linalg.qr(noise.gaussian((weights.shape[1],) * 2))[0]
        return turned


@dataclass(frozen=True)
class Bias:
    """Moves the class rows by different amounts, so that a binary model no longer fits one column."""

    name: ClassVar[str] = "bias"
    spec: ClassVar[DefenceSpec] = DefenceSpec(
        ("passive",), ("parameters",), "scores", "a test", replaces="disclosed parameters"
    )

    def disclose(self, weights: FloatArray, features: FloatArray, noise: NoiseSource) -> FloatArray:
        if features.max() > 1:
            raise DefenceError("bias is for features up to 1: scale them.")
        moved: FloatArray = weights + np.arange(len(weights))[:, None]
        return moved


def with_defences(*chosen: Defence, seed: int | None = 1) -> PartyDefences:
    return PartyDefences(chosen, NoiseSource(seed))


# -- Algorithm 3: noise on what peers get, and on nothing else --------------------------------------------------------


def train_noisily(problem: Problem, plan: TrainingPlan, noise: Mapping[str, Wave]) -> list[FloatArray]:
    """The yardstick in float64: a party adds its own residual as it is, and the others' with their noise."""
    scheme = ResidualScheme(problem.classes)
    split = split_rows(
        problem.rows, validation_fraction=plan.validation_fraction, test_fraction=plan.test_fraction, seed=plan.seed
    )
    schedule = BatchSchedule(split.train, plan.batch_size, plan.seed)
    thetas = {
        name: initial_weights(
            plan.initialisation,
            block.shape[1],
            scheme.columns,
            total_features=sum(other.shape[1] for other in problem.blocks.values()),
            generator=np.random.default_rng(100 + number),
        )
        for number, (name, block) in enumerate(problem.blocks.items())
    }
    for epoch in range(plan.epochs):
        for batch in schedule.epoch(epoch):
            shares = {name: problem.blocks[name][batch] @ theta for name, theta in thetas.items()}
            shares = {
                name: scheme.active_share(share, problem.labels[batch])
                if name == "active"
                else scheme.passive_share(share)
                for name, share in shares.items()
            }
            sent = {
                name: share + (noise[name].wave(len(batch)) if name in noise else 0) for name, share in shares.items()
            }
            for name, theta in thetas.items():
                f = shares[name] + sum(value for other, value in sent.items() if other != name)
                gradient = scheme.gradient_scale(len(batch)) * problem.blocks[name][batch].T @ f
                thetas[name] = theta - plan.learning_rate * gradient
    return list(thetas.values())


@pytest.mark.parametrize(
    "noise",
    [{"active": Wave(0.5)}, {"passive": Wave(0.25)}, {"active": Wave(0.5), "passive": Wave(0.25)}],
    ids=["active", "passive", "both"],
)
@pytest.mark.parametrize("cipher", ["paillier", "plain"])
def test_a_party_uses_its_own_true_residual_and_the_others_noisy_ones(cipher: str, noise: dict[str, Wave]) -> None:
    problem, plan = random_problem(), replace(SMALL_PLAN, cipher=cipher, initialisation="xavier")
    defences = {name: with_defences(wave) for name, wave in noise.items()}
    with wired(problem, plan, defences=defences) as trainings:
        weights = run_together(trainings, plan.epochs)
    assert largest_difference(weights, train_noisily(problem, plan, noise)) <= 1e-6
    # The yardstick knows the difference: noise in one's own term would give other weights.
    assert largest_difference(weights, train_noisily(problem, plan, {})) > 1e-3


@pytest.mark.parametrize("classes", [2, 3])
def test_with_three_parties_each_peer_gets_the_noise_of_each_other(classes: int) -> None:
    problem, plan = random_problem(parties=3, classes=classes, columns=7), replace(SMALL_PLAN, cipher="plain")
    noise = {"active": Wave(0.5), "passive-1": Wave(0.25), "passive-2": Wave(0.125)}
    defences = {name: with_defences(wave) for name, wave in noise.items()}
    with wired(problem, plan, defences=defences) as trainings:
        weights = run_together(trainings, plan.epochs)
    assert largest_difference(weights, train_noisily(problem, plan, noise)) <= 1e-9


def test_the_first_step_moves_the_noisy_party_itself_by_its_true_residual_only() -> None:
    """Algorithm 3, lines 5 and 8: of one noisy party, the own gradient is that of a run without noise."""
    problem, plan = random_problem(), replace(SMALL_PLAN, cipher="plain", epochs=1, batch_size=26)
    with wired(problem, plan) as trainings:
        assert trainings["active"].schedule.steps_per_epoch == 1
        honest = run_together(trainings, 1)
    with wired(problem, plan, defences={"active": with_defences(Wave(0.5))}) as trainings:
        noisy = run_together(trainings, 1)
    np.testing.assert_array_equal(noisy[0], honest[0])
    assert np.abs(noisy[1] - honest[1]).max() > 1e-3


@pytest.mark.parametrize("cipher", ["paillier", "plain"])
def test_the_same_noise_goes_to_every_peer_and_fresh_noise_into_every_step(cipher: str) -> None:
    """One encryption per step serves all peers: two different ones of a residual would let colluding peers average."""
    sent: dict[tuple[str, int], set[bytes]] = {}

    class Watching:
        def __init__(self, sender: str, peer: Peer) -> None:
            self.send_public_key, self.decrypt = peer.send_public_key, peer.decrypt
            self._sender, self._peer = sender, peer

        def send_residuals(self, session_id: str, step: int, vector: WireVector) -> None:
            sent.setdefault((self._sender, step), set()).add(vector.data)
            self._peer.send_residuals(session_id, step, vector)

    problem, plan = random_problem(parties=3), replace(SMALL_PLAN, cipher=cipher, epochs=1)
    defences = {"active": with_defences(load("dp_noise", sigma=0.5))}
    with wired(problem, plan, through=Watching, defences=defences) as trainings:
        run_together(trainings, 1)
    steps = {step for sender, step in sent if sender == "active"}
    assert len(steps) == 4
    assert all(len(sent["active", step]) == 1 for step in steps)
    assert len(set.union(*(sent["active", step] for step in steps))) == len(steps)


def test_dp_noise_repeats_with_its_seed_and_only_with_it(tmp_path: Path) -> None:
    runs = []
    for number, seed in enumerate((3, 3, 4, None)):
        folder = tmp_path / str(number)
        active, passive = (with_defences(load("dp_noise", sigma=0.5), seed=seed) for _ in range(2))
        with house(folder, settings=PLAIN, active_defences=active, passive_defences=passive) as home:
            home.train()
        runs.append(b"".join(weights.tobytes() for weights in weights_of(folder, names_of(2))))
    assert runs[0] == runs[1]
    assert len(set(runs)) == 3


def test_the_record_of_each_party_says_what_it_applied_and_what_theory_expects(tmp_path: Path) -> None:
    with house(
        tmp_path,
        settings=PLAIN,
        active_defences=with_defences(load("dp_noise", sigma=0.5), TRUNCATION),
        passive_defences=with_defences(Turn(), Wave(0.25)),
    ) as home:
        home.train()
        active, passive = home.record(), home.record("passive")
    assert active["defences"] == ["dp_noise", "response_truncation"]
    assert [one["defence"] for one in active["predictions"]] == ["dp_noise"]
    assert active["predictions"][0]["sigma"] == 0.5
    assert passive["defences"] == ["turn", "wave"]
    assert passive["predictions"] == [{"defence": "wave", "size": 0.25}]
    truncating = {party["name"]: party["truncates_answers"] for party in active["agreement"]["parties"]}
    assert truncating == {"active": True, "passive": False}


# -- noise that does not fit ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("who", ["active", "passive"])
@pytest.mark.parametrize("size", [130.0, 1e6, np.inf, np.nan])
def test_noise_beyond_the_fixed_point_is_noticed_before_anything_is_encrypted(who: str, size: float) -> None:
    sent: list[str] = []

    class Watching:
        def __init__(self, sender: str, peer: Peer) -> None:
            self.send_public_key, self.decrypt = peer.send_public_key, peer.decrypt
            self._sender, self._peer = sender, peer

        def send_residuals(self, session_id: str, step: int, vector: WireVector) -> None:
            sent.append(self._sender)
            self._peer.send_residuals(session_id, step, vector)

    @dataclass(frozen=True)
    class Huge(Wave):
        def protect_residuals(self, residuals: FloatArray, terms: TrainingTerms, noise: NoiseSource) -> FloatArray:
            return residuals + size

    plan = replace(SMALL_PLAN, key_bits=256)
    with wired(random_problem(), plan, timeout=5, through=Watching, defences={who: with_defences(Huge())}) as trainings:
        for training in trainings.values():
            training.show_public_key()
        with pytest.raises(Diverged, match=r"2\^7: lower learning_rate or the noise of a defence, or raise"):
            trainings[who].run_epoch(0, lambda step, timer: None)
    assert sent == []


@pytest.mark.parametrize("who", ["active", "passive"])
def test_it_ends_the_job_at_once_with_the_remedy_and_the_remedy_works(tmp_path: Path, who: str) -> None:
    defences: dict[str, Any] = {f"{who}_defences": with_defences(Wave(200.0))}
    with house(tmp_path, settings=small_settings(epochs=1, learning_rate=0.01), **defences) as home:
        with pytest.raises(FederationError, match=rf"{who}'s residuals leave.*raise residual_integer_bits"):
            home.train()
        assert "the noise of a defence" in home.active.failure
        home.train(residual_integer_bits=9)
        assert home.active.stage == "serving"


def test_dp_noise_that_may_overflow_is_refused_before_training_with_what_would_fit(tmp_path: Path) -> None:
    settings = small_settings(epochs=1)
    with house(tmp_path, settings=settings, active_defences=with_defences(load("dp_noise", sigma=50.0))) as home:
        with pytest.raises(FederationError, match=r"active: dp_noise.*set residual_integer_bits to \d+, or .*sigma"):
            home.train()
        assert "residual_integer_bits" in home.active.failure
        home.train(residual_integer_bits=12, learning_rate=0.01)
        assert home.active.stage == "serving"


# -- refused when the session begins ----------------------------------------------------------------------------------


@pytest.mark.parametrize("who", ["active", "passive"])
def test_a_defence_that_cant_work_with_the_terms_refuses_the_session_in_its_own_words(tmp_path: Path, who: str) -> None:
    defences: dict[str, Any] = {f"{who}_defences": with_defences(Careful())}
    with house(tmp_path, settings=PLAIN, **defences) as home:
        with pytest.raises(FederationError, match=f"{who}: careful can't work with 10 steps as the {who} party"):
            home.train()
        assert f"{who}: careful can't work with 10 steps as the {who} party: choose fewer." in home.active.failure
        assert home.active.stage == "failed"
        with pytest.raises(OutOfOrder):
            home.active.predict_one("id-10")


def test_terms_are_those_of_the_session(tmp_path: Path) -> None:
    seen: dict[str, TrainingTerms] = {}

    @dataclass(frozen=True)
    class Reading(Wave):
        def check(self, terms: TrainingTerms) -> None:
            seen[terms.role] = terms

    reading = with_defences(Reading(size=0.0))
    with house(tmp_path, settings=small_settings(), active_defences=reading, passive_defences=reading) as home:
        home.train(learning_rate=0.25, residual_integer_bits=8)
    # 38 of 55 common records are for training: five steps of seven or eight.
    expected = TrainingTerms("active", epochs=2, steps=10, rows=7, learning_rate=0.25, residual_limit=256.0)
    assert set(seen) == {"active", "passive"}
    assert replace(seen["active"], row_norm=1.0) == expected
    assert replace(seen["passive"], row_norm=1.0) == replace(expected, role="passive")
    # Of the passive party's 55 aligned records, all that it has; the active party's have the constant 1 besides.
    norms = np.linalg.norm(party_data(rows=range(59, 4, -1)).features, axis=1)
    assert seen["passive"].row_norm == pytest.approx(norms.max(), abs=1e-4)
    assert 1 < seen["active"].row_norm < np.sqrt(3)
    seen.clear()
    three = active_data(labels=[f"class-{row % 3}" for row in range(60)])
    with house(tmp_path, settings=PLAIN, active=three, active_defences=reading) as home:
        home.train()
    assert (seen["active"].residual_limit, seen["active"].columns) == (np.inf, 3)


@pytest.mark.parametrize("who", ["active", "passive"])
def test_a_defence_that_notices_later_ends_the_session_in_its_own_words(who: str) -> None:
    plan = replace(SMALL_PLAN, cipher="plain")
    with wired(random_problem(), plan, timeout=5, defences={who: with_defences(Late())}) as trainings:
        for training in trainings.values():
            training.show_public_key()
        with pytest.raises(FederationError, match="late works for other numbers only: drop it"):
            trainings[who].run_epoch(0, lambda step, timer: None)


def test_dp_noise_without_sigma_is_refused_for_more_than_two_classes_when_the_session_begins(tmp_path: Path) -> None:
    three = active_data(labels=[f"class-{row % 3}" for row in range(60)])
    noise = with_defences(load("dp_noise", epsilon=0.9, gradient_bound=1.0))
    settings = small_settings(cipher="plain")
    with house(tmp_path, settings=settings, active=three, active_defences=noise) as home:
        with pytest.raises(FederationError, match="two classes only"):
            home.train()
        assert home.active.failure.startswith("active: ")


def test_an_installed_model_isnt_trained_and_asks_no_residual_defence() -> None:
    network = DenseNetwork((np.ones((2, 2)),), (np.zeros(2),))
    training = party_training(INSTALLED, network, with_defences(Careful()))
    assert training.predictions == []
    assert training.partial_scores([0, 1]).shape == (2, 2)


# -- truncation changes nothing but the size of answers ---------------------------------------------------------------


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, DecryptedVector]]:
    """Every answer that is given: by whom, and what."""
    given: list[tuple[str, DecryptedVector]] = []
    answer_sums = GradientExchange.answer_sums

    def spying(self: GradientExchange, peer: str, step: int, vector: WireVector) -> DecryptedVector:
        answer = answer_sums(self, peer, step, vector)
        given.append((self._cipher._name, answer))  # type: ignore[attr-defined]
        return answer

    monkeypatch.setattr(GradientExchange, "answer_sums", spying)
    return given


@pytest.mark.parametrize("packing", [False, True], ids=["unpacked", "packed"])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("parties", [2, 3])
def test_truncation_leaves_training_bit_identical_and_shrinks_answers(
    tmp_path: Path, answers: list[tuple[str, DecryptedVector]], parties: int, classes: int, packing: bool
) -> None:
    labels = [f"class-{row % classes}" for row in range(60)]
    settings = small_settings(packing=packing, epochs=1, initialisation="xavier", l2=0.01)
    passive = [party_data(rows=range(59, 25, -1), seed=seed) for seed in range(1, parties)]
    outcomes = {}
    for truncating in ((), ("active",), ("passive",), ("active", "passive")):
        folder = tmp_path / "-".join(truncating)
        chosen = {f"{side}_defences": with_defences(TRUNCATION) for side in truncating}
        answers.clear()
        with house(
            folder,
            settings=settings,
            active=active_data(labels=labels),
            passive=passive,
            **chosen,  # type: ignore[arg-type]
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
    for number, chosen in enumerate(((), (TRUNCATION,))):
        folder = tmp_path / str(number)
        defences = with_defences(*chosen)
        with house(folder, settings=PLAIN, active_defences=defences, passive_defences=defences) as home:
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
        house(tmp_path, settings=small_settings(epochs=1), passive_defences=with_defences(TRUNCATION)) as home,
        pytest.raises(FederationError, match=r"truncat|description|describes"),
    ):
        home.train()


def test_a_coordinator_cant_describe_a_party_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    join = Sessions.join

    def lying(self: Sessions, caller: Identity, session_id: str, party: PartyDescription) -> Agreement:
        told = join(self, caller, session_id, party)
        others = tuple(replace(one, truncates_answers=False) for one in told.parties if one.truncates_answers)
        return replace(told, parties=(told.parties[0], *others, *told.parties[1:]))

    monkeypatch.setattr(Sessions, "join", lying)
    with (
        house(tmp_path, settings=small_settings(epochs=1), passive_defences=with_defences(TRUNCATION)) as home,
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
    folder: Path,
    settings: Any,
    attack: TrainingAttack,
    *,
    active_defences: PartyDefences | None = None,
    labels: Sequence[object] | None = None,
) -> tuple[TrainingFinding, list[FloatArray]]:
    """A job with one attack at the passive party: what it found, and the weights of both."""
    if labels is None:
        labels = np.random.default_rng(8).permutation(["no", "yes"] * 30).tolist()
    with house(
        folder,
        settings=settings,
        active=active_data(labels=labels),
        active_defences=active_defences,
        passive_adversary={attack.name: attack},
    ) as home:
        home.train()
    (found,) = read_training_leakage(folder)
    return found, weights_of(folder, names_of(2))


@pytest.mark.parametrize(("packing", "batch_size"), ATTACKED)
def test_algorithm_2_reads_every_label_and_none_where_the_key_holder_truncates(
    tmp_path: Path, packing: bool, batch_size: int
) -> None:
    settings = small_settings(packing=packing, batch_size=batch_size, learning_rate=0.01, record_features=True)
    attack = AuxiliaryCiphertext()
    found, without = attacked(tmp_path / "off", settings, attack)
    assert (found.kind, found.success, found.resolved, found.by_epoch) == ("labels", 1.0, 1.0, (1.0, 1.0))
    defended, truncated = attacked(tmp_path / "on", settings, attack, active_defences=with_defences(TRUNCATION))
    assert (defended.success, defended.resolved, defended.by_epoch) == (0.0, 0.0, (0.0, 0.0))
    assert "Not possible" in defended.reason
    assert b"".join(one.tobytes() for one in without) == b"".join(one.tobytes() for one in truncated)
    # What the key holder gives to an honest peer is the same, too.
    assert (tmp_path / "on" / "passive-weights.npz").exists()


def test_truncation_doesnt_help_where_the_honest_sums_are_enough(tmp_path: Path) -> None:
    """s <= d: three rows, three features (Hu, Corollary 3.2). The guard says so."""
    settings = small_settings(batch_size=3, learning_rate=0.01, record_features=True, epochs=1)
    found, _ = attacked(tmp_path, settings, LabelRecovery(), active_defences=with_defences(TRUNCATION))
    assert found.resolved > 0.9
    assert found.success > 0.9
    warnings = json.loads((tmp_path / "active.json").read_text())["guard"]
    assert len(warnings) == 1
    assert "response_truncation" not in warnings[0]


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

    def watching(self: GradientExchange, peer: str, answer: DecryptedVector) -> FloatArray:
        share = gradient_share(self, peer, answer)
        if peer == "active":
            sums.append(share)
        return share

    monkeypatch.setattr(GradientExchange, "gradient_share", watching)
    truncating = [with_defences(TRUNCATION) for _ in range(2)]
    settings = small_settings(batch_size=20, epochs=1, initialisation=initialisation)
    labels = np.random.default_rng(8).permutation(["no", "yes"] * 30).tolist()
    with house(
        tmp_path,
        settings=settings,
        active=active_data(labels=labels),
        active_defences=truncating[0],
        passive_defences=truncating[1],
    ) as home:
        home.train()
        active, session = home.active._training, home.passive["passive"]._session
        assert active is not None
        assert session is not None
        assert session.training is not None
        batch = next(active.schedule.epoch(0))
        matrix = session.training.features_of(batch)
        truth = np.where(active.labels_of(batch) == 1, 1.0, -1.0)
    assert matrix.shape == (19, 3)
    found = sign_solutions(matrix, sums[0][:, 0] / -2)
    if initialisation == "zero":
        assert len(found) == 1
        np.testing.assert_array_equal(found[0], truth)
    else:
        assert found == []


class StubbornCipher(AuxiliaryCipher):
    """Algorithm 2 as if nobody truncated: it asks for everything, and reads the slots of short answers all the same."""

    kept: ClassVar[list[tuple[int, FloatArray, FloatArray]]] = []

    def combine(self, peer: str, features: FloatArray, vector: WireVector) -> Any:
        assert isinstance(self._auxiliary, AuxiliaryPlan)
        matrix = extend(features, self._auxiliary, self._feature_format, self._attack.generator(self._transcript.step))
        return matrix, compress(PaillierCipher.combine(self, peer, matrix, vector), self._auxiliary)

    def mask(self, peer: str, combination: object) -> tuple[WireVector, Unmask]:
        assert isinstance(combination, tuple)
        matrix, compressed = combination
        masked, mask = mask_vector(compressed)
        step = self._transcript.step

        def read(answer: DecryptedVector) -> FloatArray:
            residues = from_bytes(answer.data, answer.count, answer.width)
            offset = sum(2**63 << 64 * slot for slot in range(7))
            lifted = [
                (residue - summand + offset) % mask.public_key.n
                for residue, summand in zip(residues, mask.summands, strict=True)
            ]
            extra = [(value >> 64 * slot & 2**64 - 1) - 2**63 for slot in range(1, 7) for value in lifted]
            self.kept.append((step, matrix, np.array(extra) * 2.0**-48))
            return np.zeros((len(lifted), 1))

        return self._to_wire(masked), read


@pytest.mark.parametrize("truncating", [False, True], ids=["off", "on"])
def test_who_asks_for_the_extra_sums_all_the_same_gets_noise_that_tells_nothing_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, truncating: bool
) -> None:
    shares: dict[int, FloatArray] = {}
    encrypt = GradientExchange.encrypt_residuals

    def watching(self: GradientExchange, step: int, residual: FloatArray) -> WireVector:
        if "active" not in self._peers:
            shares[step] = residual
        return encrypt(self, step, residual)

    monkeypatch.setattr(GradientExchange, "encrypt_residuals", watching)
    monkeypatch.setattr("services.adversary.training.AuxiliaryCipher", StubbornCipher)
    monkeypatch.setattr(StubbornCipher, "kept", [])
    with house(
        tmp_path,
        settings=small_settings(packing=False, batch_size=20, learning_rate=0.01, epochs=8),
        active_defences=with_defences(TRUNCATION) if truncating else None,
        passive_adversary={"auxiliary_ciphertext": AuxiliaryCiphertext()},
    ) as home:
        home.train()
    assert len(StubbornCipher.kept) == 16
    truth = np.concatenate([(matrix[:, 3:].T @ shares[step]).ravel() for step, matrix, _ in StubbornCipher.kept])
    read = np.concatenate([extra for _, _, extra in StubbornCipher.kept])
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
    with house(tmp_path, settings=small_settings(packing=packing)) as home:
        home.train()
        for name, peer in (("active", "passive"), ("passive", "active")):
            record = home.record(name)
            (channel,) = record["channels"]
            assert (channel["key_holder"], channel["peer"]) == (name, peer)
            # 38 or 39 training rows in five steps.
            assert channel["rows"] == 7
            assert channel["sum_bits"] == 60
            assert channel["equations"] == (16 if packing else 3 * 16)
            assert len(record["guard"]) == 1
        assert home.record()["guard"][0] in home.active.warnings


@pytest.mark.parametrize("who", ["active", "passive"])
def test_refuse_stops_the_session_of_whoever_says_so_before_any_answer(
    tmp_path: Path, answers: list[tuple[str, DecryptedVector]], who: str
) -> None:
    strict, lenient = (small_settings(guard=mode, packing=False) for mode in ("refuse", "off"))
    with house(
        tmp_path,
        settings=strict if who == "active" else lenient,
        passive_settings=strict if who == "passive" else lenient,
    ) as home:
        with pytest.raises(FederationError, match=r"response_truncation.*PLUMBLINE_GUARD=refuse"):
            home.train()
        assert f"the residuals of {who}" in home.active.failure
    assert answers == []


def test_a_party_that_adds_noise_is_warned_and_not_refused(tmp_path: Path) -> None:
    strict = small_settings(guard="refuse", packing=False, residual_integer_bits=8)
    noise = with_defences(load("dp_noise", sigma=5.0))
    with house(tmp_path, settings=strict, active_defences=noise, passive_defences=noise) as home:
        home.train()
        assert any("the residuals of active" in warning for warning in home.record()["guard"])


def test_a_passive_party_refuses_a_learning_rate_that_leaves_its_weights_where_they_are(
    tmp_path: Path, answers: list[tuple[str, DecryptedVector]]
) -> None:
    """Two epochs of five steps: seven rows in each, six equations about them."""
    still = {"packing": False, "learning_rate": 1e-9}
    with house(
        tmp_path,
        settings=small_settings(guard="off", **still),
        passive_settings=small_settings(guard="refuse", **still),
        passive_defences=with_defences(TRUNCATION),
    ) as home:
        with pytest.raises(FederationError, match=r"learning_rate=1e-09 .* 10 steps.*PLUMBLINE_GUARD=refuse"):
            home.train()
        assert answers == []
        home.settings = small_settings(guard="off", packing=False)
        home.train()


def test_with_both_truncating_and_batches_far_above_d_refuse_lets_the_session_through(tmp_path: Path) -> None:
    """Three answers hold three residuals and three parts, six equations: four labels each, and 38 training rows."""
    defences = with_defences(TRUNCATION)
    settings = small_settings(guard="refuse", packing=False, batch_size=38)
    with house(tmp_path, settings=settings, active_defences=defences, passive_defences=defences) as home:
        home.train()
        assert home.record()["guard"] == home.record("passive")["guard"] == []
        assert not any("equations" in warning for warning in home.active.warnings)


# -- features and parameters that are not the party's own -------------------------------------------------------------

DISCLOSING = small_settings(cipher="plain", disclose=True, record_features=True)


def disclosed(home: House) -> DenseNetwork:
    return home.passive["passive"].disclose_parameters(ACTIVE, home.active.session_id)


def test_without_a_defence_the_trained_parameters_are_disclosed(tmp_path: Path) -> None:
    with house(tmp_path, settings=DISCLOSING) as home:
        home.train()
        np.testing.assert_array_equal(disclosed(home).weights[0], weights_of(tmp_path, ["passive"])[0])


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("defence", [Turn(), load("feature_transform")], ids=["double", "feature_transform"])
def test_distorted_parameters_are_the_same_whenever_asked_and_scores_are_those_of_the_true_ones(
    tmp_path: Path, defence: Defence, classes: int
) -> None:
    labels = [f"class-{row % classes}" for row in range(60)]
    outcomes, shown = [], []
    for number, chosen in enumerate(((), (defence,))):
        folder = tmp_path / str(number)
        with house(
            folder,
            settings=DISCLOSING,
            active=active_data(labels=labels),
            passive_defences=with_defences(*chosen, seed=None),
        ) as home:
            home.train()
            first, again = disclosed(home), disclosed(home)
            np.testing.assert_array_equal(again.weights[0], first.weights[0])
            shown.append(first.weights[0])
            scores = np.array(home.record()["test_scores"])
            trained = weights_of(folder, ["passive"])[0]
            outcomes.append((scores, trained))
            # The same in the next session, whose model is the same: another draw would tell more.
            home.train()
            np.testing.assert_array_equal(disclosed(home).weights[0], first.weights[0])
    for one, other in zip(*outcomes, strict=True):
        np.testing.assert_array_equal(one, other)
    assert shown[0].shape == shown[1].shape, "how many columns there are must not tell"
    assert np.abs(shown[0] - shown[1]).max() > 1e-3
    # Orthonormal: the same geometry over classes.
    rows = [class_rows(weights) for weights in shown]
    np.testing.assert_allclose(rows[1] @ rows[1].T, rows[0] @ rows[0].T, atol=1e-12)


def test_another_party_distorts_otherwise(tmp_path: Path) -> None:
    shown = []
    for number in range(2):
        defences = with_defences(Turn(), seed=None)
        with house(tmp_path / str(number), settings=DISCLOSING, passive_defences=defences) as home:
            home.train()
            shown.append(disclosed(home).weights[0])
    assert np.abs(shown[0] - shown[1]).max() > 1e-3


def test_a_binary_model_that_no_longer_fits_one_column_is_shown_as_two_that_say_the_same(tmp_path: Path) -> None:
    with house(tmp_path, settings=DISCLOSING, passive_defences=with_defences(Bias())) as home:
        home.train()
        shown = disclosed(home)
    rows = class_rows(weights_of(tmp_path, ["passive"])[0])
    np.testing.assert_array_equal(shown.weights[0].T, rows + np.array([[0.0], [1.0]]))


def test_parameters_that_a_defence_cant_distort_are_refused_before_training_and_it_says_why(tmp_path: Path) -> None:
    data = party_data(rows=range(59, 4, -1))
    wide = replace(data, features=data.features * 3)
    with (
        house(tmp_path, settings=DISCLOSING, passive=[wide], passive_defences=with_defences(Bias())) as home,
        pytest.raises(FederationError, match="bias is for features up to 1: scale them"),
    ):
        home.train()


def test_features_that_parameters_cant_be_distorted_with_are_refused_before_training(tmp_path: Path) -> None:
    data = party_data(rows=range(59, 4, -1))
    wide = replace(data, features=data.features * 3)
    rotation = with_defences(load("parameter_rotation"))
    with house(tmp_path, settings=DISCLOSING, passive=[wide], passive_defences=rotation) as home:
        watcher = Watcher()
        with pytest.raises(FederationError, match=r"\[0, 1\]"):
            home.active.train(home.settings.plan(), watcher)
        assert "training" not in watcher.stages


def test_a_network_whose_parameters_cant_be_distorted_is_refused_when_the_session_begins() -> None:
    deep = DenseNetwork((np.ones((2, 3)), np.ones((3, 2))), (np.zeros(3), np.zeros(2)))
    with pytest.raises(InvalidMessage, match="turn: only a linear model's parameters can be distorted"):
        party_training(INSTALLED, deep, with_defences(Turn()))


def party_training(agreement: Agreement, network: DenseNetwork, defences: PartyDefences) -> PartyTraining:
    """A passive party's training with an installed part, on its own."""
    return PartyTraining(
        agreement,
        "passive",
        np.random.default_rng(0).random((20, 2)),
        None,
        {},
        generator=np.random.default_rng(0),
        timeout=1,
        executor=ThreadPoolExecutor(),
        installed=network,
        defences=defences,
    )


def test_only_linear_parameters_can_be_distorted() -> None:
    deep = DenseNetwork((np.ones((2, 3)), np.ones((3, 2))), (np.zeros(3), np.zeros(2)))
    assert party_training(INSTALLED, deep, PartyDefences()).disclosed_parameters() is deep
    assert party_training(INSTALLED, deep, PartyDefences()).parameter_gram() is None
    with pytest.raises(InvalidMessage, match="turn: only a linear model's parameters can be distorted"):
        party_training(INSTALLED, deep, with_defences(Turn())).disclosed_parameters()
    shallow = DenseNetwork((np.array([[1.0, -2.0], [0.5, 3.0]]),), (np.array([0.25, -0.5]),))
    shown = party_training(INSTALLED, shallow, with_defences(Turn())).disclosed_parameters()
    np.testing.assert_array_equal(shown.biases[0], shallow.biases[0])
    assert np.abs(shown.weights[0] - shallow.weights[0]).max() > 1e-3


@pytest.mark.parametrize("cipher", ["paillier", "plain"])
def test_a_transformed_party_trains_on_other_features_and_the_auditor_sees_the_true_ones(
    tmp_path: Path, cipher: str
) -> None:
    settings = small_settings(cipher=cipher, disclose=True, record_features=True)
    data = party_data(rows=range(59, 4, -1))
    flipped = replace(data, features=1.0 - data.features)
    runs: list[tuple[list[FloatArray], FloatArray, FloatArray]] = []
    for number, (table, chosen) in enumerate(((data, (Flip(),)), (flipped, ()))):
        folder = tmp_path / str(number)
        with house(folder, settings=settings, passive=[table], passive_defences=with_defences(*chosen)) as home:
            home.train()
            np.testing.assert_array_equal(disclosed(home).weights[0], weights_of(folder, ["passive"])[0])
            recorded = np.load(folder / "passive-features.npz")["features"]
            runs.append((weights_of(folder, names_of(2)), np.array(home.record()["test_scores"]), recorded))
    # Trained as a party that holds the other features would have.
    for one, other in zip(runs[0][0], runs[1][0], strict=True):
        assert one.tobytes() == other.tobytes()
    np.testing.assert_array_equal(runs[0][1], runs[1][1])
    # The record of the first has its own features, that of the second those that it holds.
    np.testing.assert_allclose(runs[0][2], 1.0 - runs[1][2], atol=2.0**-15)
    np.testing.assert_allclose(np.sort(runs[0][2], axis=0), np.sort(data.features, axis=0), atol=2.0**-15)
