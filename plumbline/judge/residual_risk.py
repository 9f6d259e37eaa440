"""The residual risk that lights propose for an impact assessment, on the scale of CNIL's guides; a person confirms it.

Likelihood follows the light, severity what is at stake:

======  ====================  ==========================  ==========
light   likelihood            at stake                    severity
======  ====================  ==========================  ==========
green   limited               only columns called public  negligible
amber   significant           other columns               limited
red     maximum               a sensitive column, labels  significant
grey    not measured          persons                     their columns'
======  ====================  ==========================  ==========

Green is never negligible: attacks that nobody tried are not shown to fail. Grey counts as maximum until it is measured.
Severity is never maximum by itself: whether harm can be undone is nothing that an attack measures.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from plumbline.judge.answer import Answer, PartyAnswer
from plumbline.judge.findings import Findings
from plumbline.judge.lights import worst
from plumbline.telling.document import Glance, Light

LIKELIHOOD: dict[Light, str] = {
    "green": "limited",
    "amber": "significant",
    "red": "maximum",
    "grey": "not measured: take it as maximum",
}
_SEVERITIES = ("negligible", "limited", "significant")
RULE = (
    "Likelihood follows the light: little leaks, limited; something leaks, significant; much leaks, maximum; what was "
    "not shown counts as maximum. Severity follows what is at stake: public columns, negligible; other columns, "
    "limited; sensitive columns and labels, significant; persons, as their columns. Raise it to maximum for special "
    "categories of data (Art. 9), criminal offences (Art. 10), children, or harm that cannot be undone. No measurement "
    "decides this: a person does."
)


@dataclass(frozen=True)
class VerdictRow:
    """One thing that somebody could learn, and what the run says of it.

    Attributes:
        stake: whose data, and which.
        light: by the rule of ``plumbline.judge.lights``.
        words: what was found, in sentences.
        severity: of its becoming known, as proposed.
    """

    stake: str
    light: Light
    words: str
    severity: str

    @property
    def likelihood(self) -> str:
        """That somebody learns it, as proposed."""
        return LIKELIHOOD[self.light]


def verdict_rows(findings: Findings) -> tuple[VerdictRow, ...]:
    """List what a run says of each party's data: the active party's labels, persons, then each other's columns."""
    active, *passive = findings.answer.parties
    rows = [VerdictRow(f"labels of {active.title}", active.light, active.words, "significant")]
    columns = [row_of_columns(findings.answer, party) for party in passive]
    return (*rows, _row_of_persons(findings.glance, columns), *columns)


def _row_of_persons(glance: Glance, columns: Sequence[VerdictRow]) -> VerdictRow:
    """Say of how many persons much is told, in the worst case of the matrix."""
    cells = dict(glance.rows)["persons"]
    light = worst([one.light for one in cells])
    cell_text = next(one.words for one in cells if one.light == light)
    text = f"Persons of whom at least half of what nobody could guess is learned: {cell_text}."
    severity = max((one.severity for one in columns), key=_SEVERITIES.index, default="limited")
    return VerdictRow("persons, each by themselves", light, text, severity)


def row_of_columns(answer: Answer, party: PartyAnswer) -> VerdictRow:
    """Say what an answer has of one party's columns."""
    roles = {one.role for one in answer.columns if one.party == party.party}
    severity = "significant" if "sensitive" in roles else "negligible" if roles == {"public"} else "limited"
    return VerdictRow(f"columns of {party.title}", party.light, party.words, severity)
