"""Advice on what to use against what: of the defences that held in measurements, those that cost least."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from attacks import LEVELS, Level
from studies.defences.cases import NONE
from studies.defences.matrix_page import interval_words
from studies.page.elements import PageTable, number_words

# What a coin gets right; of values, guessing gets none.
_CHANCE = {"label_recovery": 0.5, "auxiliary_ciphertext": 0.5}
# What a session's own settings close before any defence is needed.
_CLOSED = {"randomiser_channel": " (the default rerandomise=on closes it)"}
_KNOWS: dict[Level, str] = {
    "nothing": "nothing",
    "marginals": "each column's mean and variance",
    "covariance": "the columns' covariance",
    "records": "complete records",
}
_SAME = 5e-4


@dataclass(frozen=True)
class _Held:
    """A defence that holds an adversary, what the adversary still gets, and what the defence costs."""

    trial: str
    defence: str
    leaves: str
    accuracy_change: float
    kl: float

    @property
    def price(self) -> tuple[float, float]:
        """What is cheaper comes first: by lost accuracy, then by how far scores are from the original ones."""
        return max(0.0, -self.accuracy_change) if -self.accuracy_change > _SAME else 0.0, self._moved

    @property
    def words(self) -> str:
        change = f"accuracy {self.accuracy_change:+.3f}"
        parts = [change] if abs(self.accuracy_change) > _SAME else []
        if self._moved:
            parts.append(
                f"scores move by a KL of {number_words(self.kl, 1)}" if np.isfinite(self.kl) else "some scores become 0"
            )
        return ", ".join(parts) or "nothing: accuracy and scores as before"

    @property
    def _moved(self) -> float:
        return self.kl if self.kl > _SAME else 0.0


def advice(parts: pd.DataFrame, costs: pd.DataFrame, trained: pd.DataFrame) -> PageTable:
    """Write a row per level and case, and per attack on training: the cheapest defence that holds, and the others.

    A defence holds an adversary when, whichever optimiser trained the model, at most half of the federation's part
    remains, the interval's upper end included; of training, at most half-way from guessing to what is to be had is
    right of what the attack answers. One that answers little at a time has time.

    Args:
        parts: of ``remaining_parts``.
        costs: of ``prediction_costs``.
        trained: of ``training_rows``; empty without federations.
    """
    rows = list(_prediction_rows(parts, costs))
    if len(trained):
        rows += [
            _training_row(trained[trained["attack"] == attack], str(attack)) for attack in trained["attack"].unique()
        ]
    return PageTable(
        "Held: at most half of the federation's part remains, the upper end of its 95 % interval included, whichever "
        "optimiser trained the model; in training, what the attack answers is right at most half-way from guessing to "
        "what it is without a defence. Of the defences that hold, the one that costs the model and its scores least. "
        "Training attacks ran in federations of few steps, whose models are far from converged: there a change of "
        "accuracy says little.",
        ("against", "on", "without a defence", "use", "what is left", "what it costs", "these hold as well"),
        rows,
    )


def _prediction_rows(parts: pd.DataFrame, costs: pd.DataFrame) -> Iterator[tuple[str, ...]]:
    # A single feature is a drawing's matter.
    cases = [case for case in parts["case"].unique() if not str(case).endswith("d = 1")]
    for level in LEVELS:
        for number, case in enumerate(cases):
            at = parts[(parts["case"] == case) & (parts["level"] == level)]
            # A case's row belongs to the adversary above it.
            against = "" if number else f"reconstruction by who knows {_KNOWS[level]} beforehand"
            yield _prediction_row(against, at, costs[costs["case"] == case])


def _prediction_row(against: str, at: pd.DataFrame, costs: pd.DataFrame) -> tuple[str, ...]:
    case = str(at["case"].iloc[0])
    plain = at[at["trial"] == NONE].set_index("optimiser")
    without = "; ".join(f"{_words(row)} ({optimiser})" for optimiser, row in plain.iterrows())
    if not (plain["low"] > 0).all():
        return _row(against, case, without, [], ("nothing: the federation adds nothing for certain", ""))
    held, least = [], (np.inf, "")
    for trial, own in at[at["trial"] != NONE].groupby("trial", sort=False):
        limits = plain.loc[own["optimiser"], "part"].to_numpy() / 2
        worst = own.iloc[int(own["part"].to_numpy().argmax())]
        least = min(least, (float(worst["part"]), str(trial)))
        if (own["high"].to_numpy() <= limits).all():
            price = costs[costs["trial"] == trial]
            leaves, change, kl = _words(worst), price["accuracy_change"].min(), price["kl"].max()
            held.append(_Held(str(trial), str(price["defence"].iloc[0]), leaves, float(change), float(kl)))
    return _row(against, case, without, held, (f"none holds; {least[1]} comes closest", f"{least[0]:.2f}"))


def _words(row: "pd.Series[float]") -> str:
    return interval_words(row["part"], row["low"], row["high"])


def _training_row(of: pd.DataFrame, attack: str) -> tuple[str, ...]:
    before, chance = float(of["right_undefended"].iloc[0]), _CHANCE.get(attack, 0.0)
    held = [
        _Held(
            row["defence"],
            row["defence"],
            f"{row['right']:.0%} right",
            row["model_accuracy"] - row["model_accuracy_undefended"],
            0.0,
        )
        for row in of[of["defence"] != NONE].to_dict("records")
        if _precision(row["right"], row["answered"]) <= (before + chance) / 2
    ]
    case = str(of["case"].iloc[0]).replace(", live:", ", real federations:")
    against = f"{attack} in training{_CLOSED.get(attack, '')}"
    return _row(against, case, f"{before:.0%} right", held, ("none holds", ""))


def _precision(right: float, answered: float) -> float:
    """What is right of an attack's answers; 0 where it has none."""
    return right / answered if answered > 0 else 0.0


def _row(against: str, on: str, without: str, held: Iterable[_Held], none: tuple[str, str]) -> tuple[str, ...]:
    """One row of text; none: what to say, and what is left, where nothing holds."""
    by_price = sorted(held, key=lambda one: one.price)
    if not by_price:
        return (against, on, without, *none, "", "")
    first, *others = by_price
    # One set of options stands for its defence.
    names = dict.fromkeys(one.defence for one in others if one.defence != first.defence)
    return (against, on, without, first.trial, first.leaves, first.words, ", ".join(names))
