"""Draws the trade-offs of moved parameters, and puts those who know of them into words."""

from collections.abc import Iterator, Mapping, Sequence

import pandas as pd

from studies.page.plots import Curve, Panel, Plot
from studies.simulation.informed import CAUTIOUS, KNOWING, WITH_RECORDS
from studies.varasteh.distortion_claims import SMALL, measured_only
from studies.varasteh.rotation import CLAMPED, HALF, NAIVE, PREDICTED

_ADVERSARIES = (PREDICTED, NAIVE, CLAMPED, CAUTIOUS, HALF, KNOWING, WITH_RECORDS)
# Who knows that parameters were moved, or what may follow from it, isn't in the paper.
_OURS = (CLAMPED, CAUTIOUS, KNOWING, WITH_RECORDS)
# Logarithmic axes have no 0: errors below are drawn here.
_FLOOR = 1e-5
_X = "epsilon / mean squared parameter"


def trade_off_summary(data: pd.DataFrame) -> pd.DataFrame:
    """Errors at one epsilon, adversaries as columns."""
    here = measured_only(data)
    keys, there = ["dataset", "d", "case", "epsilon"], [name for name in _ADVERSARIES if name in here]
    chosen = here[here["epsilon"] == SMALL] if len(here) else pd.DataFrame(columns=keys)
    return chosen.groupby(keys, sort=False)[there].mean().reset_index() if len(chosen) else chosen[keys]


def trade_off_plots(data: pd.DataFrame) -> Iterator[Plot]:
    """Draw Figures 9 to 11: errors against epsilon."""
    here = measured_only(data)
    if not len(here):
        return
    two, more = (here[(here["classes"] == 2) == binary] for binary in (True, False))
    groups = (
        ("two-classes", two[two["d"] > 1], "Figure 9: two classes, free parameters (case iv) and a rotation (case i)."),
        ("one-feature", here[here["d"] == 1], "Figure 10: one passive feature (case iii)."),
        ("rotations", more[more["d"] > 1], "Figure 11: more than two classes, rotations (cases i and ii)."),
    )
    for name, part, caption in groups:
        if len(part):
            yield Plot(name, _panels(part), f"{caption} {_NOTE}", columns=3)


_NOTE = "Predicted: by the closed forms, for training records; all else on held-out ones. Heavier: not in the paper."


def epsilon_plot(data: pd.DataFrame) -> Iterator[Plot]:
    """Draw Figure 13: two passive features against epsilon, with the cap."""
    here = measured_only(data)
    here = here[here["d"] == 2] if len(here) else here
    if len(here):
        yield Plot("two-features", _panels(here), f"Figure 13: two passive features (case ii). {_NOTE}", columns=2)


def _panels(part: pd.DataFrame) -> list[Panel]:
    """A panel for each data set and d."""
    panels = []
    for (name, d), here in part.groupby(["dataset", "d"], sort=False):
        usual = here[here["case"] != "i"] if here["case"].nunique() > 1 else here
        curves = [
            _curve(usual, adversary, _label(adversary, usual)) for adversary in _ADVERSARIES if adversary in usual
        ]
        if here["case"].nunique() > 1:
            rotated = here[here["case"] == "i"]
            curves.insert(1, _curve(rotated, PREDICTED, _label(PREDICTED, rotated)))
        panels.append(
            Panel(f"{name}, d = {d}", _X, "MSE per feature", tuple(curves), _cap(usual), log_y=True, log_x=True)
        )
    return panels


def _label(adversary: str, part: pd.DataFrame) -> str:
    return f"{adversary}, {_CASES[str(part['case'].iloc[0])]}" if adversary == PREDICTED else adversary


_CASES: Mapping[str, str] = {"i": "rotation", "ii": "rotation", "iii": "free", "iv": "free"}


def _curve(part: pd.DataFrame, adversary: str, label: str) -> Curve:
    means = part[part["epsilon"] > 0].groupby("epsilon")[adversary].mean().dropna()
    return _drawn(means, label, ours=adversary in _OURS)


