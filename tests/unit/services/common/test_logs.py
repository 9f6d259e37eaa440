"""A record of the log is one line, whoever chose its words, in both forms."""

import contextvars
import io
import json
import logging
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.common.errors import one_line
from services.common.logs import JsonLines, TextLines, log_context
from services.common.settings import load_settings

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()))
# The line that a peer forged: once it stood in the log as if the party had written it.
FORGERY = "bye\n12:00:00 passive INFO Aligned 9999 of 9999 records."
FORMS = {"text": TextLines, "json": JsonLines}


def logged(form: str, message: str, *arguments: object, **named: Any) -> str:
    """What a party called ``passive`` writes for one record."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(FORMS[form]("passive"))
    logger = logging.Logger("services.test")
    logger.addHandler(handler)
    logger.error(message, *arguments, **named)
    return stream.getvalue()


@pytest.mark.parametrize("form", FORMS)
@given(words=ANY_TEXT)
def test_any_text_gives_exactly_one_line_without_control_characters(form: str, words: str) -> None:
    written = logged(form, "Session ended: %s", words)
    assert written.endswith("\n")
    (line,) = written.splitlines()
    assert all(character.isprintable() or character.isspace() for character in line)
    assert not re.search(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]", line)
    assert len(line) < 25_000


@given(words=ANY_TEXT, session=ANY_TEXT, caller=ANY_TEXT, step=st.integers(0, 2**31))
def test_json_lines_are_ascii_and_parse_with_what_is_known_of_the_call(
    words: str, session: str, caller: str, step: int
) -> None:
    with log_context(session=session, caller=caller), log_context(step=step):
        line = logged("json", "%s", words)
    assert line.isascii()
    content = json.loads(line)
    assert set(content) == {"time", "level", "party", "logger", "message", "session", "step", "caller"}
    assert (content["level"], content["party"], content["logger"], content["step"]) == (
        "ERROR",
        "passive",
        "services.test",
        step,
    )
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", content["time"])


def test_the_forged_line_is_written_out() -> None:
    (line,) = logged("text", "Session ended: %s", FORGERY).splitlines()
    assert re.fullmatch(r"\d\d:\d\d:\d\d passive ERROR Session ended: bye\\n12:00:00 passive INFO Aligned .*", line)
    assert json.loads(logged("json", "%s", FORGERY))["message"] == FORGERY.replace("\n", r"\n")


def test_a_record_is_bounded() -> None:
    for form in FORMS:
        assert len(logged(form, "%s", "x" * 10_000_000)) < 5_000


def test_lines_of_a_traceback_look_like_no_record(tmp_path: Path) -> None:
    """An error's text may quote a peer: it must not begin a line of the log."""
    try:
        raise ValueError(FORGERY + "\r12:00:00 passive INFO more")
    except ValueError as error:
        text = logged("text", "Unexpected error", exc_info=error)
        content = json.loads(logged("json", "Unexpected error", exc_info=error))
    first, *others = text.splitlines()
    assert first.endswith("passive ERROR Unexpected error")
    assert others
    assert all(line.startswith("    | ") for line in others)
    assert "    | ValueError: bye" in others
    assert content["traceback"] == [line.removeprefix("    | ") for line in others]


def test_a_traceback_is_bounded() -> None:
    for form in FORMS:
        assert len(logged(form, "x", exc_info=ValueError("line\n" * 100_000 + "y" * 1_000_000))) < 20_000


@pytest.mark.parametrize("form", FORMS)
def test_a_record_with_wrong_arguments_is_written_all_the_same(form: str) -> None:
    assert "1 of %d" in logged(form, "%d: 1 of %d\n", 3)


def test_context_is_of_a_thread_and_ends_with_its_block() -> None:
    seen: list[dict[str, Any]] = []

    def note() -> None:
        seen.append(json.loads(logged("json", "x")))

    with log_context(session="s", caller="active"):
        with log_context(caller="passive", step=0):
            note()
        note()
        other = threading.Thread(target=note)
        other.start()
        other.join()
    note()
    known = [{name: one[name] for name in ("session", "step", "caller") if name in one} for one in seen]
    assert known == [
        {"session": "s", "step": 0, "caller": "passive"},
        {"session": "s", "caller": "active"},
        {},
        {},
    ]


def test_a_generator_that_another_thread_ends_leaves_the_context_of_that_thread() -> None:
    def stream() -> Iterator[int]:
        with log_context(session="s", caller="active"):
            yield 1

    def end() -> str:
        with log_context(session="own"):
            assert list(call) == []
            return logged("json", "x")

    call = stream()
    # As gRPC begins a call: in a context of its own.
    assert contextvars.Context().run(next, call) == 1
    with ThreadPoolExecutor(1) as other:
        content = json.loads(other.submit(end).result())
    assert (content["session"], "caller" in content) == ("own", False)


# Whatever goes around the log (warnings, errors that nobody caught, gRPC's own records) goes the same way.
_AROUND = """
import logging, sys, threading, warnings
from services.common.logs import configure_log
from services.common.settings import load_settings
configure_log(load_settings(), "passive")
text = "bye\\n12:00:00 passive INFO forged"
warnings.warn(text)
logging.getLogger("grpc._server").error("Exception: %s", text)
def fail(): raise ValueError(text)
thread = threading.Thread(target=fail); thread.start(); thread.join()
class Broken:
    def __del__(self): raise ValueError(text)
Broken()
fail()
"""


@pytest.mark.parametrize("form", FORMS)
def test_nothing_goes_around_the_log(form: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _AROUND],
        env={**os.environ, "PLUMBLINE_LOG_FORMAT": form},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert len(lines) >= 5
    if form == "json":
        records = [json.loads(line) for line in lines]
        assert [one["logger"] for one in records[:2]] == ["py.warnings", "grpc._server"]
        assert all("traceback" in one for one in records[2:])
    else:
        assert all(re.match(r"(\d\d:\d\d:\d\d passive (WARNING|ERROR|CRITICAL)|    \|) ", line) for line in lines)
        assert not [line for line in lines if "INFO" in line.split()[:3]]


def test_the_form_is_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_settings().log_format == "text"
    monkeypatch.setenv("PLUMBLINE_LOG_FORMAT", "json")
    assert load_settings().log_format == "json"


def test_words_of_a_peer_pass_the_log_unchanged_once_they_are_one_line() -> None:
    assert one_line(FORGERY) in logged("text", "Session ended: %s", one_line(FORGERY))
