"""The annex of a judge's run: what columns that were received, or will be, tell of the sender's, for an assessment.

It holds names, counts and statistics, and no cell of any table.
"""

from collections.abc import Iterator

from plumbline.judge.answer import listed, short
from plumbline.judge.residual_risk import row_of_columns
from plumbline.received.kinds import grouped
from plumbline.received.received_findings import ReceivedFindings
from plumbline.report.annex import BLANK, Annex, RunPapers, Section, columns_table, second_page, some_sentences
from plumbline.telling.document import Table
from vfl.data.faults import counted


def annex_of_received(findings: ReceivedFindings, papers: RunPapers, most: int) -> Annex:
    """Say what a judge's run found.

    Args:
        findings: of the run.
        papers: what else is known of it.
        most: entries that any list or table may have; of longer ones the last says how many more there are.
    """
    facts, answer = findings.facts, findings.answer
    began = f" Judged on {papers.when[:10]}" if papers.when else " Judged"
    sentences = (" ".join(some_sentences((*answer.sentences, *filter(None, [findings.control_words])), most)),)
    columns = columns_table(answer.columns, most, "Secret", "what is received")
    return Annex(
        title=f"What “{short(facts.received)}” tells of “{short(facts.secret)}”",
        subtitle=f"Annex to a data protection impact assessment (GDPR Art. 35).{began} by {papers.release}.",
        light=answer.light,
        pages=(
            (
                Section("1  Purpose", (_purpose(findings),)),
                Section("2  What is received", table=_received(findings, most)),
                Section("3  Who receives it", (_receiver(findings),)),
                Section("4  Adversaries that were tried", (_adversaries(findings),)),
                Section("5  Findings", sentences, table=columns),
            ),
            second_page(
                (*facts.notes, *answer.not_measured),
                [row_of_columns(answer, one) for one in answer.parties],
                _measures(findings),
                papers,
                most,
            ),
        ),
    )


def _purpose(findings: ReceivedFindings) -> str:
    columns, records = counted(len(findings.answer.columns), "column"), counted(findings.predictions.records, "record")
    return (
        f"A receiver gets columns that were made of {columns} of the sender, which it doesn't get; {records} were "
        f"judged. Purpose and legal basis of the processing, to be completed by the controller: {BLANK}"
    )


def _received(findings: ReceivedFindings, most: int) -> Table:
    kinds = grouped(findings.facts.columns)
    rows = [(f"{len(names)}: {listed(names)}", short(kind), short(why)) for names, kind, why in kinds[:most]]
    if more := kinds[most:]:
        rows.append((f"and {len(more)} more kinds", "", "in the report"))
    return Table.of("", "", "Columns|Taken for|Who says so", rows, widths=(50, 25, 25))


def _receiver(findings: ReceivedFindings) -> str:
    known_records = findings.facts.known
    has = f"{counted(known_records, 'record')} in full, which weren't judged" if known_records else "no record in full"
    return f"It has a table of its own of the same records, and {has}."


def _adversaries(findings: ReceivedFindings) -> str:
    names = list(dict.fromkeys(one.attack for one in findings.predictions.attacks if one.sees_scores))
    return (
        f"{listed(names)}, beside the same models without what is received, and with a shuffled copy of it."
        if names
        else "None: without known records nobody can learn how columns depend."
    )


def _measures(findings: ReceivedFindings) -> Iterator[str]:
    """Say what can be done about what was found."""
    columns = findings.answer.columns
    for light, how in (("red", "far better"), ("amber", "somewhat better")):
        if exposed := [one.column for one in columns if one.light == light]:
            yield f"Send less, or coarser, so that these aren't told {how} than by guessing: {listed(exposed)}."
    yield "Measure what fewer and coarser columns would tell, before any is sent (plumbline judge --before)."
    yield "Agree that the receiver matches what it gets with no records of other sources."
