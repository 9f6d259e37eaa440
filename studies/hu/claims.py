"""What Hu, section 7, states of training, without a defence and with Algorithm 3, and how a run is put to it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import product
from typing import TypeVar

import pandas as pd

from plumbline.judge.measures import Interval
from studies.claims.claim import NOTHING, Claim, Finding, judged, judged_here
from studies.claims.kinds import ahead, among, equal, in_decimals, listed, within
from studies.claims.statement import Statement, interval_of, interval_over, interval_words
from studies.hu.equations import IOTA, KEY_BITS, fact_words
from studies.hu.experiments import HU_EXPERIMENTS, INITIALISATIONS, of_paper
from vfl.theory.training import copies

# Two measures of shares that differ by less are called similar.
SIMILAR = 0.02
# A measure of labels right that is as near to 1/2 is called a guess; one of accuracies that differ by less, comparable.
GUESS, COMPARABLE = 0.05, 0.05
_ROWS, _RAW = "unit-norm rows", "raw pixels"
_PLAIN, _BOUNDED = "standardised", "bounded rows"
# The paper's calibration, of ``vfl.theory.dp_noise``.
PRINTED = "printed"
_BESIDE = (
    "Judged by the noise as printed; the proof needs several times as much (lemma), and less is left of the model then."
)
_T = TypeVar("_T")


# --- numbers of trainings -----------------------------------------------------------------------------------------


def _of(rows: pd.DataFrame, reading: str, start: str, epoch: int | None = None) -> pd.DataFrame:
    """One training of the paper's rate and batch, of one epoch or of all."""
    own = of_paper(rows)
    own = own[(own["reading"] == reading) & (own["initialisation"] == start)]
    return own if epoch is None else own[own["epoch"] == epoch]


def _mean(rows: pd.DataFrame, measure: str, reading: str, start: str, epoch: int) -> Interval:
    return interval_over(_of(rows, reading, start, epoch), measure, ("seed",))


def _lead(rows: pd.DataFrame, measure: str, reading: str, starts: tuple[str, str], epoch: int) -> Interval:
    """By how much one start's measure is above another's with the same seed."""
    left, right = (_of(rows, reading, start, epoch).set_index("seed")[measure] for start in starts)
    return interval_of(left - right)


def _full_epochs(rows: pd.DataFrame, reading: str, start: str) -> "pd.Series[int]":
    """How many epochs from the first have a success by step of exactly 1, by seed."""
    by_seed = _of(rows, reading, start).sort_values("epoch").groupby("seed")["success_step"]
    return by_seed.apply(lambda values: int((values == 1.0).cumprod().sum()))


def _last(rows: pd.DataFrame) -> int:
    return int(rows["epoch"].max())


def _readings(rows: pd.DataFrame) -> list[str]:
    return list(of_paper(rows)["reading"].unique())


# --- tests of trainings without a defence -------------------------------------------------------------------------


def _count_words(found: Mapping[str, int]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in found.items()) + "."


def _best_rate(rows: pd.DataFrame) -> Finding:
    paper, reading = of_paper(rows), _readings(rows)[0]
    chosen = rows[(rows["reading"] == reading) & (rows["batch_size"] == paper["batch_size"].iloc[0])]
    by_rate = chosen[chosen["epoch"] == _last(paper)].groupby(["learning_rate", "seed"])["accuracy_test"].mean()
    ends = by_rate.unstack("learning_rate")
    *others, best = sorted(ends.columns)
    if not others:
        return Finding(measured="Only one rate was run.")
    means = ", ".join(f"{rate:g} {ends[rate].mean():.4f}" for rate in (*others, best))
    return ahead(
        f"Test accuracy after epoch {_last(paper)}, mean over initialisations, {reading}, {best:g} less",
        {f"{rate:g}": interval_of(ends[best] - ends[rate]) for rate in others},
        f"By rate: {means}.",
    )


