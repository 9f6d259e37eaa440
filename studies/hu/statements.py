"""What Hu, section 7, states of training without a defence, and whether a run bears it out."""

from collections.abc import Callable

import pandas as pd

from plumbline.judge.measures import Interval
from studies.claims.statement import Statement, Verdict, interval_over, verdict_of
from studies.hu.equations import IOTA, KEY_BITS, fact_words
from studies.hu.experiments import INITIALISATIONS, of_paper
from vfl.theory.training import copies

# Two measures of shares that differ by less are called similar.
SIMILAR = 0.02
_COUNTS = {"mnist01": (5923 + 6742, 980 + 1135, 6742, 1135), "credit": (27_000, 3_000, None, None)}
_ROWS, _RAW = "unit-norm rows", "raw pixels"
_PLAIN, _BOUNDED = "standardised", "bounded rows"


class Trainings:
    """One data set's trainings: means over seeds, and differences from seed to seed."""

    def __init__(self, results: pd.DataFrame) -> None:
        self.everything = results
        self._results = of_paper(results)
        self.last = int(self._results["epoch"].max())
        self.readings = tuple(self._results["reading"].unique())

    def of(self, reading: str, initialisation: str, epoch: int | None = None) -> pd.DataFrame:
        """The rows of one training, of one epoch or of all."""
        chosen = self._results[
            (self._results["reading"] == reading) & (self._results["initialisation"] == initialisation)
        ]
        return chosen if epoch is None else chosen[chosen["epoch"] == epoch]

    def mean(self, measure: str, reading: str, initialisation: str, epoch: int) -> Interval:
        """A measure's mean over seeds after an epoch, with its interval."""
        return interval_over(self.of(reading, initialisation, epoch), measure, ("seed",))

    def lead(self, measure: str, reading: str, first: str, second: str, epoch: int) -> Interval:
        """By how much one initialisation's measure is above another's with the same seed."""
        left, right = (self.of(reading, kind, epoch).set_index("seed")[measure] for kind in (first, second))
        return interval_over((left - right).rename("lead").reset_index(), "lead", ("seed",))

    def full_epochs(self, reading: str, initialisation: str) -> pd.Series:
        """How many epochs from the start have a success by step of exactly 1, by seed."""
        by_seed = self.of(reading, initialisation).sort_values("epoch").groupby("seed")["success_step"]
        return by_seed.apply(lambda values: int((values == 1.0).cumprod().sum()))

    def extreme(self, measure: str, reading: str, how: Callable[[pd.Series], float]) -> float:
        """The lowest or highest value of a measure, over initialisations, seeds and epochs."""
        return float(how(self._results.loc[self._results["reading"] == reading, measure]))


def mnist_statements(results: pd.DataFrame, facts: pd.DataFrame) -> list[Statement]:
    """Judge what the paper states of MNIST 0/1."""
    found = Trainings(results)
    return [
        _counts("mnist01", results),
        _rate("mnist01", found),
        _full_success(found),
        _zero_ahead(found),
        _faster(found, "mnist01", "section 7, results on MNIST", _ROWS),
        _similar_starts(found),
        _norm(found),
        _general_position(facts),
        guarantee("mnist01", of_paper(results)),
    ]


def credit_statements(results: pd.DataFrame, facts: pd.DataFrame) -> list[Statement]:
    """Judge what the paper states of credit."""
    found = Trainings(results)
    return [
        _counts("credit", results),
        _rate("credit", found),
        _below_one(found),
        _faster(found, "credit", "Figure 4", _PLAIN),
        _any_batch(found),
        _spare_equations(facts),
        guarantee("credit", of_paper(results)),
    ]


def words(interval: Interval, digits: int = 4) -> str:
    """Write a mean with its interval, or alone where one seed has none."""
    mean = f"{interval.mean:.{digits}f}"
    if interval.alone:
        return f"{mean} (no interval)"
    return f"{mean} [{interval.low:.{digits}f}, {interval.high:.{digits}f}]"


