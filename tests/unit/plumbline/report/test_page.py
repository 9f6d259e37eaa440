"""The page of a run as a reader of its elements finds it: complete, its own, harmless."""

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from plumbline.judge.findings import DefenceTrial
from plumbline.judge.label_control import LabelControl
from plumbline.judge.labels import RarestLabel
from plumbline.report.page import write_report
from plumbline.telling.document import Shade
from services.common.agreement import TrainingPlan
from services.common.run_folder import RunFolder
from tests.harness.findings import SIZES
from tests.harness.parsed import Element, parsed
from tests.harness.reported import FACTS, MadeColumn, findings_of, made_run

MARKUP = "</script><script>alert(1)</script><img src=x onerror=alert(1)> & \"'\u202e"


def page_of(folder: RunFolder, trials: Sequence[DefenceTrial] = ()) -> str:
    findings = replace(findings_of(folder), trials=tuple(trials))
    write_report(folder.path / "report.html", findings, FACTS, folder)
    return (folder.path / "report.html").read_text()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    return page_of(made_run(tmp_path_factory.mktemp("run")))


@pytest.fixture(scope="module")
def root(page: str) -> Element:
    return parsed(page)


def test_every_drawing_is_titled_and_every_table_has_caption_and_scopes(root: Element) -> None:
    drawings = [one for one in root.all("svg") if one.attributes.get("aria-hidden") != "true"]
    assert len(drawings) > 8
    for drawing in drawings:
        assert drawing.attributes["role"] == "img"
        first = next(child for child in drawing.children if isinstance(child, Element))
        assert first.tag == "title"
        assert first.text
    tables = list(root.all("table"))
    assert len(tables) > 8
    for table in tables:
        assert table.one("caption").text
        assert all(heading.attributes.get("scope") in ("col", "colgroup", "row") for heading in table.all("th"))


def test_the_page_asks_for_nothing_and_runs_its_own_script_only(page: str, root: Element) -> None:
    assert not re.search(r"(?:src|href|action|data)=\"(?!#)", page)
    assert "url(" not in page
    assert "@import" not in page
    assert not list(root.all("link"))
    policy = root.one("meta", **{"http-equiv": "Content-Security-Policy"}).attributes["content"]
    assert policy.startswith("default-src 'none'")
    for tag, directive in (("script", "script-src"), ("style", "style-src")):
        (text,) = re.findall(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}'" in policy
    # The policy would stop them.
    assert not re.search(r"<[^>]+ (?:style|on[a-z]+)=", page)


def test_the_answer_comes_first_and_warnings_stay_below_it(tmp_path: Path) -> None:
    folder = made_run(tmp_path, warnings=("INSECURE: something is off.", "passive could learn labels."))
    root = parsed(page_of(folder))
    main = root.one("main")
    headings = [one for one in main.children if isinstance(one, Element)]
    assert headings[0].tag == "h1"
    banner = main.one("details", class_="banner")
    assert "open" not in banner.attributes
    assert banner.one("summary").text == (
        "INSECURE: 1 protection is off in this run; 1 warning about what messages have room for"
    )
    page = (tmp_path / "report.html").read_text()
    assert (
        page.index("<h1") < page.index('class="matrix"') < page.index('class="banner"') < page.index('class="ranked"')
    )


def test_a_light_is_a_shape_and_words(root: Element) -> None:
    boxes = list(root.one("ul", class_="boxes").all("li"))
    assert len(boxes) == 2
    for box in boxes:
        light = box.one("span", class_="light")
        assert light.one("svg").attributes["aria-hidden"] == "true"
        assert light.text in ("Leaks much", "Leaks something", "Leaks little", "Not shown")


def test_levels_switch_without_a_script_and_the_headline_is_chosen(root: Element) -> None:
    levels = root.one("fieldset", class_="levels")
    chosen = [one.attributes["id"] for one in levels.all("input", type="radio") if "checked" in one.attributes]
    assert chosen == ["level-marginals"]
    # The style sheet's rules are of siblings: radios and panels must stand side by side.
    kinds = [one.tag for one in levels.children if isinstance(one, Element)]
    assert kinds[:3] == ["legend", "input", "input"]
    panels = [
        one
        for one in levels.children
        if isinstance(one, Element) and "level" in one.attributes.get("class", "").split()
    ]
    assert [f"level-{one.attributes['class'].split()[1]}" for one in panels] == [
        one.attributes["id"] for one in levels.all("input", type="radio")
    ]


