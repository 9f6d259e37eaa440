"""Run folders that somebody tampered with: each reader says in a sentence which file is broken and what to do."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.audited import audited_once, shared_folder
from tests.harness.judged_commands import Said, said
from tests.harness.tampered import TAMPERINGS, Tampering

MOST_SECONDS, MOST_MEMORY = 10.0, 10**9
ATTACKS = "half_star,rcc2,ls,random_guess,label_recovery,auxiliary_ciphertext"
OPTIONS = ["--data", "wine", "--epochs", "3", "--batch-size", "16", "--attacks", ATTACKS, "--auxiliary", "20"]
# Each file and each kind of change is among every fourth; all of them with every reader take minutes.
FEW = TAMPERINGS[::4]
Command = Callable[[Path, Path], list[str]]
COMMANDS: dict[str, Command] = {
    "report": lambda _, run: ["report", str(run)],
    "runs": lambda _, run: ["runs", "--runs", str(run.parent)],
    "compare": lambda base, run: ["runs", "compare", str(base), str(run)],
    "observer": lambda base, run: ["observe", str(base), str(run), str(run.parent / "pages")],
}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = audited_once(shared_folder(tmp_path_factory), "tampered", OPTIONS)
    (run / "candidates.json").write_text('[{"defence": "class_label", "holds": true, "accuracy": 0.5, "part": 0.0}]')
    return run


def answers(base: Path, folder: Path, command: Command, chosen: tuple[Tampering, ...]) -> list[Said]:
    runs = [one.make(base, folder / str(number) / base.name) for number, one in enumerate(chosen)]
    return said(command(base, base), [command(base, run) for run in runs])


def faults(command: str, tampering: Tampering, answer: Said) -> list[str]:
    """What is wrong with an answer, in words."""
    found = []
    if "Traceback" in answer.output or "should not have happened" in answer.output or answer.status not in (0, 1, 2):
        found.append(f"ended with {answer.status}: {answer.output[-500:]}")
    if command != "observer" and answer.status == 1:
        found.append("took it for a mistake of its own")
    if answer.status and "plumbline: " not in answer.output:
        found.append(f"said nothing of why: {answer.output[-200:]}")
    if answer.seconds > MOST_SECONDS or answer.peak > MOST_MEMORY:
        found.append(f"took {answer.seconds:.1f} s and {answer.peak >> 20} MB")
    return [f"{command} of {tampering.file}, {tampering.name}: {one}" for one in found]


@pytest.mark.parametrize(
    ("command", "chosen"),
    [
        ("report", FEW),
        ("runs", FEW[::4]),
        ("compare", FEW[::4]),
        ("observer", FEW[::4]),
        *(pytest.param(name, TAMPERINGS, marks=pytest.mark.hostile_long) for name in COMMANDS),
    ],
)
def test_no_reader_of_a_tampered_run_ends_in_a_traceback(
    base: Path, tmp_path: Path, command: str, chosen: tuple[Tampering, ...]
) -> None:
    found = zip(chosen, answers(base, tmp_path, COMMANDS[command], chosen), strict=True)
    assert not [fault for tampering, answer in found for fault in faults(command, tampering, answer)]


def test_a_hundred_and_five_folders_are_tampered_with() -> None:
    assert len(FEW) >= 105