def ordering(lead: Interval) -> Verdict:
    """Judge 'above' by a paired difference: reproduced, where its interval is; in part, where only its mean is.

    One seed has no interval, and no more than its mean.
    """
    return "reproduced" if lead.low > 0 and not lead.alone else "in part" if lead.mean > 0 else "differs"


# --- both data sets ---------------------------------------------------------------------------------------------


def _counts(name: str, results: pd.DataFrame) -> Statement:
    stated, row = _COUNTS[name], results.iloc[0]
    measured = (row["train_rows"], row["test_rows"], row["train_ones"], row["test_ones"])
    held = [int(found) == said for said, found in zip(stated, measured, strict=True) if said is not None]
    if name == "credit":
        paper = "30,000 samples of 23 features, split at random into 27,000 for training and 3,000 for testing."
        held.append(int(row["columns"]) == 23)
    else:
        paper = "5,923 training and 980 test samples of digit 0, 6,742 and 1,135 of digit 1."
    zeros = row["train_rows"] - row["train_ones"], row["test_rows"] - row["test_ones"]
    return Statement(
        "section 7, data",
        name,
        paper,
        verdict_of(held),
        f"{row['columns']} features; of class 0 {zeros[0]:,} training and {zeros[1]:,} test rows, of class 1 "
        f"{row['train_ones']:,} and {row['test_ones']:,}.",
    )


def _rate(name: str, found: Trainings) -> Statement:
    everything, reading = found.everything, found.readings[0]
    last = everything[
        (everything["epoch"] == found.last)
        & (everything["reading"] == reading)
        & (everything["batch_size"] == of_paper(everything)["batch_size"].iloc[0])
    ]
    ends = last.groupby(["learning_rate", "seed"])["accuracy_test"].mean().unstack("learning_rate")
    rates = sorted(ends.columns)
    paper = "The rate is tuned over 0.001, 0.003 and 0.01, and 0.01 chosen."
    if len(rates) < 2:
        return Statement("section 7, learning setting", name, paper, "not measured", "Only one rate was run.")
    best = rates[-1]
    leads = {rate: _paired(ends[best] - ends[rate]) for rate in rates[:-1]}
    verdicts = {ordering(lead) for lead in leads.values()}
    return Statement(
        "section 7, learning setting",
        name,
        paper,
        verdicts.pop() if len(verdicts) == 1 else "in part",
        f"Test accuracy after epoch {found.last}, mean over initialisations, {reading}: "
        + ", ".join(f"{rate:g} {ends[rate].mean():.4f}" for rate in rates)
        + f"; {best:g} is ahead by "
        + " and ".join(f"{words(lead)} ({rate:g})" for rate, lead in leads.items())
        + ".",
    )


def _paired(values: pd.Series) -> Interval:
    return interval_over(values.rename("lead").reset_index(), "lead", ("seed",))


def _faster(found: Trainings, name: str, source: str, reading: str) -> Statement:
    leads = {epoch: found.lead("accuracy_test", reading, "zero", "xavier", epoch) for epoch in (1, found.last)}
    return Statement(
        source,
        name,
        "From zero the accuracy increases faster than from Xavier.",
        ordering(leads[1]),
        f"Test accuracy, {reading}, zero less Xavier with the same seed: after epoch 1 {words(leads[1])} "
        f"(from zero {words(found.mean('accuracy_test', reading, 'zero', 1), 3)}, from Xavier "
        f"{words(found.mean('accuracy_test', reading, 'xavier', 1), 3)}); after epoch {found.last} "
        f"{words(leads[found.last])}.",
    )


