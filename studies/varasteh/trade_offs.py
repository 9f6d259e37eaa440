"""Privacy against interpretability: Varasteh, Figures 9 to 11 and 13, with adversaries who know the defence beside.

SIMULATION: models are trained in one place, on all parties' columns; no service runs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

from studies.measurements import TaskMeasurement, windows
from studies.page.section import Section
from studies.study import StudyRun
from studies.varasteh.distortion_claims import few_columns_statements, trade_off_statements
from studies.varasteh.rivals import ADULT, columns_of, paper_model, placed
from studies.varasteh.trade_off_plots import epsilon_plot, known_defence_notes, trade_off_plots, trade_off_summary
from vfl.data import dataset

_TASK = "studies.varasteh.rotation:distorted_errors"
TWO_CLASSES, MORE_CLASSES = ("bank", ADULT), ("satellite", "pendigits")


@dataclass(frozen=True)
class _Plan:
    """How much is measured.

    Attributes:
        datasets: names.
        epsilons: multiples of the mean squared parameter; 0 is no distortion.
        far: more of them for two passive columns (Figure 13), up to the cap: g of -I is 4.
        windows: of adjacent passive columns, for each number of them.
        seeds: models of each data set.
        records: attacked predictions.
    """

    datasets: tuple[str, ...] = (*TWO_CLASSES, *MORE_CLASSES)
    epsilons: tuple[float, ...] = (0.0, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.3, 0.45, 0.6)
    far: tuple[float, ...] = (1.0, 2.0, 3.0, 3.9, 5.0)
    windows: int = 4
    seeds: int = 1
    records: int = 500


_FULL = _Plan()
_QUICK = _Plan(
    datasets=("bank", "pendigits"), epsilons=(0.0, 0.001, 0.01, 0.1, 0.3), far=(2.0, 5.0), windows=1, records=50
)


@dataclass(frozen=True)
class _Asked:
    """One distortion."""

    dataset: str
    seed: int
    passive: tuple[int, ...]
    epsilon: float
    case: str | None = None

    def measurement(self, records: int) -> TaskMeasurement:
        """Describe its measurement. In the usual case adversaries who know the defence attack as well."""
        options = {"passive": self.passive, "epsilon": self.epsilon, "records": records, "informed": self.case is None}
        chosen = {} if self.case is None else {"case": self.case}
        return TaskMeasurement.of(_TASK, paper_model(self.dataset, self.seed), **options, **chosen)


def trade_offs_section(run: StudyRun) -> Section:
    """Measure errors against epsilon in the paper's four cases."""
    plan = _QUICK if run.quick else _FULL
    names, missing = run.available(plan.datasets)
    asked = [one for name in names for one in _trade_offs(name, plan, run.seed)]
    data = _measured(run, asked, plan)
    return Section(
        name="trade_offs",
        title="Privacy against interpretability (Figures 9 to 11)",
        data=data,
        summary=trade_off_summary(data),
        plots=tuple(trade_off_plots(data)),
        notes=(*missing, *known_defence_notes(data)),
        statements=trade_off_statements(data),
    )


def epsilon_section(run: StudyRun) -> Section:
    """Measure two passive columns against epsilon, up to the cap, beside other numbers of columns."""
    plan = _QUICK if run.quick else _FULL
    names, missing = run.available([name for name in plan.datasets if name in MORE_CLASSES])
    asked = [one for name in names for one in _two_columns(name, plan, run.seed)]
    data = _measured(run, asked, plan)
    return Section(
        name="epsilon",
        title="How much distortion two features need (Figure 13)",
        data=data,
        summary=trade_off_summary(data),
        plots=tuple(epsilon_plot(data)),
        notes=missing,
        statements=few_columns_statements(data),
    )


def _measured(run: StudyRun, asked: Sequence[_Asked], plan: _Plan) -> pd.DataFrame:
    frame = run.measure([one.measurement(plan.records) for one in asked])
    if not len(frame):
        return frame
    return placed(frame, [one.passive for one in asked]).assign(epsilon=[one.epsilon for one in asked])


def _trade_offs(name: str, plan: _Plan, first: int) -> Iterator[_Asked]:
    """One passive column (case iii); three more numbers of them, with two classes by cases i and iv."""
    columns, classes = columns_of(name), dataset(name).classes
    if classes == 2:
        sizes = {1, 2, columns // 3, 2 * columns // 3}
    else:
        sizes = {1, min(classes, columns) - 1, classes, (classes + columns) // 2}
    for size in sorted(size for size in sizes if 0 < size < columns):
        cases = (None, "i") if classes == 2 and size > 1 else (None,)
        yield from _all(name, size, plan.epsilons, plan, first, cases)


def _two_columns(name: str, plan: _Plan, first: int) -> Iterator[_Asked]:
    columns, classes = columns_of(name), dataset(name).classes
    yield from _all(name, 2, (*plan.epsilons, *plan.far), plan, first)
    for size in sorted({min(classes, columns) - 1, (classes + columns) // 2} - {2}):
        if 0 < size < columns:
            yield from _all(name, size, plan.epsilons, plan, first)


def _all(
    name: str, size: int, epsilons: Sequence[float], plan: _Plan, first: int, cases: Sequence[str | None] = (None,)
) -> Iterator[_Asked]:
    for seed in range(first, first + plan.seeds):
        for window in windows(columns_of(name), size, plan.windows):
            for case in cases:
                for epsilon in epsilons:
                    yield _Asked(name, seed, window, epsilon, case)
