"""Reads the text of an annex's files; white space, hyphens and ends of lines don't count."""

import re
from importlib import import_module
from io import BytesIO

import pytest


def _lacks() -> str:
    """Why no annex can be written or read here; empty where one can."""
    try:
        for module in ("docx", "pypdf", "weasyprint"):
            import_module(module)
    except ImportError as error:
        return f"no {error.name} here: install the extra dev"
    except OSError:
        return "no Pango here: install libpango-1.0-0, libpangoft2-1.0-0 and libharfbuzz-subset0"
    return ""


needs_annex = pytest.mark.skipif(bool(_lacks()), reason=_lacks() or "never")


def squeezed(words: str) -> str:
    """Words without white space, as both readers give them alike."""
    return re.sub(r"\s+", "", words)


def pdf_text(content: bytes) -> str:
    """All text of a PDF, squeezed."""
    from pypdf import PdfReader

    return squeezed("".join(page.extract_text() for page in PdfReader(BytesIO(content)).pages))


def docx_text(content: bytes) -> str:
    """All text of a .docx, of paragraphs and tables, squeezed."""
    import docx
    from docx.oxml.ns import qn

    body = docx.Document(BytesIO(content)).element.body
    return squeezed("".join(one.text or "" for one in body.iter(qn("w:t"))))
