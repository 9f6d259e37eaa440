"""Speed of the linear white-box attacks against per-sample cvxpy.

    PLUMBLINE_DATA_DIR=data OMP_NUM_THREADS=1 python -m benchmarks.linear_attacks

1,000 predictions of a linear model on satellite with d = 30 passive features (digits, which scikit-learn
brings along, where the raw files are missing), all in one run. cvxpy is timed on some of the records and scaled to
1,000, in two ways: with the problem built anew for every record, as the published code does, and with the problem
compiled once and only its parameters changed. Needs cvxpy.
"""

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import attacks
from attacks.box_projection import project_onto_solutions
from attacks.linear_system import linear_system
from attacks.relaxed_centres import centres_coincide
from plumbline.simulation.linear_models import train
from vfl.arrays import FloatArray, IntArray
from vfl.data.datasets import DatasetNotFound


def _seconds(task: Callable[[], object], repeats: int) -> float:
    """The shortest of some runs, after one to warm up."""
    task()
    best = np.inf
    for _ in range(repeats):
        start = time.perf_counter()
        task()
        best = min(best, time.perf_counter() - start)
    return float(best)


def _rebuilt_centre2(matrix: FloatArray, side: FloatArray) -> FloatArray:
    """rcc2 of one record as a user of cvxpy writes it down: the point of the box nearest one half with A x = b."""
    cp: Any = import_module("cvxpy")
    point = cp.Variable(matrix.shape[1])
    constraints = [matrix @ point == side, point >= 0, point <= 1]
    cp.Problem(cp.Minimize(cp.sum_squares(point - 0.5)), constraints).solve(solver=cp.CLARABEL)
    value: FloatArray = point.value
    return value


def _subset(view: attacks.PredictionView, rows: slice | IntArray) -> attacks.PredictionView:
    if view.scores is None:
        raise AssertionError
    return attacks.PredictionView(
        features_active=view.features_active[rows],
        scores=view.scores[rows],
        weights_active=view.weights_active,
        weights_passive=view.weights_passive,
        bias=view.bias,
    )


def _spread(attack: Any, view: attacks.PredictionView, rows: IntArray) -> FloatArray:
    """The attack's estimates of some rows in their places among all, (n, d); the others are 0."""
    estimates = np.zeros((view.n, view.d))
    estimates[rows] = attack.reconstruct(_subset(view, rows))
    return estimates


def speed(console: Console, data_dir: Path | None, sample: int) -> None:
    """Print the times of 1,000 predictions, the agreement with cvxpy, and half*'s and ls's records per second."""
    try:
        model = train("satellite", data_dir)
    except DatasetNotFound:
        model = train("digits", data_dir)
    columns = model.features.shape[1]
    # digits holds out too few records: repeat them.
    model = replace(model, features=np.resize(model.features, (1000, columns)))
    view, _ = model.view(range(30), 1000)
    centre1, centre2 = attacks.load("rcc1"), attacks.load("rcc2")
    system = linear_system(centre2, view)
    solutions = project_onto_solutions(system.space, system.coordinates, 0.5)
    certified = centres_coincide(system.space, solutions.points)
    console.print(
        f"{model.name}, d = 30, k = {len(model.weights)}, 1,000 predictions; half* is inside the box for "
        f"{np.mean((solutions.points > 0).all(axis=1) & (solutions.points < 1).all(axis=1)):.1%}, "
        f"RCC1 = RCC2 is certified for {certified.mean():.1%}; cvxpy on {sample} records, scaled."
    )
    # A sample that keeps the share of records without a certificate, as the batch has it.
    chosen = np.arange(0, 1000, 1000 // sample)
    few = _subset(view, chosen)

    table = Table(
        "attack", "batch, ms", "cvxpy built anew, ms", "ratio", "cvxpy compiled once, ms", "ratio", "max |diff|"
    )
    batch2 = _seconds(lambda: centre2.reconstruct(view), 20)
    start = time.perf_counter()
    rebuilt2 = np.array([_rebuilt_centre2(system.matrix, system.right_hand_sides[row]) for row in chosen])
    anew2 = (time.perf_counter() - start) * 1000 / len(chosen)
    reference2 = attacks.load("rcc2", solver="cvxpy")
    once2 = _seconds(lambda: reference2.reconstruct(few), 1) * 1000 / len(chosen)
    difference2 = np.abs(centre2.reconstruct(view)[chosen] - rebuilt2).max()
    table.add_row("rcc2", *_row(batch2, anew2, once2, difference2))

    batch1 = _seconds(lambda: centre1.reconstruct(view), 3)
    reference1 = attacks.load("rcc1", solver="cvxpy")
    start = time.perf_counter()
    for row in chosen[::5]:
        reference1.reconstruct(_subset(view, np.array([row])))
    anew1 = (time.perf_counter() - start) * 1000 / len(chosen[::5])
    once1 = _seconds(lambda: reference1.reconstruct(few), 1) * 1000 / len(chosen)
    # Agreement where it is not trivial: on records without a certificate as well.
    compared = np.concatenate([chosen[::5], np.flatnonzero(~certified)[:20]])
    difference1 = np.abs(centre1.reconstruct(view) - _spread(reference1, view, compared))[compared].max()
    table.add_row("rcc1", *_row(batch1, anew1, once1, difference1))
    console.print(table)

    many = replace(model, features=np.resize(model.features, (100_000, columns)))
    large, _ = many.view(range(30), 100_000)
    for name in ("ls", "half_star", "clamped_ls", "rcc2"):
        for known in (view, large):
            attack = attacks.load(name)
            took = _seconds(lambda attack=attack, known=known: attack.reconstruct(known), 5)  # type: ignore[misc]
            console.print(f"{name}: {known.n / took:,.0f} records/s in batches of {known.n:,}")


def _row(batch: float, anew: float, once: float, difference: float) -> tuple[str, ...]:
    """Cells of one attack; seconds per 1,000 records in."""
    return (
        f"{batch * 1e3:.2f}",
        f"{anew * 1e3:,.0f}",
        f"{anew / batch:,.0f}",
        f"{once * 1e3:,.0f}",
        f"{once / batch:,.0f}",
        f"{difference:.1e}",
    )


def main() -> None:
    """Parse the options and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=100, help="records that cvxpy solves (a divisor of 1,000)")
    options = parser.parse_args()
    directory = os.environ.get("PLUMBLINE_DATA_DIR")
    data_dir = Path(directory) if directory else None
    speed(Console(width=140), data_dir, options.sample)


if __name__ == "__main__":
    main()