def _cap(part: pd.DataFrame) -> tuple[tuple[float, str], ...]:
    """Where more epsilon buys nothing: what was reached when more was asked."""
    capped = part[part["capped"].astype(bool)]
    return ((float(capped["reached"].max()), "cap"),) if len(capped) else ()


# --- Figure 12 -----------------------------------------------------------------------------------------------------


def level_panels(data: pd.DataFrame, beside: Sequence[tuple[str, pd.DataFrame]]) -> list[Panel]:
    """Errors of half* against d: a curve for each epsilon, and those of ``beside`` (label, frame of ``errors``)."""
    here = measured_only(data)
    if not len(here):
        return []
    panels = []
    for name, part in here.groupby("dataset", sort=False):
        curves = [_along_d(part[part["epsilon"] == 0], HALF, HALF)]
        for epsilon in sorted(set(part["epsilon"].astype(float))):
            level = part[part["epsilon"] == epsilon]
            curves.append(_along_d(level, NAIVE, f"half*, epsilon {epsilon:g}" if epsilon else "half*, no defence"))
        for label, frame in beside:
            own = frame[(frame["dataset"] == name) & frame["mse"].notna()] if "mse" in frame else frame.iloc[:0]
            if len(own):
                curves.append(_along_d(own, "mse", label, ours=True))
        panels.append(Panel(str(name), "passive columns d", "MSE per feature", tuple(curves), log_y=True))
    return panels


def _along_d(part: pd.DataFrame, measure: str, label: str, *, ours: bool = False) -> Curve:
    return _drawn(part.groupby("d")[measure].mean(), label, ours=ours)


def _drawn(means: "pd.Series[float]", label: str, *, ours: bool) -> Curve:
    means = means.clip(lower=_FLOOR)
    return Curve(label, tuple(map(float, means.index)), tuple(map(float, means)), ours=ours)


# --- words ---------------------------------------------------------------------------------------------------------


def known_defence_notes(data: pd.DataFrame) -> tuple[str, ...]:
    """What those do who don't take the parameters at their word."""
    here = measured_only(data)
    here = here[(here["case"] != "i") | (here["classes"] > 2)] if len(here) else here
    if not len(here):
        return ()
    fitting = here[here["epsilon"] > 0]
    apart = float((fitting[NAIVE] / fitting[PREDICTED] - 1).abs().median())
    strongest = here[here["epsilon"] == here["epsilon"].max()]
    means = strongest.groupby(strongest["classes"] > 2)[list(_ADVERSARIES)].mean()
    return (
        f"half*'s error on held-out records is typically within {apart:.1%} of what the closed forms say of the "
        "training records, for which they are exact.",
        *(_strongest_words(row, more=bool(more), epsilon=here["epsilon"].max()) for more, row in means.iterrows()),
        "Beside the paper: epsilon is in mean squared parameters, since g has their scale and the paper's weights "
        "aren't published; g is met exactly, without a penalty, and capped where more buys nothing; cases iii and iv "
        "are global maxima; scores are exact, as in the paper.",
    )


def _strongest_words(means: "pd.Series[float]", *, more: bool, epsilon: float) -> str:
    return (
        f"{'More than two' if more else 'Two'} classes, epsilon {epsilon:g}: half* errs by {means[NAIVE]:.2f}, who "
        f"lets nothing leave [0, 1] by {means[CLAMPED]:.3f}, who says 1/2 where no x in [0, 1] fits by "
        f"{means[CAUTIOUS]:.3f}, 1/2 for all by {means[HALF]:.3f}: what is beyond is no protection. Who tries -I "
        f"beside I errs by {means[KNOWING]:.3f}; who has 2 d + 2 complete records by {means[WITH_RECORDS]:.4f}, for "
        "no disclosed parameters change what those tell."
    )
