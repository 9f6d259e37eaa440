"""Draws errors against the number of passive columns, and puts them into a table and into words."""

from collections.abc import Collection, Sequence

import pandas as pd

from studies.claims.statement import interval_over
from studies.page.plots import Panel, mean_curve
from studies.varasteh.agnostic_claims import with_errors
from studies.varasteh.rivals import HALF, IMPUTED, KNOWS_NOTHING, KNOWS_RECORDS, PUBLISHED, Rival


def panels_of(frame: pd.DataFrame, rivals: Sequence[Rival], banded: Collection[str] = ()) -> list[Panel]:
    """A panel for each data set, a curve for each rival that was measured there."""
    found = []
    for name, here in with_errors(frame).groupby("dataset", sort=False):
        curves = [
            mean_curve(part, "d", rival.label, ours=rival.ours, banded=rival.label in banded)
            for rival in rivals
            if len(part := here[here["curve"] == rival.label])
        ]
        found.append(Panel(str(name), "passive columns d", "MSE per feature", tuple(curves)))
    return found


def summary_of(frame: pd.DataFrame, *keys: str) -> pd.DataFrame:
    """Mean errors over d, with their intervals over windows and seeds, by data set and attacker."""
    rows = []
    columns = ["dataset", *keys, "curve"]
    for key, part in with_errors(frame).groupby(columns, sort=False):
        mean = interval_over(part, "mse")
        rows.append(
            {**dict(zip(columns, key, strict=True)), "mse": mean.mean, "mse_low": mean.low, "mse_high": mean.high}
        )
    return pd.DataFrame(rows, columns=[*columns, "mse", "mse_low", "mse_high"])


def left_on_the_table(frame: pd.DataFrame) -> tuple[str, ...]:
    """How far the best published attack is from ours, a sentence for each data set."""
    notes = []
    for name, part in with_errors(frame).groupby("dataset", sort=False):
        means = part.groupby("curve")["mse"].mean()
        published = {rival.label: means[rival.label] for rival in PUBLISHED if rival.label in means.index}
        published.pop(HALF, None)
        if not published or not {KNOWS_RECORDS, KNOWS_NOTHING, IMPUTED} <= set(means.index):
            continue
        best = min(published, key=lambda label: published[label])
        notes.append(
            f"{name}: the best published attack ({best}) errs by {published[best]:.4f}; the Bayesian adversary by "
            f"{means[KNOWS_NOTHING]:.4f} who knows the ranges, by {means[KNOWS_RECORDS]:.4f} who has complete records. "
            f"The same records without a score and without parameters: {means[IMPUTED]:.4f}."
        )
    return tuple(notes)


def federations_part(frame: pd.DataFrame) -> tuple[str, ...]:
    """What the scores add for who has complete records, max(0, 1 - e / e0), a sentence for all data sets."""
    here = with_errors(frame)
    here = here[here["curve"] == KNOWS_RECORDS]
    if not len(here):
        return ()
    means = here.groupby("dataset", sort=False)[["mse", "guess"]].mean()
    parts = (1 - means["mse"] / means["guess"]).clip(lower=0.0)
    said = ", ".join(f"{name} {part:.0%}" for name, part in parts.items())
    return (
        f"The federation's part for who has complete records, 1 - e / e0, e0 the best guess without scores: {said}.",
    )
