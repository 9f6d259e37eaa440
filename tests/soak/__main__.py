"""Soak and chaos: federations of processes are trained, asked, killed, stopped, cut off, filled up and set wrong.

    python -m tests.soak --seconds 1200 --seed 7

Each protocol has its turn. Whatever happens, an answer is right to the last bit or refused, the model that is served is
never lost, counts never shrink, and once all is mended everything works again; memory, descriptors, threads and
children don't grow. Ends with 1, the seed and the log of all events where one of that is broken. The seed makes the
same order of events; when they strike within a training differs from run to run.
"""

import argparse
import secrets
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.soak.run import Soak, soaking
from tests.soak.served import Broken

PROTOCOLS = ("hu", "shared")


class EventLog:
    """Shows events as they happen, and keeps them."""

    def __init__(self, file: Path) -> None:
        """Keep them in ``file``."""
        self._file, self._begun = file, time.monotonic()

    def __call__(self, words: str) -> None:
        """Note one event."""
        line = f"{time.monotonic() - self._begun:7.1f} s  {words}"
        print(line, flush=True)
        with self._file.open("a") as file:
            file.write(f"{line}\n")


def main(arguments: list[str] | None = None) -> int:
    """Run what the command line says; 1 for a promise that was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description="Soak and chaos.")
    parser.add_argument("--seconds", type=float, default=1200, help="for all protocols together")
    parser.add_argument("--seed", type=int, default=None, help="of the order of events; default: another each time")
    parser.add_argument("--protocol", choices=PROTOCOLS, nargs="+", default=PROTOCOLS)
    options = parser.parse_args(arguments)
    seed = secrets.randbelow(1 << 32) if options.seed is None else options.seed
    folder = Path(tempfile.mkdtemp(prefix="plumbline-soak-"))
    log = EventLog(folder / "events.log")
    log(f"seed {seed}, {options.seconds:g} s, {' and '.join(options.protocol)}")
    failures = []
    for protocol in options.protocol:
        try:
            failures += _soak(folder / protocol, protocol, seed, options.seconds / len(options.protocol), log)
        except Broken as error:
            failures.append(f"{protocol}: {error}")
    for failure in failures:
        log(f"BROKEN, {failure}")
    if failures:
        print(f"\nThe seed is {seed}; events and the processes' logs are in {folder}.", file=sys.stderr)
        return 1
    shutil.rmtree(folder)
    return 0


def _soak(folder: Path, protocol: str, seed: int, seconds: float, log: EventLog) -> list[str]:
    """Soak one protocol's federation; what grew."""
    folder.mkdir()
    log(f"protocol {protocol} begins")
    with soaking(folder, protocol, seed, log) as soak:
        try:
            soak.run(time.monotonic() + seconds)
        finally:
            _show(protocol, soak)
        grown = [(party, resource.name, one) for (party, resource), one in soak.samples.trends().items() if one.grows]
    return [f"{protocol}: {party}'s {name} grow by {one.slope:.3g} a round" for party, name, one in grown]


def _show(protocol: str, soak: Soak) -> None:
    tally = {**soak.tally, "scores compared": soak.answers.checked}
    print(f"\n{protocol}: " + ", ".join(f"{count:,} {what.replace('_', ' ')}" for what, count in tally.items()))
    print("".join(f"  {what}: {count}\n" for what, count in soak.counts.last.items()), end="")
    print(f"  {'':12}{'':16}{'first':>10}{'last':>10}{'a round':>10}{'at most':>10}")
    for (party, resource), one in soak.samples.trends().items():
        slope = "too short" if one.slope is None else f"{one.slope:.3g}"
        print(f"  {party:12}{resource.name:16}{one.first:10,.0f}{one.last:10,.0f}{slope:>10}{one.most:10g}")
    print(flush=True)


if __name__ == "__main__":
    sys.exit(main())
