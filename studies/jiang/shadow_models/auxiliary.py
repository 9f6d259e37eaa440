"""Jiang, Figure 12: shadow models of made-up auxiliary records, against those of real ones.

SIMULATION: models are trained in one place; auxiliary records, made-up ones included, have the scores that the model
gives them. A coordinator that answers only for records which parties hold would have to be sent made-up ones by both.
"""

from collections.abc import Callable, Iterator, Mapping

import pandas as pd

from studies.claims.claim import Claim, Finding, Test
from studies.claims.kinds import where
from studies.claims.statement import Statement, interval_over
from studies.jiang.changed_situations import Distribution, with_made_up_records
from studies.jiang.inversion.inversion_setting import RECORDS
from studies.jiang.paired_points import (
    Difference,
    Point,
    by_data_set,
    curve,
    difference,
    judged_on,
    mean_table,
    measured,
    names_in,
    told,
)
from studies.jiang.splits import Split, SplitPlan, Splits, threshold
from studies.measurements import AttackMeasurement, Choice
from studies.page.elements import number_words
from studies.page.plots import Panel, Plot
from studies.page.section import Section
from studies.study import StudyRun

ORIGINAL = "original"
MADE_UP: tuple[Distribution, ...] = ("uniform", "normal", "laplace")
_SHOWN: dict[str, str] = {
    "uniform": "uniform",
    "normal": "standard Gaussian",
    "laplace": "standard Laplace",
    ORIGINAL: "original",
}
# Attack accuracies that differ by less are close; by more, distinctively different.
_CLOSE, _DISTINCT = 0.05, 0.1
_DRAWS = 100
_RANDOM = "random guess"
_ACCURACY = "attack_accuracy"


_FULL = SplitPlan(("bank_all", "robot", "satellite", "drive"), Splits((0.1, 0.3, 0.5, 0.7, 0.9), windows=4, seeds=2))
_QUICK = SplitPlan(("robot",), Splits((0.1, 0.5), windows=2, steps=500, shadow_steps=500))


def auxiliary(run: StudyRun) -> Section:
    """Measure shadow models of n = tau auxiliary records from four distributions, on linear models.

    ``data`` has a row per data set, r, window, seed, adversary and distribution. adversary: shadow, random guess,
    posterior (ours, knows the same records), imputation (sees the records and no score).
    """
    plan = _QUICK if run.quick else _FULL
    names, missing = run.available(plan.datasets)
    points = [
        point
        for name in names
        for split in plan.splits.of(name, run.seed)
        for point in _points(plan.splits, split, run.attacks)
    ]
    data = measured(run, points)
    return Section(
        name="auxiliary",
        title="Black box: auxiliary records that are made up (Figure 12)",
        data=data,
        summary=mean_table(data, "dataset", "adversary", "distribution", "n", measures=("attack_accuracy", "mse")),
        plots=(Plot("auxiliary", _panels(data), _CAPTION),) if len(data) else (),
        notes=(*missing, *_notes(data)),
        statements=auxiliary_statements(data),
    )


_CAPTION = (
    "Figure 12: share of reconstructions that a classifier labels like the original, by shadow models of tau auxiliary "
    "records. Ours: the Bayesian adversary with the same records, and what real ones tell without a score."
)


def _points(splits: Splits, split: Split, others: tuple[Choice, ...]) -> Iterator[Point]:
    tau = threshold(split.model.data.name)

    def point(adversary: str, attack: Choice, made: Distribution | None = None) -> Point:
        asked = AttackMeasurement(
            split.model, split.passive, attack, RECORDS, auxiliary=tau, access="black_box", seed=split.model.seed
        )
        measurement = asked if made is None else with_made_up_records(asked, made)
        return Point({**split.labels, "adversary": adversary, "distribution": made or ORIGINAL, "n": tau}, measurement)

    yield point(_RANDOM, Choice.of(_RANDOM.replace(" ", "_")))
    for made in (None, *MADE_UP):
        yield point("shadow", splits.shadow(()), made)
        yield point("posterior", Choice.of("posterior", prior="imputation", draws=_DRAWS), made)
        for other in others:
            yield point(other.words, other, made)
    yield point("imputation", Choice.of("imputation"))


# --- what is shown -------------------------------------------------------------------------------------------------