def _faster(reading: str, rows: pd.DataFrame) -> Finding:
    first = _lead(rows, "accuracy_test", reading, ("zero", "xavier"), 1)
    starts = ", ".join(
        f"from {one} {interval_words(_mean(rows, 'accuracy_test', reading, one, 1), decimals=3)}"
        for one in ("zero", "xavier")
    )
    last = _lead(rows, "accuracy_test", reading, ("zero", "xavier"), _last(rows))
    end = f"After epoch 1 {starts}; after epoch {_last(rows)} zero is ahead by {interval_words(last, decimals=4)}."
    return ahead(f"Test accuracy, {reading}, zero less Xavier with the same seed", {"after epoch 1": first}, end)


def _right_in_time(rows: pd.DataFrame) -> Finding:
    """Whether the criterion errs before T_eps."""
    runs = rows[rows["epoch"] == 1]
    early = (runs["first_wrong_step"] < runs["guaranteed_steps"]).fillna(value=False).astype(bool)
    said = [
        f"{reading} {start} {own['guaranteed_steps'].min()}, "
        + (f"first error at step {wrong.min()}" if (wrong := own["first_wrong_step"]).notna().any() else "no error")
        for (reading, start), own in runs.groupby(["reading", "initialisation"], sort=False)
    ]
    lead = "T_eps with the largest ||x||^2 of a row, and the first step (from 0) that errs in any seed: "
    return in_time(runs, ~early, lead + "; ".join(said) + ".")


def in_time(runs: pd.DataFrame, held: "pd.Series[bool]", measured: str) -> Finding:
    """Whether the criterion is right before T_eps; empty where no training has a T_eps above 1, which says nothing."""
    told = runs["guaranteed_steps"] > 1
    if not told.any():
        return Finding((), f"{measured} No training has a T_eps above 1: there is nothing to be right in.", empty=True)
    return Finding(held[told].tolist(), measured)


def _full_success(rows: pd.DataFrame) -> Finding:
    last = _last(rows)
    held = [bool((_full_epochs(rows, _ROWS, one) >= min(2, last)).all()) for one in INITIALISATIONS]
    paper = of_paper(rows)
    lowest = paper.loc[paper["reading"] == _ROWS, "success_step"].min()
    said = f"{_ROWS}: lowest success by step of any epoch, initialisation and seed {lowest:.4f} over {last} epochs."
    if _RAW in _readings(rows):
        ends = (interval_words(_mean(rows, "success_step", _RAW, "zero", epoch), decimals=4) for epoch in (1, last))
        said += f" Raw pixels, norms far beyond the paper's 1, from zero: {' in epoch 1, '.join(ends)} in epoch {last}."
    return Finding(held, said)


def _longer_from_zero(rows: pd.DataFrame) -> Finding:
    names, last = _readings(rows), _last(rows)
    leads = {one: interval_of(_full_epochs(rows, one, "zero") - _full_epochs(rows, one, "xavier")) for one in names}
    lead = f"Epochs at 100 % by step, zero less Xavier, of {last}"
    found = listed(lead, leads, lambda one: one.mean >= 10, in_decimals(1))
    always = all((_full_epochs(rows, one, "xavier") == last).all() for one in names)
    return Finding([] if always or last <= 10 else [any(found.held)], found.measured)


def _similar_starts(rows: pd.DataFrame) -> Finding:
    named = {"test accuracy": "accuracy_test", "success by step": "success_step"}
    return listed(
        f"{_ROWS}, after epoch {_last(rows)}, Kaiming less Xavier",
        {words: _lead(rows, one, _ROWS, ("kaiming", "xavier"), _last(rows)) for words, one in named.items()},
        within(SIMILAR),
        in_decimals(4),
        f"Similar means within {SIMILAR}.",
    )


def _bounded_norm(rows: pd.DataFrame) -> Finding:
    last = _last(rows)
    ends = (
        f"{one} {interval_words(_mean(rows, 'theta_norm', _ROWS, one, last), decimals=2)}" for one in INITIALISATIONS
    )
    return listed(
        f"Largest ||theta|| within {last} epochs, over initialisations and seeds",
        {str(name): own["theta_norm"].max() for name, own in of_paper(rows).groupby("reading", sort=False)},
        lambda largest: largest <= 2,
        "{:.2f}".format,
        f"After epoch {last}, {_ROWS}: {', '.join(ends)}.",
    )


