"""What columns that were received tell of persons: how many it comes closer to than a guess, beside a shuffled copy."""

from collections.abc import Sequence

from plumbline.judge.evidence import Predictor, SourceVerdict
from plumbline.judge.membership import MembershipFinding
from plumbline.judge.persons import PersonFindings, PersonRow, risk_row
from plumbline.judge.record_risks import risks_beside
from plumbline.judge.truth import Truth

RECEIVER = "who receives it"
_NOT_MEMBERS = "who was trained on is known to whoever trained the model, and stands in no table here."


def received_persons(
    truth: Truth,
    verdicts: Sequence[SourceVerdict],
    guesses: Sequence[Predictor],
    seen: Sequence[Predictor],
    shuffled: Sequence[Predictor],
) -> PersonFindings:
    """Weigh the judged persons.

    Args:
        truth: of the judged records.
        verdicts: on the columns, at their headline.
        guesses: what known records tell without what was received.
        seen: what the adversaries take cells for.
        shuffled: the same by a shuffled copy.
    """
    risks = tuple(risks_beside(truth, [*seen, *guesses], [*shuffled, *guesses], verdicts))
    membership = PersonRow("membership inference", RECEIVER, f"not measured: {_NOT_MEMBERS}", is_measured=False)
    rows = (*(risk_row(one, RECEIVER) for one in risks), membership)
    return PersonFindings(risks, MembershipFinding(_NOT_MEMBERS), rows=rows)
