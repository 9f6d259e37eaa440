"""Whether ids that don't meet are the same ones, written otherwise: counted, and never shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from vfl.arrays import IntArray
from vfl.data.cell_forms import ID_FORMS, Form, bare_text
from vfl.data.id_array import IdArray

# Differences that are tried together where none alone tells.
_TOGETHER = ("zeros", "case", "unicode", "marks")
_LAST = ("together", "letters")
# By digits alone strangers meet, too: so large a part of what didn't meet must, unless nothing does.
_OF_LETTERS = 0.5
# Own ids are compared by their forms from so many on, and differ where most have a form here and hardly any there.
_FEWEST, _MOST, _HARDLY_ANY = 20, 0.5, 0.1
# So many of a large table are looked at.
_SAMPLE = 10_000


@dataclass(frozen=True)
class WouldMeet:
    """Ids that would meet if something didn't count.

    Attributes:
        count: how many.
        words: what it is: ``leading zeros``.
        option: of ``--ignore-in-ids``, that says so.
    """

    count: int
    words: str
    option: str


def would_meet(tables: Sequence[Sequence[str]], ignored: Sequence[str] = ()) -> Iterator[WouldMeet]:
    """Count the ids of several tables that would meet besides those that do, by each difference in form.

    Who holds all tables may ask; a party that aligns in private can't, see `forms_of_unmet`. A difference by which two
    ids of one table would become one is left out.

    Args:
        tables: each one's ids.
        ignored: differences that don't count already.
    """
    shared = set.intersection(*map(set, tables))
    unmet = [[value for value in ids if value not in shared] for ids in tables]
    if not all(unmet):
        return
    met_ids: set[str] = set()
    alone = {name: form for name, form in ID_FORMS.items() if name not in (*ignored, "letters")}
    for name, form in {**alone, "together": _without(_TOGETHER), "letters": ID_FORMS["letters"]}.items():
        is_weak = name == "letters" and shared
        more = set() if met_ids and name in _LAST else _alike(tables, unmet, form) - met_ids
        if len(more) > (_OF_LETTERS * min(map(len, unmet)) if is_weak else 0):
            met_ids |= more
            names = _fewest(tables, unmet, len(more)) if name == "together" else (name,)
            yield WouldMeet(len(more), " and ".join(ID_FORMS[one].words for one in names), ",".join(names))


def _without(names: Sequence[str]) -> Form:
    """Make one difference of several."""
    return Form("", lambda value: bare_text(value, names, ID_FORMS))


def _fewest(tables: Sequence[Sequence[str]], unmet: Sequence[Sequence[str]], count: int) -> tuple[str, ...]:
    """Find the fewest differences by which as many ids would meet: who lets more of them not count merges more."""
    subsets = (names for size in range(2, len(_TOGETHER)) for names in combinations(_TOGETHER, size))
    return next((names for names in subsets if len(_alike(tables, unmet, _without(names))) >= count), _TOGETHER)


def _alike(tables: Sequence[Sequence[str]], unmet: Sequence[Sequence[str]], form: Form) -> set[str]:
    """Find ids of the first table that others would have as well; none where ids of one table would be one."""
    bare = [{form.bare(value) for value in ids} - {""} for ids in unmet]
    alike = set.intersection(*bare)
    if not alike or any(len({form.bare(value) for value in ids}) < len(ids) for ids in tables):
        return set()
    return {value for value in unmet[0] if form.bare(value) in alike}


def forms_of_unmet(ids: IdArray, met: IntArray) -> str:
    """Say in which form a party's own ids that didn't meet differ from those that did; empty where in none.

    It takes nothing but its own ids and which of them are common, which the alignment has told it.

    Args:
        ids: of its table.
        met: (m,) rows of those that others have, too.
    """
    unmet = np.setdiff1d(np.arange(len(ids)), met)
    if min(len(unmet), len(met)) < _FEWEST:
        return ""
    unmet_sample, met_sample = (list(ids.take(rows[:: 1 + len(rows) // _SAMPLE])) for rows in (unmet, met))
    for name, form in ID_FORMS.items():
        there, here = (sum(form.bare(one) != one for one in some) / len(some) for some in (unmet_sample, met_sample))
        if max(there, here) >= _MOST and min(there, here) <= _HARDLY_ANY:
            return (
                f"Of this party's ids, {there:.0%} of those that didn't meet and {here:.0%} of those that did have "
                f"{form.words}: another party may write them otherwise. If so, all set PLUMBLINE_IGNORE_IN_IDS={name}."
            )
    return ""


def overlap_words(tables: Mapping[str, Sequence[str]], ignored: Sequence[str]) -> Iterator[str]:
    """Say, of tables of which some records meet, what would make more of them meet."""
    met, smallest = len(set.intersection(*map(set, tables.values()))), min(map(len, tables.values()))
    for difference in would_meet(list(tables.values()), ignored) if met else ():
        yield (
            f"{met:,} of {smallest:,} records met; {difference.count:,} more would if {difference.words} didn't count "
            f"(--ignore-in-ids {difference.option}). Those that met may differ from those that didn't."
        )