def guarantee(name: str, results: pd.DataFrame) -> Statement:
    """Judge whether the criterion errs before T_eps; ``results`` name reading, initialisation and seed."""
    runs = results[results["epoch"] == 1]
    wrong = runs["first_wrong_step"]
    in_time = (wrong < runs["guaranteed_steps"]).fillna(value=False).astype(bool)
    spans = "; ".join(
        f"{reading} {kind} {part['guaranteed_steps'].min()}, "
        + (
            f"first error at step {part['first_wrong_step'].min()}"
            if part["first_wrong_step"].notna().any()
            else "no error"
        )
        for (reading, kind), part in runs.groupby(["reading", "initialisation"], sort=False)
    )
    return Statement(
        "Corollary 4.5, Theorems 4.6, 4.8",
        name,
        "The criterion is right for at least the first T_eps iterations.",
        verdict_of((~in_time).tolist()),
        f"T_eps with the largest ||x||^2 of a row, and the first step (from 0) that errs in any seed: {spans}.",
    )


# --- MNIST ------------------------------------------------------------------------------------------------------


def _full_success(found: Trainings) -> Statement:
    wanted = min(2, found.last)
    held = [bool((found.full_epochs(_ROWS, kind) >= wanted).all()) for kind in INITIALISATIONS]
    raw = ""
    if _RAW in found.readings:
        first, last = (found.mean("success_step", _RAW, "zero", epoch) for epoch in (1, found.last))
        raw = f" Raw pixels, norms far beyond the paper's 1, from zero: {words(first)} in epoch 1, {words(last)} in "
        raw += f"epoch {found.last}."
    return Statement(
        "Figure 3, top",
        "mnist01",
        "Without defense, the success rate of the label attack is 100 % for several epochs.",
        verdict_of(held),
        f"{_ROWS}: lowest success by step of any epoch, initialisation and seed "
        f"{found.extreme('success_step', _ROWS, min):.4f} over {found.last} epochs." + raw,
    )


def _zero_ahead(found: Trainings) -> Statement:
    ahead = {}
    for reading in found.readings:
        ahead[reading] = _paired(
            (found.full_epochs(reading, "zero") - found.full_epochs(reading, "xavier")).astype(float)
        )
    everywhere = all((found.full_epochs(name, "xavier") == found.last).all() for name in found.readings)
    paper = "From zero, the success rate of the label attack stays 100 % for 10 more epochs than from Xavier."
    measured = f"Epochs at 100 % by step, zero less Xavier, of {found.last}: "
    measured += "; ".join(f"{name} {words(lead, 1)}" for name, lead in ahead.items()) + "."
    if everywhere or found.last <= 10:
        return Statement("section 7, results on MNIST", "mnist01", paper, "not measured", measured)
    return Statement(
        "section 7, results on MNIST",
        "mnist01",
        paper,
        verdict_of([max(lead.mean for lead in ahead.values()) >= 10]),
        measured,
        "With rows of norm 1 no initialisation errs within 30 epochs; with raw pixels all do in the first.",
    )


def _similar_starts(found: Trainings) -> Statement:
    leads = {
        measure: found.lead(measure, _ROWS, "kaiming", "xavier", found.last)
        for measure in ("accuracy_test", "success_step")
    }
    return Statement(
        "section 7, results on MNIST",
        "mnist01",
        "The results under Kaiming initialisation are similar to those under Xavier.",
        verdict_of([max(abs(lead.low), abs(lead.high)) < SIMILAR for lead in leads.values()]),
        f"{_ROWS}, after epoch {found.last}, Kaiming less Xavier: test accuracy {words(leads['accuracy_test'])}, "
        "success "
        f"by step {words(leads['success_step'])}; similar means within {SIMILAR}.",
    )


def _norm(found: Trainings) -> Statement:
    largest = {name: found.extreme("theta_norm", name, max) for name in found.readings}
    return Statement(
        "Figure 3, bottom",
        "mnist01",
        "The norm of theta is bounded by 2 throughout training, which verifies G = 1.",
        verdict_of([high <= 2 for high in largest.values()]),
        f"Largest ||theta|| within {found.last} epochs, over initialisations and seeds: "
        + "; ".join(f"{name} {high:.2f}" for name, high in largest.items())
        + f". After epoch {found.last}, {_ROWS}: "
        + ", ".join(f"{kind} {words(found.mean('theta_norm', _ROWS, kind, found.last), 2)}" for kind in INITIALISATIONS)
        + ".",
        "Random weights of 784 columns start with a norm above 1 and grow from there.",
    )


