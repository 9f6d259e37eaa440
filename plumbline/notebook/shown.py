"""Findings as a notebook shows them: the verdict with a table of columns, and a drawing of what each gives away."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from plumbline.html import template
from plumbline.notebook.frames import frame_of
from services.common.words import escaped

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from plumbline.judge.findings import Findings

# Columns that are shown; the frame has all.
MOST_SHOWN = 20
# Of a column's name beside its bar.
_MOST_LETTERS = 40
# Told apart in grey, and by who takes red for green.
_COLOURS = {"red": "#b2182b", "amber": "#f4a582", "green": "#4393c3", "grey": "#bdbdbd"}


def html_of(findings: Findings) -> str:
    """The verdict and the most exposed columns as an HTML fragment, in which nobody's words are markup."""
    return template("findings.html").render(
        answer=findings.answer,
        columns=frame_of(findings, "columns").head(MOST_SHOWN).to_dict("records"),
        more=max(0, len(findings.answer.columns) - MOST_SHOWN),
        colours=_COLOURS,
    )


def axes_of(findings: Findings, axes: Axes | None = None) -> Axes:
    """Draw a bar for each of the most exposed columns: the federation's part with its 95 % interval.

    Args:
        findings: what is drawn.
        axes: where; None makes a figure.

    Raises:
        ModuleNotFoundError: without matplotlib, with what to install.
    """
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ModuleNotFoundError('Matplotlib is not installed: pip install "plumbline[figures]".') from error
    shown = frame_of(findings, "columns").head(MOST_SHOWN)[::-1]
    if axes is None:
        _, axes = plt.subplots(figsize=(7, 1 + 0.32 * max(1, len(shown))), layout="constrained")
    parts = shown["part"].fillna(0.0).to_numpy()
    ends = np.abs(shown[["low", "high"]].fillna(0.0).to_numpy().T - parts)
    # A dollar sign would begin a formula.
    names = [escaped(f"{one.party}: {one.column}", _MOST_LETTERS).replace("$", r"\$") for one in shown.itertuples()]
    axes.barh(range(len(shown)), parts, xerr=ends, color=[_COLOURS[light] for light in shown["light"]], capsize=3)
    axes.set_yticks(range(len(shown)), names)
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.set_xlabel("of what could not be guessed anyway, the federation gives away")
    return axes
