"""Whether two checkouts write the same numbers: the same audits with a fixed seed in both, compared value by value.

    python -m scripts.compare_runs OLD NEW [--data credit --data breast_cancer --data wine] [--keep FOLDER]

OLD and NEW are checkouts, in which this interpreter runs the audits, or folders of runs, which are read as they are.
Every data set is audited in each of the ways of AUDITS: in the clear and under Paillier, with one and with two passive
parties, defended, and with an installed network.
Compared are all numbers of JSON files and all NumPy arrays. Durations, sizes, versions and what names a session are
new each time and left out. Text is left out as well: a message may be worded better. What only NEW writes is named;
what differs, or what only OLD writes, fails, but for EXCEPTIONS, which are counted. What has MOVED to another file is
compared where it is now.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Numbers = dict[str, np.ndarray[Any, Any]]

# Of a large table, a few thousand records are enough.
_FEW_RECORDS = {"credit": ("--set", "missing_fraction=0.7")}
# dp_noise computes its sigma for two classes only.
_SIGMA = ("--set", 'defence_options={"dp_noise": {"sigma": 0.5}}')
_ALL = ("--seed", "7", "--set", "attacked_records=100")
_SMALL_KEYS = ("--set", "key_bits=512", "--set", "allow_insecure_keys=true")
_NETWORK = ("--learner", "network", "--set", 'learner_options={"hidden": 4}', "--epochs", "2", "--attacks", "half")
AUDITS: dict[str, tuple[str, ...]] = {
    "plain": (
        *("--cipher", "plain", "--epochs", "3", "--attacks"),
        "zero,half,half_star,ls,clamped_ls,rcc1,rcc2,gia,one_feature,agnostic,label_recovery,feature_order",
    ),
    "plain-defended": (
        *("--cipher", "plain", "--epochs", "3", "--parties", "3", "--attacks", "half_star,rcc2,ls,label_recovery"),
        *("--adversary", "passive", "--defences", "dp_noise,score_rounding,parameter_rotation"),
    ),
    "paillier": (
        *("--cipher", "paillier", "--epochs", "1", "--adversary", "passive"),
        *("--attacks", "half_star,rcc2,label_recovery,feature_order,auxiliary_ciphertext", *_SMALL_KEYS),
        *("--set", "truncate_answers=false"),
    ),
    "paillier-parties": (
        *("--cipher", "paillier", "--epochs", "1", "--parties", "3", "--attacks"),
        *("half_star,rcc2,agnostic,posterior,label_recovery", *_SMALL_KEYS),
    ),
    "paillier-defended": (
        *("--cipher", "paillier", "--epochs", "1", "--attacks", "half_star,rcc2,label_recovery", *_SMALL_KEYS),
        *("--defences", "dp_noise,response_truncation,score_rounding", "--set", "residual_integer_bits=9"),
    ),
    "installed": ("--cipher", "plain", "--hidden", "4", "--attacks", "half,posterior"),
    "network-plain": (*_NETWORK, "--backward", "plain"),
    "network-paillier": (*_NETWORK, "--backward", "paillier", *_SMALL_KEYS),
    "shared": (
        *("--protocol", "shared", "--epochs", "2", "--parties", "3", "--attacks", "half,half_star,rcc2"),
        *("--set", "opening=always", *_SMALL_KEYS),
    ),
}
# Of runs on shared weights, whose products are rounded by masks that no seed draws: what parties wrote may differ by so
# much, and what is made of that by attacks isn't compared.
_ROUNDED = {"shared": 2.0**-8}
_OF_PARTIES = re.compile(r"parties/[^/]+: ")
# Where an array of an older run stands now: the file and the array's name.
MOVED = {
    "parties/active.json: test_rows": "parties/active-test-scores.npz: rows",
    "parties/active.json: test_scores": "parties/active-test-scores.npz: scores",
    "parties/active.json: test_labels": "parties/active-test-scores.npz: labels",
}
# What an older run alone may have, by a pattern of the run and of the place in it, and why.
EXCEPTIONS = {
    r".*installed / parties/active-weights\.npz: .*": "random weights that an installed model never used",
    r".*installed / .*\.(learning_rate|l2)": "options of training, of a plan that installs a model",
    r".*plan\.opening_bits": "an option of shared weights, which isn't a term of every plan",
}
# What a clock, a new key, an address or an installed package decides.
LEFT_OUT = frozenset(
    {
        *("seconds", "forecast_seconds", "pace", "timings", "encrypt", "wait", "product", "mask", "decrypt", "update"),
        *("peak_memory_bytes", "bytes_by_message", "session_id", "key_id", "versions", "runs"),
        # Words and drawings of the numbers that stand beside it.
        "document",
        # What a plan's learner says by its name.
        "installed_model",
    }
)
# Of this process's settings, those that its audits keep.
_KEPT = ("PLUMBLINE_DATA_DIR",)
_SHOWN = 10


class RunsUnusable(Exception):
    """Says which checkout or folder can't be compared, and why."""


