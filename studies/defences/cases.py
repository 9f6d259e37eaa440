"""What the matrix is measured on: data sets and their passive columns, defences with their options, trained models."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from studies.measurements import Choice
from studies.simulation.linear_models import TRAININGS, Training
from vfl.data import missing_files

NONE = "none"
PSI = "alignment by PSI"


@dataclass(frozen=True)
class Case:
    """A data set whose last ``passive`` columns are the passive party's."""

    dataset: str
    passive: int

    @property
    def title(self) -> str:
        """The case in words."""
        return f"{self.dataset}, d = {self.passive}"


@dataclass(frozen=True)
class Trial:
    """A defence with its options; or none."""

    defence: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def words(self) -> str:
        """The options in words."""
        return ", ".join(f"{name}={value}" for name, value in self.options.items()) or "defaults"

    @property
    def title(self) -> str:
        """The defence and its options in words."""
        return trial_title(self.defence, self.words)


def trial_title(defence: str, options: str) -> str:
    """A defence in words, and its options where they aren't the defaults."""
    return defence if options in ("", "defaults") else f"{defence} ({options})"


UNDEFENDED = Trial(NONE)
CASES = (Case("satellite", 18), Case("satellite", 4), Case("breast_cancer", 15), Case("breast_cancer", 1))
# With columns of few values: minutes of sampling a model, so only where asked for.
OF_FEW_VALUES = (Case("adult", 7), Case("bank", 9))
TRIALS = (
    UNDEFENDED,
    Trial("feature_transform"),
    Trial("feature_transform", {"kind": "negate"}),
    Trial("feature_transform", {"kind": "permutation"}),
    Trial("feature_transform", {"kind": "optimal"}),
    Trial("feature_transform", {"at": "training"}),
    Trial("feature_transform", {"kind": "negate", "at": "training"}),
    Trial("parameter_rotation"),
    Trial("score_rounding"),
    Trial("score_rounding", {"decimals": 1}),
    Trial("score_noise"),
    Trial("score_noise", {"sigma": 0.01}),
    Trial("score_scheme1"),
    Trial("score_scheme2"),
    Trial("score_scheme3"),
    Trial("class_label"),
    Trial("purification"),
    Trial("dp_sgd"),
    Trial("dp_sgd", {"epsilon": 0.1}),
)
# What changes no score and no parameter of a model, and why nothing is measured of it here.
UNCHANGED: Mapping[str, str] = {
    PSI: "It keeps apart who is in which table; the scores and parameters of those in both stay what they are.",
    "response_truncation": "It acts in training, which stays bit for bit the same: so do scores and parameters.",
    "dp_noise": "It hides residuals of training; scores of the model that comes out tell what any model's do.",
}
_STAND_INS = {"satellite": Case("digits", 32), **dict.fromkeys(("adult", "bank"), Case("breast_cancer", 15))}


@dataclass(frozen=True)
class Plan:
    """How much is measured.

    Attributes:
        cases: data sets and their passive columns.
        trials: defences with their options, the undefended one first.
        seeds: splits of each data set, two at least; each is trained by every optimiser.
        trainings: the optimisers.
        records: attacked ones.
        auxiliary: complete records that an adversary of the highest level has.
        rounds: of attacks that search step by step.
        draws: of posteriors that are sampled; their means err by about 1.5 / sqrt(draws) of a cell's spread.
        brought: attacks that a user adds, beside the published ones.
    """

    cases: tuple[Case, ...] = CASES
    trials: tuple[Trial, ...] = TRIALS
    seeds: int = 3
    trainings: tuple[Training, ...] = TRAININGS
    records: int = 100
    auxiliary: int = 100
    rounds: int = 500
    draws: int = 100
    brought: tuple[Choice, ...] = ()


# Each defence as its first trial has it.
QUICK = Plan(
    cases=(Case("breast_cancer", 15),),
    trials=tuple({trial.defence: trial for trial in reversed(TRIALS)}.values())[::-1],
    seeds=2,
    records=40,
    rounds=50,
    draws=30,
)


def cases_of(datasets: Sequence[str]) -> tuple[Case, ...]:
    """The cases of some data sets, with more than one passive column. Raises ValueError for one that has none."""
    known = [case for case in (*CASES, *OF_FEW_VALUES) if case.passive > 1]
    names = dict.fromkeys(case.dataset for case in known)
    for name in datasets:
        if name not in names:
            raise ValueError(f"The matrix isn't measured on {name!r}: choose from {', '.join(names)}.")
    return tuple(case for case in known if case.dataset in datasets)


def available(plan: Plan, data_dir: Path | None) -> tuple[tuple[Case, ...], list[str]]:
    """The cases whose data is there, or those in their places; and what to say about missing data sets."""
    cases: list[Case] = []
    said: list[str] = []
    for case in plan.cases:
        if not missing_files(case.dataset, data_dir):
            cases.append(case)
        elif (stand_in := _STAND_INS[case.dataset]) not in cases:
            cases.append(stand_in)
            said.append(
                f"{stand_in.dataset} takes the place of {case.dataset}, whose raw files are missing: other numbers."
            )
    return tuple(cases), said
