"""What Varasteh says of the agnostic attack (sections III, IV and VI-A), and whether a run bears it out."""

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd

from plumbline.judge.measures import Interval
from studies.claims.statement import Statement, interval_over, interval_words
from studies.varasteh.comparing import by_situation, differences, mean_of, ordered, shares, stated
from studies.varasteh.rivals import BY_LABELS, BY_SCORES, HALF, HALF_STAR, OWN_MODEL

# "Close to half*": at least so much of what half* gains over 1/2 for all.
CLOSE = 0.5
# "Negligible", "almost similar": so much of the greater error at most.
NEGLIGIBLE = 0.1
_VULNERABLE = ("bank", "adult", "satellite")
_ADDED = (
    "By equation 21 the errors of AM's log ratios add to half*'s. They weigh most where passive parameters are few or "
    "small, and where hardly a column is left to train AM on."
)
_NOTHING_LEFT = "Where AM already errs about as much as half*, nothing is left to refine."


def agnostic_statements(frame: pd.DataFrame) -> tuple[Statement, ...]:
    """Judge what the paper says of Figures 3, 4 and 7.

    Args:
        frame: errors of ``rivals.errors``, with the data sets that were there.
    """
    return (
        _negligible_for_many(frame),
        *(_close_to_half_star(frame, name) for name in _VULNERABLE),
        *(_better_than_half(frame, name) for name in _VULNERABLE),
        *(_refining_helps(frame, name) for name in (*_VULNERABLE, "pendigits")),
        *(_most_where_few(frame, name) for name in (*_VULNERABLE, "pendigits")),
        _pendigits_resists(frame),
        _never_beats_exact_scores(frame),
        _labels_help_a_little(frame),
        _improves_everywhere(frame),
        _grid_resists(frame),
    )


def _negligible_for_many(frame: pd.DataFrame) -> Statement:
    gap = differences(frame, OWN_MODEL, HALF_STAR, "bank")
    held: list[bool] = []
    words = ""
    if len(gap):
        few, many = gap[gap["d"] == gap["d"].min()], gap[gap["d"] == gap["d"].max()]
        errors = by_situation(frame, "bank").reset_index()
        last = float(errors.loc[errors["d"] == gap["d"].max(), HALF_STAR].mean())
        first_gap, last_gap = mean_of(few, "difference"), mean_of(many, "difference")
        held = [last_gap.mean < first_gap.mean, last_gap.mean <= NEGLIGIBLE * last]
        words = (
            f"AM errs {interval_words(first_gap)} more than half* for d = {few['d'].iloc[0]} and "
            f"{interval_words(last_gap)} more for d = {many['d'].iloc[0]}, where half* errs by {last:.3f}."
        )
    paper = "Without the scores, the attack does comparably well; for large d the difference to half* is negligible."
    return stated("Figure 3", "bank", paper, held, words)


def _close_to_half_star(frame: pd.DataFrame, name: str) -> Statement:
    found = shares(frame, OWN_MODEL, HALF_STAR, HALF, name)
    held = [float(part["share"].mean()) >= CLOSE for _, part in found.groupby("d")]
    words = ""
    if held:
        table = by_situation(frame, name).mean()
        words = (
            f"AM errs by {table[OWN_MODEL]:.4f}, half* by {table[HALF_STAR]:.4f}, 1/2 by {table[HALF]:.4f}. AM gets "
            f"half or more of what half* gains over 1/2 at {sum(held)} of {len(held)} numbers of passive columns."
        )
    paper = "AM's error is close to that of half*, who has the exact scores."
    return stated("Figure 4", name, paper, held, words, _ADDED)


def _better_than_half(frame: pd.DataFrame, name: str) -> Statement:
    statement = ("Figure 4", name, "AM performs well without a score: it errs less than 1/2 for all.")
    return ordered(differences(frame, HALF, OWN_MODEL, name), statement, "1/2 errs more than AM", _ADDED)


def _refining_helps(frame: pd.DataFrame, name: str) -> Statement:
    statement = ("Figure 4", name, "Refining AM with 100 scores improves the attack significantly.")
    found = differences(frame, OWN_MODEL, BY_SCORES, name)
    return ordered(found, statement, "AM errs more than RAM", _NOTHING_LEFT if name in ("bank", "adult") else "")


