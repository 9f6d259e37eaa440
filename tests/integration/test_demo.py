"""What ``make demo`` prints: its own lines of the Makefile, with small keys and the attacks on labels."""

import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from plumbline.cli import app

ROOT = Path(__file__).parents[2]
PROGRAM = "$(DEMO)/bin/plumbline "
# What it mounts besides takes seconds each, and nothing of what is compared here.
QUICK = ["--attacks", "half_star,own_part,auxiliary_ciphertext", "--set", "key_bits=512"]
QUICK += ["--set", "allow_insecure_keys=true"]


def demo() -> list[list[str]]:
    """The arguments of every call of the demo, in order."""
    recipe = (ROOT / "Makefile").read_text().partition("\ndemo:")[2].partition("\n\n")[0]
    return [
        shlex.split(line.strip()[len(PROGRAM) :]) for line in recipe.splitlines() if line.strip().startswith(PROGRAM)
    ]


def test_the_demo_puts_the_plan_of_the_literature_beside_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Runs go where they go in a checkout.
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    default, plain, comparison = demo()
    for audit in (default, plain):
        done = CliRunner().invoke(app, [*audit, *QUICK])
        assert done.exit_code == 0, done.output
    done = CliRunner().invoke(app, comparison)
    assert done.exit_code == 0, done.output
    rows = {
        cells[0]: cells[1:]
        for line in done.output.splitlines()
        if len(cells := [cell.strip() for cell in line.strip("│┃ ").replace("┃", "│").split("│")]) == 3
    }
    assert rows["settings.steps"] == ["plain", "-"]
    assert rows["settings.calibrated"] == ["false", "-"]
    # Sixty epochs of three batches, and few whole ones.
    assert rows["training steps"] == ["180", "7"]
    before, after = (float(cell) for cell in rows["on the wire, MB"])
    assert before > 5 * after
    told = [int(cell.removesuffix("%")) for cell in rows["labels: auxiliary_ciphertext by passive"]]
    assert told[0] == 100
    assert told[1] < 100
    assert all(float(cell.split()[0]) > 0.98 for cell in rows["AUC"])
