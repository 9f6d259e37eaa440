"""The annex to an impact assessment (GDPR Art. 35): what a run says to a data protection officer, in two pages.

It holds names, counts and statistics, and no cell of any table: names of classes and of categories are cells.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from plumbline.judge.answer import ColumnAnswer, listed, short
from plumbline.judge.findings import Findings
from plumbline.judge.first_screen import column_line
from plumbline.judge.lights import KNOWING_MORE, telling
from plumbline.judge.predictions import AttackFinding
from plumbline.judge.remedies import measures_of
from plumbline.judge.residual_risk import RULE, VerdictRow, verdict_rows
from plumbline.judge.training import TrainingFinding
from plumbline.report.run_tables import protection_table
from plumbline.telling.document import LIGHT_WORDS, Cell, ColumnLine, Glance, Light, Table
from services.common.run_folder import RunFolder
from services.common.run_records import DONE, FAILED
from services.common.words import escaped
from vfl.data.faults import counted

_MOST_SAID = 640
BLANK = "_" * 40
NEVER_MEASURED = (
    "Only attacks that were run are judged, on the records of these tables. Attacks that nobody has tried, parties "
    "that collude, and intruders into a party's own machines are outside of what was measured.",
    "Whether the processing is necessary and proportionate is no question of measurement.",
)


@dataclass(frozen=True)
class Section:
    """One heading and what stands under it, in this order.

    Attributes:
        title: the heading.
        paragraphs: sentences.
        points: a list.
        choices: a list of which a person ticks some.
        table: a table.
        note: small print at the end.
    """

    title: str
    paragraphs: tuple[str, ...] = ()
    points: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    table: Table | None = None
    note: str = ""


@dataclass(frozen=True)
class Annex:
    """The document, before it is a PDF or a text file.

    Attributes:
        title: of the run.
        subtitle: which session, when, and by which release.
        light: the worst of all.
        pages: the sections of either page.
    """

    title: str
    subtitle: str
    light: Light
    pages: tuple[tuple[Section, ...], tuple[Section, ...]]
    signatures: ClassVar[tuple[str, ...]] = ("Controller", "Data protection officer, consulted (Art. 35(2))")


@dataclass(frozen=True)
class RunPapers:
    """What the annex says of a run beside its findings.

    Attributes:
        facts: config.json: ``request``, ``versions``.
        when: the run began, ISO 8601; empty where its folder doesn't say.
        hashes: SHA-256 of the run's files, by name.
        folder: what the parties wrote.
    """

    facts: Mapping[str, Any]
    when: str
    hashes: Mapping[str, str]
    folder: RunFolder

    @property
    def release(self) -> str:
        """Which one measured."""
        return f"Plumbline {short(self.facts.get('versions', {}).get('plumbline', 'of an unknown release'))}"


def annex_of(findings: Findings, papers: RunPapers, most: int) -> Annex:
    """Say what a run found.

    Args:
        findings: of the run.
        papers: what else is known of it.
        most: entries that any list or table may have; of longer ones the last says how many more there are.
    """
    summary, answer = findings.summary, findings.answer
    began = f", run on {papers.when[:10]}" if papers.when else ""
    sentences = " ".join(some_sentences(answer.sentences, most))
    return Annex(
        title=f"What the federation “{short(summary.name)}” gives away",
        subtitle=(
            "Annex to a data protection impact assessment (GDPR Art. 35). Session "
            f"{short(summary.agreement.session_id[:8])}{began}; measured by {papers.release}."
        ),
        light=answer.light,
        pages=(
            (
                Section("1  Purpose", _purpose(findings, papers.facts.get("request", {}))),
                Section("2  Parties", table=_parties(findings, papers.folder, most)),
                Section("3  Protocol and defences", _protocol(findings)),
                Section("4  Attacks that were run", points=tuple(_attacks(findings, most))),
                Section(
                    "5  Findings", (findings.glance.sentence, findings.glance.joining), table=_matrix(findings.glance)
                ),
                Section("5.1  Column by column", (sentences,), table=columns_table(answer.columns, most)),
            ),
            second_page(
                [*answer.not_measured, *(f"Simulated: {one}" for one in summary.simulation)],
                verdict_rows(findings),
                measures_of(findings),
                papers,
                most,
            ),
        ),
    )


def said(sentence: str) -> str:
    """Write a sentence as a document may have it."""
    return escaped(sentence, _MOST_SAID)


def some_sentences(sentences: Sequence[str], most: int) -> tuple[str, ...]:
    """Give as many sentences as may be, and how many more there are."""
    more = len(sentences) - most
    last = (f"{counted(more, 'more sentence')} of this kind {'is' if more == 1 else 'are'} in the report.",)
    return (*map(said, sentences[:most]), *(last if more > 0 else ()))


def _purpose(findings: Findings, request: Mapping[str, Any]) -> tuple[str, ...]:
    agreement = findings.summary.agreement
    label = f" (column {short(str(request['label']))})" if request.get("label") else ""
    rows = counted(findings.summary.aligned_rows, "record")
    does = "train" if agreement.plan.family.spec.trains else "use"
    return (
        f"{len(agreement.parties)} parties {does} one model of records that all of them hold, {rows}, without showing "
        f"each other their tables. It predicts one of {agreement.classes} classes{label}. Purpose and legal basis of "
        f"the processing, to be completed by the controller: {BLANK}",
    )


def _parties(findings: Findings, folder: RunFolder, most: int) -> Table:
    agreement, titles = findings.summary.agreement, {one.party: one.title for one in findings.answer.parties}
    rows = []
    for party in agreement.parties[:most]:
        is_active = party.name == agreement.active.name
        columns = _own_columns(folder, party.name) if is_active else _passive_columns(findings, party.name)
        role = "active: has the labels, is told the scores" if is_active else "passive: brings columns, has no label"
        rows.append((short(titles.get(party.name, party.name)), role, columns or f"{party.feature_count} features"))
    if (more := len(agreement.parties) - most) > 0:
        rows.append((f"and {more} more", "passive", "in the report"))
    return Table.of("", "", "Party|Role|Columns", rows, widths=(20, 25, 55))


def _own_columns(folder: RunFolder, party: str) -> str:
    """List the label party's columns, which nobody attacks; of features alone nothing: names may hold categories."""
    features = folder.features(party)
    if features.sources is None or features.kinds is None:
        return ""
    sources = zip(features.sources, features.kinds, strict=True)
    names = dict.fromkeys(str(one) for one, kind in sources if kind != "bias")
    return f"{counted(len(names), 'column')}: {listed(list(names))}" if names else "no column of its own"