def _panels(data: pd.DataFrame) -> list[Panel]:
    return [
        Panel(
            f"{name}, n = {tau}",
            "ratio of passive features r",
            "attack accuracy",
            (
                *(
                    curve(where(part, adversary="shadow", distribution=one), _ACCURACY, f"shadow, {words}")
                    for one, words in _SHOWN.items()
                ),
                curve(where(part, adversary=_RANDOM), _ACCURACY, _RANDOM),
                *(
                    curve(where(part, adversary=other, distribution=ORIGINAL), _ACCURACY, other)
                    for other in part["adversary"].unique()
                    if other not in ("shadow", "posterior", "imputation", _RANDOM)
                ),
                *(
                    curve(
                        where(part, adversary="posterior", distribution=one),
                        _ACCURACY,
                        f"posterior, {_SHOWN[one]}",
                        ours=True,
                    )
                    for one in (ORIGINAL, "uniform")
                ),
                curve(where(part, adversary="imputation"), _ACCURACY, "real records alone", ours=True),
            ),
        )
        for name, tau, part in by_data_set(data)
    ]


# --- what the numbers say ------------------------------------------------------------------------------------------


_LABELLED_ALIKE = (
    "Attack accuracy asks for a classifier's label, not for features: where one class is common, or the classifier "
    "decides by few columns, a guess has it as well."
)


def _less(lead: str, holds: Callable[[Difference], bool], other: Mapping[str, str], *, least_r: bool = False) -> Test:
    """A test of what attack accuracy made-up records have more than another adversary; at the least r, or at all."""

    def tested(rows: pd.DataFrame) -> Finding:
        r = float(rows["r"].min())
        rows = where(rows, r=r) if least_r else rows
        found = {
            f"{name}, {_SHOWN[made]}": difference(
                where(rows, dataset=name, adversary="shadow", distribution=made),
                where(rows, dataset=name, **other),
                _ACCURACY,
            )
            for name in names_in(rows)
            for made in MADE_UP
        }
        return told(lead.format(r=f"{r:g}"), found, holds)

    return tested


_REAL = {"adversary": "shadow", "distribution": ORIGINAL}
_CLAIMS = (
    Claim(
        "5.3.1, Figure 12",
        "Randomly sampled auxiliary records can decrease the attack accuracy.",
        _less(
            "Attack accuracy less that of real auxiliary records, paired over r, windows and seeds",
            lambda change: change.is_below,
            _REAL,
        ),
        "tau records in general position determine a linear part whatever distribution they come from: what real ones "
        "have more is small beside what windows differ by.",
        possible=True,
    ),
    Claim(
        "5.3.1, Figure 12",
        "With them, the attack accuracy is still distinctively higher than that of a random guess.",
        _less(
            f"Attack accuracy less a random guess's (distinctively: by {_DISTINCT} and more)",
            lambda change: change.is_above and change.mean.mean >= _DISTINCT,
            {"adversary": _RANDOM},
        ),
        _LABELLED_ALIKE,
    ),
    Claim(
        "5.3.1, Figure 12",
        "When r is small, the attack accuracy is close to that with records of the original distribution.",
        _less(
            f"Attack accuracy less that of real auxiliary records at r = {{r}} (close: within {_CLOSE})",
            lambda change: abs(change.mean.mean) <= _CLOSE,
            _REAL,
            least_r=True,
        ),
        _LABELLED_ALIKE,
    ),
)


def auxiliary_statements(data: pd.DataFrame) -> tuple[Statement, ...]:
    """Judge what section 5.3.1 says of Figure 12, from rows of the section's ``data``."""
    return judged_on("LR", _CLAIMS, where(data))


def _notes(data: pd.DataFrame) -> Iterator[str]:
    done = where(data)
    for name in names_in(done):
        said = []
        for distribution, words in _SHOWN.items():
            published, ours = (
                where(done, dataset=name, adversary=who, distribution=distribution) for who in ("shadow", "posterior")
            )
            if len(published) and len(ours):
                errors = [interval_over(of, "mse", ("r", "seed", "start")).mean for of in (published, ours)]
                said.append(f"{words} {number_words(errors[0])} and {number_words(errors[1])}")
        yield f"{name}: errors over all r of the shadow and of the Bayesian adversary with the same records: " + (
            "; ".join(said) + "."
        )
    yield _READ


_READ = (
    "Made-up features are independent; Gaussian and Laplace ones are scaled to [0, 1] per column, as parties scale "
    "their own, and all parties' columns are made up. To have them answered, both parties must enter records that "
    "nobody has: SIMULATION, the model answers."
)