def _less_than_one(rows: pd.DataFrame) -> Finding:
    last = _last(rows)
    ends = {
        name: {one: _mean(rows, "success_step", name, one, last) for one in INITIALISATIONS} for name in _readings(rows)
    }
    by_start = _lead(rows, "success_step", _PLAIN, ("zero", "xavier"), last)
    said = (
        f"{name}: " + ", ".join(f"{one} {interval_words(value, decimals=4)}" for one, value in values.items())
        for name, values in ends.items()
    )
    shorter = ends[_BOUNDED]["xavier"].mean > ends[_PLAIN]["zero"].mean
    return Finding(
        [ends[_PLAIN]["xavier"].high < 1, ends[_BOUNDED]["xavier"].high < 1, by_start.low > 0],
        f"Success by step in epoch {last}: {'; '.join(said)}. Zero is above Xavier by "
        f"{interval_words(by_start, decimals=4)} ({_PLAIN}).",
        "What matters is rows far longer than 1, not the initialisation alone: bounded to 1, all labels are read."
        if shorter
        else "",
    )


def _any_batch(rows: pd.DataFrame) -> Finding:
    rate = of_paper(rows)["learning_rate"].iloc[0]
    own = rows[(rows["reading"] == _PLAIN) & (rows["initialisation"] == "zero") & (rows["epoch"] == _last(rows))]
    own = own[own["learning_rate"] == rate]
    by_size = own.groupby(["batch_size", "seed"])["success_step"].mean().unstack("batch_size")
    *others, largest = sorted(by_size.columns)
    if not others:
        return Finding(measured="Only one batch size was run.")
    means = ", ".join(f"{one} {interval_words(interval_of(by_size[one]), decimals=4)}" for one in (*others, largest))
    return listed(
        f"Success by step in epoch {_last(rows)} from zero, {_PLAIN}, less that of batches of {largest}",
        {f"batch {one}": interval_of(by_size[one] - by_size[largest]) for one in others},
        within(SIMILAR),
        in_decimals(4),
        f"By batch: {means}.",
    )


def _recovered(facts: pd.DataFrame) -> Finding:
    said = " ".join(f"{one.reading}: {fact_words(one)}" for one in facts.itertuples())
    return Finding((facts["recovered"] == facts["batches"]).tolist(), said)


def _unique_and_fitting(facts: pd.DataFrame) -> Finding:
    enough = facts[facts["equations"] >= facts["rows"]]
    held = [bool((enough["recovered"] == enough["batches"]).all()), bool(facts["fits"].all())] if len(enough) else []
    return Finding(held, _recovered(facts).measured)