@dataclass(frozen=True)
class Comparison:
    """What one audit's two folders have in common.

    Attributes:
        name: name of the audit.
        numbers: how many numbers both wrote.
        different: where they differ, with both values.
        lost: where only the old one has numbers.
        added: names of fields, arrays and files that only the new one has.
        excepted: why the old one alone may have some of its numbers.
    """

    name: str
    numbers: int
    different: tuple[str, ...]
    lost: tuple[str, ...]
    added: tuple[str, ...]
    excepted: tuple[str, ...] = ()

    @property
    def same(self) -> bool:
        """Whether the new one has every number of the old one."""
        return self.numbers > 0 and not self.different and not self.lost


def main() -> int:
    """Print the table; 1 when something differs, 2 when nothing could be compared."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path, metavar="OLD", help="a checkout, or a folder of runs")
    parser.add_argument("new", type=Path, metavar="NEW", help="the same, after the change")
    parser.add_argument(
        "--data", action="append", metavar="NAME", help="a data set to audit; repeat for more; default: breast_cancer"
    )
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="leave the runs here, in old and new")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="plumbline-") as scratch:
        folder = (arguments.keep or Path(scratch)).resolve()
        tables = arguments.data or ["breast_cancer"]
        try:
            old = runs_of(arguments.old.resolve(), folder / "old", tables)
            new = runs_of(arguments.new.resolve(), folder / "new", tables)
            return 0 if report([compare(name, old.get(name), new.get(name)) for name in sorted({*old, *new})]) else 1
        except RunsUnusable as unusable:
            print(unusable, file=sys.stderr)
            return 2


def runs_of(place: Path, folder: Path, tables: Sequence[str] = ("breast_cancer",)) -> dict[str, Path]:
    """Every run by its name: of ``place`` itself, or, where that is a checkout, of its audits written to ``folder``."""
    if (place / "plumbline" / "__main__.py").exists():
        for data in tables:
            for name, options in AUDITS.items():
                further = (*_FEW_RECORDS.get(data, ()), *(_SIGMA if data == "wine" and "defended" in name else ()))
                audit(place, folder, f"{data}-{name}", ("--data", data, *further, *options))
        place = folder
    # Names begin with the time, so that of several runs of one name the latest counts.
    runs = {run.parent.name.split("-", 2)[-1]: run.parent for run in sorted(place.glob("*/results.json"))}
    if not runs:
        raise RunsUnusable(f"{place} is neither a checkout nor a folder of runs. Name one with */results.json in it.")
    return runs


def audit(checkout: Path, folder: Path, name: str, options: Sequence[str]) -> None:
    """Run one audit with the packages of ``checkout``."""
    of_data = "PLUMBLINE_DATA_DIR"
    environment = {
        key: value for key, value in os.environ.items() if key == of_data or not key.startswith("PLUMBLINE_")
    }
    environment |= {"PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "plumbline", "audit", *_ALL, *options]
    print(f"{checkout.name}: {name}", file=sys.stderr, flush=True)
    done = subprocess.run(
        [*command, "--name", name, "--runs", str(folder)], cwd=checkout, env=environment, capture_output=True, text=True
    )
    if done.returncode:
        raise RunsUnusable(f"The audit {name} of {checkout} failed:\n{(done.stdout + done.stderr)[-2000:]}")


def compare(name: str, old: Path | None, new: Path | None) -> Comparison:
    """Compare the folders that two runs wrote; None is a run that isn't there."""
    before, after = ({} if run is None else numbers_of(run) for run in (old, new))
    if within := _ROUNDED.get(name.rpartition("-")[2], 0.0):
        before, after = (
            {place: found[place] for place in found if _OF_PARTIES.match(place)} for found in (before, after)
        )
    common = before.keys() & after.keys()
    different = [
        f"{place}: {_shown(before[place])} became {_shown(after[place])}"
        for place in before
        if place in common and not _same(before[place], after[place], within)
    ]
    gone = {place: _excepted(name, place) for place in before if place not in common}
    return Comparison(
        name,
        numbers=sum(before[place].size for place in common),
        different=tuple(different),
        lost=tuple(place for place, why in gone.items() if not why),
        added=tuple(sorted({_field(place) for place in after if place not in common})),
        excepted=tuple(dict.fromkeys(filter(None, gone.values()))),
    )


