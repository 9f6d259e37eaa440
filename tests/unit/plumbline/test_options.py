"""An option is declared once: the command line, a file of options and Python take the same, and read it alike."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from typer import Context
from typer.main import get_command

from plumbline.audit import _ARGUMENTS, _NOT_HERE, _fields
from plumbline.audit.configuration import KEYS, read_configuration
from plumbline.audit.request import OPTIONS, AuditRequest
from plumbline.cli import app
from plumbline.options import SETTINGS_AS_OPTIONS, Declared
from plumbline.received.judge_request import OPTIONS as OF_JUDGES

# What a command's own options are, beside those of its request.
_OWN = {"audit": {"set", "config", "quiet", "verbose", "json", "help"}, "judge": {"quiet", "json", "help"}}
# The three tables of a judge, which Python takes as arguments.
_TABLES = {"own", "received", "secret"}


def flags_of(verb: str) -> set[str]:
    command: Any = get_command(app)
    parameters = command.get_command(Context(command), verb).get_params(Context(command))
    return {max(one.opts, key=len).removeprefix("--") for one in parameters}


def dashed(names: Mapping[str, Any] | tuple[str, ...]) -> set[str]:
    return {name.replace("_", "-") for name in names}


def test_the_command_line_and_a_file_have_the_options_that_are_declared() -> None:
    keys = {one.key for one in OPTIONS.values()} | dashed(SETTINGS_AS_OPTIONS)
    assert flags_of("audit") == keys | _OWN["audit"]
    of_files = {"settings", "attack-options", "defence-options"}
    assert set(KEYS) == keys | of_files | {"quiet", "verbose", "json"}
    assert flags_of("judge") == {one.key for one in OF_JUDGES.values()} | _TABLES | _OWN["judge"]


@pytest.mark.parametrize("name", sorted(set(OPTIONS) - _ARGUMENTS - _NOT_HERE))
def test_python_takes_what_is_declared(name: str) -> None:
    assert _fields({name: OPTIONS[name].default})


def test_a_former_name_is_an_option_still(tmp_path: Path) -> None:
    command: Any = get_command(app)
    (option,) = (one for one in command.get_command(Context(command), "audit").params if one.name == "most_equations")
    assert option.opts == ["--most-equations", "--most-forms"]
    for text in ("most-forms = 0.5", "[settings]\nmost_forms = 0.5"):
        (file := tmp_path / "audit.toml").write_text(text)
        assert read_configuration(file).settings == {"most_equations": 0.5}
    assert _fields({"most_forms": 0.5})["settings"] == {"most_equations": 0.5}


@pytest.mark.parametrize("name", ["frames", "listed"])
def test_what_no_option_says_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"no option '{name}'"):
        _fields({name: ()})
    (file := tmp_path / "audit.toml").write_text(f"{name} = 1")
    with pytest.raises(ValueError, match=f"no option '{name}'"):
        read_configuration(file)


_WRITTEN = {
    "columns": ("age, c*", ("age", "c*")),
    "attacks": ("gia(init=half, steps=5),half_star", ("gia(init=half, steps=5)", "half_star")),
    "sheet": ("Q1, 2020", ("Q1, 2020",)),  # a sheet's name may have a comma
    "passive_columns": ("age,job", ("age,job",)),
}


@pytest.mark.parametrize("name", _WRITTEN)
def test_a_text_means_the_same_wherever_it_stands(name: str, tmp_path: Path) -> None:
    text, meant = _WRITTEN[name]
    option = OPTIONS[name]
    on_the_command_line = option.read([text] if option.option.repeats else text)
    (file := tmp_path / "audit.toml").write_text(f'{option.key} = "{text}"')
    assert on_the_command_line == option.read(text) == read_configuration(file).fields[name] == meant


def test_values_that_are_no_text_stay() -> None:
    read = OPTIONS["encode"].read
    assert read({"zip": "onehot"}) == read(["zip=onehot"]) == read("zip=onehot") == {"zip": "onehot"}
    assert OPTIONS["hidden"].read((8, 4)) == OPTIONS["hidden"].read("8,4") == (8, 4)
    assert OPTIONS["parties"].read(3) == 3


def test_what_a_command_shows_of_an_option_is_what_the_field_says() -> None:
    command: Any = get_command(app)
    shown = {one.name: one for one in command.get_command(Context(command), "audit").get_params(Context(command))}
    for declared in OPTIONS.values():
        assert isinstance(declared, Declared)
        assert shown[declared.name].help == declared.option.help
    request = AuditRequest.of(data="wine")
    assert shown["parties"].default == request.tables.parties
    assert shown["adversary"].default == request.adversary.adversary
