"""What Hu, section 7, states of training with Algorithm 3, and whether a run bears it out."""

from collections.abc import Iterator

import pandas as pd

from plumbline.judge.measures import Interval
from studies.claims.statement import Statement, interval_over, verdict_of
from studies.hu.statements import ordering, words

# A measure of labels right that is as near to 1/2 is called a guess; one of accuracies that differ by less, comparable.
GUESS, COMPARABLE = 0.05, 0.05
_KEYS = ["dataset", "calibration", "initialisation", "epsilon", "seed"]


def defended_statements(results: pd.DataFrame) -> list[Statement]:
    """Judge what the paper states of the defence; ``results`` as ``defended_of`` makes them."""
    if not len(results):
        return []
    found: list[Statement] = []
    for name, part in results.groupby("dataset", sort=False):
        ends = part[part["epoch"] == part["epoch"].max()]
        means = part.groupby(_KEYS, sort=False)["success_step"].mean().reset_index()
        found += _of_dataset(str(name), part, ends, means)
    return found


def _of_dataset(name: str, part: pd.DataFrame, ends: pd.DataFrame, means: pd.DataFrame) -> Iterator[Statement]:
    if name == "mnist01":
        yield _accurate(name, ends)
        yield _large_noise(name, ends)
        yield _norm(name, part)
    yield _comparable(name, ends)
    yield _guess(name, means)
    yield _larger_is_better(name, ends)


def _cells(frame: pd.DataFrame, start: str, *epsilons: float) -> Iterator[tuple[str, float, pd.DataFrame]]:
    """The rows of a start, by calibration and epsilon."""
    for calibration in frame["calibration"].unique():
        for epsilon in epsilons:
            chosen = (frame["calibration"] == calibration) & (frame["epsilon"] == epsilon)
            yield str(calibration), epsilon, frame[chosen & (frame["initialisation"] == start)]


def _accurate(name: str, ends: pd.DataFrame) -> Statement:
    found = {key: interval_over(one, "accuracy_test", ("seed",)) for key, _, one in _cells(ends, "xavier", 0.2)}
    return Statement(
        "Figure 2",
        name,
        "More than 90 % test accuracy under the defense, even for epsilon as small as 0.2.",
        verdict_of([one.low > 0.9 for one in found.values()]),
        f"From Xavier at epsilon 0.2, after epoch {ends['epoch'].max()}: "
        + "; ".join(f"{key} {words(one, 3)}" for key, one in found.items())
        + ".",
        "The proof needs several times the printed noise, and less is left of the model then."
        if found["lemma"].low <= 0.9
        else "",
    )


def _large_noise(name: str, ends: pd.DataFrame) -> Statement:
    found = {key: float(one["sigma_passive"].min()) for key, _, one in _cells(ends, "xavier", 0.5)}
    return Statement(
        "section 7, results on MNIST",
        name,
        "sigma_A and sigma_B are larger than 10 at epsilon = 0.5.",
        verdict_of([one > 10 for one in found.values()]),
        "The smaller of the two, sigma_B: " + "; ".join(f"{key} {one:.1f}" for key, one in found.items()) + ".",
    )


def _norm(name: str, part: pd.DataFrame) -> Statement:
    found = {
        f"{key} epsilon {epsilon:g}" if epsilon else f"{key} no noise": float(one["theta_norm"].max())
        for key, epsilon, one in _cells(part, "xavier", 0.0, 0.1, 0.2, 0.5)
    }
    return Statement(
        "Figure 3, bottom",
        name,
        "Under the defence, too, the norm of theta is bounded by 2 throughout training.",
        verdict_of([one <= 2 for one in found.values()]),
        f"Largest ||theta|| from Xavier within {part['epoch'].max()} epochs: "
        + "; ".join(f"{key} {one:.2f}" for key, one in found.items())
        + ".",
        "Noise is a random walk of theta, and random weights of 784 columns start above 1.",
    )


def _comparable(name: str, ends: pd.DataFrame) -> Statement:
    gaps = {}
    for calibration, epsilon, one in _cells(ends, "xavier", 0.1, 0.2, 0.5):
        plain = next(frame for key, _, frame in _cells(ends, "xavier", 0.0) if key == calibration)
        gaps[calibration, epsilon] = _gap(one, plain, "accuracy_test")
    return Statement(
        "Figures 2 and 4",
        name,
        "The performance under the defence is comparable to that without, especially for larger epsilon.",
        verdict_of([gap.low > -COMPARABLE for gap in gaps.values()]),
        "Test accuracy from Xavier, with noise less without: "
        + "; ".join(f"{key} epsilon {epsilon:g} {words(gap, 3)}" for (key, epsilon), gap in gaps.items())
        + f". Comparable means within {COMPARABLE}.",
    )


def _guess(name: str, means: pd.DataFrame) -> Statement:
    found = {
        (key, epsilon): interval_over(one, "success_step", ("seed",))
        for key, epsilon, one in _cells(means, "xavier", 0.1, 0.2, 0.5)
    }
    return Statement(
        "Figure 3, top" if name == "mnist01" else "Figure 4",
        name,
        "For every epsilon the success of the label attack falls to about 50 %, a random guess.",
        verdict_of([abs(one.mean - 0.5) < GUESS for one in found.values()]),
        "Labels right by step from Xavier, mean over epochs: "
        + "; ".join(f"{key} epsilon {epsilon:g} {words(one, 3)}" for (key, epsilon), one in found.items())
        + f". A guess means within {GUESS} of 0.5.",
    )


def _larger_is_better(name: str, ends: pd.DataFrame) -> Statement:
    gaps = {}
    for calibration in ends["calibration"].unique():
        least, most = (
            next(one for key, _, one in _cells(ends, "xavier", epsilon) if key == calibration) for epsilon in (0.1, 0.5)
        )
        gaps[str(calibration)] = _gap(most, least, "accuracy_test")
    verdicts = {ordering(gap) for gap in gaps.values()}
    return Statement(
        "section 7, results on MNIST" if name == "mnist01" else "section 7, results on credit",
        name,
        "A larger epsilon costs less accuracy.",
        verdicts.pop() if len(verdicts) == 1 else "in part",
        "Test accuracy from Xavier, epsilon 0.5 less 0.1: "
        + "; ".join(f"{key} {words(gap, 3)}" for key, gap in gaps.items())
        + ".",
    )


def _gap(first: pd.DataFrame, second: pd.DataFrame, measure: str) -> Interval:
    """The mean of paired differences, by seed."""
    paired = first.set_index("seed")[measure] - second.set_index("seed")[measure]
    return interval_over(paired.rename("gap").reset_index(), "gap", ("seed",))
