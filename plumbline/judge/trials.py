"""Defences that were tried on a federation that leaks: what each leaves and costs, and which of them to take."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vfl.crypto.ciphers import IN_THE_CLEAR


@dataclass(frozen=True)
class DefenceTrial:
    """One defence, or several together, in a federation of the same tables, split and seeds.

    Attributes:
        defence: its name, or several with `` + `` between them; ``black box`` where parameters are kept instead.
        options: of the defences; empty for the defaults.
        holds: whether an adversary that knows of it gets nothing beyond chance at the level of marginals.
        part: the largest federation's part that is left there, of columns and labels, 0 to 1; None where none was
            measured.
        exposed: number of columns and of attacks on labels that still tell something beyond chance.
        accuracy: of the test records; None where the federation refused.
        accuracy_change: accuracy less that of the run without the defence.
        seconds: that its training takes more than training without it, under the trial's cipher both.
        cipher: that of the trial.
        reason: why it can't be said to hold; empty where the numbers say it.
    """

    defence: str
    options: Mapping[str, Any] = field(default_factory=dict)
    holds: bool = False
    part: float | None = None
    exposed: int = 0
    accuracy: float | None = None
    accuracy_change: float = 0.0
    seconds: float = 0.0
    cipher: str = IN_THE_CLEAR
    reason: str = ""


def recommended(trials: Sequence[DefenceTrial]) -> DefenceTrial | None:
    """Choose the cheapest that holds: least accuracy lost, then least time, then the one tried first; None without."""
    holding = [one for one in trials if one.holds]
    # A defended model that happens to do better isn't cheaper than free.
    return min(holding, key=lambda one: (max(0.0, -one.accuracy_change), one.seconds), default=None)


def recommendation_words(trials: Sequence[DefenceTrial]) -> str:
    """Say in a sentence which defence to take, and what it costs; empty where none was tried."""
    if not trials:
        return ""
    best = recommended(trials)
    if best is None:
        measured = [one for one in trials if one.part is not None]
        closest = min(measured, key=lambda one: (one.exposed, one.part or 0.0), default=None)
        nearest = (
            f" {closest.defence} comes closest: {closest.exposed} {'leak' if closest.exposed == 1 else 'leaks'}, the "
            f"largest with a part of {closest.part:.0%}."
            if closest
            else ""
        )
        return f"None of the {len(trials)} defences that were tried holds.{nearest}"
    lost = max(0.0, -best.accuracy_change)
    price = f"{100 * lost:.1f} points of accuracy" if lost else "no accuracy"
    return f"The cheapest defence that holds is {best.defence}: it costs {price} and {best.seconds:.1f} s of training."