def test_columns_are_shown_in_their_own_units(root: Element) -> None:
    income = next(card for card in root.all("details", class_="card") if card.one("h3").text == "income")
    drawings = {one.one("h4").text: one for one in income.all("figure")}
    ticks = [
        float(one.text.replace(",", ""))
        for one in drawings["How it is distributed"].all("text")
        if one.text[0].isdigit() and "%" not in one.text
    ]
    assert max(ticks) > 50_000
    # The nearest attack is off by a twentieth of the range of 90,000.
    rows = list(income.one("table").one("tbody").all("tr"))
    assert [row.one("th").text for row in rows] == ["guessed anyway", "half_star", "rcc2"]
    off = next(iter(rows[1].all("td"))).text
    assert float(off.removeprefix("± ").replace(",", "")) == pytest.approx(4_500, rel=0.2)


def test_attacks_are_sorted_by_strength_and_those_without_a_result_say_why(root: Element) -> None:
    tables = {table.one("caption").text: table for table in root.all("table")}
    (strongest,) = [table for caption, table in tables.items() if caption.startswith("Shares at level")]
    assert [row.one("th").text for row in strongest.one("tbody").all("tr")] == ["half_star", "rcc2"]
    (absent,) = [table for caption, table in tables.items() if caption.startswith("An attack that failed")]
    rows = [[cell.text for cell in row.children if isinstance(cell, Element)] for row in absent.one("tbody").all("tr")]
    assert rows == [
        ["gia", "failed", "gia failed with <b>TypeError</b>."],
        ["feature_order by passive", "not done", "feature_order needs one column."],
    ]


def test_what_is_not_scored_is_no_number(tmp_path: Path) -> None:
    folder = made_run(tmp_path)
    findings = findings_of(folder)
    findings = replace(findings, training=(SIZES,))
    write_report(tmp_path / "report.html", findings, FACTS, folder)
    page = (tmp_path / "report.html").read_text()
    assert "not scored: solved steps: 7; sizes: [0, 1, 2, 3, 4, 5, ...]" in page
    assert not re.search(r"\bnan\b", page)


def test_the_cheapest_defence_holds_and_costs_least_accuracy(tmp_path: Path) -> None:
    trials = [
        DefenceTrial("class_label", holds=True, part=0.04, accuracy=0.9, accuracy_change=-0.08, seconds=1.0),
        DefenceTrial("score_rounding", holds=True, part=0.04, accuracy=0.9, accuracy_change=-0.01, seconds=9.0),
        DefenceTrial("dp_noise", part=0.4, exposed=1, accuracy=0.9, seconds=1.0),
        DefenceTrial("purification", reason="It needs torch."),
    ]
    root = parsed(page_of(made_run(tmp_path), trials))
    section = root.one("section", **{"aria-labelledby": "cheapest"})
    assert section.one("code").text == "score_rounding"
    assert "1.0 points of accuracy and 9.0 s" in section.text
    none = parsed(page_of(made_run(tmp_path), trials[2:3])).one("section", **{"aria-labelledby": "cheapest"})
    assert "The only defence that was tried, dp_noise, doesn't hold." in none.text
    without = parsed(page_of(made_run(tmp_path))).one("section", **{"aria-labelledby": "cheapest"})
    assert "--try-defences" in without.text


def test_names_that_others_chose_are_text_however_hostile_and_long(tmp_path: Path) -> None:
    names = [MARKUP, "x" * 3_000, "=cmd|' /C calc'!A0"]
    folder = made_run(tmp_path, [MadeColumn(name) for name in names], class_names=(MARKUP, "b"), warnings=(MARKUP,))
    page = page_of(folder)
    root = parsed(page)
    assert len(list(root.all("script"))) == 1
    assert not list(root.all("img"))
    assert "\u202e" not in page
    shown = [one.text for one in root.all("h3")]
    assert any("alert(1)" in text and "\\u202e" in text for text in shown)


