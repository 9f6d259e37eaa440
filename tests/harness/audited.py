"""Audits of small federations, made once by whichever worker comes first, for tests that read what they wrote."""

import fcntl
import hashlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

# Names that a party may give its columns, and that nothing may obey: markup, attributes, templates, text that turns its
# direction or never ends.
HOSTILE_NAMES = (
    "<script>document.title = 'taken'</script>",
    '"><img src=x onerror=document.body.remove()>',
    "</style></script></svg><h1>taken</h1>",
    "{{ 7 * 7 }}{% endraw %}",
    "income\u202etxet\u2066",
    "a" * 300,
    "many words " * 20,
    "a\nline\tand a tab",
    "&lt;b&gt; & 'quotes' \"both\"",
    "größe 身長 📏",
)


def shared_folder(factory: pytest.TempPathFactory) -> Path:
    """A folder of all workers of this test run; with one process its own."""
    own = factory.getbasetemp()
    folder = (own.parent if os.environ.get("PYTEST_XDIST_WORKER") else own) / "audited"
    folder.mkdir(exist_ok=True)
    return folder


def audited_once(folder: Path, options: Sequence[str]) -> Path:
    """Run ``plumbline audit`` with these options, unless a worker has; returns the run's folder, which is read only.

    That an audit repeats bit for bit is tested (tests/integration/test_repeated_audit.py), so that one stands for all.
    """
    runs = folder / hashlib.sha256(repr(list(options)).encode()).hexdigest()[:12]
    with runs.with_suffix(".lock").open("a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not runs.exists():
            command = [sys.executable, "-m", "plumbline", "audit", "--name", "shared", "--runs", str(runs), *options]
            # Encryption changes nothing of what pages look like, and takes time.
            done = subprocess.run([*command, "--cipher", "plain"], capture_output=True, text=True, timeout=240)
            assert done.returncode == 0, done.stdout + done.stderr
            lock.write(contents_of(runs))
        lock.seek(0)
        assert lock.read() == contents_of(runs), f"a test has changed the run in {runs}, which others read: copy it"
    (run,) = (one for one in runs.iterdir() if one.is_dir())
    return run


def contents_of(folder: Path) -> str:
    """Say in a digest what is in a folder: every file's name and bytes."""
    digest = hashlib.sha256()
    for file in sorted(one for one in folder.rglob("*") if one.is_file()):
        digest.update(f"{file.relative_to(folder)} {file.stat().st_size}\n".encode() + file.read_bytes())
    return digest.hexdigest()


def write_wide_tables(folder: Path) -> list[str]:
    """Write two tables, the passive one of 50 columns with hostile names among them; returns the options for both."""
    generator = np.random.default_rng(0)
    ids = [f"row {number}" for number in range(300)]
    columns = [*HOSTILE_NAMES, *(f"column {number}" for number in range(50 - len(HOSTILE_NAMES)))]
    passive = pd.DataFrame(generator.normal(size=(len(ids), len(columns))), columns=columns)
    active = pd.DataFrame(generator.normal(size=(len(ids), 4)), columns=["a", "b", "<i>c</i>", "d"])
    active["label"] = np.where(passive.to_numpy() @ generator.normal(size=len(columns)) > 0, "<b>yes</b>", "no")
    for name, table in (("active", active), ("passive", passive)):
        table.assign(id=ids).to_csv(folder / f"{name}.csv", index=False)
    return ["--active", str(folder / "active.csv"), "--passive", str(folder / "passive.csv"), "--label", "label"]
