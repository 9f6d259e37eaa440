"""The list of runs: what it reads, what it hands out, and what hostile folders become on it: words."""

import json
import os
import re
import sys
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from plumbline.audit.past_runs import compare_runs
from plumbline.audit.watching.run_pages import (
    Filter,
    ListedRun,
    RunPagesHandler,
    compare_page,
    list_page,
    listed_runs,
    over_time,
)
from plumbline.charts.marks import Trace
from plumbline.cli import app
from services.common import run_files
from tests.harness.run_lists import make_run, make_runs
from tests.harness.served import ask, served


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    make_runs(folder, 4)
    (folder / "20260101-120000-run-0" / "parties").mkdir()
    (folder / "20260101-120000-run-0" / "parties" / "report.html").write_text("cells")
    (folder / "20260101-120000-run-0" / "annex.pdf").write_text("pdf")
    (tmp_path / "secret.json").write_text("secret cells")
    return folder


@pytest.fixture
def port(runs: Path) -> Iterator[int]:
    with served(runs, RunPagesHandler) as found:
        yield found


def test_the_list_the_report_and_the_annex_are_shown_under_one_policy(port: int) -> None:
    for path, words in (
        ("/", "run-3"),
        ("/20260101-120000-run-0/report.html", "The report of run-0."),
        ("/20260101-120000-run-0/annex.pdf", "pdf"),
        ("/compare?run=20260101-120000-run-0&run=20260102-120000-run-1", "settings.epochs"),
    ):
        status, content, headers = ask(port, path)
        assert status == 200
        assert words in content
        policies = headers.get_all("Content-Security-Policy", [])
        assert any("frame-ancestors 'none'" in one for one in policies)
        # What somebody may have brought is of no origin, and so reads no other page.
        assert ("sandbox allow-scripts" in policies) == ("run-0/" in path)
        assert headers["X-Content-Type-Options"] == "nosniff"


