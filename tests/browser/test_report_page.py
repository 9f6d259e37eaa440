"""The report of an audit in every look: of two parties, of three with defences, of 50 columns with hostile names."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.harness.audited import audited_once, shared_folder, write_wide_tables
from tests.harness.pages import LOOKS, Look, problems_of, visited

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser

SMALL = ("--data", "breast_cancer", "--epochs", "2", "--batch-size", "8")
OPTIONS = {
    "two": (*SMALL, "--attacks", "half_star,rcc2,posterior,feature_order,label_recovery", "--auxiliary", "40"),
    "three": (
        *(*SMALL, "--parties", "3", "--attacks", "half_star,posterior,label_recovery"),
        *("--defences", "dp_noise,score_rounding,parameter_rotation"),
    ),
    "fifty": ("--epochs", "1", "--attacks", "zero,half_star,rcc2,label_recovery"),
}
# The small one in two looks, the widest in one; that of three parties and the rest by `make thorough`.
SEEN = [
    (case, look)
    if (case == "two" and look in LOOKS[::3]) or (case, look) == ("fifty", LOOKS[0])
    else pytest.param(case, look, marks=pytest.mark.thorough)
    for case in OPTIONS
    for look in LOOKS
]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shared_folder(tmp_path_factory)


def report_of(case: str, folder: Path) -> Path:
    tables = write_wide_tables(folder) if case == "fifty" else []
    return audited_once(folder, [*tables, *OPTIONS[case]]) / "report.html"


@pytest.mark.parametrize(("case", "look"), SEEN, ids=lambda one: getattr(one, "name", one))
def test_nothing_is_wrong_with_a_report(browser: "Browser", folder: Path, case: str, look: Look) -> None:
    problems = problems_of(browser, report_of(case, folder), look)
    assert not problems, "\n".join(problems[:20])


def test_a_report_is_a_few_pages_of_paper_and_no_table_of_attacks_is_cut(browser: "Browser", folder: Path) -> None:
    with visited(browser, report_of("two", folder), Look("a laptop", 1280)) as visit:
        for name in ("Attacks on predictions", "Map of columns and attacks"):
            table = visit.page.get_by_role("region", name=name)
            assert table.evaluate("one => one.scrollWidth <= one.clientWidth"), name
        visit.page.emulate_media(media="print")
        printed = visit.page.pdf(format="A4", margin={"top": "1cm", "bottom": "1cm", "left": "1cm", "right": "1cm"})
    assert 1 <= len(re.findall(rb"/Type\s*/Page\b", printed)) <= 9


def test_names_of_columns_are_words_and_no_markup(browser: "Browser", folder: Path) -> None:
    with visited(browser, report_of("fifty", folder), LOOKS[0]) as visit:
        assert "taken" not in visit.page.title()
        assert visit.page.locator("h1").count() == 1
        assert visit.page.locator("img").count() == 0
        text = visit.page.locator("body").text_content() or ""
    assert "<script>document.title" in text
    assert "{{ 7 * 7 }}" in text
    # What turns the direction of text is written out.
    assert "\u202e" not in text
