"""Each defence against each attack: what is left of the federation's part, and what a defence costs."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

import attacks
import defences
from attacks import LEVELS, Level
from attacks.registry import REGISTRY as ATTACKS
from defences.registry import REGISTRY as DEFENCES
from studies.defences.against_predictions import prediction_rows
from studies.defences.against_training import DATASET, training_rows
from studies.defences.cases import NONE, PSI, QUICK, Plan, Trial, cases_of, trial_title
from studies.defences.matrix_page import interval_words, matrix_maps, matrix_notes
from studies.defences.remaining import over_models, remaining_parts
from studies.page.elements import PageTable, number_words
from studies.page.section import Section
from studies.study import StudyRun

# Shares of the work: predictions, then federations.
_PREDICTIONS = 0.9
COSTS = ("model_accuracy", "accuracy_change", "kl", "interpretability")


def matrix_section(run: StudyRun, *, plan: Plan | None = None, live: bool = True) -> Section:
    """Measure prediction attacks on centrally trained models and training attacks in real federations, or say why not.

    ``data`` has one row per case, model (optimiser and seed), trial (a defence with its options) and adversary:
    - attack, level (what it knows beforehand) and awareness (what it makes of the defence; "guesses" sees no scores);
    - status: measured, unchanged, not applicable, or refused (what an adversary would get if a federation let it ask
      so), with the reason for the last three;
    - mse, of predictions, mse_first and mse_second on both halves of the attacked records; right and answered, of
      training, each with the undefended value beside it;
    - kl: mean D(c || c~) in nats over all held-out records, infinite where a score became 0;
    - interpretability: g (Varasteh eq. 33) of the disclosed parameters and those that act on the true features.

    ``summary`` has the federation's part that remains, a row per case, trial and optimiser.

    The option ``datasets`` takes others in the place of the usual ones, and federations with breast_cancer only.

    plan: of the predictions; None for the usual one. live: False leaves out the federations. A quick run:
    breast_cancer only, 40 records, two splits, two federations.
    """
    plan = plan or (QUICK if run.quick else Plan())
    trials = tuple(Trial(one.name, dict(one.options)) for one in run.defences)
    others = tuple(one for one in trials if one not in plan.trials)
    plan = replace(plan, trials=(*plan.trials, *others), brought=run.attacks)
    datasets = run.options.get("datasets") or ()
    if isinstance(datasets, tuple) and datasets:
        plan, live = replace(plan, cases=cases_of(datasets)), live and DATASET in datasets
    watched = replace(run, done=lambda share: run.done(_PREDICTIONS * share))
    predicted, said = prediction_rows(watched, plan)
    measured = predicted[predicted["status"] == "measured"]
    parts, costs = remaining_parts(measured), prediction_costs(measured)
    frames, trained = [predicted], pd.DataFrame()
    if live:
        trained = training_rows(quick=run.quick)
        frames += [trained, _unmeasured(trained)]
    data = pd.concat(frames, ignore_index=True)
    data["trial"] = [trial_title(*key) for key in zip(data["defence"], data["options"], strict=True)]
    return Section(
        name="matrix",
        title="Every defence against every attack",
        data=data,
        summary=_summary(parts, costs),
        plots=(),
        maps=tuple(matrix_maps(parts, trained)),
        notes=(*said, *matrix_notes(predicted, parts, trained, plan)),
        advice=advice(parts, costs, trained),
    )


def prediction_costs(measured: pd.DataFrame) -> pd.DataFrame:
    """Tabulate what each trial costs the active party, by case and optimiser: means over models with intervals."""
    models = measured.groupby(["case", "optimiser", "trial", "defence", "seed"], sort=False).first().reset_index()
    models["accuracy_change"] = models["model_accuracy"] - models["model_accuracy_undefended"]
    tidy = []
    for keys, own in models.groupby(["case", "optimiser", "trial", "defence"], sort=False):
        row: dict[str, Any] = dict(zip(("case", "optimiser", "trial", "defence"), keys, strict=True))
        for name in COSTS:
            cost = over_models(own[name].to_numpy())
            row |= {name: cost.mean, f"{name}_low": cost.low, f"{name}_high": cost.high}
        tidy.append(row)
    return pd.DataFrame(tidy)


# --- pairs that no federation was run for --------------------------------------------------------------------------


def _unmeasured(trained: pd.DataFrame) -> pd.DataFrame:
    """A row with the reason for each pair of a defence and a training attack that was not measured."""
    measured = set(zip(trained["defence"], trained["attack"], strict=True))
    plain = trained[trained["defence"] == NONE].set_index("attack")
    rows = []
    for defence in (PSI, *DEFENCES.usable()):
        for attack in (name for name in ATTACKS.usable() if attacks.load(name).spec.phase == "training"):
            if (defence, attack) in measured:
                continue
            status, reason = _why_not(defence)
            row: dict[str, Any] = {"phase": "training", "dataset": DATASET, "defence": defence, "options": "defaults"}
            row |= {"attack": attack, "status": status, "reason": reason}
            row["case"] = f"{DATASET}, live"
            if status == "unchanged" and attack in plain.index:
                for name in ("right", "answered"):
                    row |= {name: plain.loc[attack, name], f"{name}_undefended": plain.loc[attack, name]}
            rows.append(row)
    return pd.DataFrame(rows)


def _why_not(defence: str) -> tuple[str, str]:
    if defence == PSI:
        return "unchanged", "Every federation here aligns by PSI: what is undefended is with it."
    spec = defences.load(defence).spec
    if "training" in spec.stages:
        return "not applicable", "It trains models in the lab; no federation does."
    if "scores" in spec.stages:
        return "unchanged", "It changes scores at the coordinator, which never sees a gradient or a ciphertext."
    if "features" in spec.stages:
        return "unchanged", "It hides its own party's features, not the residuals that this attack solves for."
    if "parameters" in spec.stages:
        return "unchanged", "It changes what is disclosed after training."
    return "not applicable", "This pair was left out of the quick run."


# --- summary ------------------------------------------------------------------------------------------------------


def _summary(parts: pd.DataFrame, costs: pd.DataFrame) -> pd.DataFrame:
    """One row per case, trial and optimiser: the part that remains at each level, and what the defence costs."""
    keys = ["case", "trial", "optimiser"]
    values = ["part", "low", "high"]
    by_level = parts.set_index([*keys, "level"])[values].unstack("level", sort=False)
    levels = list(dict.fromkeys(parts["level"]))
    columns = {
        level if value == "part" else f"{level}_{value}": by_level[value, level] for level in levels for value in values
    }
    wide = pd.DataFrame(columns).reset_index()
    order = parts[keys].drop_duplicates()
    shown = [name for cost in COSTS[1:] for name in (cost, f"{cost}_low", f"{cost}_high")]
    return order.merge(wide, on=keys).merge(costs[[*keys, *shown]], on=keys)


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
    held = []
    for row in of[of["defence"] != NONE].to_dict("records"):
        precision = row["right"] / row["answered"] if row["answered"] > 0 else 0.0
        if precision <= (before + chance) / 2:
            change = row["model_accuracy"] - row["model_accuracy_undefended"]
            held.append(_Held(row["defence"], row["defence"], f"{row['right']:.0%} right", change, 0.0))
    case = str(of["case"].iloc[0]).replace(", live:", ", real federations:")
    against = f"{attack} in training{_CLOSED.get(attack, '')}"
    return _row(against, case, f"{before:.0%} right", held, ("none holds", ""))


def _row(against: str, on: str, without: str, held: Iterable[_Held], none: tuple[str, str]) -> tuple[str, ...]:
    """One row of text; none: what to say, and what is left, where nothing holds."""
    by_price = sorted(held, key=lambda one: one.price)
    if not by_price:
        return (against, on, without, *none, "", "")
    first, *others = by_price
    # One set of options stands for its defence.
    names = dict.fromkeys(one.defence for one in others if one.defence != first.defence)
    return (against, on, without, first.trial, first.leaves, first.words, ", ".join(names))
