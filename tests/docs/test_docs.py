"""What the docs say can be typed can be typed, and what they point at is there. `make docs` checks the site itself."""

import ast
import doctest
import importlib
import inspect
import re
import shlex
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import typer

import attacks
import defences
from plumbline.cli import app
from protos.v1 import active_pb2, coordinator_pb2, messages_pb2, passive_pb2
from services.common.errors import FederationError, PeerRefused
from services.common.settings import FORMER_NAMES, PREFIX, Settings
from services.network.statuses import status_of
from tests.harness.documented_plugin import install

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
# Those of docs/reference/public.md.
FRONT_DOORS = ast.literal_eval(
    re.findall(r"^FRONT_DOORS = (.*)$", (ROOT / "docs/site/hooks.py").read_text(), flags=re.MULTILINE)[0]
)
# Variables that aren't settings of a service.
OTHER_VARIABLES = {"PAGES_PORT", "PORT", "TEST_POSTGRES_URL"}
# What stands in a text until somebody has measured or written it.
PLACEHOLDER = re.compile(r"@[A-Z_]+@|\b(?:ALIGNMENT_TABLE|FIXME|MEMORY|PLACEHOLDER|TBD|TODO|XXX)\b")


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def commands() -> Iterator[tuple[str, str]]:
    """Each `plumbline` command of a console block, with the page that shows it."""
    for page in PAGES:
        for block in re.findall(r"```(?:console|bash)\n(.*?)```", page.read_text(), flags=re.DOTALL):
            for line in block.replace("\\\n", " ").splitlines():
                words = shlex.split(line, comments=True)
                while words and (words[0] in ("export", "exec") or re.match(r"[A-Z_]+=", words[0])):
                    words.pop(0)
                if words and words[0] == "plumbline":
                    yield name_of(page), shlex.join(words)


@pytest.mark.parametrize(("page", "command"), sorted(set(commands())))
def test_each_documented_command_is_one(page: str, command: str) -> None:
    """Parsed as typed, not run: an unknown command, option or choice, or one too few, is refused by the parser."""
    _, *words = shlex.split(command)
    here: Any = typer.main.get_command(app)
    context = None
    while words and hasattr(here, "get_command"):
        context = typer.Context(here, parent=context)
        if (inner := here.get_command(context, words[0])) is None:
            break
        here = inner
        words.pop(0)
    try:
        with suppress(typer.Exit):  # --help and --version
            here.make_context("plumbline", words, parent=context)
    except Exception as refused:  # the parser's errors have no public base class
        pytest.fail(f"{page}: {command}: {refused}")


def test_commands_are_found() -> None:
    assert len(list(commands())) > 20


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_each_documented_variable_is_a_setting(page: Path) -> None:
    known = {name.upper() for name in (*Settings.model_fields, *FORMER_NAMES)} | OTHER_VARIABLES
    assert set(re.findall(rf"\b{PREFIX}([A-Z_]*[A-Z])\b", page.read_text())) - known == set()


