"""The page on the matrix: a heat map per case, and what its numbers say."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from attacks import LEVELS
from studies.defences.against_training import EXTENDED, LISTENING, UNMASKED
from studies.defences.cases import NONE, Plan
from studies.defences.remaining import over_models
from studies.defences.steering import STEERED_QUERIES
from studies.page.elements import HeatMap

_LIVE = {
    "label_recovery": ("labels, listening", LISTENING),
    "feature_order": ("a feature, listening", LISTENING),
    "averaged_products": ("logits, listening", LISTENING),
    "auxiliary_ciphertext": ("labels, Algorithm 2", EXTENDED),
    "randomiser_channel": ("features, randomiser", UNMASKED),
}


def matrix_maps(parts: pd.DataFrame, trained: pd.DataFrame) -> Iterator[HeatMap]:
    """The part that remains, a heat map per case; and what training attacks got right, where federations ran."""
    for case in parts["case"].unique():
        yield _remaining_map(parts[parts["case"] == case], str(case))
    if len(trained):
        yield _training_map(trained)


def _remaining_map(at: pd.DataFrame, case: str) -> HeatMap:
    """Trials by level and optimiser, the undefended first."""
    trials, optimisers = list(at["trial"].unique()), list(at["optimiser"].unique())
    cells = at.set_index(["trial", "level", "optimiser"])
    columns = [(level, optimiser) for level in LEVELS for optimiser in optimisers]
    headings = [
        f"{level}, {optimiser} (without scores {_of(cells, (trials[0], level, optimiser), 'e0'):.4f})"
        for level, optimiser in columns
    ]
    return HeatMap(
        f"{case}: the federation's part that remains",
        "1 - e / e0, with its 95 % interval over splits: e is the error of the best adversary who knows the defence, "
        "e0 that of the best guess without scores (mean squared errors per feature). Columns: what both know "
        "beforehand, and the model's optimiser. 0: the federation adds nothing to that. 1: it gives the records away. "
        "Dash: not measured, or hardly anything is left to give away.",
        ("defence", *headings),
        tuple(
            (
                str(trial),
                *(
                    interval_words(*(_of(cells, (trial, *at), name) for name in ("part", "low", "high")))
                    for at in columns
                ),
            )
            for trial in trials
        ),
        tuple(tuple(_shade(_of(cells, (trial, *column), "part")) for column in columns) for trial in trials),
    )


def _shade(share: float) -> float | None:
    return None if np.isnan(share) else min(max(share, 0.0), 1.0)


def _of(cells: pd.DataFrame, key: tuple[str, ...], name: str) -> float:
    return float(cells[name].to_dict().get(key, np.nan))


def interval_words(part: float, low: float, high: float) -> str:
    """A share and its interval, in two decimals."""
    return "–" if np.isnan(part) else f"{part:.2f} ({low:.2f}–{high:.2f})"


def _training_map(trained: pd.DataFrame) -> HeatMap:
    """Shares that training attacks got right, in the federations that were run."""
    columns = [attack for attack in _LIVE if attack in set(trained["attack"])]
    names = list(trained["defence"].unique())
    right = trained.groupby(["defence", "attack"])["right"].mean().to_dict()
    shares = [[float(right.get((name, attack), np.nan)) for attack in columns] for name in names]
    return HeatMap(
        "What training attacks got right",
        "Real federations, 2,048-bit keys, mTLS. Labels: half right is a fair coin. A single feature: of all "
        "records, of which 80 % took part in training. Features by the randomiser: of those read. Dash: the defence is "
        "not about this attack, or was not run against it.",
        ("defence", *(_LIVE[attack][0] for attack in columns)),
        tuple(
            (str(name), *("–" if np.isnan(share) else f"{share:.0%}" for share in line))
            for name, line in zip(names, shares, strict=True)
        ),
        tuple(tuple(_shade(share) for share in line) for line in shares),
    )


# --- words --------------------------------------------------------------------------------------------------------


def matrix_notes(predicted: pd.DataFrame, parts: pd.DataFrame, trained: pd.DataFrame, plan: Plan) -> list[str]:
    """Say what was measured and what came out, in sentences."""
    models = plan.seeds * len(plan.trainings)
    notes = [
        f"Predictions are a SIMULATION: {models} models per case are trained in one place ({plan.seeds} splits, each "
        f"by {' and '.join(plan.trainings)}; dp_sgd by its own optimiser, shown with {plan.trainings[0]}), and scores "
        f"pass the defences as the coordinator applies them. {plan.records} records are attacked.",
        "What an adversary knows beforehand: nothing but public ranges; marginals, each passive column's mean and "
        f"variance; the covariance of the passive columns; {plan.auxiliary} complete records, on which nothing was "
        "trained. At each level it has its own columns and labels, and the weaker levels' attacks.",
        "The best adversary is the best of published attacks that know nothing of the defence, of those that undo it, "
        "and of posterior, which expects the defence's channel; where scores are changed for good it may choose the "
        "share that it sends with its one question. Options of a defence are known, its secrets aren't.",
    ]
    notes += [_case_words(parts[parts["case"] == case], str(case)) for case in parts["case"].unique()]
    notes += [_apart_words(parts[parts["case"] == case], str(case)) for case in parts["case"].unique()]
    notes += _refusal_words(predicted)
    return notes + [
        _training_words(trained, attack) for attack in _LIVE if len(trained) and attack in set(trained["attack"])
    ]


def _case_words(at: pd.DataFrame, case: str) -> str:
    """How much there is to defend, and what the best attack and the best guess are."""
    said = []
    for row in at[at["trial"] == NONE].to_dict("records"):
        part = interval_words(row["part"], row["low"], row["high"])
        said.append(
            f"{row['level']}, {row['optimiser']}: {part} (e0 {row['e0']:.4f} by {row['guess']}, e {row['error']:.4f} "
            f"by {row['attack']})"
        )
    return f"{case}, undefended: {'; '.join(said)}."


def _apart_words(at: pd.DataFrame, case: str) -> str:
    """Where the optimiser decides what a defence leaves: intervals that don't meet."""
    apart = []
    for (trial, level), own in at.groupby(["trial", "level"], sort=False):
        if own["low"].max() > own["high"].min():
            shares = ", ".join(f"{row['part']:.2f} by {row['optimiser']}" for row in own.to_dict("records"))
            apart.append(f"{trial}, {level} ({shares})")
    return (
        f"{case}: the optimiser decides for {'; '.join(apart)}." if apart else f"{case}: optimisers agree throughout."
    )


