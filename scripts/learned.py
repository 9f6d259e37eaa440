"""What complete records teach of the passive columns, beside what the Bayesian adversary makes of the same records.

A plan is trained in one place in float64 and discloses its parameters. Of the records that it isn't trained on, the
first ones are given in full, with labels and exact scores, and the next ones are judged: mean squared errors over
columns, and as a share of ``posterior``'s, or without scores of ``imputation``'s.

    python -m scripts.learned --data bank adult credit satellite
"""

import argparse
import os
from dataclasses import replace
from pathlib import Path

import numpy as np

import attacks
from attacks import AuxiliaryRows, PredictionView
from attacks.base import reconstruct
from attacks.prediction.known_moments import known_moments
from scripts.listening import Case, problem
from services.common.agreement import FIXED, TrainingPlan
from vfl.arrays import FloatArray
from vfl.data import load_dataset
from vfl.data.datasets import RegistryTable
from vfl.learning import GradientDescent, confidence_scores, train_centrally
from vfl.learning.linear.regression import LinearRegression

# As many steps an epoch as a plan takes by itself of a table of thousands of rows.
_STEPS = 64


def seen(table: RegistryTable, seed: int, known: int, judged: int) -> tuple[PredictionView, FloatArray]:
    """Train a plan on a table in halves; what the active party sees, and the passive columns of the judged records."""
    data, weights, split = problem(table, Case(FIXED, False, 0, 0, 0, 0, seed=seed))
    plan = TrainingPlan(batch_size=-(-len(split.train) // _STEPS), batches=FIXED, seed=seed)
    train = split.train
    trained = replace(data, blocks=[block[train] for block in data.blocks], labels=data.labels[train])
    descent = GradientDescent(plan.schedule(np.arange(len(train))), plan.epochs, LinearRegression().learning_rate)
    active, passive = (theta.T for theta in train_centrally(trained, weights, descent))
    if len(active) == 1:
        active, passive = (np.vstack([-rows / 2, rows / 2]) for rows in (active, passive))
    free = np.concatenate([split.validation, split.test])
    first, asked = free[:known], free[known : known + judged]
    scores = confidence_scores(data.blocks[0] @ active.T + data.blocks[1] @ passive.T)
    own, theirs = data.blocks[0][:, :-1], data.blocks[1]
    view = PredictionView(
        features_active=own[asked],
        scores=scores[asked],
        weights_active=active[:, :-1],
        weights_passive=passive,
        bias=active[:, -1],
        auxiliary=AuxiliaryRows(own[first], theirs[first], scores[first], data.labels[first]),
        moments=known_moments(theirs[np.setdiff1d(np.arange(len(theirs)), asked)]),
        record_labels=data.labels[asked],
    )
    return view, theirs[asked]


def errors(view: PredictionView, truth: FloatArray, models: list[str]) -> dict[str, float]:
    """Mean squared errors over columns: without scores, by the Bayesian adversary, and by each model with scores."""
    learned = {model: attacks.load("regression", model=model) for model in models}
    found = {
        "imputation": attacks.load("imputation").reconstruct(view),
        **{f"{model} without scores": one.without_scores(view) for model, one in learned.items()},
        "posterior": attacks.load("posterior", prior="imputation").reconstruct(view),
        **{model: reconstruct(one, view).estimate for model, one in learned.items()},
    }
    return {name: float(((one - truth) ** 2).mean()) for name, one in found.items()}


def main() -> None:
    """Print a line per data set: means over seeds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", default=["bank", "adult", "credit", "satellite"])
    parser.add_argument("--models", nargs="+", default=["trees"])
    for name, default in (("known", 1000), ("judged", 500), ("seeds", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    for name in given.data:
        table = load_dataset(name, Path(os.environ.get("PLUMBLINE_DATA_DIR", "data")))
        runs = [
            errors(*seen(table, seed, given.known, given.judged), given.models) for seed in range(1, given.seeds + 1)
        ]
        means = {one: float(np.mean([run[one] for run in runs])) for one in runs[0]}
        shares = {
            one: value / means["imputation" if "without" in one or one == "imputation" else "posterior"]
            for one, value in means.items()
        }
        print(name, *(f"{one} {value:.5f} ({shares[one]:.2f})" for one, value in means.items()), sep="  ", flush=True)


if __name__ == "__main__":
    main()
