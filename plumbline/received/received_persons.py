"""What columns that were received tell of persons: how many it comes closer to than a guess, beside a shuffled copy.

Who was trained on is known to whoever trained the model. Where a column of the secret table says so, it is a secret as
others are, and besides it is told how many trained records are found while hardly another is taken for one.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from plumbline.judge.chance import ALPHA
from plumbline.judge.evidence import Predictor, SourceVerdict
from plumbline.judge.membership import FALSE_POSITIVES, LEAST_RECORDS, MembershipFinding, membership_of
from plumbline.judge.persons import PersonFindings, PersonRow, risk_row
from plumbline.judge.record_risks import risks_beside
from plumbline.judge.truth import Truth
from plumbline.telling.numbers import percent, share_words

RECEIVER = "who receives it"
_NOT_TOLD = "no column says who the model was trained on; --trained names one of the secret table that does."


def received_persons(
    truth: Truth,
    verdicts: Sequence[SourceVerdict],
    guesses: Sequence[Predictor],
    seen: Sequence[Predictor],
    shuffled: Sequence[Predictor],
    trained: str = "",
) -> PersonFindings:
    """Weigh the judged persons.

    Args:
        truth: of the judged records.
        verdicts: on the columns, at their headline.
        guesses: what known records tell without what was received.
        seen: what the adversaries take cells for.
        shuffled: the same by a shuffled copy.
        trained: column that says who was trained on; empty for none.
    """
    risks = tuple(risks_beside(truth, [*seen, *guesses], [*shuffled, *guesses], verdicts))
    membership = _membership(truth, trained, seen, shuffled)
    is_told = any(one.column == trained and one.is_exposed() for one in verdicts)
    row = PersonRow("membership inference", RECEIVER, _words(membership, is_told), not membership.reason)
    return PersonFindings(risks, membership, rows=(*(risk_row(one, RECEIVER) for one in risks), row))


def _membership(
    truth: Truth, trained: str, predictors: Sequence[Predictor], shuffled: Sequence[Predictor]
) -> MembershipFinding:
    """Rank records by what each adversary takes that column for; the control is the best on the shuffled copy."""
    if not trained:
        return MembershipFinding(_NOT_TOLD)
    (column,) = next(one.features for one in truth.sources if one.name == trained)
    is_trained = truth.cells[:, column] > 0.5
    if min(is_trained.sum(), (~is_trained).sum()) < LEAST_RECORDS:
        return MembershipFinding(
            f"{is_trained.sum():,} trained and {(~is_trained).sum():,} other records are judged: {LEAST_RECORDS} of "
            "each are needed to speak of one in a hundred."
        )
    finding, control = (
        membership_of({one.name: one.estimate[:, column] for one in some}, is_trained, np.random.default_rng(0), 0)
        for some in (predictors, shuffled)
    )
    return replace(finding, control=control.attacks[0])


def _words(finding: MembershipFinding, is_told: bool) -> str:
    """Say it in an audit's words; ``is_told``: whether the column itself is exposed."""
    if finding.control is None:
        return f"not measured: {finding.reason}"
    best, control = finding.attacks[0], finding.control
    # Own columns may tell who was trained on as well, and the shuffled copy's adversary has them.
    is_found = finding.is_found and (control.p_found > ALPHA or best.found.low > control.found.mean)
    verdict = "found" if is_found else "told on average only" if is_told else "not beyond chance"
    return (
        f"{verdict}: {best.name} finds {share_words(best.found, 1)} of the trained records at "
        f"{percent(FALSE_POSITIVES)} of false positives, {share_words(control.found, 1)} of a shuffled copy; the area "
        f"under the curve is {best.auc:.2f}, {control.auc:.2f} of that copy ({finding.trained:,} trained and "
        f"{finding.others:,} others, no reference models: what was received is of one model)."
    )