def _refusal_words(predicted: pd.DataFrame) -> Iterator[str]:
    """What one answer per record is worth."""
    for case, at in predicted[predicted["status"] == "refused"].groupby("case", sort=False):
        plain = predicted[(predicted["case"] == case) & (predicted["trial"] == NONE)]
        before = _mean_error(plain[plain["attack"] == "half_star"])
        errors = [f"{_mean_error(own)} with {trial}" for trial, own in at.groupby("trial", sort=False)]
        yield (
            f"{case}: who got {STEERED_QUERIES} answers about a record, and moved its own share until they were even, "
            f"would err by {', '.join(errors)}; by {before} without a defence (half_star). The coordinator answers "
            "once."
        )


def _mean_error(rows: pd.DataFrame) -> str:
    error = over_models(rows["mse"].to_numpy())
    return f"{error.mean:.4f} ({error.low:.4f}–{error.high:.4f})"


def _training_words(trained: pd.DataFrame, attack: str) -> str:
    of = trained[trained["attack"] == attack]
    shares = [f"{row.right:.0%} with {row.defence}" for row in of[of["defence"] != NONE].itertuples()]
    plain = of[of["defence"] == NONE].iloc[0]
    ending = " Fresh randomness, the default, closes it." if attack == "randomiser_channel" else ""
    return f"{attack} ({_LIVE[attack][1]}): {plain['right']:.0%} right undefended, {', '.join(shares)}.{ending}"
