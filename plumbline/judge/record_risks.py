"""The risk of each record: how much closer the best attack comes to it than the best guess, all columns together.

Shares of persons stand beside those of a control: validation records, which were neither trained on nor attacked, each
with what the attack says of a random judged one. What looks like a risk there is luck (as the control of Giomi et al.,
A unified framework for quantifying privacy risk in synthetic data, 2023).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from plumbline.judge.clusters import Clusters
from plumbline.judge.evidence import (
    Predictor,
    SourceVerdict,
    constants,
    densest_constants,
    missing_losses,
    prior_losses,
    squared_losses,
    wrong_losses,
)
from plumbline.judge.federation_part import FLOOR, Losses, at
from plumbline.judge.measures import Interval, exact_share
from plumbline.judge.truth import Truth
from services.common.agreement import Agreement
from services.common.run_records import Estimates
from vfl.arrays import BoolArray, FloatArray, IntArray

# Of what was unknown of a record.
BOUNDS = (0.1, 0.5, 0.9)


@dataclass(frozen=True)
class RiskShare:
    """Which share of persons an attack comes closer to than a guess.

    Attributes:
        bound: from which risk on a person counts; None counts whoever has a value known that a guess doesn't know.
        share: of the judged records, with its exact 95 % interval.
        control: the same of the control; None without one.
    """

    bound: float | None
    share: Interval
    control: Interval | None = None


@dataclass(frozen=True)
class PersonRisk:
    """What an attack tells of one party's persons, at level marginals.

    Attributes:
        party: whose columns they are.
        records: how many distinct ones were judged.
        controls: how many distinct ones were neither trained on nor attacked.
        shares: of persons whose risk is a bound or more, and of those of whom a value is told.
    """

    party: str
    records: int
    controls: int
    shares: tuple[RiskShare, ...]


@dataclass(frozen=True, eq=False)
class RecordRisks:
    """The risk of each judged record of one party; for its owner's eyes.

    Attributes:
        party: whose columns they are.
        rows: (n,) of the common order.
        risk: (n,), 0 to 1: the share of a guess's error that the attack takes away.
        told: (n,) how many of its columns' values are known with the attack and not by guessing.
    """

    party: str
    rows: IntArray
    risk: FloatArray
    told: IntArray


def record_risks(
    truth: Truth,
    estimates: Estimates,
    guesses: Sequence[Predictor],
    verdicts: Sequence[SourceVerdict],
    agreement: Agreement,
) -> list[tuple[PersonRisk, RecordRisks]]:
    """Weigh every judged record, party by party.

    Args:
        truth: of the judged records.
        estimates: which they are.
        guesses: what attacks take their cells for, with scores and without.
        verdicts: on the columns, one for each of the truth's sources.
        agreement: the session's terms.
    """
    guesses = _used(guesses, verdicts)
    auxiliary_rows = np.empty(0, dtype=np.int64) if estimates.auxiliary_rows is None else estimates.auxiliary_rows
    validation = agreement.plan.split(agreement.active.aligned_rows).validation
    spared_rows = np.setdiff1d(validation, np.concatenate([auxiliary_rows, estimates.rows]))
    lots = np.random.default_rng(0).integers(0, len(truth.cells), len(spared_rows))
    weighed = _weighed(truth, truth.cells, guesses, verdicts)
    control_guesses = [one.of_records(lots) for one in guesses]
    spared = truth.of_others(spared_rows)
    control = _weighed(spared, truth.cells, control_guesses, verdicts) if len(spared_rows) else None
    risks = []
    for party in (one.name for one in agreement.parties[1:]):
        risk, told_values = weighed[party]
        shares = tuple(
            RiskShare(
                bound,
                _share(truth.persons, risk, told_values, bound),
                None if control is None else _share(spared.persons, *control[party], bound),
            )
            for bound in (*BOUNDS, None)
        )
        summed = PersonRisk(party, truth.persons.count, spared.persons.count, shares)
        risks.append((summed, RecordRisks(party, estimates.rows, risk, told_values)))
    return risks


def risks_beside(
    truth: Truth, guesses: Sequence[Predictor], control: Sequence[Predictor], verdicts: Sequence[SourceVerdict]
) -> list[PersonRisk]:
    """Weigh every judged record, at the verdicts' headline, beside a control of the same records by other estimates.

    Args:
        truth: of the judged records.
        guesses: what attacks take their cells for, and what is guessed without them.
        control: the same by attacks that read what is another record's, by the same names.
        verdicts: on the columns, one for each of the truth's sources.
    """
    attacked = _weighed(truth, truth.cells, _used(guesses, verdicts), verdicts)
    beside = _weighed(truth, truth.cells, _used(control, verdicts), verdicts)
    return [
        PersonRisk(
            party,
            truth.persons.count,
            truth.persons.count,
            tuple(
                RiskShare(bound, _share(truth.persons, *weighed, bound), _share(truth.persons, *beside[party], bound))
                for bound in (*BOUNDS, None)
            ),
        )
        for party, weighed in attacked.items()
    ]


def _used(guesses: Sequence[Predictor], verdicts: Sequence[SourceVerdict]) -> list[Predictor]:
    """Keep those that a verdict at its headline names."""
    parts = [at(levels, one.headline) for one in verdicts for levels in (one.levels, one.known)]
    names = {name for part in parts for name in (part.attack, part.baseline)}
    return [one for one in guesses if one.name in names]


def _share(persons: Clusters, risk: FloatArray, told_values: IntArray, bound: float | None) -> Interval:
    """Count the persons any of whose records is at risk."""
    is_counted: BoolArray = told_values > 0 if bound is None else risk >= bound
    return exact_share(len(np.unique(persons.numbers[is_counted])), persons.count)


def _weighed(
    truth: Truth, reference: FloatArray, guesses: Sequence[Predictor], verdicts: Sequence[SourceVerdict]
) -> dict[str, tuple[FloatArray, IntArray]]:
    """Weigh the risk of each record, (n,), and count its values that are told, (n,), by the columns' party.

    Means, frequencies and densest places that anybody guesses are those of the judged cells: of others, too. Where no
    attack is shown to tell anything of a column, its adversary guesses like any other.
    """
    cells, count, categories, width = truth.cells, len(truth.cells), truth.told_categories, truth.tolerance
    predictors = [*guesses, *truth.published()]
    everybody, close = (
        [*constants(reference, count), *predictors],
        [*densest_constants(reference, width, count), *predictors],
    )
    errors, missed = _by_name(squared_losses(cells, everybody)), _by_name(missing_losses(cells, close, width))
    named_wrongly = [*prior_losses(cells, categories, reference), *wrong_losses(cells, everybody, categories)]
    wrong = _by_name(named_wrongly)
    places = {id(one): number for number, one in enumerate(categories)}
    # Of a record: what a guess leaves unknown, what the attack leaves of that, and how many values it tells.
    sums = {one: np.zeros((3, count)) for one in truth.owners}
    for verdict, source in zip(verdicts, truth.sources, strict=True):
        headline, hit_verdict = at(verdict.levels, verdict.headline), at(verdict.known, verdict.headline)
        if headline.e0 < FLOOR:
            continue
        named = source.category is not None
        losses, hits, place = (wrong, wrong, places[id(source.category)]) if named else (errors, missed, source.value)
        guess = losses[headline.baseline][:, place]
        # Who finds nothing in a shuffled copy guesses.
        remaining = losses[headline.attack][:, place] if headline.is_exposed and headline.attack in losses else guess
        is_told = verdict.is_exposed() and hit_verdict.attack in hits
        is_right = is_told and (hits[hit_verdict.attack][:, place] == 0) & (hits[hit_verdict.baseline][:, place] > 0)
        sums[verdict.party] += [guess / headline.e0, remaining / headline.e0, is_right + np.zeros(count)]
    return {
        party: (
            np.clip(1 - np.divide(left, guess, out=np.ones_like(left), where=guess > 0), 0.0, 1.0),
            told.astype(int),
        )
        for party, (guess, left, told) in sums.items()
    }


def _by_name(losses: Sequence[Losses]) -> dict[str, FloatArray]:
    return {one.name: one.values for one in losses}
