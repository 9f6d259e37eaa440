"""Skewed columns are learned on their log scale as well, with what was received and without."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plumbline.judge.columns import LogScale
from plumbline.judge.federation_part import at
from plumbline.judge.truth import Truth
from plumbline.received.judge_request import SECRET
from plumbline.received.mounting import mount
from plumbline.received.received_findings import KNOWING, read_received_findings
from plumbline.received.received_tables import JudgeFacts, ReceivedRecords
from plumbline.received.skewed_columns import learned_on_logs
from services.common.run_folder import RunFolder
from services.common.run_records import Estimates
from tests.harness.received import Tables, prepared

ROWS, KNOWN = 240, 80


def tables(*, is_skewed: bool) -> Tables:
    """Money of a few and of a thousandfold, of which a grade and an own column tell the order of magnitude."""
    draw = np.random.default_rng(4)
    own, grade = draw.normal(size=ROWS), draw.normal(size=ROWS)
    size = own + 1.5 * grade + 0.3 * draw.normal(size=ROWS)
    ids = [f"c{row}" for row in range(ROWS)]
    return {
        "own": pd.DataFrame({"client": ids, "age": own}),
        "received": pd.DataFrame({"client": ids, "emb": grade}),
        "secret": pd.DataFrame(
            {"client": ids, "money": np.exp(1.5 * size) if is_skewed else size, "luck": draw.random(ROWS)}
        ),
    }


@pytest.fixture(scope="module")
def skewed(tmp_path_factory: pytest.TempPathFactory) -> tuple[JudgeFacts, ReceivedRecords, RunFolder]:
    folder = tmp_path_factory.mktemp("skewed")
    facts, records = prepared(folder, tables(is_skewed=True), known=KNOWN)
    run = RunFolder(folder / "run")
    records.write(run)
    return facts, records, run


@given(st.floats(1e-4, 0.5), st.booleans(), st.lists(st.floats(0, 1), min_size=1, max_size=9))
@settings(max_examples=20)
def test_a_place_of_the_scale_leads_back_to_its_cell(unit: float, is_mirrored: bool, cells: list[float]) -> None:
    scale, asked = LogScale(unit, is_mirrored), np.array(cells)
    np.testing.assert_allclose(scale.cells_at(scale.of(asked)), asked, atol=1e-9)


def test_logs_are_guessed_better_by_who_learns_logs(skewed: tuple[JudgeFacts, ReceivedRecords, RunFolder]) -> None:
    _, records, run = skewed
    truth = Truth(run, [SECRET], Estimates(records.judged, {}, records.known))
    plain = truth.imputations()
    (learned,) = learned_on_logs(truth, truth.own_view(), plain)
    assert learned.name == f"regression of logs from {KNOWN} records"
    money, luck = truth.sources
    assert money.logs is not None
    assert luck.logs is None
    np.testing.assert_array_equal(learned.estimate[:, luck.value], plain[-1].estimate[:, luck.value])
    errors = [
        ((money.logs.of(one.estimate[:, money.value]) - money.logs.of(truth.cells[:, money.value])) ** 2).mean()
        for one in (learned, *plain)
    ]
    assert errors[0] < 0.8 * min(errors[1:])


@pytest.mark.slow("mounts everything on two copies")
def test_what_is_told_of_logs_is_read_by_them(skewed: tuple[JudgeFacts, ReceivedRecords, RunFolder]) -> None:
    facts, records, run = skewed
    mount(run, records, 0)
    told = read_received_findings(run, facts)
    verdict = next(one for one in told.predictions.sources if one.column == "money")
    level = at(verdict.logs, KNOWING)
    assert level.attack == "regression of logs(received)"
    assert level.part is not None
    assert level.part.mean > 0.6
    shuffled = next(one for one in told.shuffled if one.column == "money")
    assert not shuffled.is_exposed()


def test_of_numbers_that_arent_skewed_nothing_is_added(tmp_path: Path) -> None:
    _, records = prepared(tmp_path, tables(is_skewed=False), known=KNOWN)
    run = RunFolder(tmp_path / "run")
    records.write(run)
    truth = Truth(run, [SECRET], Estimates(records.judged, {}, records.known))
    assert learned_on_logs(truth, truth.own_view(), truth.imputations()) == []
