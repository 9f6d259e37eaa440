"""Chance on labels is judged validly: messages about nobody raise an alarm as seldom as promised, others do.

PLANTED_RUNS makes more simulated audits; ``make planted`` does.
"""

import os

import numpy as np
import pytest

from attacks.training.batch_inversion import BatchInversion
from attacks.training.leaf_labels import LeafLabels
from attacks.training.own_part import OwnPart
from attacks.training.recovered_labels import UNRESOLVED
from attacks.training.trajectory_labels import TrajectoryLabels
from attacks.training_attack import ListeningAttack
from plumbline.judge.chance import ALPHA
from plumbline.judge.label_chance import DRAWS, ENOUGH, drawn_until_chance, told_of
from plumbline.judge.labels import SHARED_BY, LabelGuesses
from plumbline.judge.redrawn_messages import ClearSession, RedrawnMessages, clear_session
from services.common.agreement import TrainingPlan
from tests.harness.agreements import agreed
from vfl.arrays import IntArray

RUNS = int(os.environ.get("PLANTED_RUNS", "12"))
# Of audits in which chance alone may call a leak of labels.
PROMISED = ALPHA / SHARED_BY
RECORDS, OWN = 120, 5
PLANS = {
    "fixed": TrainingPlan(epochs=4, batch_size=30, batches="fixed"),
    "full": TrainingPlan(epochs=6, batch_size=RECORDS, learner_options={"steps": "own_moments"}),
    "shared": TrainingPlan(epochs=2, batch_size=30, protocol="shared"),
    "network": TrainingPlan(
        epochs=2,
        batch_size=30,
        protocol="shared",
        learner="network",
        learner_options={"backward": "shared", "hidden": 3},
    ),
    "trees": TrainingPlan(
        epochs=3,
        batch_size=RECORDS,
        protocol="trees",
        learner="boosted_trees",
        learner_options={"n_estimators": 3, "max_depth": 3, "min_rows_of_a_node": 8},
    ),
}
LISTENING: dict[str, tuple[ListeningAttack, ...]] = {
    "fixed": (TrajectoryLabels(), OwnPart()),
    "full": (TrajectoryLabels(), OwnPart()),
    # Weights stay shared there.
    "shared": (TrajectoryLabels(),),
    "network": (BatchInversion(),),
    "trees": (LeafLabels(),),
}


def session(plan: TrainingPlan, seed: int, *, telling: bool = False) -> tuple[ClearSession, IntArray]:
    """A training on labels of which a fifth is in class 1; ``telling``: as an own column has it."""
    generator = np.random.default_rng(seed)
    table = generator.normal(size=(RECORDS, 11))
    # Of columns that follow one another few combinations are many, and one of them is soon right of labels by chance.
    table = table if telling else table @ generator.normal(size=(11, 11))
    table = (table - table.min(axis=0)) / np.ptp(table, axis=0)
    score = table[:, 6] if telling else generator.random(RECORDS)
    labels = (score >= np.quantile(score, 0.8)).astype(np.int64)
    blocks = [np.column_stack([table[:, :5], np.ones(RECORDS)]), table[:, 6 : 6 + OWN]]
    agreement = agreed(plan, features=(6, OWN), rows=RECORDS)
    return clear_session(agreement, blocks, labels, 1, np.arange(RECORDS), generator), labels


def chance(
    seed: int,
    plan: TrainingPlan,
    listening: tuple[ListeningAttack, ...],
    *,
    of_nobody: bool = True,
    telling: bool = False,
) -> float:
    """The least p-value of one simulated audit, whose messages are about nobody by default."""
    found, labels = session(plan, seed, telling=telling)
    generator, redrawn = np.random.default_rng([seed, 1]), RedrawnMessages(found)
    guesses = LabelGuesses(labels, np.arange(RECORDS), found.view.features)
    told = told_of(listening, redrawn.draw(generator) if of_nobody else found.view, guesses)
    drawn = drawn_until_chance(told, lambda: told_of(listening, redrawn.draw(generator), guesses))
    return float(drawn.p_values.min())


@pytest.mark.slow("chance shows over many audits only")
@pytest.mark.parametrize(
    "plan", ["fixed", "full", "shared", "trees", pytest.param("network", marks=pytest.mark.thorough)]
)
def test_messages_about_nobody_raise_an_alarm_in_few_audits(plan: str) -> None:
    if plan == "network":
        pytest.importorskip("torch")
    found = np.array([chance(seed, PLANS[plan], LISTENING[plan]) for seed in range(RUNS)])
    # Three standard deviations beyond what is promised.
    for level in (PROMISED, 0.2):
        assert (found <= level).sum() <= level * RUNS + 3 * np.sqrt(level * RUNS)


