"""What Varasteh says of the agnostic attack (sections III, IV and VI-A), and how a run is put to it."""

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import pandas as pd

from plumbline.judge.measures import Interval
from studies.claims.claim import NOTHING, Claim, Finding, judged
from studies.claims.kinds import Curves, among
from studies.claims.statement import Statement, interval_over, interval_words
from studies.varasteh.rivals import ADULT, BY_LABELS, BY_SCORES, GRID, HALF, HALF_STAR, OWN_MODEL, PAPER_DATASETS

# "Close to half*": at least so much of what half* gains over 1/2 for all.
CLOSE = 0.5
# "Negligible", "almost similar": so much of the greater error at most.
NEGLIGIBLE = 0.1
# A situation: the same records, columns and model for all who attack there.
SITUATION = ("dataset", "d", "seed", "start")
CURVES = Curves("curve", "d", SITUATION, {HALF: "1/2", OWN_MODEL: "AM", BY_SCORES: "RAM"})
_VULNERABLE = ("bank", ADULT, "satellite")
_ADDED = (
    "By equation 21 the errors of AM's log ratios add to half*'s. They weigh most where passive parameters are few or "
    "small, and where hardly a column is left to train AM on."
)
_NOTHING_LEFT = "Where AM already errs about as much as half*, nothing is left to refine."