_RATE = "The rate is tuned over 0.001, 0.003 and 0.01, and 0.01 chosen."
_FASTER = "From zero the accuracy increases faster than from Xavier."
_IN_TIME = Claim(
    "Corollary 4.5, Theorems 4.6, 4.8",
    "The criterion is right for at least the first T_eps iterations.",
    among(of_paper, _right_in_time),
)
_MNIST = (
    Claim(
        "section 7, data",
        "5,923 training and 980 test samples of digit 0, 6,742 and 1,135 of digit 1.",
        equal(
            {"train_rows": 5923 + 6742, "test_rows": 980 + 1135, "train_ones": 6742, "test_ones": 1135}, _count_words
        ),
    ),
    Claim("section 7, learning setting", _RATE, _best_rate),
    Claim(
        "Figure 3, top",
        "Without defense, the success rate of the label attack is 100 % for several epochs.",
        _full_success,
    ),
    Claim(
        "section 7, results on MNIST",
        "From zero, the success rate of the label attack stays 100 % for 10 more epochs than from Xavier.",
        _longer_from_zero,
        "With rows of norm 1 no initialisation errs within 30 epochs; with raw pixels all do in the first.",
    ),
    Claim("section 7, results on MNIST", _FASTER, partial(_faster, _ROWS)),
    Claim(
        "section 7, results on MNIST",
        "The results under Kaiming initialisation are similar to those under Xavier.",
        _similar_starts,
    ),
    Claim(
        "Figure 3, bottom",
        "The norm of theta is bounded by 2 throughout training, which verifies G = 1.",
        _bounded_norm,
        "Random weights of 784 columns start with a norm above 1 and grow from there.",
    ),
    _IN_TIME,
)
_MNIST_EQUATIONS = Claim(
    "Corollary 3.2, section 7 (batch 256)",
    "s <= d_B equations determine f: features are taken to be in general position.",
    among(lambda facts: facts[(facts["copies"] == 1) & (facts["rows"] <= facts["features"])], _recovered),
    "Constant pixels cost rank: half an image has some 200 to 245 that vary. Success is drawn for the f that Algorithm "
    "2 makes known.",
    "mnist01",
)
_CREDIT = (
    Claim(
        "section 7, data",
        "30,000 samples of 23 features, split at random into 27,000 for training and 3,000 for testing.",
        equal({"train_rows": 27_000, "test_rows": 3_000, "columns": 23}, _count_words),
    ),
    Claim("section 7, learning setting", _RATE, _best_rate),
    Claim(
        "Figure 4",
        "The success rate of the label attack is less than 1 from Xavier because there are only 23 features, so that "
        "its scale is large.",
        _less_than_one,
    ),
    Claim("Figure 4", _FASTER, partial(_faster, _PLAIN)),
    Claim(
        "section 7, learning setting",
        "The validity of Criterion 4.2 is independent of the choice of batch size.",
        _any_batch,
        "T_eps counts steps: a smaller batch takes more of them in an epoch, and theta is further on.",
    ),
    _IN_TIME,
)
_CREDIT_EQUATIONS = Claim(
    "section 5.2",
    f"u = {copies(KEY_BITS, IOTA)} auxiliary features per feature at {KEY_BITS} bits and iota = {IOTA} make f unique "
    "at batch 256.",
    _unique_and_fitting,
    "Sums of features beyond 1 take more bits than iota has, and fewer of them fit a key.",
    "credit",
)


def mnist_statements(results: pd.DataFrame, facts: pd.DataFrame) -> tuple[Statement, ...]:
    """Judge what the paper states of MNIST 0/1; ``facts``: what its equations determine."""
    return (*judged((on for one in _MNIST for on in one.on("mnist01")), results), _MNIST_EQUATIONS.judged(facts))


def credit_statements(results: pd.DataFrame, facts: pd.DataFrame) -> tuple[Statement, ...]:
    """Judge what the paper states of credit; ``facts``: what its equations determine."""
    return (*judged((on for one in _CREDIT for on in one.on("credit")), results), _CREDIT_EQUATIONS.judged(facts))


# --- tests of Algorithm 3 -----------------------------------------------------------------------------------------


def _noisy(rows: pd.DataFrame, *epsilons: float) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """The trainings from Xavier by calibration and epsilon: calibration, words, rows."""
    for calibration, epsilon in product(rows["calibration"].unique(), epsilons):
        chosen = (rows["calibration"] == calibration) & (rows["epsilon"] == epsilon)
        words = f"{calibration} epsilon {epsilon:g}" if epsilon else f"{calibration} no noise"
        yield str(calibration), words, rows[chosen & (rows["initialisation"] == "xavier")]