def _general_position(facts: pd.DataFrame) -> Statement:
    alone = facts[(facts["copies"] == 1) & (facts["rows"] <= facts["features"])] if len(facts) else facts
    held = (alone["recovered"] == alone["batches"]).tolist() if len(alone) else []
    return Statement(
        "Corollary 3.2, section 7 (batch 256)",
        "mnist01",
        "s <= d_B equations determine f: features are taken to be in general position.",
        verdict_of(held),
        " ".join(f"{fact.reading}: {fact_words(fact)}" for fact in alone.itertuples()),
        "Constant pixels cost rank: half an image has some 200 to 245 that vary. Success is drawn for the f that "
        "Algorithm 2 makes known.",
    )


# --- credit -----------------------------------------------------------------------------------------------------


def _below_one(found: Trainings) -> Statement:
    ends = {
        name: {kind: found.mean("success_step", name, kind, found.last) for kind in INITIALISATIONS}
        for name in found.readings
    }
    by_start = found.lead("success_step", _PLAIN, "zero", "xavier", found.last)
    shorter = ends[_BOUNDED]["xavier"].mean > ends[_PLAIN]["zero"].mean
    return Statement(
        "Figure 4",
        "credit",
        "The success rate of the label attack is less than 1 from Xavier because there are only 23 features, so that "
        "its "
        "scale is large.",
        verdict_of([ends[_PLAIN]["xavier"].high < 1, ends[_BOUNDED]["xavier"].high < 1, by_start.low > 0]),
        f"Success by step in epoch {found.last}: "
        + "; ".join(
            f"{name}: " + ", ".join(f"{kind} {words(value)}" for kind, value in values.items())
            for name, values in ends.items()
        )
        + f". Zero is above Xavier by {words(by_start)} ({_PLAIN}).",
        "What matters is rows far longer than 1, not the initialisation alone: bounded to 1, all labels are read."
        if shorter
        else "",
    )


def _any_batch(found: Trainings) -> Statement:
    everything = found.everything
    chosen = everything[
        (everything["reading"] == _PLAIN)
        & (everything["initialisation"] == "zero")
        & (everything["epoch"] == found.last)
        & (everything["learning_rate"] == of_paper(everything)["learning_rate"].iloc[0])
    ]
    by_size = chosen.groupby(["batch_size", "seed"])["success_step"].mean().unstack("batch_size")
    paper = "The validity of Criterion 4.2 is independent of the choice of batch size."
    if by_size.shape[1] < 2:
        return Statement("section 7, learning setting", "credit", paper, "not measured", "Only one batch size was run.")
    sizes = sorted(by_size.columns)
    gaps = [_paired(by_size[size] - by_size[sizes[-1]]) for size in sizes[:-1]]
    return Statement(
        "section 7, learning setting",
        "credit",
        paper,
        verdict_of([max(abs(gap.low), abs(gap.high)) < SIMILAR for gap in gaps]),
        f"Success by step in epoch {found.last} from zero, {_PLAIN}: "
        + ", ".join(f"batch {size} {words(_paired(by_size[size]))}" for size in sizes)
        + ".",
        "T_eps counts steps: a smaller batch takes more of them in an epoch, and theta is further on.",
    )


def _spare_equations(facts: pd.DataFrame) -> Statement:
    enough = facts[facts["equations"] >= facts["rows"]] if len(facts) else facts
    recovered = (enough["recovered"] == enough["batches"]).tolist() if len(enough) else []
    return Statement(
        "section 5.2",
        "credit",
        f"u = {copies(KEY_BITS, IOTA)} auxiliary features per feature at {KEY_BITS} bits and iota = {IOTA} make f "
        "unique "
        "at batch 256.",
        verdict_of([all(recovered), bool(facts["fits"].all())]) if recovered else "not measured",
        " ".join(f"{fact.reading}: {fact_words(fact)}" for fact in facts.itertuples()),
        "Sums of features beyond 1 take more bits than iota has, and fewer of them fit a key.",
    )