@pytest.mark.parametrize(("classes", "cipher"), [(3, "plain"), (7, "paillier")])
def test_several_classes_have_a_curve_each(tmp_path: Path, classes: int, cipher: str) -> None:
    folder = made_run(tmp_path, classes=classes, plan=TrainingPlan(batch_size=64, epochs=3, cipher=cipher))
    root = parsed(page_of(folder))
    (chart,) = [one for one in root.all("figure") if one.one("h4").text == "The model: each class against the rest"]
    assert len([one for one in chart.all("path") if one.attributes["class"] in {f"s{n}" for n in range(1, 8)}]) > 0
    in_the_clear = "trained in the clear" in root.one("main").text
    assert in_the_clear == (cipher == "plain")


def test_fifty_columns_stay_under_two_megabytes(tmp_path: Path) -> None:
    columns = [MadeColumn(f"column {number}", offset=number, scale=100.0) for number in range(50)]
    attacks = [f"attack_{number}(prior=covariance)" for number in range(14)]
    page = page_of(made_run(tmp_path, columns, attacks=attacks))
    assert len(page.encode()) < 2_000_000
    root = parsed(page)
    assert len(list(root.all("details", class_="card"))) == 50
    # Twelve on the first screen, the others a click away; all of them at each level.
    more = [one.text for one in root.all("summary") if one.text.endswith("more columns")]
    assert set(more) == {"38 more columns"}


def test_the_same_findings_give_the_same_page(tmp_path: Path) -> None:
    folder = made_run(tmp_path)
    assert page_of(folder) == page_of(folder)


def test_no_sentence_ends_twice(tmp_path: Path) -> None:
    """A control's last sentence had two full stops."""
    folder = made_run(tmp_path)
    findings = findings_of(folder)
    control = LabelControl(records=100, shuffled_right=0.5, majority=0.6, columns_right=0.9)
    training = [
        replace(one, rarest=RarestLabel(1, 0.3, 0.8, 20, 0.7), control=control) if one.kind == "labels" else one
        for one in findings.training
    ]
    write_report(folder.path / "report.html", replace(findings, training=tuple(training)), FACTS, folder)
    told = parsed((folder.path / "report.html").read_text()).text
    assert control.words in told
    assert re.findall(r"\w\.\.(?!\.)", told) == []


def test_a_run_without_attacks_says_that_nothing_was_measured(tmp_path: Path) -> None:
    folder = made_run(tmp_path)
    for file in (tmp_path / "attacks").iterdir():
        file.unlink()
    # Nobody writes features that no attack is judged by.
    for file in tmp_path.glob("*-features.npz"):
        file.unlink()
    root = parsed(page_of(folder))
    assert "No attack on predictions was mounted" in root.one("main").text
    assert "No attack on labels was mounted" in root.one("main").text
    assert not list(root.all("details", class_="card"))


def test_each_table_of_the_document_stands_on_the_page_and_is_json(tmp_path: Path) -> None:
    folder = made_run(tmp_path, [MadeColumn("job=cook", "job", "category"), MadeColumn("job=clerk", "job", "category")])
    trials = (
        DefenceTrial("dp_noise", {"sigma": 2}, part=0.4, exposed=1, accuracy=0.9, accuracy_change=-0.02, seconds=1.5),
        DefenceTrial("purification", reason="It needs torch."),
    )
    document = write_report(tmp_path / "report.html", replace(findings_of(folder), trials=trials), FACTS, folder)
    root = parsed((tmp_path / "report.html").read_text())
    drawn = [[" ".join(cell.text.split()) for cell in table.one("tbody").all("td")] for table in root.all("table")]
    # The first facts of a run stand on the first screen, not as a table.
    for name in document.tables.keys() - {"run"}:
        rows = [row[1:] for row in document.tables[name].rows]
        cells = [" ".join((one if isinstance(one, str) else one.words).split()) for row in rows for one in row]
        assert not cells or cells in drawn, name
    written, shade = json.loads(json.dumps(asdict(document))), document.tables["map"].rows[0][1]
    assert isinstance(shade, Shade)
    assert written["tables"]["map"]["rows"][0][1] == {"share": shade.share}
    assert written["tables"]["trials"]["rows"][1][2] == {"light": "grey", "words": "not run"}
    assert {"labels told", "curves", "loss"} <= written["charts"].keys()
    titles = {one.text for drawing in root.all("svg", class_="chart") for one in drawing.all("title")}
    assert {one["title"] for one in written["charts"].values()} <= titles
