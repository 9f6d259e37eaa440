"""The page server: files of one folder for browsers of this machine, and a refusal for everything else."""

import http.client
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from plumbline.audit.watching.page_server import PageHandler
from tests.harness.served import ask, served


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pages = tmp_path / "pages"
    (pages / "runs" / "abc").mkdir(parents=True)
    (pages / "runs" / "abc" / "report.html").write_text("<p>A report.</p>")
    (pages / "runs" / ".hidden").write_text("no")
    (tmp_path / "secret.txt").write_text("no")
    return pages


@pytest.fixture
def port(folder: Path) -> Iterator[int]:
    with served(folder) as found:
        yield found


@pytest.mark.parametrize("host", ["", "localhost:8080", "127.0.0.1", "[::1]:8080"])
def test_a_reader_of_this_machine_gets_a_page_that_may_load_nothing_from_elsewhere(port: int, host: str) -> None:
    status, content, headers = ask(port, "/runs/abc/report.html", host=host)
    assert (status, content) == (200, "<p>A report.</p>")
    policy = headers["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "http" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"
    assert "Python" not in headers["Server"]


def test_before_the_auditor_has_written_anything_the_reader_is_told_to_wait(port: int, folder: Path) -> None:
    status, content, headers = ask(port, "/")
    assert status == 404
    assert "Load this page again in a few seconds." in content
    assert "Content-Security-Policy" in headers
    (folder / "index.html").write_text("<p>Here.</p>")
    assert ask(port, "/")[:2] == (200, "<p>Here.</p>")


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/runs/", 404),
        ("/runs/.hidden", 404),
        ("/../secret.txt", 404),
        ("/%2e%2e/secret.txt", 404),
        ("/runs/abc/%2e%2e/%2ehidden", 404),
    ],
)
def test_nothing_is_listed_and_nothing_hidden_or_outside_is_shown(port: int, path: str, status: int) -> None:
    assert ask(port, path)[0] == status


@pytest.mark.parametrize(
    "path", ["/index.html%00.txt", "/%00", "/runs/abc/report.html%00", "/%ed%a0%80", "/%ff%fe", f"/{'a' * 300}"]
)
def test_a_name_that_no_file_can_have_is_not_found(port: int, path: str) -> None:
    assert ask(port, path)[0] == 404


@pytest.mark.parametrize(
    ("link", "target", "path"),
    [
        ("secret.html", "../secret.txt", "/secret.html"),
        ("out", "..", "/out/secret.txt"),
        ("out", "..", "/out/"),
        ("index.html", "../secret.txt", "/"),
        ("runs/index.htm", "../../secret.txt", "/runs/"),
        ("shown", "runs/.hidden", "/shown"),
        ("circle", "circle", "/circle"),
        ("dangling", "nowhere", "/dangling"),
        ("zero", "/dev/zero", "/zero"),
    ],
)
def test_a_link_that_leads_out_of_the_folder_or_to_what_is_hidden_is_not_found(
    port: int, folder: Path, link: str, target: str, path: str
) -> None:
    (folder / link).symlink_to(target)
    status, content, _ = ask(port, path)
    assert status == 404
    assert content != "no"


def test_a_link_within_the_folder_is_followed_and_a_pipe_holds_nobody_up(port: int, folder: Path) -> None:
    (folder / "latest").symlink_to("runs/abc")
    os.mkfifo(folder / "pipe")
    assert ask(port, "/latest/report.html")[:2] == (200, "<p>A report.</p>")
    assert ask(port, "/pipe")[0] == 404


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "active:8080"])
def test_a_page_elsewhere_whose_name_is_made_to_lead_here_reads_nothing(port: int, host: str) -> None:
    status, content, _ = ask(port, "/runs/abc/report.html", host=host)
    assert status == 421
    assert "A report" not in content


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_nothing_can_be_changed(port: int, method: str) -> None:
    assert ask(port, "/runs/abc/report.html", method=method)[0] == 501


def test_a_browser_that_goes_away_leaves_no_word_on_the_terminal(
    port: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def gone(_handler: PageHandler, _source: Any, _target: Any) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(PageHandler, "copyfile", gone)
    with pytest.raises(http.client.IncompleteRead):
        ask(port, "/runs/abc/report.html")
    assert capsys.readouterr().err == ""
