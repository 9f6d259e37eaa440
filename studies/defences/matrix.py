"""Each defence against each attack: what is left of the federation's part, and what a defence costs."""

from dataclasses import replace
from typing import Any

import pandas as pd

import attacks
import defences
from attacks.registry import REGISTRY as ATTACKS
from defences.registry import REGISTRY as DEFENCES
from studies.defences.advice import advice
from studies.defences.against_predictions import prediction_rows
from studies.defences.against_training import DATASET, training_rows
from studies.defences.cases import NONE, PSI, QUICK, Plan, Trial, trial_title
from studies.defences.matrix_page import matrix_maps, matrix_notes
from studies.defences.remaining import over_models, remaining_parts
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

    plan: of the predictions; None for the usual one. live: False leaves out the federations. A quick run:
    breast_cancer only, 40 records, two splits, two federations.
    """
    plan = plan or (QUICK if run.quick else Plan())
    trials = tuple(Trial(one.name, dict(one.options)) for one in run.defences)
    plan = replace(plan, trials=(*plan.trials, *trials), brought=run.attacks)
    predicted, said = prediction_rows(
        run.data_dir, plan, seed=run.seed, done=lambda share: run.done(_PREDICTIONS * share)
    )
    parts, costs = remaining_parts(_measured(predicted)), prediction_costs(_measured(predicted))
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


def _measured(predicted: pd.DataFrame) -> pd.DataFrame:
    return predicted[predicted["status"] == "measured"]


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
        for attack in _training_attacks():
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


def _training_attacks() -> list[str]:
    return [name for name in ATTACKS.usable() if attacks.load(name).spec.phase == "training"]


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
