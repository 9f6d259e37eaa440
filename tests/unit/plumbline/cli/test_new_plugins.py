"""A package that ``plumbline new`` writes: its names, its files, and what is refused. Installed: tests/integration."""

import ast
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from plumbline.cli import app
from plumbline.cli.new_plugins import Kind, plugin_files


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner(env={"COLUMNS": "250"}).invoke(app, ["new", *arguments])
    return done.exit_code, " ".join(done.output.split())


@pytest.mark.parametrize("kind", list(Kind))
def test_a_package_has_its_code_its_test_and_its_entry_point_under_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    monkeypatch.chdir(tmp_path)
    code, shown = run(kind, "my-own")
    assert code == 0
    assert "pip install --editable my-own && pytest my-own" in shown
    folder = tmp_path / "my-own"
    assert {one.name for one in folder.iterdir()} == {"pyproject.toml", "my_own.py", "test_my_own.py"}
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    assert project["entry-points"] == {f"plumbline.{kind}s": {"my_own": "my_own:MyOwn"}}
    written = (folder / "my_own.py").read_text()
    (found,) = [one for one in ast.parse(written).body if isinstance(one, ast.ClassDef) and one.name == "MyOwn"]
    assert "my_own" in ast.unparse(found)
    # Nothing of the example's name is left.
    example = {"attack": "mean", "defence": "score_power", "learner": "least_squares", "protocol": "pairwise_sums"}[
        kind
    ]
    assert f"{example}_guess" not in written if kind == "attack" else example not in written


@pytest.mark.parametrize("kind", list(Kind))
def test_lines_are_short_and_code_is_read(kind: Kind) -> None:
    for name, text in plugin_files(kind, "my_own").items():
        assert max(map(len, text.splitlines())) <= 120, name
        if name.endswith(".py"):
            ast.parse(text)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("attack", "Mean Guess"), "'Mean Guess' can't be a module's name"),
        (("attack", "class"), "'class' can't be a module's name"),
        (("defence", "json"), "Python has a module json here already"),
        (("attack", "half_star"), "The attack half_star is there already"),
        (("learner", "linear"), "The learner linear is there already"),
        (("attack", "here_already"), "here-already is there already"),
        (("attach", "mine"), "attach"),
    ],
)
def test_a_name_that_can_not_be_is_refused_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, str], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here-already").mkdir()
    code, shown = run(*arguments)
    assert code == 2
    assert words in shown
    assert [one.name for one in tmp_path.iterdir()] == ["here-already"]
