"""Known answers: truth and estimates in the units of an owner's table."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from plumbline.charts.axes import NUMBERS
from plumbline.judge.answer import ColumnAnswer
from plumbline.judge.columns import SourceKind
from plumbline.report.cards import ColumnEvidence, read_evidence
from services.common.run_folder import RunFolder
from services.common.run_records import DONE, Estimates, PartyFeatures, PredictionAttackOutcome
from vfl.arrays import FloatArray


@dataclass
class Table:
    """A passive party's features by name: values, kind, offset and scale."""

    features: dict[str, tuple[list[float], str, float, float]] = field(default_factory=dict)

    @property
    def sources(self) -> NDArray[np.str_]:
        """What stands before ``=`` or ``is missing`` in a feature's name."""
        return np.array([name.partition("=")[0].removesuffix(" is missing") for name in self.features])

    def written(self, folder: RunFolder, party: str, *, described: bool = True) -> FloatArray:
        cells = np.column_stack([values for values, *_ in self.features.values()])
        kinds, offsets, scales = (np.array([one[place] for one in self.features.values()]) for place in (1, 2, 3))
        names = np.array(list(self.features))
        if described:
            folder.write_features(
                party, PartyFeatures(cells, names, sources=self.sources, kinds=kinds, offsets=offsets, scales=scales)
            )
        else:
            folder.write_features(party, PartyFeatures(cells, names))
        return cells


def answer(column: str, *features: int, kind: SourceKind = "number", party: str = "passive-1") -> ColumnAnswer:
    return ColumnAnswer(party=party, column=column, kind=kind, light="grey", levels=(), features=features)


def folder_of(path: Path, *tables: Table, estimate: FloatArray | None = None, described: bool = True) -> RunFolder:
    """A folder whose records are all judged; the attack ``x`` estimates this, or the truth."""
    folder = RunFolder(path)
    cells = np.hstack(
        [
            table.written(folder, f"passive-{number}", described=described)
            for number, table in enumerate(tables, start=1)
        ]
    )
    labels = np.arange(len(cells)) % 2
    folder.write_features("active", PartyFeatures(np.zeros((len(cells), 1)), np.array(["bias"]), labels))
    estimates = {"x": cells if estimate is None else estimate}
    folder.write_estimates(0, Estimates(np.arange(len(cells)), estimates))
    folder.write_prediction_outcomes(
        [PredictionAttackOutcome(attack="x", batch=0, records=len(cells), status=DONE, seconds=0.0)]
    )
    return folder


def evidence_of(folder: RunFolder, column: ColumnAnswer, parties: int = 1) -> ColumnEvidence:
    return read_evidence(folder, [column], [f"passive-{number}" for number in range(1, parties + 1)])[column]


AGE = Table({"age": ([0.0, 0.5, 1.0], "number", 20.0, 40.0)})


def test_numbers_are_in_the_owners_units(tmp_path: Path) -> None:
    found = evidence_of(folder_of(tmp_path, AGE, estimate=np.array([[0.1], [0.5], [0.8]])), answer("age", 0))
    assert found.truth.tolist() == [20, 40, 60]
    assert found.estimates["x"] == pytest.approx([24, 40, 52])
    assert (found.unit, found.names, found.values) == ("", (), NUMBERS)


def test_a_second_partys_features_follow_the_first_ones(tmp_path: Path) -> None:
    height = Table({"height": ([0.0, 1.0, 0.5], "number", 150.0, 50.0)})
    assert evidence_of(folder_of(tmp_path, AGE, height), answer("height", 1, party="passive-2"), 2).truth.tolist() == [
        150,
        200,
        175,
    ]


def test_what_older_runs_do_not_describe_stays_on_its_scale(tmp_path: Path) -> None:
    found = evidence_of(folder_of(tmp_path, AGE, described=False), answer("age", 0))
    assert (found.truth.tolist(), found.unit) == ([0, 0.5, 1], "on its encoded scale")


def test_categories_are_named_by_the_largest_feature_without_the_columns_name(tmp_path: Path) -> None:
    # Scaled by two: 0 and 1 before that.
    job = Table(
        {"job=cook": ([0.5, 0, 0], "category", 0.0, 2.0), "job=clerk, 2nd": ([0, 0.5, 0.5], "category", 0.0, 2.0)}
    )
    guess = np.array([[0.4, 0.1], [0.3, 0.2], [0.1, 0.3]])
    found = evidence_of(folder_of(tmp_path, job, estimate=guess), answer("job", 0, 1, kind="category"))
    assert found.names == ("cook", "clerk, 2nd")
    assert (found.truth.tolist(), found.estimates["x"].tolist()) == ([0, 1, 1], [0, 0, 1])
    assert found.named_wrong("x") == pytest.approx(1 / 3)


def test_a_category_of_one_feature_is_yes_or_no(tmp_path: Path) -> None:
    member = Table({"member=yes": ([0.0, 1.0, 1.0], "category", 0.0, 1.0)})
    found = evidence_of(folder_of(tmp_path, member), answer("member", 0, kind="category"))
    assert found.names == ("not yes", "yes")
    assert found.truth.tolist() == [0, 1, 1]


def test_numbers_of_two_values_and_codes_are_named_by_what_the_owner_wrote(tmp_path: Path) -> None:
    table = Table({"pdays": ([0.0, 1.0, 1.0], "number", 0.0, 999.0), "city": ([0.0, 0.5, 1.0], "code", 0.0, 2.0)})
    folder = folder_of(tmp_path, table, estimate=np.array([[0.4, 0.6], [0.6, 0.7], [0.9, 0.8]]))
    pdays = evidence_of(folder, answer("pdays", 0, kind="category"))
    assert (pdays.names, pdays.truth.tolist(), pdays.estimates["x"].tolist()) == (("0", "999"), [0, 1, 1], [0, 1, 1])
    city = evidence_of(folder, answer("city", 1, kind="code"))
    assert (city.names, city.estimates["x"].tolist()) == (("0", "1", "2"), [1, 1, 2])


def test_records_that_the_owner_filled_in_are_left_out(tmp_path: Path) -> None:
    gaps = Table({**AGE.features, "age is missing": ([0.0, 1.0, 0.0], "missing", 0.0, 1.0)})
    found = evidence_of(folder_of(tmp_path, gaps), answer("age", 0, 1))
    assert found.truth.tolist() == found.estimates["x"].tolist() == [20, 60]
    assert (found.names, found.absent) == ((), 1)


def test_a_sample_is_the_same_each_time_in_order_and_no_larger_than_there_is(tmp_path: Path) -> None:
    found = evidence_of(folder_of(tmp_path, AGE), answer("age", 0))
    assert found.sample(2).tolist() == sorted(found.sample(2).tolist()) == found.sample(2).tolist()
    assert len(found.sample(2)) == 2
    assert found.sample(9).tolist() == [0, 1, 2]


def test_a_run_without_attacks_has_no_evidence(tmp_path: Path) -> None:
    assert read_evidence(RunFolder(tmp_path), [answer("age", 0)], ["passive-1"]) == {}