def _excepted(name: str, place: str) -> str:
    """Why an older run of this name alone may have what stands here; empty where nothing says so."""
    return next((why for pattern, why in EXCEPTIONS.items() if re.fullmatch(pattern, f"{name} / {place}")), "")


def numbers_of(run: Path) -> Numbers:
    """All numbers of a run's folder, by file and place in it."""
    found: Numbers = {}
    for file in sorted(run.rglob("*")):
        name = file.relative_to(run).as_posix()
        if file.suffix == ".json":
            content = json.loads(file.read_text())
            for old, now in MOVED.items():
                if old.startswith(f"{name}: ") and (values := content.pop(old.partition(": ")[2], None)) is not None:
                    found[now] = np.array(values)
            found |= {f"{name}: {place}": value for place, value in _json_numbers(content)}
        elif file.suffix == ".npz":
            with np.load(file, allow_pickle=False) as arrays:
                found |= {f"{name}: {array}": arrays[array] for array in arrays.files}
    return found


def report(comparisons: Sequence[Comparison]) -> bool:
    """Print a row for each audit, then what differs; True when all are the same."""
    print(f"{'audit':32}{'numbers':>10}{'differ':>9}{'lost':>7}   only in the new one")
    for one in comparisons:
        counts = f"{one.numbers:10,}{len(one.different):9,}{len(one.lost):7,}"
        print(f"{one.name:32}{counts}   {', '.join(one.added) or '-'}")
    for one in comparisons:
        for why in one.excepted:
            print(f"{one.name}, gone as it may be: {why}")
        lines = [*one.different, *(f"{place}: only in the old one" for place in one.lost)]
        for line in lines[:_SHOWN]:
            print(f"{one.name}, {line}")
        if len(lines) > _SHOWN:
            print(f"{one.name}, and {len(lines) - _SHOWN:,} more")
    same = bool(comparisons) and all(one.same for one in comparisons)
    print("The numbers are the same." if same else "The numbers are NOT the same.")
    return same


def _json_numbers(content: Any, place: str = "") -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """Numbers and lengths of lists, by their path."""
    if isinstance(content, dict):
        for key, value in content.items():
            if key not in LEFT_OUT:
                yield from _json_numbers(value, f"{place}.{key}".lstrip("."))
    elif isinstance(content, list):
        yield f"{place}#", np.array(len(content))
        for index, value in enumerate(content):
            yield from _json_numbers(value, f"{place}[{index}]")
    elif isinstance(content, int | float):
        yield place, np.array(content)


def _same(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any], within: float) -> bool:
    """Equal to the last bit, or within a part of the larger; NaN equals NaN."""
    real = one.dtype.kind == other.dtype.kind == "f"
    if within and real and one.shape == other.shape:
        return bool(np.allclose(one, other, rtol=within, atol=within, equal_nan=True))
    return one.shape == other.shape and bool(np.array_equal(one, other, equal_nan=real))


def _shown(value: np.ndarray[Any, Any]) -> str:
    return str(value) if value.ndim == 0 else f"an array {value.shape}"


def _field(place: str) -> str:
    """The name of a field wherever it stands: the last key of its path."""
    return re.sub(r"\[\d+\]|#", "", place.partition(": ")[2]).rpartition(".")[2]


if __name__ == "__main__":
    sys.exit(main())