def _most_where_few(frame: pd.DataFrame, name: str) -> Statement:
    found = differences(frame, OWN_MODEL, BY_SCORES, name)
    held: list[bool] = []
    words = ""
    if found["d"].nunique() > 1:
        middle = float(np.median(found["d"].unique()))
        few, many = found[found["d"] < middle], found[found["d"] >= middle]
        gained = [mean_of(part, "difference") for part in (few, many)]
        held = [gained[0].mean > max(gained[1].mean, 0.0)]
        words = (
            f"RAM errs {interval_words(gained[0])} less than AM for fewer than {middle:g} passive columns, "
            f"{interval_words(gained[1])} less for more."
        )
    return stated("Figure 4", name, "Refining helps most where the passive columns are few.", held, words)


def _pendigits_resists(frame: pd.DataFrame) -> Statement:
    found = differences(frame, OWN_MODEL, HALF, "pendigits")
    statement = ("Figure 4", "pendigits", "The attack with AM isn't effective: it errs no less than 1/2 for all.")
    return ordered(found, statement, "AM errs more than 1/2")


def _never_beats_exact_scores(frame: pd.DataFrame) -> Statement:
    found = differences(frame, OWN_MODEL, HALF_STAR)
    held = [float(part["difference"].mean()) >= 0 for _, part in found.groupby(["dataset", "d"])]
    words = (
        f"AM errs {interval_words(mean_of(found, 'difference'))} more than half*; on average no less in {sum(held)} of "
        f"{len(held)} pairs of data set and d."
    )
    clamped = (
        "Equation 21 is for estimates as they come. AM's are cut to [0, 1] as in the paper, half*'s needn't be: where "
        "they leave [0, 1], the cut can outweigh what the scores tell."
    )
    paper = "The attack without scores can't surpass that with exact ones."
    return stated("Equation 21", "all data sets", paper, held, words, clamped)


def _labels_help_a_little(frame: pd.DataFrame) -> Statement:
    labels, scores = (differences(frame, OWN_MODEL, curve) for curve in (BY_LABELS, BY_SCORES))
    held: list[bool] = []
    words = ""
    if len(labels) and len(scores):
        by_labels, by_scores = mean_of(labels, "difference"), mean_of(scores, "difference")
        held = [by_labels.low > 0, abs(by_labels.mean) < by_scores.mean]
        words = (
            f"Delivered labels take {interval_words(by_labels)} off AM's error, as many scores "
            f"{interval_words(by_scores)}."
        )
    reason = "100 labels beside thousands that the active party has anyway are about 100 more records to train on."
    paper = "Refining by scores improves the attack pronouncedly, by class labels subtly."
    return stated("Section IV-B", "all data sets", paper, held, words, reason)


def _improves_everywhere(frame: pd.DataFrame) -> Statement:
    found = differences(frame, OWN_MODEL, BY_SCORES)
    means = {str(name): interval_over(part, "difference") for name, part in found.groupby("dataset", sort=False)}
    words = "AM errs more than RAM by " + ", ".join(f"{interval_words(mean)} ({name})" for name, mean in means.items())
    paper = "RAM improves the attack on every data set."
    held = [mean.low > 0 for mean in means.values()]
    return stated("Section VI-A, Figure 5", "all data sets", paper, held, words + ".", _NOTHING_LEFT)


def _grid_resists(frame: pd.DataFrame) -> Statement:
    found = differences(frame, HALF, OWN_MODEL, "grid")
    table = by_situation(frame, "grid")
    held: list[bool] = []
    words = ""
    if len(found):
        means = table.groupby("d")[[HALF, OWN_MODEL]].mean()
        held = ((means[HALF] - means[OWN_MODEL]).abs() <= NEGLIGIBLE * means[HALF]).tolist()
        words = (
            f"1/2 errs {interval_words(mean_of(found, 'difference'))} more than AM, by {means[HALF].mean():.4f} "
            f"itself; they differ by a tenth of that at most at {sum(held)} of {len(held)} numbers of passive columns."
        )
    return stated("Figure 7", "grid", "The attack is ineffective: almost as 1/2 for all.", held, words, _ADDED)


# --- Figure 5 ------------------------------------------------------------------------------------------------------


