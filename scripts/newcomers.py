"""What a passive party that listens reads of newcomers' labels, by retrainings that take one newcomer each.

Labels are drawn at random, so that no column tells them. A newcomer joins one of the batches (``joins``), as batches
that are keyed by record have it, or waits until there are enough for a batch of their own (``waits``), as append-only
batches have it. Trainings run in one place in float64, on shares as the wire rounds them; each has start weights of its
own.

    python -m scripts.newcomers
    python -m scripts.newcomers --plans default --rules waits --each 100 --retrainings 1
"""

import argparse
import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np

import attacks
from attacks.training.recovered_labels import EstimatedLabels
from attacks.training_attack import ListeningAttack
from attacks.training_views import TrainingView, simulated_view
from services.common.agreement import TrainingPlan
from vfl.arrays import FloatArray, IntArray
from vfl.data import fit_encoder, load_dataset, snap_to_grid
from vfl.learning import BatchSchedule, GradientDescent, VerticalData, initial_weights
from vfl.learning.score_quality import area_under_curve
from vfl.theory.training import simulate_oracle

_SHARE_STEP = 2.0**-32


class Plan(NamedTuple):
    """How a session trains: batches of an epoch, epochs, and whether steps are by own moments."""

    batches: int
    epochs: int
    own_moments: bool


# Plain steps, the same of whole batches, and the default of two parties on a small table.
PLANS = {"plain": Plan(4, TrainingPlan.epochs or 60, False), "whole": Plan(1, 60, False), "default": Plan(1, 7, True)}
RULES = ("joins", "waits")


@dataclass(frozen=True)
class GivenBatches(BatchSchedule):
    """Batches that somebody has made, the same in every epoch."""

    batches: tuple[IntArray, ...] = ()

    @property
    def steps_per_epoch(self) -> int:
        """Batches of one epoch."""
        return len(self.batches)

    def epoch(self, index: int) -> "itertools.chain[IntArray]":
        """Give the batches of an epoch."""
        return itertools.chain(self.batches)


def batches_of(slots: IntArray, records: int, first: int, rule: str, least: int) -> tuple[IntArray, ...]:
    """Make the batches of a session.

    Args:
        slots: of each record, the batch that it would join.
        records: how many have come so far.
        first: how many were there at first.
        rule: joins or waits.
        least: of so many that wait a batch is made.
    """
    members = records if rule == "joins" else first
    found = [np.flatnonzero(slots[:members] == one) for one in range(int(slots.max()) + 1)]
    for begin in range(members, records - least + 1, least):
        found.append(np.arange(begin, begin + least))
    return tuple(found)


def sessions(
    plan: Plan, blocks: Sequence[FloatArray], labels: IntArray, given: Sequence[int], rule: str, seed: int, least: int
) -> list[TrainingView]:
    """Train once on each number of records that is given, and show what the passive party saw of each."""
    drawn, total = np.random.default_rng([seed, 1]), sum(block.shape[1] for block in blocks)
    slots, views = drawn.integers(0, plan.batches, len(labels)), []
    for records in given:
        batches = batches_of(slots, records, given[0], rule, least)
        weights = [
            initial_weights("xavier", block.shape[1], 1, total_features=total, generator=drawn) for block in blocks
        ]
        rows = np.concatenate(batches)
        schedule = GivenBatches(np.sort(rows), max(map(len, batches)), seed, reshuffled=False, batches=batches)
        descent = GradientDescent(schedule, plan.epochs, 0.5, plan.own_moments)
        run = simulate_oracle(VerticalData(blocks, labels), weights, descent, share_step=_SHARE_STEP)
        view = simulated_view(run, 1, initialisation="xavier", label_party_bias=True, share_step=_SHARE_STEP)
        views.append(replace(view, records=np.arange(len(labels)), steps_per_epoch=len(batches)))
    return views


def read_by(name: str, views: Sequence[TrainingView]) -> EstimatedLabels:
    """Mount an attack on the last session, with those before."""
    attack = cast(ListeningAttack, attacks.load_training(name))
    return cast(EstimatedLabels, attack.attack(replace(views[-1], earlier=tuple(views[:-1]))))


def of_labels_alone(view: TrainingView, labels: IntArray) -> TrainingView:
    """Make what a session would show whose weights were 0 throughout: all that its batches tell of labels, exactly."""
    terms = 2.0 - 4.0 * labels[:, None]
    return replace(view, equations=tuple(replace(one, sums=one.matrix.T @ terms[one.rows]) for one in view.equations))


def table(data: str, records: int, own: int, passive: int, seed: int) -> tuple[list[FloatArray], IntArray]:
    """Columns drawn from a registered table, for the label party with its bias and for the other, and random labels."""
    generator = np.random.default_rng(seed)
    features = load_dataset(data, Path(os.environ.get("PLUMBLINE_DATA_DIR", "data"))).features
    features = fit_encoder("minmax", features).transform(features)
    rows = generator.permutation(len(features))[:records]
    columns = generator.permutation(features.shape[1])[: passive + own]
    features = features[np.ix_(rows, columns)]
    active = np.column_stack([features[:, passive:], np.ones(len(rows))])
    return [snap_to_grid(active), snap_to_grid(features[:, :passive])], generator.integers(0, 2, len(rows))


def main() -> None:
    """Print a line for each plan, rule and width of the label party."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="breast_cancer")
    parser.add_argument("--plans", nargs="+", default=list(PLANS), choices=PLANS)
    parser.add_argument("--rules", nargs="+", default=list(RULES), choices=RULES)
    parser.add_argument("--own", nargs="+", type=int, default=[12, 18], help="columns of the label party")
    for name, default in (("records", 400), ("passive", 12), ("retrainings", 6), ("each", 1), ("seeds", 20)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--least", type=int, default=100, help="records of a batch of newcomers")
    given = parser.parse_args()
    for name, rule, own in itertools.product(given.plans, given.rules, given.own):
        likely, truth, reasons = [], [], set[str]()
        first: list[float] = []
        last: list[float] = []
        exact: list[float] = []
        for seed in range(given.seeds):
            counts = [given.records + given.each * number for number in range(given.retrainings + 1)]
            blocks, labels = table(given.data, counts[-1], own, given.passive, seed)
            views = sessions(PLANS[name], blocks, labels, counts, rule, seed, given.least)
            newcomers = np.arange(counts[0], counts[-1])
            found = read_by("newcomer", views)
            reasons.add(found.reason)
            likely.append(np.nan_to_num(found.probabilities[newcomers], nan=0.5))
            truth.append(labels[newcomers])
            for areas, seen in ((first, views[:1]), (last, views), (exact, [of_labels_alone(views[0], labels)])):
                told = np.nan_to_num(read_by("trajectory_labels", seen).probabilities, nan=0.5)
                areas.append(area_under_curve(told[: counts[0]], labels[: counts[0]]))
        every, true = np.concatenate(likely), np.concatenate(truth)
        right = np.where(every[:, 1] == every[:, 0], 0.5, (every[:, 1] > every[:, 0]) == true).mean()
        print(
            f"{name} {rule} own={own} passive={given.passive} newcomers={len(true)} right={right:.3f} "
            f"area={area_under_curve(every, true):.3f} others: first={np.mean(first):.3f} last={np.mean(last):.3f} "
            f"exact={np.mean(exact):.3f} "
            f"{' '.join(sorted(reasons))}",
            flush=True,
        )


if __name__ == "__main__":
    main()
