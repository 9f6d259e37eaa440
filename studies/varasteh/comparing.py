"""Compares attackers pairwise, in the same window of the same model, and words what a statement is judged by."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from plumbline.judge.measures import Interval
from studies.claims.paired_differences import paired
from studies.claims.statement import Statement, Verdict, interval_over, interval_words, verdict_of

# What a statement without a verdict says.
NOT_HERE = "Not in this run: the data set is missing, or a quick run leaves it out."
# A situation: the same records, columns and model for all who attack there.
SITUATION = ["dataset", "d", "seed", "start"]


def with_errors(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows whose attack was measured; a frame without any has their columns all the same."""
    return (
        frame[frame["mse"].notna()] if "mse" in frame else pd.DataFrame(columns=[*SITUATION, "curve", "mse", "guess"])
    )


def by_situation(frame: pd.DataFrame, dataset: str | None = None) -> pd.DataFrame:
    """Errors with a row per situation and a column per attacker; of one data set, or of all."""
    done = with_errors(frame)
    chosen = done if dataset is None else done[done["dataset"] == dataset]
    table: pd.DataFrame = chosen.pivot_table(index=SITUATION, columns="curve", values="mse", observed=True)
    return table


def differences(frame: pd.DataFrame, minuend: str, subtrahend: str, dataset: str | None = None) -> pd.DataFrame:
    """How much more one attacker errs than another, a row per situation where both were measured: ``difference``."""
    done = with_errors(frame)
    chosen = done if dataset is None else done[done["dataset"] == dataset]
    return paired(chosen[chosen["curve"] == minuend], chosen[chosen["curve"] == subtrahend], SITUATION)


def shares(frame: pd.DataFrame, attacker: str, most: str, least: str, dataset: str) -> pd.DataFrame:
    """The share of what one attacker gains over another that this attacker gains, by situation: ``share``.

    1 is as good as ``most``, 0 as bad as ``least``, below 0 worse. Where the two hardly differ there is no share.
    """
    table = by_situation(frame, dataset)
    if not {attacker, most, least} <= set(table.columns):
        return pd.DataFrame(columns=[*SITUATION, "share"])
    whole = table[least] - table[most]
    share = ((table[least] - table[attacker]) / whole.where(whole > _ROUNDING)).dropna()
    return share.rename("share").reset_index()


_ROUNDING = 1e-9


def mean_of(frame: pd.DataFrame, measure: str) -> Interval:
    """Mean over situations, its interval over windows, seeds and data sets; NaN of nothing."""
    if not len(frame):
        return Interval(np.nan, np.nan, np.nan)
    return interval_over(frame, measure, by=("dataset", "seed", "start"))


def surely_positive(frame: pd.DataFrame, measure: str = "difference") -> list[bool]:
    """For each data set and d, whether the whole interval of the mean is above 0."""
    return [interval_over(part, measure).low > 0 for _, part in frame.groupby(["dataset", "d"])]


def stated(source: str, subject: str, paper: str, held: Sequence[bool], measured: str, reason: str = "") -> Statement:
    """A statement of the paper with the verdict that follows; a reason only where it isn't reproduced."""
    verdict: Verdict = verdict_of(held)
    if verdict == "not measured":
        measured = NOT_HERE
    return Statement(source, subject, paper, verdict, measured, reason if verdict in ("in part", "differs") else "")


def ordered(found: pd.DataFrame, statement: tuple[str, str, str], who: str, reason: str = "") -> Statement:
    """A statement that one errs more than another, judged at every d on paired differences.

    Args:
        found: of ``differences``.
        statement: source, subject, and what the paper says.
        who: "AM errs more than half*", for the sentence of what was measured.
        reason: known reasons why it may differ.
    """
    held = surely_positive(found)
    alone = sum(interval_over(part, "difference").alone for _, part in found.groupby(["dataset", "d"]))
    measured = (
        f"{who} by {interval_words(mean_of(found, 'difference'))} on average; the interval over windows and seeds is "
        f"above 0 at {sum(held)} of {len(held)} numbers of passive columns."
    )
    if alone:
        measured += f" At {alone} of them there is one window and seed, no interval, and its sign decides."
    return stated(*statement, held, measured, reason)
