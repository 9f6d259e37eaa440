"""The annex to an impact assessment: two A4 pages whatever the run, the same words in both files, and no cell."""

import ast
from collections.abc import Iterator
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from plumbline.judge.column_sets import Change, WhatIf, proposals
from plumbline.judge.findings import Findings
from plumbline.judge.residual_risk import verdict_rows
from plumbline.report import annex_files
from plumbline.report.annex import Annex, RunPapers, annex_of
from plumbline.telling.document import LIGHT_WORDS, NOT_MEASURED, Cell, Light
from services.common.run_folder import RunFolder
from tests.harness.annexes import docx_text, needs_annex, pdf_text, squeezed
from tests.harness.audited import HOSTILE_NAMES
from tests.harness.column_sets import COARSER, FOUND, columns
from tests.harness.reported import FACTS, PLAIN, MadeColumn, findings_of, made_run
from vfl.data.columns import ColumnRole

RAISED = columns(0.78, employed=0.3, rate=0.05, age=0.42)
HASHES = {"results.json": "0123456789abcdef" * 4}


def papers_of(folder: RunFolder) -> RunPapers:
    return RunPapers(FACTS, "2026-01-01T12:00:00", HASHES, folder)


def annex_of_run(folder: RunFolder, most: int = 5) -> Annex:
    return annex_of(findings_of(folder), papers_of(folder), most)


def words_of(annex: Annex) -> Iterator[str]:
    yield from (annex.title, annex.subtitle, LIGHT_WORDS[annex.light])
    for section in (*annex.pages[0], *annex.pages[1]):
        yield from (section.title, *section.paragraphs, *section.points, *section.choices)
        if section.table:
            yield from section.table.headings
            yield from (cell if isinstance(cell, str) else cell.words for row in section.table.rows for cell in row)
        yield section.note
    yield from annex.signatures


def wide_what_if() -> WhatIf:
    """What was found with other columns, of names as long as any."""
    changes = [Change("passive", f"{'a long name of a column ' * 3}{number}", "bins2") for number in range(30)]
    return replace(FOUND, coarser=(replace(COARSER, changes=tuple(changes), columns=RAISED.columns),))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return made_run(tmp_path_factory.mktemp("annex"))


@pytest.fixture(scope="module")
def findings(folder: RunFolder) -> Findings:
    return findings_of(folder)


def test_it_has_what_an_assessment_asks_for(folder: RunFolder) -> None:
    annex = annex_of_run(folder)
    titles = [section.title.split("  ")[1] for page in annex.pages for section in page]
    assert titles == [
        "Purpose",
        "Parties",
        "Protocol and defences",
        "Attacks that were run",
        "Findings",
        "Column by column",
        "What was not measured",
        "Residual risk, as proposed",
        "Measures to choose",
        "Versions and hashes",
    ]
    words = " ".join(words_of(annex))
    for told in ("age", "income", "half_star", "label_recovery by passive", "Failed", "gia", HASHES["results.json"]):
        assert told in words
    assert "python 3.11.7" in words
    glance = findings_of(folder).glance
    assert all(told in words for told in (glance.sentence, glance.joining, *glance.learns))


@pytest.mark.parametrize(
    ("light", "likelihood"),
    [("green", "limited"), ("amber", "significant"), ("red", "maximum"), ("grey", "not measured: take it as maximum")],
)
def test_likelihood_follows_the_light_and_severity_what_is_at_stake(
    findings: Findings, light: Light, likelihood: str
) -> None:
    answer = findings.answer
    parties = tuple(replace(one, light=light) for one in answer.parties)
    severities: dict[ColumnRole, str] = {"": "limited", "sensitive": "significant", "public": "negligible"}
    for role, severity in severities.items():
        columns = tuple(replace(one, role=role) for one in answer.columns)
        rows = verdict_rows(replace(findings, answer=replace(answer, parties=parties, columns=columns)))
        labels, persons, of_columns = [(one.likelihood, one.severity) for one in rows]
        assert (labels, of_columns) == ((likelihood, "significant"), (likelihood, severity))
        assert persons[1] == severity


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        (
            Cell("amber", "24 % of them"),
            "Persons of whom at least half of what nobody could guess is learned: 24 % of them.",
        ),
        (NOT_MEASURED, "Persons of whom at least half of what nobody could guess is learned: not measured."),
    ],
)
def test_persons_have_the_light_of_the_matrix(
    findings: Findings, monkeypatch: pytest.MonkeyPatch, cell: Cell, words: str
) -> None:
    glance = replace(findings.glance, rows=(("persons", (NOT_MEASURED, cell)),))
    monkeypatch.setattr(Findings, "glance", property(lambda _: glance))
    row = verdict_rows(findings)[1]
    assert (row.stake, row.light, row.words) == ("persons, each by themselves", cell.light, words)


