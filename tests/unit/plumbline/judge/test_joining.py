"""Whether to join: a worse light never makes a better verdict, and what wasn't measured is never a yes."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.judge.column_sets import Change, ColumnPart, ColumnSet, WhatIf
from plumbline.judge.glance import DISCLOSES, KEEPS, joining_words
from plumbline.judge.joining import VERDICTS, changes_beside, stakes_of
from plumbline.telling.document import NOT_MEASURED, Cell, Glance, Light

WORST: tuple[Light, ...] = ("red", "amber", "grey", "green")
NAMES = ("columns", "labels", "persons")
STAKES = st.fixed_dictionaries({name: st.sampled_from(WORST) for name in NAMES})
CHANGES = st.dictionaries(st.sampled_from(["the parameters kept", "another plan"]), STAKES)


def verdicts(words: str) -> list[int]:
    """Find the verdicts in a line: as it is, and with a change where one is said; 0 is the worst."""
    answers = [part.partition(":")[0].partition(".")[0] for part in words.split("? ")[1:]]
    spoken = [one.removeprefix("Still ").lower() for one in answers]
    return [next(at for at, its in enumerate(VERDICTS.values()) if one == its.lower()) for one in spoken]


def made(audited: int, *rows: tuple[Light, ...], sessions: tuple[int, ...] = (1,)) -> Glance:
    cells = tuple((name, tuple(Cell(light, light) for light in row)) for name, row in zip(NAMES, rows, strict=True))
    return Glance("It leaks.", (KEEPS, DISCLOSES), sessions, cells, audited=audited)


@given(stakes=STAKES, changes=CHANGES, data=st.data())
def test_a_worse_light_never_makes_a_better_verdict(
    stakes: dict[str, Light], changes: dict[str, dict[str, Light]], data: st.DataObject
) -> None:
    every = [stakes, *changes.values()]
    whose = data.draw(st.integers(0, len(every) - 1))
    name = data.draw(st.sampled_from(NAMES))
    worse = [dict(one) for one in every]
    worse[whose][name] = data.draw(st.sampled_from(WORST[: WORST.index(every[whose][name]) + 1]))
    before = verdicts(joining_words(stakes, changes))
    after = verdicts(joining_words(worse[0], dict(zip(changes, worse[1:], strict=True))))
    assert after[0] <= before[0]
    # A change is said where it is better than what there is: by a change that got worse no better one is said.
    if whose and len(after) > 1:
        assert after[1] <= before[1]


@given(stakes=STAKES)
def test_it_says_what_it_rests_on_and_never_that_it_is_safe(stakes: dict[str, Light]) -> None:
    words = joining_words(stakes, {})
    assert all(name in words for name in NAMES)
    assert "safe" not in words
    assert ("speaks against it" in words) == (set(stakes.values()) == {"green"})
    assert words.startswith("Join as it is? No:") == ("red" in stakes.values())
    for name, light in stakes.items():
        assert (light == "grey") == (name in words.partition("can't say about ")[2].partition(";")[0])


@pytest.mark.parametrize(
    ("stakes", "changes", "words"),
    [
        (
            ("amber", "red", "grey"),
            {},
            "Join as it is? No: labels leak much; columns leak something; can't say about persons. Nothing was tried "
            "to change that.",
        ),
        (
            ("red", "red", "amber"),
            {"the parameters kept": ("amber", "red", "grey")},
            "Join as it is? No: columns and labels leak much; persons leak something. With the parameters kept? Still "
            "no: labels leak much; columns leak something; can't say about persons.",
        ),
        (
            ("red", "green", "green"),
            {"one": ("amber", "green", "green"), "another": ("grey", "green", "green")},
            "Join as it is? No: columns leak much; labels and persons leak little. With another? Undecided: labels and "
            "persons leak little; can't say about columns.",
        ),
        (
            ("amber", "green", "green"),
            {"one": ("amber", "green", "grey")},
            "Join as it is? Only if what leaks may be known: columns leak something; labels and persons leak little. "
            "Nothing that was tried changes that.",
        ),
    ],
)
def test_the_best_of_what_was_measured_is_said(
    stakes: tuple[Light, ...], changes: Mapping[str, tuple[Light, ...]], words: str
) -> None:
    named = {name: dict(zip(NAMES, lights, strict=True)) for name, lights in changes.items()}
    assert joining_words(dict(zip(NAMES, stakes, strict=True)), named) == words


def test_lights_are_those_of_the_deployment_that_was_audited() -> None:
    glance = made(1, ("green", "amber", "red", "green"), ("green",) * 4, ("grey",) * 4, sessions=(1, 7))
    assert stakes_of(glance) == {"columns": "red", "labels": "green", "persons": "grey"}
    assert stakes_of(replace(glance, audited=0)) == {"columns": "amber", "labels": "green", "persons": "grey"}
    assert list(changes_beside(glance, {"another": {}}, None)) == ["the parameters kept"]
    assert not changes_beside(replace(glance, audited=0), {}, None)
    unmeasured = replace(glance, rows=(("columns", (NOT_MEASURED,) * 4), *glance.rows[1:]))
    assert not changes_beside(unmeasured, {}, None)


def columns(part: float, *, is_exposed: bool, changes: tuple[Change, ...] = ()) -> ColumnSet:
    return ColumnSet(changes, (ColumnPart("passive", "pay", part, is_exposed),), 0.8)


@pytest.mark.parametrize(
    ("part", "is_exposed", "replayed", "light"),
    [(0.02, False, 0.7, "grey"), (0.3, True, 0.7, "amber"), (0.6, True, 0.7, "red"), (0.02, False, 0.2, None)],
)
def test_fewer_columns_count_where_the_simulation_is_trusted(
    part: float, is_exposed: bool, replayed: float, light: Light | None
) -> None:
    """What isn't exposed in a simulation isn't shown to be little either, and persons aren't simulated."""
    fewer = columns(part, is_exposed=is_exposed, changes=(Change("passive", "age"),))
    what_if = WhatIf(columns(0.7, is_exposed=True), columns(replayed, is_exposed=True), without=(fewer,))
    changes = changes_beside(made(0, ("red", "grey"), ("amber", "grey"), ("green", "grey")), {}, what_if)
    expected = {"columns": light, "labels": "amber", "persons": "grey"}
    assert changes == ({} if light is None else {"the tables without age": expected})
