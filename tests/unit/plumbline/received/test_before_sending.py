"""Before anything is sent: what fewer and coarser columns tell, who receives them, and what is left of them."""

import json
from pathlib import Path

import numpy as np
import pytest

from plumbline.audit.past_runs import past_runs
from plumbline.cli.output import MENDABLE
from plumbline.received.before_sending import Before, SentSet, read_before
from plumbline.received.coarser_columns import WAYS, coarser, kept
from plumbline.received.kinds import ReceivedColumn
from tests.harness.received import Tables
from tests.unit.plumbline.received.test_judging import command, made

SCORE, LEAF = ReceivedColumn("score", "log-odds", "told"), ReceivedColumn("leaf", "category", "told")
PROBABILITY = ReceivedColumn("score", "probability", "told")
ROWS = 1_000


def values() -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(1)
    score = draw.normal(size=ROWS)
    score[:10] = np.nan
    return score, draw.integers(0, 12, ROWS).astype(float)


@pytest.mark.parametrize("way", WAYS)
def test_each_way_leaves_less_of_numbers_and_no_gap_is_filled(way: str) -> None:
    score, _ = values()
    after = coarser(score, SCORE, way, np.random.default_rng(0))
    assert (np.isnan(after) == np.isnan(score)).all()
    assert 0.3 < kept(score, after, SCORE) < 1 - 1e-6
    assert kept(score, score, SCORE) == pytest.approx(1)


def test_known_answers() -> None:
    score, leaf = values()
    draw = np.random.default_rng(0)
    there = score[10:]
    cut = coarser(score, SCORE, "ends10", draw)[10:]
    assert (cut.min(), cut.max()) == pytest.approx(tuple(np.quantile(there, [0.1, 0.9])))
    assert len(np.unique(coarser(score, SCORE, "bins4", draw)[10:])) == 4
    # Noise of as much variance halves what is explained.
    assert kept(score, coarser(score, SCORE, "noise100", draw), SCORE) == pytest.approx(0.5, abs=0.06)
    # Twelve leaves in two groups: one of log2(12) bits.
    halves = coarser(leaf, LEAF, "bins2", draw)
    assert len(np.unique(halves)) == 2
    assert kept(leaf, halves, LEAF) == pytest.approx(np.log(2) / np.log(12), abs=0.01)
    assert kept(leaf, coarser(leaf, LEAF, "noise100", draw), LEAF) < 0.1
    assert (coarser(leaf, LEAF, "ends10", draw) == leaf).all()
    assert kept(np.ones(ROWS), np.ones(ROWS), LEAF) == 0
    chance = coarser(np.full(ROWS, 0.5) + there.std() * np.resize([-0.5, 0.5], ROWS), PROBABILITY, "noise100", draw)
    assert (chance.min(), chance.max()) == (0, 1)


def one_table() -> Tables:
    """What an owner has: the vendor's columns and age; it means to send a score of income, and luck with noise."""
    tables = {name: table.sort_values("client").head(190) for name, table in made().items()}
    secret = tables["secret"].merge(tables["own"], on="client")
    received = tables["received"].merge(secret[["client", "luck"]], on="client")
    noise = np.random.default_rng(5).normal(0, 0.4, len(received))
    return {"received": received.assign(hint=received["luck"] + noise).drop(columns="luck"), "secret": secret}


@pytest.mark.slow("fits the models to a dozen sets of columns")
def test_an_owner_sees_what_fewer_and_coarser_columns_would_tell(tmp_path: Path) -> None:
    status, words = command(
        tmp_path, one_table(), "--before", "--receiver-has", "age,plan", "--known", "60", "--label", "late"
    )
    assert status == 0, words
    (run,) = past_runs(tmp_path / "runs")
    found = read_before(run.folder)
    assert found is not None
    assert json.loads((run.folder / "results.json").read_text())["before"]["records"] == found.records == 130
    # Neither age nor plan nor the label is a secret any more.
    assert (found.whole.columns, found.whole.column) == (2, "income")
    without = {one.title: one for one in found.without}
    assert without["without score"].part is not None
    assert without["without score"].part < 0.5 < 0.9 < (without["without hint"].part or 0)
    assert without["without score"].kept == pytest.approx(0.5)
    by_way = {one.title: one.part or 0 for one in found.coarser}
    assert by_way["in 2 bins"] < by_way["in 4 bins"] < by_way["in 10 bins"] <= (found.whole.part or 0) + 0.02
    assert "Least is told without score" in words
    assert "Every column coarser" in words
    page = (run.folder / "report.html").read_text()
    for said in ("Before sending", "noise of half its deviation", "What is left against what is told"):
        assert said in page


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--before", "--receiver-has", "age"), "say how many with --known"),
        (("--known", "60", "--receiver-has", "age", "--own", "secret.csv"), "--receiver-has stands for --own"),
        (("--known", "60", "--receiver-has", "ages"), "column 'ages', which --receiver-has names. Did you mean 'age'?"),
        (("--known", "60"), "Give all of --own, --received and --secret"),
    ],
)
def test_what_cant_be_asked_is_a_sentence(tmp_path: Path, more: tuple[str, ...], words: str) -> None:
    status, output = command(tmp_path, one_table(), *more)
    assert status == MENDABLE, output
    assert words in output
    assert not (tmp_path / "runs").exists()


def sent(title: str, part: float, exposed: int, left: float) -> SentSet:
    return SentSet(title, part, "income", exposed, 3, left)


def test_sentences_name_what_to_send() -> None:
    whole, without = sent("all of it", 0.8, 2, 1.0), (sent("without a", 0.79, 2, 0.5), sent("without b", 0.78, 2, 0.5))
    closed = (sent("in 4 bins", 0.05, 0, 0.6), sent("in 2 bins", 0.02, 0, 0.3))
    found = Before(whole, without, (), closed, 500)
    assert found.sentences[0] == (
        "No sent column tells most by itself: without any of them, others tell nearly as much."
    )
    assert found.sentences[1] == "No column is shown to lose a tenth where this is sent: in 4 bins; 60 % is left of it."
    open_still = Before(whole, without, (), (sent("in 2 bins", 0.4, 1, 0.3),), 500)
    assert open_still.sentences[1] == ("Nothing that was tried closes it; least is told in 2 bins: 40 % (income).")
