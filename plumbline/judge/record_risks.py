"""The risk of each record: how much closer the best attack comes to it than the best guess, all columns together.

Shares of persons stand beside those of a control: persons that were in neither training nor predictions, each with what
the attack says of a random judged one. What looks like a risk there is luck (as the control of Giomi et al., A unified
framework for quantifying privacy risk in synthetic data, 2023).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from plumbline.judge.evidence import Evidence, Predictor
from plumbline.judge.federation_part import FLOOR, Losses, at
from plumbline.judge.lights import LEAST_RECORDS
from plumbline.judge.measures import Interval, exact_share
from plumbline.judge.predictions import DENSEST, WITHHELD, PredictionFindings, Truth
from services.common.agreement import Agreement
from services.common.run_folder import RunFolder
from services.common.run_records import Estimates
from services.party.party_model import rows_of_plan
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

    @property
    def is_beyond_control(self) -> bool:
        """Whether it is shown to be more than of persons about whom nothing was asked."""
        return self.control is not None and self.share.low > self.control.high


@dataclass(frozen=True)
class PersonRisk:
    """What an attack tells of one party's persons, at level marginals.

    Attributes:
        party: whose columns they are.
        records: how many were judged.
        controls: how many were in neither training nor predictions.
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


def read_record_risks(
    folder: RunFolder, agreement: Agreement, predictions: PredictionFindings
) -> list[tuple[PersonRisk, RecordRisks]]:
    """Weigh every judged record, party by party; nothing where fewer than ``LEAST_RECORDS`` were judged.

    Args:
        folder: what the parties wrote.
        agreement: the session's terms.
        predictions: what was found of them.

    Raises:
        RunFolderError: for a file that is missing or broken.
    """
    if predictions.records < LEAST_RECORDS or not any(at(one.levels).attack for one in predictions.sources):
        return []
    names, estimates = [party.name for party in agreement.parties[1:]], folder.estimates(0)
    truth = Truth(folder, names, estimates)
    known = np.empty(0, dtype=np.int64) if estimates.auxiliary_rows is None else estimates.auxiliary_rows
    split = rows_of_plan(agreement.plan, agreement.active.aligned_rows)
    others = np.setdiff1d(split.validation, np.concatenate([known, estimates.rows]))
    strangers = Truth(folder, names, Estimates(others, {}, known))
    of_others = np.random.default_rng(0).integers(0, len(truth.cells), len(others))
    judged = _Weighed(truth, estimates, np.arange(len(truth.cells)), predictions)
    control = _Weighed(strangers, estimates, of_others, predictions) if len(others) else None
    found = []
    for party in names:
        risk, told = judged.of(party)
        drawn = None if control is None else control.of(party)
        shares = tuple(
            RiskShare(bound, _share(risk, told, bound), None if drawn is None else _share(*drawn, bound))
            for bound in (*BOUNDS, None)
        )
        summed = PersonRisk(party, len(risk), len(others), shares)
        found.append((summed, RecordRisks(party, estimates.rows, risk, told)))
    return found


def _share(risk: FloatArray, told: IntArray, bound: float | None) -> Interval:
    counted: BoolArray = told > 0 if bound is None else risk >= bound
    return exact_share(int(counted.sum()), len(counted))


class _Weighed:
    """What guesses and attacks cost in each record and column of the passive tables."""

    def __init__(self, truth: Truth, estimates: Estimates, said: IntArray, found: PredictionFindings) -> None:
        """Take the truth, and as estimates those of the judged records ``said``, one for each record of the truth."""
        arrays, done = estimates.by_attack, [one.attack for one in found.attacks if one.mse is not None]

        def predictor(name: str) -> Predictor:
            densest = arrays.get(DENSEST + name)
            return Predictor(name, "nothing", arrays[name][said], None if densest is None else densest[said])

        own = [predictor(name) for name in done]
        withheld = [
            Predictor(f"{name}, scores withheld", "nothing", arrays[WITHHELD + name][said])
            for name in done
            if WITHHELD + name in arrays
        ]
        evidence = Evidence.of(truth.cells, [], [*own, *withheld, *truth.published()])
        rows, categories = np.arange(len(truth.cells)), truth.told_categories
        self._errors = _by_name(evidence.squared(rows)[1])
        self._missed = _by_name(evidence.missing(rows, tolerance=truth.tolerance)[1])
        self._wrong = _by_name(evidence.wrong(rows, categories=categories)[1]) if categories else {}
        places = {id(one): number for number, one in enumerate(categories)}
        self._sources = [
            (verdict, source.value, None if source.category is None else places[id(source.category)])
            for verdict, source in zip(found.sources, truth.sources, strict=True)
        ]
        self._records = len(rows)

    def of(self, party: str) -> tuple[FloatArray, IntArray]:
        """The risk of each record and how many of its values are told, of one party's columns.

        Where no attack is shown to tell anything of a column, its adversary guesses like any other.
        """
        unknown, left = np.zeros(self._records), np.zeros(self._records)
        told = np.zeros(self._records, dtype=np.int64)
        for verdict, column, category in self._sources:
            headline = at(verdict.levels)
            if verdict.party != party or headline.e0 < FLOOR:
                continue
            losses, place = (self._errors, column) if category is None else (self._wrong, category)
            guess = losses[headline.baseline][:, place]
            unknown += guess / headline.e0
            left += (losses[headline.attack][:, place] if headline.is_exposed else guess) / headline.e0
            if verdict.is_exposed():
                known, hits = at(verdict.known), self._missed if category is None else self._wrong
                told += (hits[known.attack][:, place] == 0) & (hits[known.baseline][:, place] > 0)
        risk = 1 - np.divide(left, unknown, out=np.ones_like(left), where=unknown > 0)
        return np.clip(risk, 0.0, 1.0), told


def _by_name(losses: Sequence[Losses]) -> Mapping[str, FloatArray]:
    return {one.name: one.values for one in losses}
