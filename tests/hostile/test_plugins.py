"""Other packages' plugins that do their worst when they are imported: each is named, and nothing else goes with it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from attacks.registry import REGISTRY as ATTACKS
from plumbline.audit.plan import installed
from tests.harness.documented_plugin import lay_out
from vfl import plugin_trial
from vfl.plugin_registry import UnusablePlugin

# Every plugin's first line: who has been imported, and by which process.
NOTED = """
import os, sys
with open(os.path.join(os.path.dirname(__file__), "imports"), "a") as notes:
    notes.write(f"{__name__} {os.getpid()}\\n")
"""
SOUND = """
from dataclasses import dataclass
import attacks, numpy as np

@dataclass(frozen=True)
class Plugin:
    strength: int = 1
    name = "sound"
    spec = attacks.AttackSpec("active", "prediction", needs=(), source="a test")

    def reconstruct(self, view):
        return np.full((view.n, view.d), 0.5)
"""
# By the plugin's name: its module, and what is said of it.
WORST = {
    "raises": (
        "raise RuntimeError('boom' * 1000 + '\\n\\x1b[31m')",
        "fails when it is imported: RuntimeError: boomboom",
    ),
    "unspeakable": (
        "class Mute(Exception):\n def __str__(self): raise ValueError('no words')\nraise Mute",
        "fails when it is imported: Mute",
    ),
    "exits": ("sys.exit(0)", "asks to end the program when it is imported"),
    "vanishes": ("os._exit(0)", "ends the process that imports it (status 0)"),
    "crashes": ("import ctypes; ctypes.string_at(0)", "crashes when it is imported (signal 11"),
    "kills": ("import signal; os.kill(os.getpid(), signal.SIGTERM)", "crashes when it is imported (signal 15"),
    "loops": ("import time\nwhile True: time.sleep(0.01)", "takes longer than 8 s to import"),
    "interrupts": ("raise KeyboardInterrupt", "fails when it is imported: KeyboardInterrupt"),
    "asks": ("input('Licence key? ')", "fails when it is imported: EOFError"),
    "empty": ("", "fails when it is imported: AttributeError: module 'empty' has no attribute 'Plugin'"),
    "number": ("Plugin = 5", "declares no spec"),
    "trap": (
        "class Trap(type):\n @property\n def spec(self): raise KeyError('spec')\nclass Plugin(metaclass=Trap): pass",
        "fails when it is imported: KeyError: 'spec'",
    ),
    "leaves": (SOUND + "\n    def __post_init__(self): sys.exit(0)", "ends the program when it is made: SystemExit: 0"),
}
if sys.platform == "linux":  # elsewhere no limit holds
    WORST["eats"] = ("held = []\nwhile True: held.append(bytes(10**8))", "fails when it is imported: MemoryError")
FINE = {
    "sound": SOUND,
    "talks": "print('{\"attacks\": []}')\n" + SOUND,
    "nested": SOUND + "\nattacks.load('sound')",
}


def install(folder: Path, modules: Mapping[str, str], group: str = "plumbline.attacks") -> None:
    for name, code in modules.items():
        lay_out(folder, name, NOTED + code, {group: f"{name} = {name}:Plugin"})


def imported(folder: Path) -> list[str]:
    notes = folder / "imports"
    return [line.split()[0] for line in notes.read_text().splitlines()] if notes.exists() else []


def run(folder: Path, *arguments: str, **environment: str) -> tuple[int, str, str]:
    """The command as people run it, with a folder of packages; but 8 seconds are enough for an import."""
    places = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", ""), str(Path(__file__).parents[2])])
    start = (
        "import vfl.plugin_trial as trial; trial._SECONDS = 8; from plumbline.__main__ import main; main()",
        *arguments,
    )
    done = subprocess.run(
        [sys.executable, "-c", *start],
        env={**os.environ, **environment, "PYTHONPATH": places, "COLUMNS": "400"},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )
    return done.returncode, done.stdout, done.stderr


def test_an_audit_goes_on_without_what_breaks_and_names_it(tmp_path: Path) -> None:
    install(tmp_path, {name: code for name, (code, _) in WORST.items()} | FINE)
    status, out, said = run(tmp_path, "audit", "--data", "breast_cancer", "--dry-run", "--json")
    assert status == 0, said
    plan = json.loads(out)
    assert set(FINE) | {"half"} <= set(plan["attacks"])
    assert not set(WORST) & set(plan["attacks"])
    for name, (_, words) in WORST.items():
        reason = plan["left_out"][name]
        assert words in reason
        assert name in reason
        assert len(reason) < 450
        assert reason.isprintable()
    assert "fails when it is imported: RuntimeError" in said
    tries = imported(tmp_path)
    # Who ends a process that has tried others is tried once more, alone.
    assert all(tries.count(name) <= 2 for name in WORST)


@pytest.mark.parametrize("kind", ["attack", "defence"])
def test_a_list_imports_nothing_and_names_what_has_no_name_of_its_own(tmp_path: Path, kind: str) -> None:
    group, taken = f"plumbline.{kind}s", {"attack": "half", "defence": "dp_noise"}[kind]
    install(tmp_path, {name: WORST[name][0] for name in ("exits", "vanishes", "loops")}, group)
    lay_out(tmp_path, "twin_a", NOTED, {group: "twin = twin_a:Plugin"})
    lay_out(tmp_path, "twin_b", NOTED, {group: "twin = twin_b:Plugin"})
    entries = f"{taken} = odd:Plugin\na,b = odd:Plugin\nvalueless = not a value\n"
    lay_out(tmp_path, "odd", NOTED, {group: entries + "\n".join(f"many{n} = odd:P{n}" for n in range(1_000))}, b"\xff")
    status, out, said = run(tmp_path, f"{kind}s", "--json")
    assert status == 0, said
    listed = {one["name"]: one for one in json.loads(out)}
    assert {"exits", "vanishes", "loops", "twin", "valueless", "many999"} <= set(listed)
    assert "of exits 1.0 (exits:Plugin)" in listed["exits"]["summary"]
    assert listed[taken]["source"]
    assert f"Left out: {taken} of a package without a name (odd:Plugin): Plumbline has one of this name." in said
    assert "Left out: 'a,b' of a package without a name (odd:Plugin)" in said
    assert not imported(tmp_path)


@pytest.mark.parametrize(
    ("option", "name"), [("--attacks", "vanishes"), ("--defences", "exits"), ("--attacks", "twin")]
)
def test_what_is_asked_for_by_name_is_refused_in_a_sentence(tmp_path: Path, option: str, name: str) -> None:
    group = f"plumbline.{option.strip('-')}"
    install(tmp_path, {one: WORST[one][0] for one in ("vanishes", "exits")}, group)
    lay_out(tmp_path, "twin_a", NOTED, {group: "twin = twin_a:Plugin"})
    lay_out(tmp_path, "twin_b", NOTED, {group: "twin = twin_b:Plugin"})
    status, out, said = run(tmp_path, "audit", "--data", "breast_cancer", "--dry-run", option, name)
    assert (status, out) == (2, "")
    assert said.startswith(f"plumbline: {name} can't be used: {name}")
    assert said.count("\n") == 1
    assert set(imported(tmp_path)) <= {name}


def test_a_command_that_somebody_ends_early_is_not_done(tmp_path: Path) -> None:
    late = SOUND.replace('name = "sound"', "name = property(lambda self: sys.exit(0) if self.strength > 1 else 'late')")
    install(tmp_path, {"late": late})
    given = ("--attacks", "late", "--set", 'attack_options={"late": {"strength": 2}}')
    status, out, said = run(tmp_path, "audit", "--data", "breast_cancer", "--dry-run", *given)
    assert (status, out) == (1, "")
    assert "This should not have happened (EndedEarly)" in said
    details = Path(said.partition("details are in ")[2].partition(": look there")[0])
    assert 'late.py"' in details.read_text()
    details.unlink()


SERVICE = {
    "PLUMBLINE_TRANSPORT": "insecure",
    "PLUMBLINE_LISTEN": "127.0.0.1:0",
    "PLUMBLINE_PEERS": "active=127.0.0.1:1,passive=127.0.0.1:2,coordinator=127.0.0.1:3",
}


def test_a_service_starts_beside_what_breaks(tmp_path: Path) -> None:
    install(tmp_path, {name: WORST[name][0] for name in ("vanishes", "loops")})
    install(tmp_path, {name: WORST[name][0] for name in ("exits", "raises")}, "plumbline.defences")
    places = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", ""), str(Path(__file__).parents[2])])
    service = subprocess.Popen(
        [sys.executable, "-m", "plumbline", "serve", "coordinator"],
        env={**os.environ, **SERVICE, "PYTHONPATH": places},
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert service.stderr is not None
        assert any("coordinator serves on port" in line for line in service.stderr)
    finally:
        service.send_signal(signal.SIGTERM)
        service.communicate(timeout=60)
    assert not imported(tmp_path)


def test_a_service_that_is_told_to_use_what_breaks_says_so_and_stops(tmp_path: Path) -> None:
    install(tmp_path, {"vanishes": WORST["vanishes"][0]}, "plumbline.defences")
    status, out, said = run(tmp_path, "serve", "coordinator", **SERVICE, PLUMBLINE_DEFENCES="vanishes")
    assert (status, out) == (2, "")
    assert "vanishes can't be used: vanishes 1.0 (vanishes:Plugin) ends the process that imports it (status 0)" in said


# --- in this process -----------------------------------------------------------------------------------------------


def installed_here(folder: Path, monkeypatch: pytest.MonkeyPatch, modules: Mapping[str, str]) -> None:
    install(folder, modules)
    monkeypatch.syspath_prepend(str(folder))
    for name in modules:
        monkeypatch.delitem(sys.modules, name, raising=False)


def test_a_plugin_is_tried_once_in_a_process_with_the_same_arguments_and_without_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["plumbline", "audit", "--data", "breast_cancer"])
    monkeypatch.setenv("PLUMBLINE_DATA", "postgresql://bank:secret@db/clients")
    curious = (
        f"assert sys.argv == {sys.argv}\nassert os.getpid() == {os.getpid()} or 'PLUMBLINE_DATA' not in os.environ"
    )
    installed_here(tmp_path, monkeypatch, {"curious": curious + SOUND, "wrong": "raise KeyError"})
    for _ in range(2):
        assert ATTACKS.load("curious").strength == 1
        with pytest.raises(UnusablePlugin, match=r"wrong can't be used: wrong 1.0 \(wrong:Plugin\) fails when"):
            ATTACKS.load("wrong")
    assert sorted(imported(tmp_path)) == ["curious", "curious", "wrong"]


def test_what_only_fails_here_is_named_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = f"os.getpid() == {os.getpid()} and sys.exit(0)\n"
    made = SOUND + "\n    def __post_init__(self): {}['strength'] if self.strength > 1 else None"
    installed_here(tmp_path, monkeypatch, {"here": here + SOUND, "made": made})
    with pytest.raises(UnusablePlugin, match=r"here 1.0 \(here:Plugin\) fails here: SystemExit: 0"):
        ATTACKS.load("here")
    with pytest.raises(UnusablePlugin, match=r"made 1.0 \(made:Plugin\) fails here: KeyError: 'strength'"):
        ATTACKS.load("made", strength=2)
    assert "made" in installed()
    assert "here" not in installed()


def test_one_that_stops_itself_or_starts_others_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugin_trial, "_SECONDS_OF_ALL", 6.0)
    sleeper = "import pathlib, subprocess\nsleeper = subprocess.Popen(['sleep', '1000'])"
    noted = f"pathlib.Path({str(tmp_path / 'sleeper')!r}).write_text(str(sleeper.pid))"
    stops = f"{sleeper}\n{noted}\nimport signal; os.kill(os.getpid(), signal.SIGSTOP)"
    installed_here(tmp_path, monkeypatch, {"stops": stops, "waits": SOUND})
    names = ATTACKS.usable()
    assert "half" in names
    assert "stops" not in names
    with pytest.raises(UnusablePlugin, match=r"waits 1.0 .* was not tried, for those before it took 6 s"):
        ATTACKS.load("waits")
    left = Path("/proc") / (tmp_path / "sleeper").read_text() / "stat"
    deadline = time.monotonic() + 30
    while left.exists() and left.read_text().rpartition(")")[2].split()[0] not in "ZX":
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_where_nothing_is_installed_no_process_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("A process was started.")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    assert set(ATTACKS.usable()) == set(ATTACKS.names()) == set(ATTACKS.built_in)