def with_errors(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows whose attack was measured; a frame without any has their columns all the same."""
    return (
        frame[frame["mse"].notna()] if "mse" in frame else pd.DataFrame(columns=[*SITUATION, "curve", "mse", "guess"])
    )


def _table(rows: pd.DataFrame, *needed: str) -> pd.DataFrame:
    """Errors with a row per situation and a column per attacker; without rows unless all of these were there."""
    table: pd.DataFrame = rows.pivot_table(index=list(SITUATION), columns="curve", values="mse", observed=True)
    return table if {*needed} <= set(table.columns) else pd.DataFrame(columns=needed)


def _mean(pairs: pd.DataFrame) -> Interval:
    """Mean difference over situations, its interval over windows, seeds and data sets."""
    return interval_over(pairs, "difference", by=("dataset", "seed", "start"))


def _negligible_for_many(rows: pd.DataFrame) -> Finding:
    gap = CURVES.pairs(rows, OWN_MODEL, HALF_STAR)
    if not len(gap):
        return NOTHING
    fewest, most = gap["d"].min(), gap["d"].max()
    first, last = (_mean(gap[gap["d"] == d]) for d in (fewest, most))
    exact = CURVES.of(rows, HALF_STAR)
    error = float(exact.loc[exact["d"] == most, "mse"].mean())
    return Finding(
        [last.mean < first.mean, last.mean <= NEGLIGIBLE * error],
        f"AM errs {interval_words(first)} more than half* for d = {fewest} and {interval_words(last)} more for "
        f"d = {most}, where half* errs by {error:.3f}.",
    )


def gained_share(table: pd.DataFrame) -> "pd.Series[float]":
    """The share of what half* gains over 1/2 that AM gains, by situation; none where the two hardly differ."""
    whole = table[HALF] - table[HALF_STAR]
    return ((table[HALF] - table[OWN_MODEL]) / whole.where(whole > 1e-9)).dropna()


def _close_to_half_star(rows: pd.DataFrame) -> Finding:
    table = _table(rows, OWN_MODEL, HALF_STAR, HALF)
    if not len(found := gained_share(table)):
        return NOTHING
    held = (found.groupby("d").mean() >= CLOSE).tolist()
    own, exact, half = (f"{table[one].mean():.4f}" for one in (OWN_MODEL, HALF_STAR, HALF))
    return Finding(
        held,
        f"AM errs by {own}, half* by {exact}, 1/2 by {half}. AM gets half or more of what half* gains over 1/2 at "
        f"{sum(held)} of {len(held)} numbers of passive columns.",
    )


def _most_where_few(rows: pd.DataFrame) -> Finding:
    found = CURVES.pairs(rows, OWN_MODEL, BY_SCORES)
    if found["d"].nunique() < 2:
        return NOTHING
    middle = float(np.median(found["d"].unique()))
    few, many = (_mean(part) for part in (found[found["d"] < middle], found[found["d"] >= middle]))
    return Finding(
        [few.mean > max(many.mean, 0.0)],
        f"RAM errs {interval_words(few)} less than AM for fewer than {middle:g} passive columns, "
        f"{interval_words(many)} less for more.",
    )


def _never_beats_exact_scores(rows: pd.DataFrame) -> Finding:
    found = CURVES.pairs(rows, OWN_MODEL, HALF_STAR)
    if not len(found):
        return NOTHING
    held = (found.groupby(["dataset", "d"])["difference"].mean() >= 0).tolist()
    return Finding(
        held,
        f"AM errs {interval_words(_mean(found))} more than half*; on average no less in {sum(held)} of {len(held)} "
        "pairs of data set and d.",
    )


def _labels_help_a_little(rows: pd.DataFrame) -> Finding:
    labels, scores = (CURVES.pairs(rows, OWN_MODEL, curve) for curve in (BY_LABELS, BY_SCORES))
    if not (len(labels) and len(scores)):
        return NOTHING
    by_labels, by_scores = _mean(labels), _mean(scores)
    return Finding(
        [by_labels.low > 0, abs(by_labels.mean) < by_scores.mean],
        f"Delivered labels take {interval_words(by_labels)} off AM's error, as many scores "
        f"{interval_words(by_scores)}.",
    )


def _improves_everywhere(rows: pd.DataFrame) -> Finding:
    found = CURVES.pairs(rows, OWN_MODEL, BY_SCORES)
    means = {str(name): interval_over(part, "difference") for name, part in found.groupby("dataset", sort=False)}
    said = ", ".join(f"{interval_words(mean)} ({name})" for name, mean in means.items())
    return Finding([mean.low > 0 for mean in means.values()], f"AM errs more than RAM by {said}." if said else "")


def _as_half(rows: pd.DataFrame) -> Finding:
    found = CURVES.pairs(rows, HALF, OWN_MODEL)
    if not len(found):
        return NOTHING
    means = _table(rows).groupby("d")[[HALF, OWN_MODEL]].mean()
    held = ((means[HALF] - means[OWN_MODEL]).abs() <= NEGLIGIBLE * means[HALF]).tolist()
    return Finding(
        held,
        f"1/2 errs {interval_words(_mean(found))} more than AM, by {means[HALF].mean():.4f} itself; they differ by a "
        f"tenth of that at most at {sum(held)} of {len(held)} numbers of passive columns.",
    )


_REFINING = ("Figure 4", "Refining AM with 100 scores improves the attack significantly.")
_AGNOSTIC = (
    *Claim(
        "Figure 3",
        "Without the scores, the attack does comparably well; for large d the difference to half* is negligible.",
        _negligible_for_many,
    ).on("bank"),
    *Claim(
        "Figure 4", "AM's error is close to that of half*, who has the exact scores.", _close_to_half_star, _ADDED
    ).on(*_VULNERABLE),
    *Claim(
        "Figure 4",
        "AM performs well without a score: it errs less than 1/2 for all.",
        CURVES.below(OWN_MODEL, HALF),
        _ADDED,
    ).on(*_VULNERABLE),
    *Claim(*_REFINING, CURVES.below(BY_SCORES, OWN_MODEL), _NOTHING_LEFT).on("bank", ADULT),
    *Claim(*_REFINING, CURVES.below(BY_SCORES, OWN_MODEL)).on("satellite", "pendigits"),
    *Claim("Figure 4", "Refining helps most where the passive columns are few.", _most_where_few, _NOTHING_LEFT).on(
        *_VULNERABLE, "pendigits"
    ),
    *Claim(
        "Figure 4",
        "The attack with AM isn't effective: it errs no less than 1/2 for all.",
        CURVES.below(HALF, OWN_MODEL),
    ).on("pendigits"),
    Claim(
        "Equation 21",
        "The attack without scores can't surpass that with exact ones.",
        _never_beats_exact_scores,
        "Equation 21 is for estimates as they come. AM's are cut to [0, 1] as in the paper, half*'s needn't be: where "
        "they leave [0, 1], the cut can outweigh what the scores tell.",
    ),
    Claim(
        "Section IV-B",
        "Refining by scores improves the attack pronouncedly, by class labels subtly.",
        _labels_help_a_little,
        "100 labels beside thousands that the active party has anyway are about 100 more records to train on.",
    ),
    Claim("Section VI-A, Figure 5", "RAM improves the attack on every data set.", _improves_everywhere, _NOTHING_LEFT),
    *Claim("Figure 7", "The attack is ineffective: almost as 1/2 for all.", _as_half, _ADDED).on(GRID),
)


def agnostic_statements(frame: pd.DataFrame) -> tuple[Statement, ...]:
    """Judge the claims on Figures 3, 4 and 7 by errors of ``rivals.errors``."""
    return judged(_AGNOSTIC, with_errors(frame), PAPER_DATASETS)


# --- Figure 5 ------------------------------------------------------------------------------------------------------


def refined_statements(frame: pd.DataFrame, by_count: Mapping[int, str]) -> tuple[Statement, ...]:
    """Judge what the paper says of Figure 5.

    Args:
        frame: errors of ``rivals.errors``.
        by_count: the curve of each number of delivered scores, alpha = 1.
    """
    fewest, most = min(by_count), max(by_count)

    def few_columns(rows: pd.DataFrame) -> pd.DataFrame:
        pairs = CURVES.pairs(rows, OWN_MODEL, by_count[fewest])
        return rows[rows["d"] <= pairs["d"].median()]

    claims = (
        Claim(
            "Figure 5",
            f"More delivered scores improve it: {most} more than {fewest}.",
            CURVES.below(by_count[most], by_count[fewest]),
        ),
        Claim(
            "Figure 5",
            f"As few as {fewest} scores improve the attack significantly where the passive columns are few.",
            among(few_columns, CURVES.below(by_count[fewest], OWN_MODEL)),
        ),
    )
    return judged([one for claim in claims for one in claim.on("satellite")], with_errors(frame))


def _unmoved(plain: str, curve: str, words: str, rows: pd.DataFrame) -> Finding:
    found = CURVES.pairs(rows, curve, plain)
    if not len(found):
        return NOTHING
    error = float(CURVES.of(rows, plain)["mse"].mean())
    held = found.groupby("dataset")["difference"].mean().abs() <= NEGLIGIBLE * error
    return Finding(held.tolist(), f"Under {words} it errs {interval_words(_mean(found))} more, of {error:.4f}.")


def unmoved_by_score_defences(frame: pd.DataFrame, plain: str, defended: Mapping[str, str]) -> tuple[Statement, ...]:
    """Judge section V: what is done to scores leaves the agnostic attack alone.

    Args:
        frame: errors of the attack refined by labels, with and without a defence.
        plain: its curve without a defence.
        defended: a curve for each defence's words.
    """
    paper = "Defences of the scores don't stop the attack: what keeps the decision keeps the labels that refine AM."
    claims = [
        Claim("Section V", paper, partial(_unmoved, plain, curve, words), subject=words)
        for words, curve in defended.items()
    ]
    return judged(claims, with_errors(frame))


# --- Figures 6 and 8 -----------------------------------------------------------------------------------------------


def _apart(facts: pd.DataFrame, held: Sequence[bool]) -> Finding:
    """What was found of the data sets' shares of the squared covariance off the diagonal, which it says in words."""
    said = ", ".join(f"{row.dataset} {row.off_diagonal:.2f}" for row in facts.itertuples())
    return Finding(held, f"Share of the squared covariance off the diagonal: {said}." if held else "")


def _nearly_diagonal(facts: pd.DataFrame) -> Finding:
    apart = facts.set_index("dataset")["off_diagonal"]
    others = apart.drop(GRID, errors="ignore")
    own = apart.get(GRID)
    return _apart(facts, [] if own is None or others.empty else [own <= NEGLIGIBLE, own < others.min()])


def _more_diagonal(facts: pd.DataFrame) -> Finding:
    apart = facts.set_index("dataset")["off_diagonal"]
    others = apart[apart.index.isin(_VULNERABLE)]
    return _apart(facts, (others > apart["pendigits"]).tolist() if "pendigits" in apart else [])


def _resists(rows: pd.DataFrame) -> Finding:
    """By the share of 1/2's error that AM takes off."""
    table = _table(rows, HALF, OWN_MODEL)
    shares = (1 - table[OWN_MODEL] / table[HALF]).dropna().rename("gain").reset_index()
    if not len(shares):
        return NOTHING
    gains = {str(name): interval_over(part, "gain") for name, part in shares.groupby("dataset", sort=False)}
    held = [gains[name].low > gains["pendigits"].high for name in _VULNERABLE if {name, "pendigits"} <= set(gains)]
    said = ", ".join(f"{name} {interval_words(one)}" for name, one in gains.items())
    return Finding(held, f"Share of 1/2's error that AM takes off: {said}." if held else "")


_COVARIANCE = (
    Claim(
        "Figure 6",
        "The covariance is nearly diagonal.",
        _nearly_diagonal,
        "Theirs: the 13th column is the outcome itself and varies with others; without it the share is 0.06.",
        GRID,
    ),
    Claim(
        "Figure 6",
        "Its covariance is more diagonal than those of satellite, bank and adult.",
        _more_diagonal,
        subject="pendigits",
    ),
)
_RESISTING = Claim("Figures 4 and 6", "It resists better than those three.", _resists, subject="pendigits")


def covariance_statements(facts: pd.DataFrame, frame: pd.DataFrame) -> tuple[Statement, ...]:
    """Judge the claims on Figure 6.

    Args:
        facts: a row per data set: ``off_diagonal``, the share of the squared covariance off the diagonal.
        frame: errors of AM, half* and 1/2.
    """
    return (*judged(_COVARIANCE, facts), _RESISTING.judged(with_errors(frame)))
