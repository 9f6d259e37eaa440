"""Whether to join: a verdict in a line, by a rule from the lights of columns, labels and persons.

As it is, the worst light decides: of the deployment that was audited, after as many sessions as its owner allows.

======  ========================================================================
red     no
amber   only if what leaks may be known
grey    undecided: no leak is shown, and of what is grey nothing can be said
green   nothing that was measured speaks against it; never that it is safe
======  ========================================================================

What would help is judged by the same rule, of what was measured beside the run, and the best of it is said:

- *keeping the parameters*, where anything of columns was measured so: the matrix's own cells;
- *another variant* of the request, or *a defence that was tried*: a federation of its own, with its own lights;
- *fewer or coarser columns*: labels as they are, persons grey; columns red or amber by the largest part that is
  exposed, and grey where none is, for no more was shown. Only where the simulation is trusted or was confirmed.

A worse light never makes a better verdict, whichever it is of.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from plumbline.judge.column_sets import WhatIf
from plumbline.judge.lights import RED_PART, worst
from plumbline.telling.document import NOT_MEASURED, Glance, Light

# Columns, labels and persons, each with its light; and what the worst of them says.
Stakes = Mapping[str, Light]
VERDICTS: Mapping[Light, str] = {
    "red": "No",
    "amber": "Only if what leaks may be known",
    "grey": "Undecided",
    "green": "Nothing that was measured speaks against it",
}


def stakes_of(glance: Glance) -> dict[str, Light]:
    """Take the lights of the deployment that a run is of, each the worst of all sessions'."""
    count = len(glance.sessions)
    first = glance.audited * count
    return {name: worst([one.light for one in cells[first : first + count]]) for name, cells in glance.rows}


def changes_beside(glance: Glance, measured: Mapping[str, Stakes], what_if: WhatIf | None) -> Mapping[str, Stakes]:
    """List what was measured beside a run, by what it is.

    Args:
        glance: of the run.
        measured: the lights of other federations; empty ones were run by a release that kept none.
        what_if: what fewer columns would give away; None where nobody asked.
    """
    changes: dict[str, Stakes] = {}
    if glance.audited and dict(glance.rows)["columns"][0] != NOT_MEASURED:
        changes["the parameters kept"] = stakes_of(replace(glance, audited=0))
    changes |= {name: stakes for name, stakes in measured.items() if stakes}
    chosen = None if what_if is None else what_if.chosen
    if what_if is None or chosen is None:
        return changes
    run = next((one for one in what_if.confirmed if one.changes == chosen.changes), None)
    if run is not None or what_if.is_trusted(chosen):
        exposed = (run or chosen).exposed
        light: Light = "grey" if not exposed else "red" if (exposed[0].part or 0.0) >= RED_PART else "amber"
        changes[f"the tables {chosen.title}"] = {**stakes_of(glance), "columns": light, "persons": "grey"}
    return changes


def best_change(stakes: Stakes, changes: Mapping[str, Stakes]) -> str:
    """Name the change that leaves fewest red, then amber, then grey; empty where none leaves fewer than there are."""
    best = min(changes, key=lambda name: _rank(changes[name]), default="")
    return best if best and _rank(changes[best]) < _rank(stakes) else ""


def _rank(stakes: Stakes) -> tuple[int, ...]:
    lights: Sequence[Light] = [*stakes.values()]
    return tuple(lights.count(light) for light in VERDICTS)[:-1]
