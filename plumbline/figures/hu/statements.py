"""What the paper states of its experiments, and whether a run bears it out. Each verdict is computed from the run."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from plumbline.figures.hu.experiments import INITIALISATIONS, IOTA, KEY_BITS, EquationFacts
from plumbline.figures.page.elements import number_words
from vfl.theory.training import copies


@dataclass(frozen=True)
class Statement:
    """What the paper says, where, and what was measured here."""

    dataset: str
    source: str
    paper: str
    verdict: Literal["reproduced", "in part", "not reproduced", "not stated", "not measured"]
    measured: str


def _verdict(good: bool) -> Literal["reproduced", "not reproduced"]:
    return "reproduced" if good else "not reproduced"


def statements_of(results: pd.DataFrame, facts: Sequence[EquationFacts]) -> list[Statement]:
    """List the paper's statements on the data sets in ``results``, each with this run's numbers."""
    found: list[Statement] = []
    for name, write in (("mnist01", _mnist_statements), ("credit", _credit_statements)):
        part = results[results["dataset"] == name]
        if len(part):
            found += write(_Numbers(part), [fact for fact in facts if fact.dataset == name])
            found.append(_guarantee_statement(name, part))
    return found


class _Numbers:
    """Means over seeds of one data set's results."""

    def __init__(self, results: pd.DataFrame) -> None:
        self._results = results
        self.last = int(results["epoch"].max())
        self.readings = tuple(results["reading"].unique())

    def mean(self, measure: str, reading: str, initialisation: str, epoch: int) -> float:
        chosen = self._of(reading, initialisation)
        return float(chosen.loc[chosen["epoch"] == epoch, measure].mean())

    def lowest(self, measure: str, reading: str) -> float:
        return float(self._results.loc[self._results["reading"] == reading, measure].min())

    def highest(self, measure: str, reading: str) -> float:
        return float(self._results.loc[self._results["reading"] == reading, measure].max())

    def full_epochs(self, reading: str, initialisation: str) -> float:
        """How many epochs from the start have a success by step of exactly 1; mean over seeds."""
        chosen = self._of(reading, initialisation)
        by_seed = chosen.sort_values("epoch").groupby("seed")["success_step"]
        return float(by_seed.apply(lambda values: int((values == 1.0).cumprod().sum())).mean())

    def _of(self, reading: str, initialisation: str) -> pd.DataFrame:
        return self._results[
            (self._results["reading"] == reading) & (self._results["initialisation"] == initialisation)
        ]


def _mnist_statements(numbers: _Numbers, facts: Sequence[EquationFacts]) -> list[Statement]:
    last, rows, raw = numbers.last, "unit-norm rows", "raw pixels"
    ahead = {name: numbers.full_epochs(name, "zero") - numbers.full_epochs(name, "xavier") for name in numbers.readings}
    norms = {name: (numbers.lowest("theta_norm", name), numbers.highest("theta_norm", name)) for name in ahead}
    alone = [fact for fact in facts if fact.copies == 1]
    return [
        Statement(
            "mnist01",
            "Figure 3, top",
            "Without defense, the success rate of the label attack is 100 % for several epochs.",
            _verdict(min(numbers.full_epochs(rows, kind) for kind in INITIALISATIONS) >= min(2, last)),
            "Unit-norm rows: lowest success by step of any epoch, start and seed "
            f"{numbers.lowest('success_step', rows):.4f} over {last} epochs. Raw pixels, norms beyond the paper's 1, "
            f"from zero: {numbers.mean('success_step', raw, 'zero', 1):.3f} by step in epoch 1 and "
            f"{numbers.mean('success_step', raw, 'zero', last):.3f} in epoch {last}; kept labels "
            f"{numbers.mean('success_kept', raw, 'zero', 1):.3f} and "
            f"{numbers.mean('success_kept', raw, 'zero', last):.3f}.",
        ),
        Statement(
            "mnist01",
            "section 7, results on MNIST",
            "For zero initialization, the success rate stays 100 % for 10 more epochs than Xavier, while the accuracy "
            "increases faster.",
            _in_part(max(ahead.values()) >= 10, _faster(numbers, rows)),
            "Epochs at 100 % by step, zero less Xavier: "
            + "; ".join(
                f"{name} {numbers.full_epochs(name, 'zero'):.1f} - {numbers.full_epochs(name, 'xavier'):.1f} = "
                f"{lead:.1f}"
                for name, lead in ahead.items()
            )
            + f" (runs end at {last}). Test accuracy after epoch 1, {rows}: "
            f"{numbers.mean('accuracy_test', rows, 'zero', 1):.3f} from zero, "
            f"{numbers.mean('accuracy_test', rows, 'xavier', 1):.3f} from Xavier.",
        ),
        Statement(
            "mnist01",
            "Figure 3, bottom",
            "The norm of theta is bounded by 2 throughout training, which verifies G = 1.",
            _verdict(max(high for _, high in norms.values()) <= 2),
            f"Largest ||theta|| within {last} epochs, over starts and seeds: "
            + "; ".join(f"{name} {high:.2f}" for name, (_, high) in norms.items())
            + f". After epoch {last}, {rows}: "
            + ", ".join(f"{kind} {numbers.mean('theta_norm', rows, kind, last):.2f}" for kind in INITIALISATIONS)
            + ".",
        ),
        Statement(
            "mnist01",
            "Corollary 3.2, section 7 (batch 256)",
            "s <= d_B equations determine f: features are taken to be in general position.",
            _verdict(all(fact.recovered == fact.batches for fact in alone if fact.batch_size <= fact.features)),
            "Constant pixels cost rank. "
            + " ".join(_fact_words(fact) for fact in facts if fact.reading == rows)
            + " Success is drawn for the f that Algorithm 2 makes known.",
        ),
        Statement(
            "mnist01",
            "Figure 2",
            "More than 90 % test accuracy under the defense, even for epsilon as small as 0.2.",
            "not measured",
            "Algorithm 3 is drawn by `plumbline figures defences`; this run has no number on it.",
        ),
    ]


