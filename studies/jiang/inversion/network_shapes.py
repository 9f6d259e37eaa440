"""One figure for several shapes of network: gradient inversion of each, a Bayesian beside, on the same windows."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pandas as pd

from studies.jiang.inversion.contenders import bayesian, inversion, random_guess
from studies.jiang.inversion.inversion_plots import with_guesses
from studies.jiang.inversion.inversion_setting import (
    HIDDEN,
    Grid,
    contests,
    measured,
    network_targets,
    plugged_in,
)
from studies.study import StudyRun


@dataclass(frozen=True)
class Shape:
    """A network's hidden layers, which both parts have, and their activation."""

    hidden: tuple[int, ...] = HIDDEN
    activation: str = "sigmoid"


def inversion_of(label: str) -> str:
    """The curve of gradient inversion on a shape."""
    return f"GIA, {label}"


def measured_shapes(
    run: StudyRun, grid: Grid, shapes: Mapping[str, Shape], *, records: int, steps: int, draws: int
) -> pd.DataFrame:
    """Attack networks of every shape; curves carry the shape's label.

    A random guess, and what a guess from the ranges reaches without scores, are the same for all shapes.
    """
    planned = []
    for number, (label, shape) in enumerate(shapes.items()):
        attackers = [
            replace(inversion(steps), label=inversion_of(label)),
            replace(bayesian(draws)[0], label=f"Bayes, {label}"),
            *(replace(one, label=f"{one.label}, {label}") for one in plugged_in(run)),
        ]
        guess = [random_guess()] if number == 0 else []
        attacked = network_targets(grid, run.seed, shape.hidden, shape.activation)
        planned += contests(attacked, [*guess, *attackers], records)
    first = next(iter(shapes))
    return with_guesses(measured(run, planned), {f"Bayes, {first}": "no score, ranges"})