def _passive_columns(findings: Findings, party: str) -> str:
    columns = [one for one in findings.answer.columns if one.party == party]
    parts = [counted(len(columns), "column")] if columns else []
    for role in ("sensitive", "public"):
        if names := [one.column for one in columns if one.role == role]:
            parts.append(f"{role}: {listed(names)}")
    return "; ".join(parts)


def _protocol(findings: Findings) -> tuple[str, ...]:
    summary, plan = findings.summary, findings.summary.agreement.plan
    how = {str(what): words for what, words in protection_table(summary, findings.answer).rows}
    used = "; ".join(f"{short(where)}: {listed(names)}" for where, names in summary.defences.items())
    insecure = sum("INSECURE" in one for one in summary.warnings)
    warned = f" {counted(insecure, 'setting')} marked INSECURE: see the report." if insecure else ""
    return (
        f"{plan.training.summary if plan.family.spec.trains else 'The model was made elsewhere: nothing was trained.'} "
        f"Learner {short(plan.learner)}, {counted(summary.steps, 'training step')}; {how['Training']}. Records are "
        f"matched by {how['Alignment']}. Transport: {how['Transport']}.{warned}",
        f"Defences applied, by place: {used}." if used else "No defence was applied beyond what is always on.",
    )


def _attacks(findings: Findings, most: int) -> Iterator[str]:
    """Names of attacks by what became of them; a guess without scores is none."""
    predictions = [one for one in findings.predictions.attacks if one.sees_scores]
    for what, names in (
        ("on predictions, by the active party", [one.attack for one in predictions if one.status == DONE]),
        ("on training", [f"{one.attack} by {one.party}" for one in findings.training if one.status == DONE]),
    ):
        ran = list(dict.fromkeys(names))
        yield f"Run {what}: {listed(ran, 2 * most) if ran else 'none'}."
    every: list[AttackFinding | TrainingFinding] = [*predictions, *findings.training]
    if failed := [one.attack for one in every if one.status == FAILED]:
        yield f"Failed, so that what they would tell is unknown: {listed(failed, most)}."
    if not_applicable := [one.attack for one in every if one.status not in (DONE, FAILED)]:
        yield f"Not applicable to this session: {listed(not_applicable, most)}."


