"""Training with noise on the residuals, whole parties in one process: what peers see, what is refused when."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from defences import Defence, NoiseSource, TrainingTerms, load
from defences.label_randomised_response import LabelRandomisedResponse
from services.common.agreement import TrainingPlan
from services.common.errors import Diverged, FederationError, OutOfOrder
from services.common.run_records import DeliveredScores
from services.exchange.outgoing import OutgoingVector
from services.exchange.peer import Peer
from services.exchange.vectors import WireVector
from services.party.party_training import predictions_of
from tests.harness.defended import (
    INSTALLED,
    PLAIN,
    TRUNCATION,
    Careful,
    Late,
    Turn,
    Wave,
    party_training,
    with_defences,
)
from tests.harness.exchanges import (
    SMALL_PLAN,
    Problem,
    largest_difference,
    names_of,
    random_problem,
    run_together,
    wired,
)
from tests.harness.parties import active_data, house, party_data, small_settings, values_of, with_values
from tests.harness.processes import weights_of
from vfl.arrays import FloatArray, IntArray
from vfl.learning import ResidualScheme, initial_weights, split_rows
from vfl.learning.networks import DenseNetwork

# -- Algorithm 3: noise on what peers get, and on nothing else --------------------------------------------------------


def train_noisily(problem: Problem, plan: TrainingPlan, noise: Mapping[str, Wave]) -> list[FloatArray]:
    """The yardstick in float64: a party adds its own residual as it is, and the others' with their noise."""
    scheme = ResidualScheme(problem.classes)
    split = split_rows(
        problem.rows, validation_fraction=plan.validation_fraction, test_fraction=plan.test_fraction, seed=plan.seed
    )
    schedule = plan.schedule(split.train)
    thetas = {
        name: initial_weights(
            plan.learner_options["initialisation"],
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
                thetas[name] = theta - plan.learner_options["learning_rate"] * gradient
    return list(thetas.values())


@pytest.mark.parametrize(
    "noise",
    [{"active": Wave(0.5)}, {"passive": Wave(0.25)}, {"active": Wave(0.5), "passive": Wave(0.25)}],
    ids=["active", "passive", "both"],
)
@pytest.mark.parametrize("cipher", ["paillier", "plain"])
def test_a_party_uses_its_own_true_residual_and_the_others_noisy_ones(cipher: str, noise: dict[str, Wave]) -> None:
    problem, plan = random_problem(), SMALL_PLAN.changed(cipher=cipher, initialisation="xavier")
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
            self.show_key, self.ask = peer.show_key, peer.ask
            self._sender, self._peer = sender, peer

        def send(self, session_id: str, kind: str, step: int, vector: WireVector | OutgoingVector) -> None:
            sent.setdefault((self._sender, step), set()).add(vector.whole().data)
            self._peer.send(session_id, kind, step, vector)

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
        passive_settings=PLAIN.model_copy(update={"truncate_answers": False}),
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


def test_replaced_labels_are_trained_on_and_scores_are_judged_by_the_true_ones(tmp_path: Path) -> None:
    """From zero weights, the other class in place of every label trains the opposite model."""

    @dataclass(frozen=True)
    class Swap(LabelRandomisedResponse):
        def replace_labels(self, labels: IntArray, ids: Sequence[str], classes: int, noise: NoiseSource) -> IntArray:
            return classes - 1 - labels

    def trained(name: str, *defences: Defence) -> tuple[list[FloatArray], DeliveredScores, dict[str, Any]]:
        settings = small_settings(epochs=4, initialisation="zero", cipher="plain")
        with house(tmp_path / name, settings=settings, active_defences=with_defences(*defences)) as home:
            home.train()
            return weights_of(tmp_path / name, names_of(2)), home.tested(), home.record()

    as_they_are, swapped = trained("true"), trained("swapped", Swap())
    np.testing.assert_array_equal(swapped[1].labels, as_they_are[1].labels)
    np.testing.assert_allclose(swapped[1].scores, as_they_are[1].scores[:, ::-1], atol=1e-9)
    assert largest_difference(swapped[0], [-one for one in as_they_are[0]]) < 1e-9
    few = trained("few", LabelRandomisedResponse(epsilon=20.0))
    assert largest_difference(few[0], as_they_are[0]) == 0.0
    (prediction,) = few[2]["predictions"]
    assert prediction["epsilon"] == pytest.approx(20.0, rel=1e-4)


@pytest.mark.parametrize(("who", "name"), [("active", "max_norm"), ("active", "marvell"), ("passive", "hidden_noise")])
def test_what_is_for_networks_is_refused_before_a_linear_model_is_trained(tmp_path: Path, who: str, name: str) -> None:
    defended: dict[str, Any] = {f"{who}_defences": with_defences(load(name))}
    told = rf"{who}: {name} protects what a network's hidden layer.*drop it"
    with house(tmp_path, settings=PLAIN, **defended) as home, pytest.raises(FederationError, match=told):
        home.train()


# -- noise that does not fit ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("who", ["active", "passive"])
@pytest.mark.parametrize("size", [130.0, 1e6, np.inf, np.nan])
def test_noise_beyond_the_fixed_point_is_noticed_before_anything_is_encrypted(who: str, size: float) -> None:
    sent: list[str] = []

    class Watching:
        def __init__(self, sender: str, peer: Peer) -> None:
            self.show_key, self.ask = peer.show_key, peer.ask
            self._sender, self._peer = sender, peer

        def send(self, session_id: str, kind: str, step: int, vector: WireVector | OutgoingVector) -> None:
            sent.append(self._sender)
            self._peer.send(session_id, kind, step, vector)

    @dataclass(frozen=True)
    class Huge(Wave):
        def protect_residuals(self, residuals: FloatArray, terms: TrainingTerms, noise: NoiseSource) -> FloatArray:
            return residuals + size

    plan = replace(SMALL_PLAN, key_bits=256)
    with wired(random_problem(), plan, timeout=5, through=Watching, defences={who: with_defences(Huge())}) as trainings:
        for training in trainings.values():
            training.side.show_public_key()
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


@pytest.mark.thorough
def test_dp_noise_that_may_overflow_is_refused_before_training_with_what_would_fit(tmp_path: Path) -> None:
    settings = small_settings(epochs=1)
    with house(tmp_path, settings=settings, active_defences=with_defences(load("dp_noise", sigma=50.0))) as home:
        with pytest.raises(FederationError, match=r"active: dp_noise.*set residual_integer_bits to \d+, or .*sigma"):
            home.train()
        assert "residual_integer_bits" in home.active.failure
        home.train(residual_integer_bits=12, learning_rate=0.01)
        assert home.active.stage == "serving"


def test_dp_noise_by_itself_is_refused_with_the_bits_that_it_needs_and_starts_with_them(tmp_path: Path) -> None:
    """And states no epsilon: scaled to [0, 1], rows are longer than their share of 1."""
    settings, noise = small_settings(epochs=2, learning_rate=0.1, steps="plain"), with_defences(load("dp_noise"))
    with house(tmp_path, settings=settings, active_defences=noise, passive_defences=noise) as home:
        bits = 7
        for who in ("passive", "active"):  # whose noise is twice as large
            with pytest.raises(FederationError, match=f"{who}: dp_noise would add noise"):
                home.train(residual_integer_bits=bits)
            (needed,) = re.findall(r"set residual_integer_bits to (\d+)", home.active.failure)
            assert int(needed) > bits
            bits = int(needed)
        home.train(residual_integer_bits=bits)
        assert home.active.stage == "serving"
        records = home.record(), home.record("passive")
    for record in records:
        (prediction,) = record["predictions"]
        assert (prediction["attained"], prediction["levels"]) == (None, None)
        assert prediction["note"].startswith("This party's rows are up to")
        assert prediction["from_any_peer"]["epsilon_whatever_peers_send"] > 0.5


def test_dp_noise_says_what_it_is_worth_where_rows_keep_their_share(tmp_path: Path) -> None:
    """With 38 records, delta is 1/380. An active party's constant 1 alone is longer than its share."""
    noise, whole = with_defences(load("dp_noise")), party_data(rows=range(59, 4, -1))
    short = with_values(whole, 0.4 * values_of(whole))
    settings = small_settings(epochs=2, steps="plain")
    with house(tmp_path, settings=settings, passive=[short], passive_defences=noise) as home:
        home.train(residual_integer_bits=12, learning_rate=0.1)
        (prediction,) = home.record("passive")["predictions"]
    worth = prediction["attained"]
    assert worth["at_delta"] == prediction["levels"]["delta"] == pytest.approx(1 / 380)
    assert worth["epsilon_of_the_run"] == pytest.approx(0.5, rel=1e-6)
    assert worth["epsilon_of_one_epoch"] < 0.5 < worth["epsilon_of_all_parties"]
    assert prediction["note"] == ""


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
    settings = small_settings(steps="plain")
    with house(tmp_path, settings=settings, active_defences=reading, passive_defences=reading) as home:
        home.train(learning_rate=0.25, residual_integer_bits=8)
    # 38 of 55 common records are for training: five steps of seven or eight.
    public = {"records": 38, "features": 3, "all_features": 6, "parties": 2}
    expected = TrainingTerms("active", epochs=2, steps=10, rows=7, learning_rate=0.25, residual_limit=256.0, **public)
    assert set(seen) == {"active", "passive"}
    assert replace(seen["active"], row_norm=1.0) == expected
    assert replace(seen["passive"], row_norm=1.0) == replace(expected, role="passive")
    # Of the passive party's 55 aligned records, all that it has; the active party's have the constant 1 besides.
    norms = np.linalg.norm(values_of(party_data(rows=range(59, 4, -1))), axis=1)
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
            training.side.show_public_key()
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
    assert predictions_of(training) == []
    assert training.model_for([0, 1]).partial_scores([0, 1]).shape == (2, 2)
