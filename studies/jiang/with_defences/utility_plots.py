"""The drawings of Figures 14 and 15: an attack's accuracy or error against the model's accuracy, by defence."""

import pandas as pd

from studies.page.plots import Curve, Panel, Plot

_FIGURES = {"linear": "14", "network": "15"}
_WORDS = {"attack_accuracy": "attack accuracy", "mse": "MSE per feature"}
_KINDS = {"linear": "LR", "network": "networks"}
# Whose estimates a defence leaves, drawn full beside the paper's hollow signs, and those who see no scores.
_OURS = "posterior, records"
_WITHOUT = ("random guess", "imputation")


def utility_plot(results: pd.DataFrame, model: str, measure: str) -> Plot:
    """Draw a measure of the attack against the model's accuracy: a panel per data set and access; means over splits.

    Hollow: the paper's attack; full: the Bayesian adversary who knows the defence and has tau records.
    """
    names = list(dict.fromkeys(results["dataset"]))
    panels = [
        Panel(
            f"{name}, {access}",
            "model accuracy",
            _WORDS[measure],
            tuple(_curves(results[(results["dataset"] == name) & (results["access"] == access)], measure)),
        )
        for access in ("white box", "black box")
        for name in names
    ]
    better = "right and low" if measure == "attack_accuracy" else "right and high"
    caption = (
        f"Figure {_FIGURES[model]}: {_WORDS[measure]} on {_KINDS[model]} at r = 0.5, GIA above, shadow models below. "
        f"A defence should be {better}. Full, ours: the Bayesian adversary who knows the defence and tau complete "
        "records; lines: these records alone (imputation), and a random guess."
    )
    return Plot(f"trade-offs-{model}-{measure.replace('_', '-')}", panels, caption, columns=len(names))


def _curves(results: pd.DataFrame, measure: str) -> list[Curve]:
    """A point per defence and adversary, and a line for each who sees no scores."""
    keys = ["adversary", "defence", "option"]
    means = results.groupby(keys, sort=False)[["model_accuracy", measure]].mean().reset_index()
    curves = [
        Curve(
            f"{row['defence']} {row['option']}".strip(),
            (row["model_accuracy"],),
            (row[measure],),
            ours=row["adversary"] == _OURS,
        )
        for row in means[means["adversary"].isin(("inversion", _OURS))].to_dict("records")
    ]
    ends = (means["model_accuracy"].min(), means["model_accuracy"].max())
    levels = means[means["adversary"].isin(_WITHOUT)].to_dict("records")
    return curves + [Curve(str(row["adversary"]), ends, (row[measure],) * 2) for row in levels]
