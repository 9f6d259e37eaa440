"""Run folders that somebody tampered with: each reader says in a sentence which file is broken and what to do."""

import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.harness.audited import audited_once, shared_folder
from tests.harness.judged_commands import Said, said
from tests.harness.tampered import ARRAYS, ATTACKS, OUTCOMES, OWN, RECORDS, RUINED, TAMPERINGS, Tampering

MOST_SECONDS, MOST_MEMORY = 10.0, 10**9
MOUNTED = "half_star,rcc2,ls,random_guess,label_recovery,auxiliary_ciphertext"
OPTIONS = ["--data", "wine", "--epochs", "3", "--batch-size", "16", "--attacks", MOUNTED, "--auxiliary", "20"]
# A different file and kind of change each; all of them with every reader take minutes.
FEW = TAMPERINGS[::23]
_ALL_OF_THEM = (pytest.mark.hostile_long, pytest.mark.timeout(1800))
Command = Callable[[Path, Path], list[str]]
COMMANDS: dict[str, Command] = {
    "report": lambda _, run: ["report", str(run)],
    "runs": lambda _, run: ["runs", "--runs", str(run.parent)],
    "compare": lambda base, run: ["runs", "compare", str(base), str(run)],
    "observer": lambda base, run: ["observe", str(base), str(run), str(run.parent / "pages")],
}


CONFIG, RESULTS, STATUS, TRIALS = OWN
# What a run's judge can't do without; of arrays that an attack on training found, the page says that they are broken.
JUDGED = {*RECORDS, *OUTCOMES, *(file for file in ARRAYS if "features" in file or "estimates" in file)}
NEEDED = {
    "report": {*JUDGED, CONFIG, TRIALS, "audit.toml"},
    "runs": {RESULTS, STATUS},
    "compare": {RESULTS},
    "observer": JUDGED,
}
FOUND = f"{ATTACKS}training-passive-label_recovery.npz"
WHAT_TO_DO = re.compile(r"again|remove|give |a table:|take[sn]|is no TOML|options|[Ss]ee |check |save |says why")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    shared = audited_once(shared_folder(tmp_path_factory), OPTIONS)
    run = Path(shutil.copytree(shared, tmp_path_factory.mktemp("base") / shared.name))
    (run / "candidates.json").write_text('[{"defence": "class_label", "holds": true, "accuracy": 0.5, "part": 0.0}]')
    return run


def wrong_answers(base: Path, folder: Path, command: str, chosen: Sequence[Tampering]) -> list[str]:
    """What is wrong with a command's answers to runs that were changed so."""
    runs = [one.make(base, folder / str(number) / base.name) for number, one in enumerate(chosen)]
    answers = said(COMMANDS[command](base, base), [COMMANDS[command](base, run) for run in runs])
    return [fault for made in zip(chosen, runs, answers, strict=True) for fault in faults(command, *made)]


def faults(command: str, tampering: Tampering, run: Path, answer: Said) -> list[str]:
    """What is wrong with an answer, in words."""
    found = []
    if "Traceback" in answer.output or "should not have happened" in answer.output or answer.status not in (0, 1, 2):
        found.append(f"ended with {answer.status}: {answer.output[-500:]}")
    if command != "observer" and answer.status == 1:
        found.append("took it for a mistake of its own")
    if answer.status and "plumbline: " not in answer.output:
        found.append(f"said nothing of why: {answer.output[-200:]}")
    # Lines are folded where a name is long.
    words = "".join(answer.output.split())
    is_named = Path(tampering.file).name in words or run.name in words
    is_refused = answer.status != 0 or (command == "runs" and bool(re.search(r"isbroken|can'tberead|ismissing", words)))
    if is_refused and not (is_named and WHAT_TO_DO.search(answer.output)):
        found.append(f"didn't say what is broken, or what to do: {answer.output[-300:]}")
    if command == "observer" and re.search(r"/plumbline-\w{8}", answer.output):
        found.append(f"named a folder that nobody else knows: {answer.output[-300:]}")
    if is_refused and tampering.is_valid:
        found.append("refused what a run may have written")
    if not is_refused and tampering.name in RUINED and tampering.file in NEEDED[command]:
        found.append("took it")
    if command == "report" and not is_refused and not tampering.is_valid and tampering.file == FOUND:
        page = (run / "report.html").read_text()
        found += [] if "found labels, but its arrays can" in page else ["took what isn't labels"]
    if answer.seconds > MOST_SECONDS or answer.peak > MOST_MEMORY:
        found.append(f"took {answer.seconds:.1f} s and {answer.peak >> 20} MB")
    return [f"{command} of {tampering.file}, {tampering.name}: {one}" for one in found]


@pytest.mark.parametrize(
    ("command", "chosen"),
    [
        ("report", FEW),
        ("runs", FEW),
        ("compare", FEW),
        ("observer", FEW[::3]),
        *(pytest.param(name, TAMPERINGS, marks=_ALL_OF_THEM) for name in COMMANDS),
    ],
)
def test_readers_of_a_tampered_run_say_in_a_sentence_what_is_broken(
    base: Path, tmp_path: Path, command: str, chosen: Sequence[Tampering]
) -> None:
    assert not wrong_answers(base, tmp_path, command, chosen)


def test_every_file_is_among_the_few() -> None:
    assert {one.file for one in FEW} == {one.file for one in TAMPERINGS}
