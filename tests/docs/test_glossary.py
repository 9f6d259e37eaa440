"""The glossary has the words that reports use, in the reports' own sentences."""

import re
from pathlib import Path

import pytest

from attacks import LEVELS
from plumbline.judge import column_sets, glance
from plumbline.received import before_sending
from plumbline.report.glossary import GLOSSARY
from plumbline.telling.document import LIGHT_WORDS, NOT_MEASURED

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/glossary.md").read_text()
ROWS = dict(re.findall(r"^\| \*\*(.+?)\*\* \| (.+) \|$", PAGE, flags=re.MULTILINE))
TEMPLATES = [path.read_text() for path in (ROOT / "plumbline/templates").rglob("*.html")]
# Headings whose word is another one's in the glossary.
SAME = {
    "best guess": "guessing",
    "guess": "guessing",
    "knows beforehand": "level",
    "known": "level",
    "columns exposed": "exposed",
    "mean share": "share",
    "largest share": "share",
    "largest part": "federation's part",
    "part (95 %)": "federation's part",
    "aligned records": "alignment",
    "records in a batch": "batch",
    "right by epoch": "epoch",
    "room for equations": "answer",
    "equations": "equations and unknowns",
    "unknowns": "equations and unknowns",
    "wrong with the attack": "attack",
    "best attack": "attack",
    "an attack is possible": "attack",
    "moved from its guess without scores": "baseline",
    "width of its 90 % intervals": "covered",
    "shuffled": "control",
    "off by": "typical error",
}
# Words of every day, and what a caption or the row explains on the spot.
_PLAIN = (
    "about|accuracy|answered|assumed|because|beside it|bits|by|bytes|call: message|change, points|column|columns|"
    "fixed|honest sums|how|its answers|kind|labels kept|left|left of it|looks for|mb|name and function|"
    "named|note|of|of the class|of them right|option|options|outcome|pace|package|party|peak memory|"
    "place and date|question|received|right|run|r²|seconds|setting|signature|since when|total|value|version|"
    "what|what became of it|what is sent|what it learns|who asks|who says so|who would learn it|"
    "written (utc)|wrong"
)
PLAIN = set(_PLAIN.split("|"))


def headings() -> set[str]:
    """Every heading of a table of a page that a template words, or that the product lists for one."""
    found = {*column_sets.HEADINGS, *before_sending.HEADINGS}
    for text in (*TEMPLATES, *((ROOT / f"plumbline/report/{name}.py").read_text() for name in ("cards", "run_tables"))):
        found |= {
            words.removeprefix(">")
            for row in re.findall(r'"(>?[A-Z][^"{}]*\|[^"{}]*)"', text)
            for words in row.split("|")
        }
        found |= set(re.findall(r'<th scope="col"[^>]*>([^<{]+)</th>', text))
    return {words.lower() for words in found if not words.endswith(".")}


def test_the_page_says_of_each_word_of_a_report_what_the_report_says() -> None:
    assert {name: ROWS.get(name) for name in GLOSSARY} == GLOSSARY


def test_words_are_in_order_and_explained_in_short() -> None:
    assert list(ROWS) == sorted(ROWS, key=str.lower)
    assert [name for name, words in ROWS.items() if len(words) > 300 or not words.endswith(".")] == []


@pytest.mark.parametrize("heading", sorted(headings() - PLAIN))
def test_each_heading_of_a_table_is_a_word_of_the_glossary_or_a_plain_one(heading: str) -> None:
    known = {name.lower() for name in ROWS}
    word = SAME.get(heading, heading)
    assert {word, word.removesuffix("s")} & known, (
        f"explain {heading!r} in plumbline/report/glossary.py, or list it here"
    )


def test_headings_are_found_and_no_exception_is_stale() -> None:
    assert len(headings()) > 60
    assert (PLAIN | SAME.keys()) - headings() == set()


def test_the_words_of_the_matrix_are_explained() -> None:
    known = [name.lower() for name in GLOSSARY]
    for words in (
        glance.DISCLOSES.replace("them", "its parameters"),
        NOT_MEASURED.words,
        "session",
        "person",
        "label",
    ):
        assert words in known
    for words in LIGHT_WORDS.values():
        assert words.lower() in GLOSSARY["light"].lower()
    for level in LEVELS:
        assert level in GLOSSARY["level"]


def test_every_word_that_a_template_links_is_in_the_report() -> None:
    linked = {name for text in TEMPLATES for name in re.findall(r'term\(glossary, "([^"]+)"', text)}
    assert len(linked) > 4
    assert linked - GLOSSARY.keys() == set()


def test_who_begins_is_led_to_the_glossary() -> None:
    beginnings = [ROOT / "README.md", ROOT / "docs/index.md", ROOT / "docs/how-to/read-a-report.md"]
    for page in [*beginnings, *(ROOT / "docs/tutorials").glob("*.md")]:
        assert "reference/glossary.md" in page.read_text(), page.name
