"""What an answer says of the sums that a network's label party reads in training: measured or not, and never none."""

from collections.abc import Mapping, Sequence

from attacks.registry import ON_SUMS, spec_of
from plumbline.judge.training import TrainingFinding

# What the adversary of an attack on training knows of the records that it estimates.
_KNOWN: Mapping[str, str] = {
    "marginals": ", of whose columns it knows means and variances,",
    "covariance": ", of whose columns it knows means and covariance,",
    "records": ", some of which it knows in full,",
}
RECORDS_NOT_MEASURED = (
    "What hidden sums tell who knows some records in full was not measured: --auxiliary N gives the adversary N."
)


def known_words(attack: str) -> str:
    """Say what an attack on training is given beforehand; empty where it isn't installed here."""
    try:
        spec = spec_of(attack.partition("(")[0])
    except (ImportError, ValueError):
        return ""
    if "known_records" in spec.needs:
        return _KNOWN["records"]
    return next((words for level, words in _KNOWN.items() if f"prior={level}" in attack), _KNOWN.get(spec.level, ""))


def knows_records(finding: TrainingFinding) -> bool:
    """Tell whether complete records were given to an attack on training that is scored."""
    return finding.is_scored and known_words(finding.attack) == _KNOWN["records"]


def unmeasured_sums(training: Sequence[TrainingFinding]) -> str:
    """Say why it isn't known what the hidden sums of a training tell; empty where it was measured."""
    findings = [one for one in training if one.attack.partition("(")[0] == ON_SUMS]
    if any(one.is_scored for one in findings):
        return ""
    why = next((one.reason for one in findings if one.reason), f"{ON_SUMS} (--attacks) was not mounted")
    return f"What the hidden sums of training tell was not measured: {why.rstrip('.')}."