def test_longer_lists_are_cut_and_say_how_much_is_left_out(tmp_path: Path) -> None:
    columns = [MadeColumn(f"column {number}") for number in range(9)]
    annex = annex_of_run(made_run(tmp_path, columns), 3)
    matrix, table = (section.table for section in annex.pages[0][4:])
    assert matrix is not None
    assert [str(name).partition(": how many")[0].partition(": of how")[0] for name, *_ in matrix.rows] == [
        "columns",
        "labels",
        "persons",
    ]
    assert table is not None
    assert len(table.rows) == 4
    assert table.rows[-1][0] == "and 6 more"


@needs_annex
@pytest.mark.parametrize(
    "columns", [PLAIN[:1], [MadeColumn(name) for name in (*HOSTILE_NAMES, *map(str, range(80)))]], ids=["one", "90"]
)
def test_it_has_two_pages_of_a4_and_both_files_say_the_same(tmp_path: Path, columns: list[MadeColumn]) -> None:
    from pypdf import PdfReader

    folder = made_run(tmp_path, columns, warnings=("INSECURE: " + "something is off. " * 90,))
    findings, tried = replace(findings_of(folder), what_if=wide_what_if()), list[Annex]()
    papers = replace(papers_of(folder), facts={"versions": {"plumbline": "1\x00\x1b[31m" * 90}})

    def made(most: int) -> Annex:
        tried.append(annex_of(findings, papers, most))
        return tried[-1]

    pdf, docx = annex_files.annex_files(made)
    sizes = [tuple(map(float, page.mediabox[2:])) for page in PdfReader(BytesIO(pdf)).pages]
    assert sizes == [pytest.approx((595.28, 841.89), abs=0.1)] * 2
    shown, written = pdf_text(pdf), docx_text(docx)
    for words in words_of(tried[-1]):
        assert squeezed(words) in written
        # Letters that the font hasn't got are drawn, and not always named.
        assert not words.isascii() or squeezed(words) in shown


@needs_annex
def test_classes_and_categories_are_cells_and_stand_nowhere(tmp_path: Path) -> None:
    columns = [
        MadeColumn("marital=qzxmarried", source="marital", kind="category"),
        MadeColumn("marital=qzxsingle", source="marital", kind="category"),
        *PLAIN,
    ]
    folder = made_run(tmp_path, columns, class_names=("qzxgood", "qzxbad"))
    pdf, docx = annex_files.annex_files(lambda most: annex_of_run(folder, most))
    for text in (pdf_text(pdf), docx_text(docx)):
        assert "marital" in text
        assert "qzx" not in text


@pytest.mark.parametrize("module", ["docx", "weasyprint"])
def test_a_library_that_is_missing_is_a_sentence(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    def without(name: str) -> Any:
        if name == module:
            raise ModuleNotFoundError(name=module)

    monkeypatch.setattr(annex_files, "import_module", without)
    with pytest.raises(annex_files.AnnexLacks, match=r"isn't installed: pip install 'plumbline\[annex\]'"):
        annex_files.check_installed()


def test_a_system_without_pango_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def without(name: str) -> Any:
        if name == "weasyprint":
            raise OSError("cannot load library 'libpango-1.0-0'")

    monkeypatch.setattr(annex_files, "import_module", without)
    with pytest.raises(annex_files.AnnexLacks, match="libpangoft2"):
        annex_files.check_installed()


def test_neither_library_is_imported_before_it_is_asked_for() -> None:
    files = list((Path(annex_files.__file__).parents[1]).rglob("*.py"))
    assert len(files) > 50
    for file in files:
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                assert not {"docx", "weasyprint"} & {name.partition(".")[0] for name in imported(node)}, file


def imported(node: ast.Import | ast.ImportFrom) -> list[str]:
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else [one.name for one in node.names]


def test_measures_are_what_if_s_own_words_and_name_it_where_nobody_asked(folder: RunFolder) -> None:
    """The annex advised coarser columns where what-if had measured that they tell more."""
    findings = findings_of(folder)
    measures = next(one for one in annex_of(findings, papers_of(folder), 5).pages[1] if "Measures" in one.title).choices
    assert any("plumbline whatif" in one for one in measures)
    asked = annex_of(replace(findings, what_if=FOUND), papers_of(folder), 5)
    measures = next(one for one in asked.pages[1] if "Measures" in one.title).choices
    assert [one for one in proposals(FOUND) if f"What if, simulated: {one}" not in measures] == []
    assert not any("plumbline whatif" in one for one in measures)
