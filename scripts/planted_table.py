"""Judge audits whose leaks are known, of every kind and many of each, and keep the table in docs/measure.md.

python -m scripts.planted_table --draws 2000
"""

import argparse
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path
from typing import get_args

from tests.harness.planted import PARTS, Cell, Power, Shape, alarms, independent, powers, useless

PAGE = Path(__file__).parents[1] / "docs" / "measure.md"
BEGIN, END = "<!-- planted: begin -->", "<!-- planted: end -->"
ATTACKS = (1, 3, 9, 20)
# In cells of power.
COMPETING = 3
# Of fewer persons every light is grey.
SIZES = [(records, copies) for records, copies in product((60, 100, 200), (1, 2, 4)) if records // copies >= 50]
KINDS = [(shape, *size) for shape in get_args(Shape) for size in SIZES]


def rate(cell: Cell, draws: int) -> tuple[float, float]:
    """Tell in which share of audits without a leak a light is on: by attacks that know nothing, and at the boundary."""
    return alarms(cell, draws, independent) / draws, alarms(cell, draws, useless) / draws


def share(part: float) -> str:
    """Write a share as the page does: .05."""
    return f"{part:.3f}".lstrip("0") if part < 1 else "1"


def lines(rates: Sequence[tuple[float, float]], found: Sequence[Sequence[Power]], draws: int) -> Iterator[str]:
    """Write the tables; ``rates`` of every kind by numbers of attacks, ``found`` of every kind."""
    command = f"`python -m scripts.planted_table --draws {draws}`"
    yield f"Without a leak, the share of {draws:,} audits that show a colour ({command}):"
    yield ""
    yield f"| values, records, copies | {' | '.join(f'{count} a level' for count in ATTACKS)} |"
    yield f"|---|{'---|' * len(ATTACKS)}"
    for number, kind in enumerate(KINDS):
        row = rates[number * len(ATTACKS) : (number + 1) * len(ATTACKS)]
        yield f"| {named(kind)} | {' | '.join(f'{share(none)}, {share(edge)}' for none, edge in row)} |"
    kinds = [kind for kind in KINDS for _ in ATTACKS]
    many = [one for one, (_, records, copies) in zip(rates, kinds, strict=True) if records // copies >= 100]
    yield ""
    yield (
        f"The largest: {share(max(one for one, _ in rates))} by attacks that know nothing, "
        f"{share(max(one for _, one in rates))} at the boundary, {share(max(one for _, one in many))} there from 100 "
        "persons on."
    )
    yield ""
    yield f"With two leaks among eight columns, and {COMPETING} attacks a level:"
    yield ""
    headings = [f"{part}: {words}" for part in PARTS for words in ("red", "amber or red", "measured", "held")]
    yield f"| values, records, copies | {' | '.join(headings)} |"
    yield f"|---|{'---|' * len(headings)}"
    for kind, both in zip(KINDS, found, strict=True):
        cells = [share(value) for one in both for value in (one.red, one.shown, one.part, one.covered)]
        yield f"| {named(kind)} | {' | '.join(cells)} |"


def named(kind: tuple[Shape, int, int]) -> str:
    """Write a kind of audit as a row's heading."""
    shape, records, copies = kind
    return f"{shape}, {records}" + (f", {copies}" if copies > 1 else "")


def main() -> None:
    """Draw every cell, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=2_000, help="audits of each kind")
    draws = parser.parse_args().draws
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        rates = pool.map(partial(rate, draws=draws), [Cell(*kind, attacks) for kind in KINDS for attacks in ATTACKS])
        found = pool.map(partial(powers, draws=draws), [Cell(*kind, COMPETING) for kind in KINDS])
        table = "\n".join(lines(list(rates), list(found), draws))
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{table}\n{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    main()