@pytest.mark.slow("199 draws of a training's messages")
def test_sums_of_the_real_session_are_told_from_chance() -> None:
    plan = TrainingPlan(epochs=4, batch_size=10, batches="fixed")
    assert chance(0, plan, LISTENING["fixed"], of_nobody=False) <= PROMISED
    assert chance(0, PLANS["trees"], LISTENING["trees"], of_nobody=False, telling=True) <= PROMISED


@pytest.mark.parametrize("attacks", [1, 4])
def test_draws_stop_where_chance_is_seen_and_make_valid_p_values(attacks: int) -> None:
    generator = np.random.default_rng(0)
    # Attacks that agree with one another, on scales of their own.
    together, scales = generator.normal(size=(attacks, attacks)), 10.0 ** np.arange(attacks)

    def statistics() -> list[float]:
        return list(scales * (together @ generator.standard_normal(attacks)) ** 2)

    found = []
    for _ in range(1_000):
        drawn = drawn_until_chance(statistics(), statistics)
        assert len(drawn.drawn) <= DRAWS
        assert (drawn.drawn[:-1] >= drawn.told).sum(axis=0).min(initial=0) <= ENOUGH
        found.append(drawn.p_values.min())
    for level in (PROMISED, 0.05, 0.2):
        assert np.mean(np.array(found) <= level) <= level + 3 * np.sqrt(level / 1_000)


def test_an_attack_that_tells_as_much_of_any_message_hides_no_other() -> None:
    draws = np.random.default_rng(0).uniform(0, 0.3, DRAWS)
    chance = drawn_until_chance([0.6, 0.9], iter([[one, 0.9] for one in draws]).__next__)
    assert chance.p_values == pytest.approx([1 / (1 + DRAWS), 1.0])
    assert chance.means == pytest.approx([draws.mean(), 0.9])


def test_a_draw_puts_whole_trajectories_to_other_records_and_leaves_all_else() -> None:
    found, _ = session(PLANS["fixed"], 0)
    drawn = RedrawnMessages(found).draw(np.random.default_rng(3))
    owner = np.random.default_rng(3).permutation(RECORDS)
    view = found.view
    assert [one.rows.tolist() for one in drawn.equations] == [one.rows.tolist() for one in view.equations]
    trajectories = np.zeros((4, RECORDS, 1))
    for one in view.steps:
        trajectories[one.step // 4, one.rows] = found.carriers["party-0", one.step]
    for told in drawn.equations:
        assert told.sums == pytest.approx(told.matrix.T @ trajectories[told.step // 4, owner[told.rows]])


def test_the_partys_own_weights_follow_what_it_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The identity in place of a permutation gives the session itself, whatever steps are taken."""
    monkeypatch.setattr(RedrawnMessages, "_permutation", lambda *_: np.arange(RECORDS))
    for plan in ("fixed", "full"):
        found, _ = session(PLANS[plan], 0)
        same = RedrawnMessages(found).draw(np.random.default_rng(0))
        for one, other in zip(same.steps, found.view.steps, strict=True):
            assert one.share == pytest.approx(other.share, abs=1e-6)


def test_records_whose_labels_are_known_change_places_among_themselves() -> None:
    found, labels = session(PLANS["fixed"], 0)
    known = np.where(np.arange(RECORDS) < 20, labels, UNRESOLVED)
    owner = RedrawnMessages(found.with_known(known))._permutation(np.random.default_rng(0))
    assert sorted(owner[:20]) == list(range(20))
    assert sorted(owner[20:]) == list(range(20, RECORDS))


def test_the_own_part_follows_redrawn_messages_and_loses_what_it_told() -> None:
    found, labels = session(TrainingPlan(epochs=30, batch_size=30, batches="fixed"), 0, telling=True)
    guesses = LabelGuesses(labels, np.arange(RECORDS), found.view.features)
    told = told_of([OwnPart()], found.view, guesses)
    redrawn, generator = RedrawnMessages(found), np.random.default_rng(0)
    assert told > max(told_of([OwnPart()], redrawn.draw(generator), guesses) for _ in range(20))
    assert drawn_until_chance(told, lambda: told_of([OwnPart()], redrawn.draw(generator), guesses)).means[0] < 0.5