def test_variables_that_the_compose_file_takes_from_a_shell_reach_every_service() -> None:
    """Under their own names: an anchor has them that coordinator, active and passive party merge."""
    text = (ROOT / "docker-compose.yml").read_text()
    shared = text.partition("x-settings: &settings\n")[2].partition("\n\n")[0]
    taken = dict(re.findall(rf"^  {PREFIX}(\w+): .*?\$\{{{PREFIX}(\w+):?-", shared, flags=re.MULTILINE))
    assert taken == {name: name for name in taken}
    assert {"EPOCHS", "PROTOCOL", "SERVING"} <= set(taken) <= {name.upper() for name in Settings.model_fields}
    assert len(re.findall(r"^      <<: (?:\*settings|\[\*settings, .*\])$", text, flags=re.MULTILINE)) == 3


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_each_link_leads_to_a_file(page: Path) -> None:
    """On a code host, where no page is generated; and on the site, which has no test."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)|(?:href|src)=\"([^\"#]+)\"", text)
    local = [one or other for one, other in targets if ":" not in one + other]
    assert [target for target in local if not (page.parent / target).exists()] == []
    if page.is_relative_to(ROOT / "docs"):
        assert [target for target in local if (page.parent / target).resolve().is_relative_to(ROOT / "tests")] == []


@pytest.mark.parametrize(
    ("page", "names"), [("attacks.md", attacks.names()), ("defences.md", defences.names())], ids=["attacks", "defences"]
)
def test_the_catalogues_have_every_name(page: str, names: tuple[str, ...]) -> None:
    text = (ROOT / "docs" / page).read_text()
    # `score_scheme1`, `2`, `3`: the family's first name stands for it.
    missing = [name for name in names if f"`{name}`" not in text and f"`{name[:-1]}1`" not in text]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_placeholder_is_left(page: Path) -> None:
    assert PLACEHOLDER.findall(page.read_text()) == []


def test_a_placeholder_is_recognised() -> None:
    text = "takes @LINT@ and MEMORY; `SIGTERM`, PLUMBLINE_MEMORY_OF and memory are none"
    assert PLACEHOLDER.findall(text) == ["@LINT@", "MEMORY"]


@pytest.mark.parametrize(
    "method",
    [
        f"{service.name}.{method.name}"
        for file in (active_pb2, coordinator_pb2, messages_pb2, passive_pb2)
        for service in file.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    ],
)
def test_the_protocol_has_every_call(method: str) -> None:
    assert f"`{method}`" in (ROOT / "docs" / "protocol.md").read_text()


def test_the_protocol_has_every_status() -> None:
    text = (ROOT / "docs" / "protocol.md").read_text()
    table = "".join(line for line in text.partition("| status |")[2].splitlines() if line.startswith("|"))
    kinds: list[type[FederationError]] = [FederationError, *FederationError.__subclasses__()]
    statuses = {status_of(kind()).name for kind in kinds if kind is not PeerRefused}
    assert statuses - set(re.findall(r"\w+", table)) == set()


def test_the_tutorial_attack_does_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install("tutorials/write-an-attack.md", "low_star", tmp_path, monkeypatch)
    assert "low_star" in attacks.names()
    assert failures_of_session("write-an-attack.md") == 0


def test_python_paillier_reads_and_computes_what_its_tutorial_shows() -> None:
    assert failures_of_session("check-us-against-phe.md") == 0


@pytest.mark.parametrize("package", FRONT_DOORS)
def test_examples_of_what_is_public_come_out_and_show_all_of_it(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each exported class or function has an example of its own, or is named in that of another one."""
    monkeypatch.chdir(tmp_path)
    door = importlib.import_module(package)
    exported = {name: getattr(door, name) for name in door.__all__}
    asked = {name for name, one in exported.items() if inspect.isclass(one) or inspect.isroutine(one)}
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    shown = set()
    for name in ("", *sorted(asked)):
        # As docs/reference/public.md says; a package's own example imports what it needs.
        known = {"np": np, "pd": pd, **exported} if name else {}
        finder = doctest.DocTestFinder(recurse=bool(name))
        for example in finder.find(exported.get(name, door), name or package, module=False, globs=known):
            shown |= {name, *names_in(example)} if example.examples else set()
            runner.run(example)
    assert runner.failures == 0
    assert asked - shown == set()


def names_in(test: doctest.DocTest) -> Iterator[str]:
    """What its code names, and the classes in what is printed: of an error, or of an object shown."""
    for one in test.examples:
        for node in ast.walk(ast.parse(one.source)):
            yield from [getattr(node, "id", ""), getattr(node, "attr", "")]
        yield from re.findall(r"\b[A-Z]\w+", one.want)


def failures_of_session(tutorial: str) -> int:
    """Type a tutorial's session line by line; how many answers are other ones than it shows."""
    page = ROOT / "docs" / "tutorials" / tutorial
    session = "\n".join(re.findall(r"```pycon\n(.*?)```", page.read_text(), flags=re.DOTALL))
    test = doctest.DocTestParser().get_doctest(session, {}, page.name, str(page), 0)
    runner = doctest.DocTestRunner()
    runner.run(test)
    assert runner.tries > 2
    return runner.summarize(verbose=False).failed


def test_each_claim_about_shared_training_names_a_test_that_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (ROOT / "docs" / "shared-training.md").read_text())
    assert len(named) > 15
    assert [f"{path}::{test}" for path, test in named if f"def {test}(" not in (ROOT / path).read_text()] == []