def _matrix(glance: Glance) -> Table:
    """Write the matrix of the first screen, lights in words."""
    headings = [f"a party {does}, {when}" for does, when in glance.headings]
    rows = (
        (
            f"{name}: {what}",
            *(one.words if one.light == "grey" else f"{LIGHT_WORDS[one.light]}: {one.words}" for one in cells),
        )
        for name, what, cells in glance.named_rows
    )
    widths = (24, *[76 // len(headings)] * len(headings))
    return Table.of("", "", ("What leaks", *headings), rows, widths)


def columns_table(
    columns: Sequence[ColumnAnswer], most: int, of_whom: str = "Passive", told_by: str = "the federation"
) -> Table:
    """List columns with their lights and errors, at most so many; what tells of them is said in the last heading."""
    lines = [column_line(one, one.party, telling(one.levels).level) for one in columns[:most]]
    rows: list[tuple[str | Cell, ...]] = [
        (short(one.column), one.role or "-", Cell(one.light, LIGHT_WORDS[one.light]), one.guess, _told(one))
        for one in lines
    ]
    if rest := columns[most:]:
        lights = [one.light for one in rest]
        counts = "; ".join(f"{LIGHT_WORDS[light]}: {lights.count(light)}" for light in dict.fromkeys(lights))
        rows.append((f"and {len(rest)} more", "", counts, "in the report", ""))
    headings = f"{of_whom} column, the most exposed first|Role|Verdict|By guessing|With {told_by}"
    return Table.of("", "", headings, rows, widths=(31, 11, 18, 18, 22))


def _told(line: ColumnLine) -> str:
    """Say how far off the best attack is, at the level on which the light rests."""
    beyond = f", knowing {line.level}" if line.level in KNOWING_MORE else ""
    return f"{line.attack}{beyond}" if line.attack else "not measured"


def _risk_section(rows: Sequence[VerdictRow], most: int) -> Section:
    """Propose a likelihood and a severity for what is at stake, at most so many rows."""
    table = Table.of(
        "",
        "",
        "At stake|Verdict|Likelihood|Severity|Confirmed or changed to",
        (
            (short(one.stake), Cell(one.light, LIGHT_WORDS[one.light]), one.likelihood, one.severity, "")
            for one in rows[:most]
        ),
        widths=(26, 18, 18, 14, 24),
    )
    more = len(rows) - most
    rest = (f"{counted(more, 'more row')} stand{'s' if more == 1 else ''} in the report.",) if more > 0 else ()
    sentences = tuple(said(f"{one.stake[0].upper()}{one.stake[1:]}: {one.words}") for one in rows[:most])
    return Section("7  Residual risk, as proposed", points=(*sentences, *rest), table=table, note=RULE)


def second_page(
    unmeasured: Sequence[str], rows: Sequence[VerdictRow], measures: Iterable[str], papers: RunPapers, most: int
) -> tuple[Section, ...]:
    """Say what was not measured, what risk is left, what can be done about it, with lines for a person's own choice."""
    choices = (*map(said, measures), f"Other: {BLANK}", f"None; the residual risk is accepted because {BLANK}")
    return (
        Section("6  What was not measured", points=(*some_sentences(unmeasured, most), *NEVER_MEASURED)),
        _risk_section(rows, most),
        Section("8  Measures to choose", choices=choices),
        _papers_section(papers),
    )


def _papers_section(papers: RunPapers) -> Section:
    """Say what ran, how its results are written again, and list its files."""
    versions = papers.facts.get("versions", {})
    releases = ", ".join(f"{name} {version}" for name, version in versions.items()) or "unknown"
    again = "`plumbline report` writes results and report again from the run's folder. SHA-256 of its files:"
    hashes = Table.of("", "", "File|SHA-256", papers.hashes.items(), widths=(18, 82))
    return Section("9  Versions and hashes", (f"{said(releases)}. {again}",), table=hashes)
