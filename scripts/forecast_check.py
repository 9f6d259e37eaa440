"""Whether the plan's range holds what audits take of the processor: of several data sets, by both protocols.

Other work on the machine changes little of it: a process's time on the processor is counted, not the clock's.

    nice python -m scripts.forecast_check --data wine breast_cancer -- --epochs 3 --attacks half_star
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from plumbline.audit.forecast import Span

_DATA = ("wine", "breast_cancer", "digits", "grid")


def processor_seconds(arguments: Sequence[str], runs: Path) -> tuple[float, Span]:
    """Run an audit; returns what its processes took together, and the range of its plan."""
    command = [sys.executable, "-m", "plumbline", "audit", "--yes", "--quiet", "--runs", str(runs), *arguments]
    process = subprocess.Popen(command)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"`{' '.join(command)}` failed: its own words stand above.")
    (config,) = runs.glob("*/config.json")
    return usage.ru_utime + usage.ru_stime, Span(**json.loads(config.read_text())["plan"]["processor_seconds"])


def main() -> int:
    """Print a line for each audit; 0 where at least nine of ten are within their range."""
    parser = argparse.ArgumentParser(prog="python -m scripts.forecast_check", description=__doc__)
    parser.add_argument("--data", nargs="+", default=_DATA, metavar="NAME")
    parser.add_argument("--protocols", nargs="+", default=("hu", "shared"), metavar="NAME")
    parser.add_argument("options", nargs="*", help="of every audit, behind --")
    asked = parser.parse_args()
    held = []
    for name in asked.data:
        for protocol in asked.protocols:
            with tempfile.TemporaryDirectory(prefix="plumbline-") as runs:
                arguments = ("--data", name, "--protocol", protocol, *asked.options)
                seconds, span = processor_seconds(arguments, Path(runs))
            held.append(span.low <= seconds <= span.high)
            words = "within" if held[-1] else "outside"
            print(f"{name}, {protocol}: {seconds:.1f} s, {words} {span.low:.1f} to {span.high:.1f} s", flush=True)
    print(f"{sum(held)} of {len(held)} within the plan's range.")
    return 0 if sum(held) >= 0.9 * len(held) else 1


if __name__ == "__main__":
    sys.exit(main())
