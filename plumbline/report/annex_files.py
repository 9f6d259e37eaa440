"""The annex as files: a PDF of two A4 pages by WeasyPrint, and the same as .docx by python-docx.

Both libraries are of the extra ``annex``, and imported when an annex is asked for.
"""

from collections.abc import Callable
from importlib import import_module
from io import BytesIO
from typing import TYPE_CHECKING, Any

from plumbline.report.annex import Annex, Section
from plumbline.report.html import template
from plumbline.telling.document import LIGHT_WORDS, Cell, Light, Table

if TYPE_CHECKING:
    from docx.document import Document
    from docx.table import _Cell

PAGES = 2
# How many entries lists may have, and the size of letters in points: the first pair that fits on the pages is taken.
_SIZES = ((12, 8.6), (9, 8.4), (7, 8.2), (5, 8.0), (3, 7.6), (2, 7.0), (1, 6.4))
_INSTALL = "pip install 'plumbline[annex]'"
# Fill and ink of what a light colours, as in the report.
_COLOURS: dict[Light, tuple[str, str]] = {
    "green": ("E3F4EE", "007A5A"),
    "amber": ("FDF1D6", "8A5A00"),
    "red": ("FCE4E1", "B3261E"),
    "grey": ("EDF0F3", "5B6672"),
}


class AnnexLacks(ValueError):
    """Something that an annex is written with isn't installed; the text says what, and what to do."""


def check_installed() -> None:
    """Raise AnnexLacks where a library that writes an annex can't be had, so that nothing is judged in vain."""
    for module, name in (("docx", "python-docx"), ("weasyprint", "WeasyPrint")):
        try:
            import_module(module)
        except ImportError as error:
            raise AnnexLacks(f"An annex needs {name}, which isn't installed: {_INSTALL}.") from error
        except OSError as error:
            raise AnnexLacks(
                f"{name} is installed and lacks a library of the system, Pango: install libpango-1.0-0, "
                "libpangoft2-1.0-0 and libharfbuzz-subset0 (Debian, Ubuntu), or pango (macOS, Fedora)."
            ) from error


def annex_files(annex: Callable[[int], Annex]) -> tuple[bytes, bytes]:
    """Write an annex twice, as PDF and as .docx, with as many entries in its lists as fit on two A4 pages.

    Args:
        annex: makes it, given the most entries that any list may have.

    Raises:
        AnnexLacks: where a library isn't installed.
        ValueError: where nothing fits.
    """
    check_installed()
    for most, size in _SIZES:
        content = annex(most)
        if (pdf := _pdf(content, size)) is not None:
            return pdf, _docx(content, size)
    raise ValueError(f"The annex doesn't fit on {PAGES} pages, however little it says: give the parties shorter names.")


def _pdf(annex: Annex, size: float) -> bytes | None:
    """Make the PDF, tagged for screen readers; None where it has other than two pages."""
    from weasyprint import HTML

    page = template("annex.html").render(annex=annex, size=size, colours=_COLOURS)
    document = HTML(string=page, url_fetcher=_fetch_nothing).render()
    if len(document.pages) != PAGES:
        return None
    pdf: bytes = document.write_pdf(pdf_tags=True)
    return pdf


def _fetch_nothing(url: str, **_options: Any) -> Any:
    raise ValueError(f"An annex asks for nothing, and was about to ask for {url}.")


def _docx(annex: Annex, size: float) -> bytes:
    import docx
    from docx.shared import Mm, Pt

    document = docx.Document()
    properties = document.core_properties
    properties.title, properties.author, properties.comments = annex.title, "Plumbline", annex.subtitle
    paper = document.sections[0]
    paper.page_width, paper.page_height = Mm(210), Mm(297)
    paper.left_margin = paper.right_margin = Mm(16)
    paper.top_margin = paper.bottom_margin = Mm(14)
    for name, points in (("Normal", size), ("Title", 2 * size), ("Heading 1", 1.25 * size)):
        style = document.styles[name]
        style.font.name, style.font.size = "Calibri", Pt(points)
        style.paragraph_format.space_before = Pt(0 if name == "Normal" else size / 2)
        style.paragraph_format.space_after = Pt(size / 4)
    document.add_heading(annex.title, 0)
    document.add_paragraph(annex.subtitle)
    verdict = document.add_table(1, 1)
    verdict.cell(0, 0).text = LIGHT_WORDS[annex.light]
    _colour(verdict.cell(0, 0), annex.light)
    for number, sections in enumerate(annex.pages):
        for place, section in enumerate(sections):
            _add_section(document, section, starts_page=number > 0 and place == 0)
    blank = tuple((who, "", "", "") for who in annex.signatures)
    _add_table(document, Table("", "", ("", "Name and function", "Place and date", "Signature"), blank))
    written = BytesIO()
    document.save(written)
    return written.getvalue()


def _add_section(document: "Document", section: Section, *, starts_page: bool) -> None:
    document.add_heading(section.title, 1).paragraph_format.page_break_before = starts_page
    for line in section.paragraphs:
        document.add_paragraph(line)
    for line in section.points:
        document.add_paragraph(line, "List Bullet")
    for line in section.choices:
        document.add_paragraph(f"\N{BALLOT BOX} {line}")
    if section.table is not None:
        _add_table(document, section.table)
    if section.note:
        document.add_paragraph().add_run(section.note).italic = True


def _add_table(document: "Document", content: Table) -> None:
    table = document.add_table(1, len(content.headings), "Table Grid")
    for cell, text in zip(table.rows[0].cells, content.headings, strict=True):
        cell.paragraphs[0].add_run(text).bold = True
    for row in content.rows:
        for cell, written in zip(table.add_row().cells, row, strict=True):
            cell.text = written if isinstance(written, str) else written.words
            if isinstance(written, Cell):
                _colour(cell, written.light)
    width = sum(column.width for column in table.columns)
    for column, share in zip(table.columns, content.widths, strict=False):
        for cell in column.cells:
            cell.width = int(width * share / 100)


def _colour(cell: "_Cell", light: Light) -> None:
    """Fill a cell, and write it in ink that is read on the fill."""
    from docx.oxml import OxmlElement
    from docx.oxml.ns import qn
    from docx.shared import RGBColor

    fill, ink = _COLOURS[light]
    shading = OxmlElement("w:shd")
    for name, value in (("val", "clear"), ("color", "auto"), ("fill", fill)):
        shading.set(qn(f"w:{name}"), value)
    cell._tc.get_or_add_tcPr().append(shading)
    for run in cell.paragraphs[0].runs:
        run.bold, run.font.color.rgb = True, RGBColor.from_string(ink)
