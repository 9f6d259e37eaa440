"""Advice on what to use against what: of the defences that held in measurements, those that cost least."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from plumbline.figures.defences.against_predictions import BLIND, PSI
from plumbline.figures.page.elements import PageTable

NONE = "none"
GUESS = "guessing 1/2"
# What a coin gets right; of values, guessing gets none.
_CHANCE = {"label_recovery": 0.5, "auxiliary_ciphertext": 0.5}
# What a session's own settings close before any defence is needed.
_CLOSED = {"randomiser_channel": " (the default rerandomise=on closes it)"}
_WHO = {"unaware": "doesn't know the defence", "strongest": "knows the defence and has complete records"}
_SAME = 5e-4


@dataclass(frozen=True)
class _Held:
    """A defence that holds an adversary, what the adversary still gets, and what the defence costs."""

    trial: str
    defence: str
    leaves: str
    accuracy: float
    accuracy_before: float
    kl: float

    @property
    def price(self) -> tuple[float, float]:
        """What is cheaper comes first: by lost accuracy, then by how far scores are from the original ones."""
        lost = self.accuracy_before - self.accuracy
        return max(0.0, lost) if lost > _SAME else 0.0, self.kl if self.kl > _SAME else 0.0

    @property
    def words(self) -> str:
        change = f"accuracy {self.accuracy_before:.3f} to {self.accuracy:.3f}"
        parts = [change] if abs(self.accuracy - self.accuracy_before) > _SAME else []
        if self.kl > _SAME:
            parts.append(f"scores move by a KL of {self.kl:.2g}" if np.isfinite(self.kl) else "some scores become 0")
        return ", ".join(parts) or "nothing: accuracy and scores as before"


def advice(data: pd.DataFrame, cases: list[str]) -> PageTable:
    """Write a row per adversary and case of ``matrix_section``'s data: the cheapest defence that holds, and the others.

    A defence holds an adversary who gets at most half-way from guessing to what is to be had without it.
    """
    predicted = data[data["phase"] == "prediction"]
    rows = [_prediction_row(predicted[predicted["case"] == case], case, who) for who in _WHO for case in cases]
    # A case's row belongs to the adversary above it.
    rows = [row if not number % len(cases) else ("", *row[1:]) for number, row in enumerate(rows)]
    live = data[(data["phase"] == "training") & (data["status"] == "measured")]
    rows += [_training_row(live[live["attack"] == attack], str(attack)) for attack in live["attack"].unique()]
    return PageTable(
        "Held: the adversary gets at most half-way from guessing to what it gets without a defence. Of the defences "
        "that hold, the one that costs the model and its scores least; errors are mean squared errors per feature. "
        "Training attacks ran in federations of few steps, whose models are far from converged: there a change of "
        "accuracy says little.",
        ("against", "on", "without a defence", "use", "what is left", "what it costs", "these hold as well"),
        rows,
    )


def best_errors(at: pd.DataFrame, trial: str) -> dict[str, float]:
    """Find the least errors of attacks that look at scores or parameters: the unaware adversary's and the strongest
    one's.

    The unaware take what they get at its word and have no complete records. The strongest is of all whom a federation
    answers.
    """
    if trial == GUESS:
        return {"unaware": float(at[at["attack"] == "half"]["mse"].iloc[0])}
    # With PSI alone, as all federations are, is what undefended means.
    mine = at[(at["trial"] == (PSI if trial == NONE else trial)) & ~at["attack"].isin(BLIND)]
    mine = mine[mine["status"] != "refused"]
    simple = (mine["adversary"] == "unaware") & (mine["attack"] != "shadow")
    return {"unaware": float(mine[simple]["mse"].min()), "strongest": float(mine["mse"].min())}


def _prediction_row(at: pd.DataFrame, case: str, who: str) -> tuple[str, ...]:
    before, guess = best_errors(at, NONE)[who], best_errors(at, GUESS)["unaware"]
    held, most = [], (0.0, "")
    for trial, part in at[at["status"] == "measured"].groupby("trial", sort=False):
        error = best_errors(at, str(trial))[who]
        most = max(most, (error, str(trial)))
        if error >= (before + guess) / 2:
            held.append(_held(str(trial), part.iloc[0], f"error {error:.3f}"))
    best_of_none = f"none holds; {most[1]} comes closest" if most[0] > before + _SAME else "none holds"
    return _row(
        f"reconstruction from scores by who {_WHO[who]}",
        case,
        f"error {before:.3f}, guessing {guess:.3f}",
        held,
        (best_of_none, f"error {most[0]:.3f}"),
    )


def _training_row(of: pd.DataFrame, attack: str) -> tuple[str, ...]:
    before, chance = float(of["right_undefended"].iloc[0]), _CHANCE.get(attack, 0.0)
    held = [
        _held(row["trial"], row, f"{row['right']:.0%} right")
        for _, row in of[of["defence"] != NONE].iterrows()
        if row["right"] <= (before + chance) / 2
    ]
    case = str(of["case"].iloc[0]).replace(", live:", ", real federations:")
    against = f"{attack} in training{_CLOSED.get(attack, '')}"
    return _row(against, case, f"{before:.0%} right", held, ("none holds", ""))


def _held(trial: str, row: "pd.Series[float]", leaves: str) -> _Held:
    divergence = float(row["kl"])
    return _Held(
        trial,
        str(row["defence"]),
        leaves,
        float(row["model_accuracy"]),
        float(row["model_accuracy_undefended"]),
        0.0 if np.isnan(divergence) else divergence,
    )


def _row(against: str, on: str, without: str, held: list[_Held], none: tuple[str, str]) -> tuple[str, ...]:
    """One row of text; none: what to say, and what is left, where nothing holds."""
    if not held:
        return (against, on, without, *none, "", "")
    first, *others = sorted(held, key=lambda one: one.price)
    # One set of options stands for its defence.
    names = dict.fromkeys(one.defence for one in others if one.defence != first.defence)
    return (against, on, without, first.trial, first.leaves, first.words, ", ".join(names))
