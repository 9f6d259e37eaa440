"""`plumbline state`: what is shown, what is forgotten, and what is refused."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from defences import load
from plumbline.cli import app
from tests.harness.restarts import IDS, Town, town


def run(*arguments: str, said: str = "", **environment: str) -> tuple[int, str]:
    """Exit status and output, its lines joined."""
    done = CliRunner(env={"COLUMNS": "250", **environment}).invoke(app, ["state", *arguments], input=said)
    return done.exit_code, " ".join(done.output.replace("│", " ").split())


def names_in(folder: Path) -> set[str]:
    """Its files, but for the database's log: SQLite merges that when the last connection goes, whenever that is."""
    return {one.name for one in folder.iterdir() if not one.name.endswith(("-wal", "-shm"))}


def folder_of(home: Town, name: str) -> str:
    return str(home.folder / "state" / name)


@pytest.mark.parametrize("command", ["show", "clear"])
def test_help_has_an_example(command: str) -> None:
    status, shown = run(command, "--help")
    assert status == 0
    assert re.search(rf"Examples: .*plumbline state {command}", shown)


def test_it_shows_whose_state_it_is_and_its_models_but_no_weight_and_no_key(tmp_path: Path) -> None:
    with town(tmp_path, parties=3, score_defences=[load("score_noise")]) as home:
        session = home.train()
        home.scores(IDS[:5])
        model = home.passive("passive-1")._models.served
        assert model is not None
        table = home.data["passive-1"].table_hash
        # While the services run.
        status, shown = run("show", "--dir", folder_of(home, "passive-1"))
        assert status == 0
        assert "state of passive-1 (passive), version 1" in shown
        assert f"served: session {session} of active, passive-1, passive-2, {model.kept_at}: 55 aligned" in shown
        assert f"3 features here, 2 classes, scores under score_noise; table {table}" in shown
        for weight in model.model.part.arrays()["weights"].ravel():
            assert repr(float(weight))[:8] not in shown
        assert model.model.token_key.hex() not in shown
        status, shown = run("show", PLUMBLINE_STATE_DIR=folder_of(home, "coordinator"))
        assert status == 0
        assert f"served: session {session}" in shown
        assert re.search(r"scores under score_noise: \d+ shares counted, \d+ first answers", shown)
        home.kill("active")
        assert "state of active (active)" in run("show", "--dir", folder_of(home, "active"))[1]


def test_clear_asks_and_forgets_models_but_no_secret(tmp_path: Path) -> None:
    with town(tmp_path, score_defences=[load("score_noise")]) as home:
        home.train()
        for name in home.names:
            folder = Path(folder_of(home, name))
            secret = (folder / "secret").read_bytes()
            status, shown = run("clear", "--dir", str(folder), "--yes")
            assert status == 2
            assert "is in use by the process" in shown
            home.kill(name)
            before = names_in(folder)
            assert "Nothing was changed." in run("clear", "--dir", str(folder), said="n\n")[1]
            assert names_in(folder) == before
            assert run("clear", "--dir", str(folder), said="y\n")[0] == 0
            assert {one.name for one in folder.iterdir()} <= {
                "lock",
                "owner.json",
                "secret",
                "batches.npz",
                "alignments.json",
                "forms.npz",
                "openings.npz",
            }
            assert (folder / "secret").read_bytes() == secret
            assert "no model" in run("show", "--dir", str(folder))[1]
        home.start(*home.names)
        assert home.active.stage == "idle"
        home.train()
        assert home.active.obstacle() == ""


def test_what_is_no_state_is_refused_with_what_to_give(tmp_path: Path) -> None:
    for command in ("show", "clear"):
        assert (
            "holds no state of a party: give the folder of PLUMBLINE_STATE_DIR"
            in run(command, "--dir", str(tmp_path))[1]
        )
        status, shown = run(command)
        assert status == 2
        assert "Which folder? Set PLUMBLINE_STATE_DIR, or give --dir." in shown
    assert list(tmp_path.iterdir()) == []
