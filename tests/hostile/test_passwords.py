"""No password of a database, however its address was mistyped, in any message, log or file of a run."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from plumbline.audit.configuration import read_configuration, write_configuration
from plumbline.audit.request import AuditRequest
from plumbline.cli import app
from tests.harness.mistyped import MISTYPED, PASSWORD


def said(*arguments: str) -> str:
    """What a command that is refused says."""
    done = CliRunner(env={"COLUMNS": "1000"}).invoke(app, list(arguments))
    assert done.exit_code == 2, done.output
    return done.output


@pytest.mark.parametrize("typed", MISTYPED[::3])
def test_no_command_repeats_the_password_of_a_mistyped_address(tmp_path: Path, typed: str) -> None:
    runs = ("--runs", str(tmp_path / "runs"))
    outputs = [
        said("audit", "--active", typed, "--passive", "none.csv", "--label", "y", *runs),
        said("audit", "--active", "none.csv", "--passive", typed, "--label", "y", *runs),
        said("audit", "--data", typed, *runs),
        said("audit", "--data", typed, "--active-columns", "a", "--label", "y", *runs),
        said("preflight", typed, "--classes", "2"),
    ]
    config = tmp_path / "audit.toml"
    config.write_text(f"active = {json.dumps(typed)}\npassive = ['none.csv']\nlabel = 'y'\n")
    outputs.append(said("audit", "--config", str(config), *runs))
    assert not [one for one in outputs if PASSWORD in one]


def test_no_log_of_a_party_holds_the_password_of_a_mistyped_address(tmp_path: Path) -> None:
    settings = {"DATA": f"user:{PASSWORD}@host/db?table=t", "TRANSPORT": "insecure", "LISTEN": "127.0.0.1:0"}
    settings |= {"PEERS": "coordinator=127.0.0.1:1,active=127.0.0.1:2", "LABEL_COLUMN": "", "RUN_DIR": str(tmp_path)}
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PLUMBLINE_")}
    environment |= {f"PLUMBLINE_{name}": value for name, value in settings.items()}
    command = [sys.executable, "-m", "plumbline", "serve", "passive"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode != 0
    assert "There is no file" in done.stdout + done.stderr or "Cannot tell the format" in done.stdout + done.stderr
    assert PASSWORD not in done.stdout + done.stderr


def test_a_run_records_what_was_asked_without_passwords_and_says_to_write_them_again(tmp_path: Path) -> None:
    url = f"postgresql+psycopg://me:{PASSWORD}@host/db?table=t"
    request = AuditRequest.of(active=url, passive=(f"{url}&password={PASSWORD}", "shop.csv"), label="y")
    written = write_configuration(tmp_path, request, {})
    text = written.read_text()
    assert PASSWORD not in text
    assert "write the password in place of each ***" in text
    assert tomllib.loads(text)["active"] == "postgresql+psycopg://me:***@host/db?table=t"
    assert read_configuration(written).request().tables.passive[0].endswith("&password=***")
    assert "password" not in write_configuration(tmp_path, AuditRequest.of(data="wine"), {}).read_text()