def opened_files(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Files that are read from now on, in order."""
    opened, read = list[Path](), Path.read_bytes

    def noted(path: Path) -> bytes:
        opened.append(path)
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", noted)
    return opened


@pytest.mark.parametrize("name", ["verdict.json", "results.json"])
def test_a_verdict_is_opened_once_while_it_stays_as_it_is(
    port: int, runs: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = runs / "20260101-120000-run-0"
    if name == "results.json":
        # As older releases left a run.
        (run / "verdict.json").unlink()
    read = Path.read_bytes
    opened = opened_files(monkeypatch)
    for sentence, times in (("Nothing leaked.", 1), ("A little leaked.", 2), ("no JSON", 3)):
        content = read(run / name)
        (run / name).write_bytes(content.replace(b"Nothing leaked.", sentence.encode()))
        if sentence == "no JSON":
            (run / name).write_bytes(content[:-1])
        for _ in range(2):
            words = "run-0/" + name if sentence == "no JSON" else sentence
            assert words in ask(port, "/")[1]
        assert opened.count(run / name) == times
        (run / name).write_bytes(content)


@pytest.mark.parametrize("name", ["verdict.json", "status.json", "results.json"])
def test_a_run_too_large_to_read_is_listed_with_a_sentence_and_not_read(
    port: int, runs: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = runs / "20260101-120000-run-0"
    if name == "results.json":
        (run / "verdict.json").unlink()
    os.truncate(run / name, 120 << 20 if name != "results.json" else (128 << 20) + 1)
    if name == "status.json":
        os.utime(run / "verdict.json")
    opened = opened_files(monkeypatch)
    _, content, _ = ask(port, "/")
    assert f"run-0/{name} is broken: larger than any run writes." in content
    assert "run-3" in content
    assert run / name not in opened


@pytest.mark.parametrize("path", ["/", "/compare", "/20260101-120000-run-0/report.html"])
def test_a_page_elsewhere_whose_name_is_made_to_lead_here_reads_nothing(port: int, path: str) -> None:
    status, content, _ = ask(port, path, host="evil.example:8090")
    assert status == 421
    assert "run" not in content


@pytest.mark.parametrize(
    "path",
    [
        "/20260101-120000-run-0/results.json",
        "/20260101-120000-run-0/audit.toml",
        "/20260101-120000-run-0/parties/report.html",
        "/20260101-120000-run-0/",
        "/20260101-120000-run-0",
        "/../secret.json",
        "/%2e%2e/secret.json",
        "/20260101-120000-run-0/%2e%2e/%2e%2e/secret.json",
        "/report.html",
        "/20260101-120000-run-0/report.html%00",
        "/nothing",
    ],
)
def test_of_a_run_its_report_and_annex_alone_are_handed_out(port: int, path: str) -> None:
    status, content, _ = ask(port, path)
    assert status == 404
    assert "cells" not in content


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_nothing_can_be_changed(port: int, runs: Path, method: str) -> None:
    held = {path: path.stat().st_mtime_ns for path in runs.rglob("*")}
    for path in ("/", "/compare", "/20260101-120000-run-0/report.html"):
        assert ask(port, path, method=method)[0] == 501
        ask(port, path)
    assert {path: path.stat().st_mtime_ns for path in runs.rglob("*")} == held


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("", "0 were chosen"),
        ("run=..%2Fsecret.json&run=%2Fetc%2Fpasswd", "There is no run ../secret.json here any more"),
        ("run=%00&run=%ff", "There is no run"),
        ("&".join(f"run={number}" for number in range(300)), "There is no run 0 here"),
        ("run=<script>alert(1)</script>", "&lt;script&gt;"),
    ],
)
def test_what_can_not_be_compared_is_said_on_the_list(port: int, query: str, words: str) -> None:
    status, content, _ = ask(port, f"/compare?{query}".replace("<", "%3C").replace(">", "%3E"))
    assert status == 400
    assert words in content
    assert "Traceback" not in content


def spoil(run: Path, what: str) -> None:
    """Make a run's folder one that nobody should leave behind."""
    if what == "half-written":
        (run / "verdict.json").write_text('{"sentence": "All')
    elif what == "other types":
        (run / "verdict.json").write_text('{"sentence": 7, "light": ["red"]}')
    elif what == "nested":
        (run / "verdict.json").write_text("[" * 100_000)
    elif what == "huge":
        with (run / "verdict.json").open("wb") as file:
            file.truncate(1 << 28)
    elif what == "a pipe":
        (run / "verdict.json").unlink()
        os.mkfifo(run / "verdict.json")
    elif what == "a link out":
        (run / "status.json").unlink()
        (run / "status.json").symlink_to(run.parent.parent / "secret.json")
    elif what == "no request":
        (run / "audit.toml").write_text("attacks = 5")
    elif what == "no such link":
        (run / "results.json").unlink()
        (run / "results.json").symlink_to("nowhere")


@pytest.mark.parametrize(
    "what", ["half-written", "other types", "nested", "huge", "a pipe", "a link out", "no request", "no such link"]
)
def test_a_broken_run_is_a_sentence_and_the_others_are_listed_all_the_same(port: int, runs: Path, what: str) -> None:
    spoil(runs / "20260101-120000-run-0", what)
    status, content, _ = ask(port, "/")
    assert status == 200
    assert "broken" in content or "be read" in content
    assert "secret cells" not in content
    assert all(f"run-{number}" in content for number in range(4))


@pytest.mark.parametrize("target", ["../outside", "/", "link"])
def test_a_link_that_leads_out_is_named_and_not_read(port: int, runs: Path, target: str) -> None:
    make_run(runs.parent / "outside", sentence="Read from outside.")
    (runs / "link").symlink_to(target)
    _, content, _ = ask(port, "/")
    assert "leads out of the folder of runs" in content
    assert "Read from outside" not in content
    assert ask(port, "/link/report.html")[0] == 404


def test_a_name_of_bytes_that_are_no_text_is_listed_and_its_report_opens(port: int, runs: Path) -> None:
    odd = make_run(runs / "made").rename(runs / os.fsdecode(b"20260401-120000-\xff\xfe <b> & ?#%41"))
    (listed,) = (one for one in listed_runs(runs) if one.run.folder == odd)
    status, content, _ = ask(port, "/")
    assert status == 200
    assert "<b> &" not in content
    assert f"{listed.address}/report.html" in content
    assert ask(port, f"/{listed.address}/report.html")[0] == 200


def test_listing_opens_no_results_where_the_verdict_stands_in_short(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = list[str]()
    read = run_files.read_json

    def noted(path: Path, *arguments: Any) -> Any:
        opened.append(path.name)
        return read(path, *arguments)

    monkeypatch.setattr(sys.modules["plumbline.audit.past_runs"], "read_json", noted)
    assert [one.run.light for one in listed_runs(runs)] == ["grey", "red", "amber", "green"]
    assert opened == ["verdict.json"] * 4


def test_results_of_an_older_release_or_newer_than_the_verdict_are_read(runs: Path) -> None:
    older, newer = runs / "20260101-120000-run-0", runs / "20260102-120000-run-1"
    (older / "verdict.json").unlink()
    (older / "results.json").write_text(json.dumps({"answer": {"sentence": "As it was then."}}))
    (newer / "results.json").write_text(json.dumps({"answer": {"sentence": "Said anew.", "light": "red"}}))
    os.utime(newer / "verdict.json", (1, 1))
    found = {one.run.name: one.run for one in listed_runs(runs)}
    assert (found["run-0"].headline, found["run-0"].light, found["run-0"].part) == ("As it was then.", "", None)
    assert (found["run-1"].headline, found["run-1"].light) == ("Said anew.", "red")


def test_what_a_run_has_not_measured_or_says_of_no_share_is_left_out(runs: Path) -> None:
    run = runs / "20260101-120000-run-0"
    (run / "verdict.json").write_text('{"sentence": "No model.", "light": "red", "part": 1e300, "accuracy": NaN}')
    (run / "results.json").write_text('{"answer": {"sentence": "No model."}, "accuracy": NaN, "auc": Infinity}')
    os.utime(run / "results.json", (1, 1))
    listed = listed_runs(runs)
    assert (listed[-1].run.part, listed[-1].run.accuracy) == (None, None)
    for page in (list_page(runs, listed, Filter()), compare_page(listed[-2:])):
        assert "No model." in page
        assert not re.search(r"\b(?:nan|inf)\b", page.partition("<main")[2].partition("<script")[0], re.IGNORECASE)


def test_runs_that_have_only_begun_and_of_the_oldest_releases_are_listed(runs: Path) -> None:
    (runs / "20260102-120000-run-1" / "results.json").unlink()
    (runs / "20260401-120000-old").mkdir()
    (runs / "20260401-120000-old" / "config.json").write_text("{}")
    listed = listed_runs(runs)
    assert [(one.run.name, one.run.status, one.files) for one in listed[:1]] == [("old", "unknown", ())]
    with pytest.raises(ValueError, match="has no results to compare"):
        compare_page(listed[-2:])


def test_a_folder_that_can_not_be_read_is_said(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(folder: Path) -> list[ListedRun]:
        raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr(sys.modules[RunPagesHandler.__module__], "listed_runs", refused)
    status, content, _ = ask(port, "/")
    assert status == 400
    assert "can&#39;t be read (Permission denied): check its rights" in content
    assert "makes one" not in content


def test_a_folder_without_runs_or_none_at_all_says_what_makes_one(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        assert "<code>plumbline audit</code> makes one" in list_page(folder, listed_runs(folder), Filter())


@pytest.mark.parametrize(
    ("wanted", "left"),
    [
        (Filter(text="RUN-2"), ["run-2"]),
        (Filter(light="red"), ["run-2"]),
        (Filter(status="failed"), []),
        (Filter(text="wine", light="grey", status="finished"), ["run-3"]),
    ],
)
def test_a_filter_keeps_what_is_like_that(runs: Path, wanted: Filter, left: list[str]) -> None:
    assert [one.run.name for one in listed_runs(runs) if wanted.keeps(one.run)] == left


def test_verdicts_over_time_are_drawn_whatever_the_dates(runs: Path) -> None:
    for name in ("00010101-000000-first", "99991231-235959-last", "21991231-235959-late"):
        make_run(runs / name)
    chart = over_time([one.run for one in listed_runs(runs)])
    assert chart is not None
    assert "wine" in chart.description
    assert over_time([one.run for one in listed_runs(runs)][:1]) is None


def test_runs_of_one_day_are_told_apart_by_the_minute(tmp_path: Path) -> None:
    for number in range(3):
        make_run(tmp_path / f"20260101-12{number}000-run", part=number / 4)
    chart = over_time([one.run for one in listed_runs(tmp_path)])
    assert chart is not None
    assert {"wine, 2026-01-01 12:00: 0.0 %", "wine, 2026-01-01 12:20: 50.0 %"} <= {
        mark.words for mark in chart.marks if isinstance(mark, Trace)
    }


def test_four_runs_stand_beside_each_other(runs: Path) -> None:
    found = compare_runs(*sorted(runs.iterdir()))
    assert [(one.what, one.values) for one in found.settings] == [("settings.epochs", (1, 2, 3, 4))]
    assert found.columns[0].values == (0.0, 0.25, 0.5, 0.75)


def test_the_command_says_where_it_listens_and_ends_with_ctrl_c(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(server: ThreadingHTTPServer) -> None:
        assert server.server_address[0] == "127.0.0.1"
        raise KeyboardInterrupt

    monkeypatch.setattr(ThreadingHTTPServer, "serve_forever", interrupted)
    done = CliRunner().invoke(app, ["ui", "--runs", str(runs), "--port", "0"])
    assert done.exit_code == 130
    assert "http://127.0.0.1:" in done.output


@pytest.mark.parametrize(("name", "words"), [("runs", "give another with --port"), ("secret.json", "is no folder")])
def test_a_port_that_is_taken_and_a_folder_that_is_none_are_sentences(
    port: int, tmp_path: Path, name: str, words: str
) -> None:
    done = CliRunner().invoke(app, ["ui", "--runs", str(tmp_path / name), "--port", str(port)])
    assert done.exit_code == 2
    assert words in " ".join(done.output.split())
