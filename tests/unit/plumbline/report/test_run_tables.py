"""Known answers: which attack is the strongest, and its part of each column."""

from dataclasses import replace

import numpy as np
import pytest

from plumbline.judge.answer import ColumnAnswer
from plumbline.judge.columns import SourceKind
from plumbline.report.cards import ColumnEvidence
from plumbline.report.run_tables import by_strength, session_words
from services.common.run_records import ChannelRecord
from tests.harness.findings import attack, column, levels


def answer(name: str, feature: int, e0: float = 0.1, **kind: str) -> ColumnAnswer:
    verdicts = tuple(replace(one, e0=e0) for one in levels("strong", 0.0))
    told: SourceKind = kind.get("kind", "number")  # type: ignore[assignment]
    return ColumnAnswer(party="passive", column=name, kind=told, light="red", levels=verdicts, features=(feature,))


def test_the_strongest_comes_first_and_guesses_are_left_out() -> None:
    weak, strong = (
        attack("weak", column("a", 0.08), column("b", 0.2)),
        attack("strong", column("a", 0.02), column("b", 0.1)),
    )
    guess = replace(attack("half", column("a", 0.0), column("b", 0.0)), sees_scores=False)
    found = by_strength([weak, guess, strong], [answer("a", 0), answer("b", 1)], {})
    assert [one.finding.attack for one in found] == ["strong", "weak"]
    # Column b is no better known than by its mean.
    assert found[0].parts == pytest.approx((0.8, 0.0))
    assert [found[0].mean, found[0].largest] == pytest.approx([0.4, 0.8])


def test_a_category_counts_by_the_share_that_is_named_wrong() -> None:
    job = answer("job", 0, e0=0.5, kind="category")
    evidence = ColumnEvidence(job, ("cook", "clerk"), "", np.array([0.0, 1, 1, 1]), {"a": np.array([0.0, 1, 1, 0])})
    (found,) = by_strength([attack("a", column("job=cook", 0.0))], [job], {job: evidence})
    assert found.parts == (0.5,)


def test_what_is_known_anyway_has_no_part() -> None:
    job = answer("job", 0, e0=0.0, kind="category")
    evidence = ColumnEvidence(job, ("cook",), "", np.zeros(3), {"a": np.zeros(3)})
    (found,) = by_strength([attack("a", column("job=cook", 0.0))], [job], {job: evidence})
    assert (found.parts, found.mean) == ((None,), 0.0)


@pytest.mark.parametrize(
    ("equations", "rows", "words"),
    [(28, 127, "within 5 epochs"), (127, 127, ""), (200, 127, ""), (0, 127, "")],
)
def test_a_count_of_one_step_says_what_a_session_can_tell(equations: int, rows: int, words: str) -> None:
    channel = ChannelRecord("active", "passive", rows, 1, 2048, 15, 63, 34, equations, 0, 0)
    told = session_words(channel)
    assert told.endswith(words)
    assert bool(told) == bool(words)
