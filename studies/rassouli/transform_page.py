"""The page on the secret transform: a summary of its measurements, Figures 8 to 12, and its words."""

import numpy as np
import pandas as pd

from plumbline.simulation.informed import KNOWING, WITH_RECORDS
from studies.page.elements import number_words
from studies.page.plots import Curve, Panel, Plot

_ATTACKS = {
    "ls": "LS",
    "clamped_ls": "Clamped LS",
    "cls": "CLS",
    "half_star": "Half*",
    "rcc1": "RCC1",
    "rcc2": "RCC2",
}
_FIGURES = {"satellite": "8", "bank": "9", "robot": "10", "synthetic": "11"}
_NONE, _HALF = "none", "half"
# What a logarithmic axis shows of 0.
_SMALLEST_KL = 1e-16


def transform_summary(data: pd.DataFrame) -> pd.DataFrame:
    """Means over windows, per data set and defence: adversaries as columns, but those that say what another does."""
    shown = data[~data["adversary"].isin(("cls", "rcc1"))]
    table = shown.pivot_table(index=["dataset", "defence"], columns="adversary", values="mse", sort=False)
    divergence = data.groupby(["dataset", "defence"], sort=False)["kl"].max().rename("largest_kl")
    return table.round(4).join(divergence).reset_index()


def transform_plots(data: pd.DataFrame) -> tuple[Plot, ...]:
    """Figures 8 to 11, a drawing per data set, and Figure 12."""
    drawn = [_attacks_plot(data[data["dataset"] == name], str(name)) for name in data["dataset"].unique()]
    return (*drawn, _divergence_plot(data))


def _curve(own: pd.DataFrame, label: str, measure: str = "mse", *, ours: bool = False) -> Curve:
    means = own.groupby("d")[measure].mean()
    return Curve(label, tuple(map(float, means.index)), tuple(means.tolist()), ours=ours)


def _attacks_plot(own: pd.DataFrame, name: str) -> Plot:
    """A panel per attack: before, after each transform, and beside them who knows of the transform."""
    classes = float(own["k"].iloc[0])
    defences = own["defence"].unique()
    panels = []
    for attack, title in _ATTACKS.items():
        at = own[own["adversary"] == attack]
        curves = [_curve(at[at["defence"] == defence], _words(defence)) for defence in defences]
        curves.append(_curve(own[(own["adversary"] == _HALF) & (own["defence"] == _NONE)], "a guess of 1/2"))
        for who, label in ((KNOWING, "-I: who knows of it"), (WITH_RECORDS, "-I: with complete records")):
            informed = own[(own["adversary"] == who) & (own["defence"] == "-I, retrained")]
            curves.append(_curve(informed, label, ours=True))
        panels.append(Panel(title, "passive features d", "MSE per feature", tuple(curves), ((classes, "d = k"),)))
    return Plot(
        f"mse-{name}",
        panels,
        f"Figure {_FIGURES.get(name, '8 to 11')}, {name}: six attacks before and after the transform, by adversaries "
        "who don't know of it. The paper's is -I, retrained; heavy: half* by who knows of -I, and by who has 2 d + "
        "2 records.",
        columns=3,
    )


def _words(defence: str) -> str:
    return "before" if defence == _NONE else defence


def _divergence_plot(data: pd.DataFrame) -> Plot:
    """Figure 12."""
    panels = []
    for defence in ("-I, retrained", "random, retrained"):
        own = data[(data["defence"] == defence) & (data["adversary"] == _HALF)]
        curves = [
            _curve(
                own[own["dataset"] == name].assign(kl=lambda one: one["kl"].clip(lower=_SMALLEST_KL)), str(name), "kl"
            )
            for name in own["dataset"].unique()
        ]
        panels.append(Panel(defence, "passive features d", "mean KL divergence, nats", tuple(curves), log_y=True))
    return Plot("kl", panels, "Figure 12: how far training again on transformed columns moves the scores.")


def transform_notes(data: pd.DataFrame, records: int) -> list[str]:
    """What the adversaries who know the defence reach, from the numbers."""
    if not len(data):
        return []
    means = data.groupby(["defence", "adversary"])["mse"].mean()
    known = means[means.index.get_level_values("adversary") == WITH_RECORDS]

    def error(defence: str, adversary: str) -> str:
        return number_words(float(means.get((defence, adversary), np.nan)))

    return [
        f"{records} held-out records of each window; the paper doesn't state its penalty, here C = 1; the intercept is "
        "free, since the shift about 1/2 must cost nothing. The paper normalises after -I and shows nothing else; a "
        "random H and H* are additions. cls is the solution of minimum norm.",
        f"Means over all data sets and windows: half* without a defence {error(_NONE, 'half_star')}, 1/2 for all "
        f"{error(_NONE, _HALF)}. Who knows of -I is back at {error('-I, retrained', KNOWING)}. Who tries -I beside "
        f"I, and keeps what more records fit, gets {error('H*, disclosed', KNOWING)} against H*, which is near -I "
        f"where A looks; against a random H there is nothing to try: {error('random, disclosed', KNOWING)}.",
        f"2 d + 2 complete records tell A by regression, whatever H was: {number_words(float(known.min()))} to "
        f"{number_words(float(known.max()))}.",
    ]
