"""What an answer says of the sums of labels that a party was sent, where nobody who reads them had an answer."""

from collections.abc import Mapping, Sequence

from attacks.registry import spec_of
from attacks.training.least_norm import TOO_FEW_SUMS
from plumbline.judge.training import TrainingFinding
from services.common.agreement import Agreement
from services.party.label_sums import most_to_a_record, sums_of_plan


def unread_sums(training: Sequence[TrainingFinding], agreement: Agreement, titles: Mapping[str, str]) -> list[str]:
    """Say of which parties nobody knows what the sums that they were sent tell of labels.

    Sums that are too few to tell single records apart say nothing of them, whatever they are.

    Args:
        training: what attacks found.
        agreement: of the session.
        titles: what a person calls each of the parties, by name.
    """
    if not most_to_a_record(sums_of_plan(agreement)):
        return []
    unread = []
    for party, title in titles.items():
        reading = [one for one in training if one.party == party and _reads_sums(one)]
        if not any(one.levels or one.details.get(TOO_FEW_SUMS) for one in reading):
            why = next((f": {one.reason.rstrip('.')}" for one in reading if one.reason), "")
            unread.append(f"What sums tell {title} of labels was not measured{why}.")
    return unread


def _reads_sums(finding: TrainingFinding) -> bool:
    """Tell whether an attack looked for labels in what was sent; so may one that isn't installed here."""
    if finding.kind and finding.kind != "labels":
        return False
    try:
        return "equations" in spec_of(finding.attack.partition("(")[0]).needs
    except (ImportError, ValueError):
        return True