def _credit_statements(numbers: _Numbers, facts: Sequence[EquationFacts]) -> list[Statement]:
    last, plain, bounded, bare = numbers.last, "standardised", "bounded rows", "standardised, no intercept"
    lowest = {
        name: {kind: numbers.mean("success_step", name, kind, last) for kind in INITIALISATIONS}
        for name in numbers.readings
    }
    long_rows_matter = lowest[bounded]["xavier"] > lowest[plain]["zero"]
    return [
        Statement(
            "credit",
            "Figure 4",
            "The success rate of the label attack is less than 1 for Xavier because there are only 23 features, "
            "so that its scale is large.",
            _in_part(lowest[plain]["xavier"] < 1, lowest[plain]["zero"] == 1 and lowest[bounded]["xavier"] < 1),
            "Success by step, epoch 1 to "
            f"{last}: "
            + "; ".join(
                f"{name}: "
                + ", ".join(
                    f"{kind} {numbers.mean('success_step', name, kind, 1):.4f} to {value:.4f}"
                    for kind, value in values.items()
                )
                for name, values in lowest.items()
            )
            + "."
            + (" What matters is rows far longer than 1, not the start alone." if long_rows_matter else ""),
        ),
        Statement(
            "credit",
            "Figure 4",
            "Models with Xavier initialization converge slower than those with zero initialization.",
            _verdict(_faster(numbers, plain)),
            f"Test accuracy after epoch 1, {plain}: zero {numbers.mean('accuracy_test', plain, 'zero', 1):.3f}, Xavier "
            f"{numbers.mean('accuracy_test', plain, 'xavier', 1):.3f}; after epoch {last}: "
            f"{numbers.mean('accuracy_test', plain, 'zero', last):.3f} and "
            f"{numbers.mean('accuracy_test', plain, 'xavier', last):.3f}.",
        ),
        Statement(
            "credit",
            "section 7, learning setting",
            "Nothing is said about an intercept.",
            "not stated",
            f"Test accuracy from zero after epoch {last}: {numbers.mean('accuracy_test', bare, 'zero', last):.3f} "
            f"without an intercept, {numbers.mean('accuracy_test', plain, 'zero', last):.3f} with one; the larger "
            f"class alone gives {numbers.mean('majority_test', plain, 'zero', last):.3f}.",
        ),
        Statement(
            "credit",
            "section 5.2",
            f"u = {copies(KEY_BITS, IOTA)} auxiliary features per feature at {KEY_BITS} bits and iota = {IOTA} make f "
            "unique at batch 256.",
            _in_part(
                all(fact.recovered == fact.batches for fact in facts if fact.equations >= fact.batch_size),
                all(fact.fits for fact in facts),
            ),
            "Sums of features beyond 1 take more bits than iota has, and fewer of them fit a key. "
            + " ".join(f"{fact.reading}: {_fact_words(fact)}" for fact in facts),
        ),
    ]


def _guarantee_statement(name: str, results: pd.DataFrame) -> Statement:
    runs = results[results["epoch"] == 1]
    wrong = runs["first_wrong_step"]
    broken = int((wrong < runs["guaranteed_steps"]).fillna(value=False).sum())
    spans = "; ".join(
        f"{reading} {kind} {part['guaranteed_steps'].min()}, "
        + (
            f"first error at step {part['first_wrong_step'].min()}"
            if part["first_wrong_step"].notna().any()
            else "no error"
        )
        for (reading, kind), part in runs.groupby(["reading", "initialisation"], sort=False)
    )
    return Statement(
        name,
        "Corollary 4.5, Theorems 4.6, 4.8",
        "The criterion is right for at least the first T_eps iterations.",
        _verdict(broken == 0),
        f"T_eps with the largest ||x||^2 of a row, and the first step (from 0) that errs in any seed: {spans}.",
    )


def _in_part(first: bool, second: bool) -> Literal["reproduced", "in part", "not reproduced"]:
    return "reproduced" if first and second else "in part" if first or second else "not reproduced"


def _faster(numbers: _Numbers, reading: str) -> bool:
    zero, xavier = (numbers.mean("accuracy_test", reading, kind, 1) for kind in ("zero", "xavier"))
    return zero > xavier


def _fact_words(fact: EquationFacts) -> str:
    condition = "" if fact.condition is None else f", condition number up to {number_words(fact.condition)}"
    with_copies = f"u = {fact.copies}, " if fact.copies > 1 else ""
    too_many = "" if fact.fits else f", but a sum takes {fact.sum_bits} bits and so many don't fit the key"
    return (
        f"Batch {fact.batch_size}: {with_copies}{fact.equations} equations of rank {fact.ranks}{condition}, "
        f"f recovered on {fact.recovered} of {fact.batches} batches{too_many}."
    )