def refined_statements(frame: pd.DataFrame, by_count: Mapping[int, str]) -> tuple[Statement, ...]:
    """Judge what the paper says of Figure 5.

    Args:
        frame: errors of ``rivals.errors``.
        by_count: the curve of each number of delivered scores, alpha = 1.
    """
    counts = sorted(by_count)
    more = differences(frame, by_count[counts[0]], by_count[counts[-1]], "satellite")
    fewest = differences(frame, OWN_MODEL, by_count[counts[0]], "satellite")
    few = fewest[fewest["d"] <= fewest["d"].median()]
    text = f"As few as {counts[0]} scores improve the attack significantly where the passive columns are few."
    return (
        ordered(
            more,
            ("Figure 5", "satellite", f"More delivered scores improve it: {counts[-1]} more than {counts[0]}."),
            f"RAM with {counts[0]} scores errs more than with {counts[-1]}",
        ),
        ordered(few, ("Figure 5", "satellite", text), f"AM errs more than RAM with {counts[0]} scores"),
    )


def unmoved_by_score_defences(frame: pd.DataFrame, plain: str, defended: Mapping[str, str]) -> Iterator[Statement]:
    """Judge section V: what is done to scores leaves the agnostic attack alone.

    Args:
        frame: errors of the attack refined by labels, with and without a defence.
        plain: its curve without a defence.
        defended: a curve for each defence's words.
    """
    paper = "Defences of the scores don't stop the attack: what keeps the decision keeps the labels that refine AM."
    for words, curve in defended.items():
        found = differences(frame, curve, plain)
        errors = by_situation(frame)
        limit = NEGLIGIBLE * float(errors[plain].mean()) if plain in errors else np.nan
        held = [abs(float(part["difference"].mean())) <= limit for _, part in found.groupby("dataset")]
        text = (
            f"Under {words} it errs {interval_words(mean_of(found, 'difference'))} more, of {limit / NEGLIGIBLE:.4f}."
        )
        yield stated("Section V", words, paper, held, text)


# --- Figures 6 and 8 -----------------------------------------------------------------------------------------------


def covariance_statements(facts: pd.DataFrame, frame: pd.DataFrame) -> tuple[Statement, ...]:
    """Judge what the paper says of Figure 6.

    Args:
        facts: a row per data set: ``off_diagonal``, the share of the squared covariance off the diagonal.
        frame: errors of AM, half* and 1/2.
    """
    apart = dict(zip(facts["dataset"], facts["off_diagonal"], strict=True))
    said = ", ".join(f"{name} {value:.2f}" for name, value in apart.items())
    words = f"Share of the squared covariance off the diagonal: {said}."
    others = [apart[name] for name in _VULNERABLE if name in apart]
    grid, pendigits = apart.get("grid"), apart.get("pendigits")
    gains = gain_over_half(frame)
    both = [name for name in apart if name in gains]
    least = [gains[name] for name in _VULNERABLE if name in gains]
    gained = ", ".join(f"{name} {interval_words(gains[name])}" for name in both)
    gain_words = f"Share of 1/2's error that AM takes off: {gained}."
    pairs = [] if "pendigits" not in gains else [one.low > gains["pendigits"].high for one in least]
    return (
        stated(
            "Figure 6",
            "grid",
            "The covariance is nearly diagonal.",
            [] if grid is None else [grid <= NEGLIGIBLE],
            words,
        ),
        stated(
            "Figure 6",
            "pendigits",
            "Its covariance is more diagonal than those of satellite, bank and adult.",
            [] if pendigits is None else [pendigits < other for other in others],
            words,
        ),
        stated("Figures 4 and 6", "pendigits", "It resists better than those three.", pairs, gain_words),
    )


def gain_over_half(frame: pd.DataFrame) -> dict[str, Interval]:
    """The share of 1/2's error that AM takes off, by data set, with its interval over windows and seeds."""
    table = by_situation(frame)
    if not {HALF, OWN_MODEL} <= set(table.columns):
        return {}
    gains = (1 - table[OWN_MODEL] / table[HALF]).dropna().rename("gain").reset_index()
    return {str(name): interval_over(part, "gain") for name, part in gains.groupby("dataset", sort=False)}
