"""The README's example on tables of one's own, done as it stands there with raw files fresh from two exports."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
COUNT = 400
EXAMPLE = "plumbline audit --active bank.csv --passive fintech.csv --label default --id client"


def write_exports(folder: Path) -> None:
    """Write a bank's file and a fintech's as their systems would: no number is where a program would want it."""
    generator = np.random.default_rng(7)
    salary = generator.normal(52_000, 12_000, COUNT).clip(8_000)
    balance = generator.normal(9_000, 4_000, COUNT)
    jobs = generator.choice(["nurse", "clerk", "baker"], COUNT)
    risk = (balance < 7_000).astype(int) + (jobs == "baker") + (salary < 45_000)
    default = np.where(risk + generator.normal(0, 0.4, COUNT) > 1.2, "yes", "no")
    age = generator.integers(18, 90, COUNT)
    bank = ["client;salary;age;default"]
    bank += [
        f"{number:05d};{salary[number]:.2f};{age[number]};{default[number]}".replace(".", ",")
        for number in range(COUNT)
    ]
    (folder / "bank.csv").write_text("\n".join(bank), encoding="utf-8-sig")
    fintech = ["client,balance,job,since,note"]
    for number in generator.permutation(COUNT)[: COUNT - 20]:
        shown = "" if number % 40 == 0 else f'"{balance[number]:,.2f}"'
        since = np.datetime64("2015-01-01") + generator.integers(0, 3_000)
        fintech.append(f"{number:05d},{shown},{jobs[number]},{since},all the same")
    (folder / "fintech.csv").write_text("\n".join(fintech), encoding="latin-1")


def test_the_example_of_the_readme_ends_in_a_verdict_on_fresh_raw_files(tmp_path: Path) -> None:
    assert EXAMPLE in (ROOT / "README.md").read_text()
    write_exports(tmp_path)
    # Fewer epochs and no solver that takes long: the verdict is the same sentence.
    extra = ["--set", "epochs=5", "--attacks", "half_star,posterior,label_recovery"]
    done = subprocess.run(
        [sys.executable, "-m", *EXAMPLE.split(), *extra],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "COLUMNS": "80", "OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    words = " ".join(done.stdout.split())
    # What was found, before anything ran: a gap, a category, a date, and a column with nothing in it.
    for found in ("3 categories", "missing", "dates", "the same value in every", "380 records are in all tables"):
        assert found in words
    assert re.search(r"\d of 3 columns leak", words)
    assert "Join as it is? " in words
    assert "balance" in words[words.index("Join as it is?") :]
    # In the columns' own units, the passive party's words included.
    page = next((tmp_path / "runs").glob("*/report.html")).read_text()
    assert "If fintech joins with these 3 columns (1 more left out) and discloses its parameters, bank can" in page
    assert re.search(r"balance[^±]*± [\d,.]+", page)
    assert "baker" in page
