"""The command's words: settings and names in its help, and what is refused in one sentence."""

import gc
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click
import pytest
import typer
from typer.testing import CliRunner

from plumbline.cli import app
from plumbline.cli.audits import _check_trials
from plumbline.cli.output import in_options
from services.common.settings import Settings


def run(*arguments: str, **environment: str) -> tuple[int, str]:
    """Exit status and output, its lines joined."""
    done = CliRunner(env={"COLUMNS": "250", **environment}).invoke(app, list(arguments))
    return done.exit_code, " ".join(done.output.replace("│", " ").split())


def test_the_help_of_serve_lists_every_setting_with_its_default_and_choices() -> None:
    # Once: rich took [mtls] and every other text default for markup, and swallowed it.
    _, shown = run("serve", "--help")
    for line in (
        "PLUMBLINE_TRANSPORT [mtls|insecure; default: mtls]: ",
        "PLUMBLINE_CERTS [default: certs]: ",
        "PLUMBLINE_LISTEN [default: 127.0.0.1:50051]: ",
        "PLUMBLINE_ENCODER [minmax|standardise|unit_norm|none; default: minmax]: ",
        "PLUMBLINE_PATIENCE [default: 0]: ",
        "PLUMBLINE_L2 [default: 0.0]: ",
        "PLUMBLINE_PACKING [default: true]: ",
        "PLUMBLINE_ATTACKS [default: unset]: ",
        "PLUMBLINE_PEERS [default: unset]: ",
        "PLUMBLINE_NAME: This party's name; default: its role.",
        "PLUMBLINE_LOG_LEVEL [DEBUG|INFO|WARNING|ERROR; default: INFO]: ",
    ):
        assert line in shown
    for name, field in Settings.model_fields.items():
        assert f"PLUMBLINE_{name.upper()}" in shown
        assert str(field.description) in shown


def test_serve_offers_what_it_runs() -> None:
    assert "operator" not in run("serve", "--help")[1]
    status, shown = run("serve", "operator")
    assert status == 2
    assert "'coordinator', 'active', 'passive'" in shown


def test_no_garbage_is_looked_for_while_a_role_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_for = list[bool]()
    monkeypatch.setattr("services.common.logs.configure_log", lambda *_: None)
    monkeypatch.setattr("services.roles.check_role", lambda *_: looked_for.append(gc.isenabled()))
    monkeypatch.setattr("services.coordinator.server.run", lambda _: looked_for.append(gc.isenabled()))
    assert run("serve", "coordinator", PLUMBLINE_TRANSPORT="insecure")[0] == 0
    assert looked_for == [False, False]
    assert gc.isenabled()


def test_the_help_of_audit_says_of_the_plan_what_the_plan_says() -> None:
    _, shown = run("audit", "--help")
    for name in ("epochs", "batch_size", "learning_rate"):
        assert str(Settings.model_fields[name].description) in shown


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--name", "../../evil"), "--name is part of the name of the run's folder, got '../../evil'"),
        (("--parties", "15"), "13 columns cannot give each of 15 parties at least one: use fewer parties"),
        (("--runs", "/proc/x"), "Cannot use /proc/x (No such file or directory): check the path, or choose"),
        (("--runs", "FILE"), "Cannot use FILE (Not a directory): check the path, or choose a place"),
    ],
)
def test_an_audit_that_cannot_be_is_refused_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "FILE").write_text("")
    status, shown = run("audit", "--data", "wine", *arguments)
    assert status == 2
    assert words in shown
    assert "Errno" not in shown
    assert [path.name for path in tmp_path.iterdir()] == ["FILE"]


def test_certificates_that_cannot_be_written_are_refused_in_a_sentence() -> None:
    status, shown = run("certs", "--out", "/proc/y")
    assert status == 2
    assert "Cannot use /proc/y (" in shown


def test_a_data_set_of_scikit_learn_is_not_said_to_be_in_the_folder(tmp_path: Path) -> None:
    status, shown = run("datasets", "fetch", "wine", "--data-dir", str(tmp_path))
    assert (status, shown) == (0, "wine comes with scikit-learn: there is nothing to fetch.")


def test_the_help_of_all_needs_nothing_that_computes_or_serves() -> None:
    heavy = ("torch", "matplotlib", "jinja2", "numpy", "pandas", "pydantic", "grpc")
    program = f"""import sys
from plumbline.cli import app
app(standalone_mode=False)
print([name for name in {heavy} if name in sys.modules])"""
    done = subprocess.run([sys.executable, "-c", program, "--help"], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("run", "failed", "ends"), [(2, 2, False), (1, 2, True), (0, 1, True), (3, 0, False), (0, 0, False)]
)
def test_an_audit_most_of_whose_trials_were_not_run_does_not_end_as_if_done(run: int, failed: int, ends: bool) -> None:
    trials: list[dict[str, Any]] = [{"accuracy": 0.9, "reason": ""}] * run + [
        {"accuracy": None, "reason": "It needs torch."}
    ] * failed
    with pytest.raises(typer.Exit) if ends else nullcontext():
        _check_trials(trials)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--epochs", "-3"), "--epochs: expected from 0 to 10000, got -3."),
        (("--set", "kernel=fast"), "--set kernel: expected 'auto', 'native', 'portable' or 'phe', got 'fast'."),
        (("--learner", "installed"), "give --set model."),
    ],
)
def test_an_audit_names_its_options_where_a_service_would_name_variables(options: tuple[str, ...], words: str) -> None:
    code, shown = run("audit", "--data", "breast_cancer", "--dry-run", *options)
    assert code == 2
    assert words in shown
    assert "PLUMBLINE_" not in shown


def test_a_variable_that_is_set_keeps_its_name() -> None:
    code, shown = run("audit", "--data", "breast_cancer", "--dry-run", PLUMBLINE_KERNEL="fast")
    assert code == 2
    assert "PLUMBLINE_KERNEL: expected 'auto'" in shown


def test_a_value_stands_behind_an_option_as_one_types_it() -> None:
    options = [click.Option(["id_column", "--id"]), click.Option(["setting", "--set"])]
    words = (
        "Set it: set PLUMBLINE_ID_COLUMN=client, set PLUMBLINE_GUARD=warn or PLUMBLINE_NAME; not PLUMBLINE_NONSENSE."
    )
    assert in_options(words, options) == (
        "Set it: give --id client, give --set guard=warn or PLUMBLINE_NAME; not PLUMBLINE_NONSENSE."
    )
    assert in_options(words, options[:1]).startswith("Set it: give --id client, set PLUMBLINE_GUARD=warn")
    # Beside the option stands what a service has in its place.
    beside = "Name one with --id (of a service, PLUMBLINE_ID_COLUMN)."
    assert in_options(beside, options) == beside