def _ends(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[rows["epoch"] == _last(rows)]


def _less_plain(rows: pd.DataFrame, own: pd.DataFrame, calibration: str, base: float) -> Interval:
    """Test accuracy less that of another epsilon with the same seed."""
    (other,) = (plain for name, _, plain in _noisy(rows, base) if name == calibration)
    return interval_of(own.set_index("seed")["accuracy_test"] - other.set_index("seed")["accuracy_test"])


def _as_printed(
    lead: str, found: Mapping[str, _T], holds: Callable[[_T], bool], words: Callable[[_T], str], end: str = ""
) -> Finding:
    """As ``listed``, judged by the noise as printed, which is the paper's; that of the lemma is told beside it."""
    of_paper = [holds(value) for name, value in found.items() if name.startswith(PRINTED)]
    return replace(listed(lead, found, holds, words, end), held=of_paper, reason=_BESIDE) if of_paper else NOTHING


def _still_accurate(rows: pd.DataFrame) -> Finding:
    found = {key: interval_over(own, "accuracy_test", ("seed",)) for key, _, own in _noisy(_ends(rows), 0.2)}
    lead = f"From Xavier at epsilon 0.2, after epoch {_last(rows)}"
    return _as_printed(lead, found, lambda one: one.low > 0.9, in_decimals(3))


def _large_noise(rows: pd.DataFrame) -> Finding:
    found = {key: float(own["sigma_passive"].min()) for key, _, own in _noisy(rows, 0.5)}
    return _as_printed("The smaller of the two, sigma_B", found, lambda one: one > 10, "{:.1f}".format)


def _noisy_norm(rows: pd.DataFrame) -> Finding:
    found = {words: float(own["theta_norm"].max()) for _, words, own in _noisy(rows, 0.0, 0.1, 0.2, 0.5)}
    lead = f"Largest ||theta|| from Xavier within {_last(rows)} epochs"
    return _as_printed(lead, found, lambda one: one <= 2, "{:.2f}".format)


def _comparable(rows: pd.DataFrame) -> Finding:
    ends = _ends(rows)
    gaps = {words: _less_plain(ends, own, key, 0.0) for key, words, own in _noisy(ends, 0.1, 0.2, 0.5)}
    lead, end = "Test accuracy from Xavier, with noise less without", f"Comparable means within {COMPARABLE}."
    return _as_printed(lead, gaps, lambda gap: gap.low > -COMPARABLE, in_decimals(3), end)


def _guessing(rows: pd.DataFrame) -> Finding:
    found = {
        words: interval_of(own.groupby("seed")["success_step"].mean()) for _, words, own in _noisy(rows, 0.1, 0.2, 0.5)
    }
    lead, end = "Labels right by step from Xavier, mean over epochs", f"A guess means within {GUESS} of 0.5."
    return _as_printed(lead, found, lambda one: abs(one.mean - 0.5) < GUESS, in_decimals(3), end)


def _larger_costs_less(rows: pd.DataFrame) -> Finding:
    ends = _ends(rows)
    gaps = {key: _less_plain(ends, own, key, 0.1) for key, _, own in _noisy(ends, 0.5)}
    lead = "Test accuracy from Xavier, epsilon 0.5 less 0.1"
    of_paper = ahead(lead, {key: gap for key, gap in gaps.items() if key == PRINTED}).held
    return replace(ahead(lead, gaps, decimals=3), held=of_paper)


_DEFENDED_MNIST = (
    Claim(
        "Figure 2",
        "More than 90 % test accuracy under the defense, even for epsilon as small as 0.2.",
        _still_accurate,
    ),
    Claim("section 7, results on MNIST", "sigma_A and sigma_B are larger than 10 at epsilon = 0.5.", _large_noise),
    Claim(
        "Figure 3, bottom",
        "Under the defence, too, the norm of theta is bounded by 2 throughout training.",
        _noisy_norm,
        "Noise is a random walk of theta, and random weights of 784 columns start above 1.",
    ),
)


_DEFENDED = (
    Claim(
        "Figures 2 and 4",
        "The performance under the defence is comparable to that without, especially for larger epsilon.",
        _comparable,
    ),
    Claim(
        "Figures 3, top, and 4",
        "For every epsilon the success of the label attack falls to about 50 %, a random guess.",
        _guessing,
    ),
    Claim("section 7, results on MNIST and credit", "A larger epsilon costs less accuracy.", _larger_costs_less),
)


def defended_statements(results: pd.DataFrame) -> tuple[Statement, ...]:
    """Judge what the paper states of the defence; ``results`` as ``algorithm3.defended_of`` makes them."""
    claims = [on for one in _DEFENDED_MNIST for on in one.on("mnist01")]
    claims += [on for name in HU_EXPERIMENTS for one in _DEFENDED for on in one.on(name)]
    return judged_here(claims, results)
