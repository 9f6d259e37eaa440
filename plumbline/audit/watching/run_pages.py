"""The runs of a folder in a browser of this machine: list, filter, compare, over time, and the way to each report.

Guarantee: nothing is written, and of a run's folder only its report and annex are handed out, and what the list says of
it; never what parties wrote. Whatever a folder holds is words on a page, and a report reads no other page from here.
"""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from urllib.parse import parse_qs, quote

from plumbline.audit.past_runs import PastRun, compare_runs, is_run, read_run, unreadable
from plumbline.audit.watching.page_server import Page, PageHandler
from plumbline.charts.axes import Axis, Values, padded
from plumbline.charts.dates import day_ticks, day_words
from plumbline.charts.drawings import PERCENT, Series, lines
from plumbline.charts.marks import Chart
from plumbline.report.html import template
from plumbline.telling.document import LIGHT_WORDS
from services.common.words import escaped

# What of a run's folder a browser may have.
SHOWN = ("report.html", "annex.pdf", "annex.docx")
FEWEST, MOST = 2, 4
_PAGES = ("/", "/compare")
# Lines that a chart can tell apart.
_MOST_LINES = 5
_MOST_SAID = 300
_EPOCH = datetime(1970, 1, 1)
# What charts can show of the days that names of folders say.
_FIRST, _LAST = "1970", "2200"
# Of reports, beside their own policy: of an origin of their own, and without forms.
_APART = "sandbox allow-scripts"


@dataclass(frozen=True)
class ListedRun:
    """A run as the list has it.

    Attributes:
        run: what is known of it.
        address: of its folder, relative to the list.
        files: which of ``SHOWN`` it has.
    """

    run: PastRun
    address: str
    files: tuple[str, ...]


@dataclass(frozen=True)
class Filter:
    """What a reader wants to see of the list.

    Attributes:
        text: a part of a run's folder name or of what it asked for; empty for all.
        light: of its verdict; empty for any.
        status: how it ended; empty for any.
    """

    text: str = ""
    light: str = ""
    status: str = ""

    def keeps(self, run: PastRun) -> bool:
        """Tell whether a run is to be seen."""
        text = f"{run.folder.name} {run.what}".lower()
        return self.text.strip().lower() in text and self.light in ("", run.light) and self.status in ("", run.status)


def listed_runs(folder: Path) -> list[ListedRun]:
    """List the runs in a folder, newest first; a link that leads out is named and not read. None without a folder."""
    if not folder.is_dir():
        return []
    home, listed = folder.resolve(), list[ListedRun]()
    for entry in folder.iterdir():
        address = quote(entry.name, safe="", errors="surrogatepass")
        if entry.name.startswith("."):
            continue
        if entry.is_symlink() and not _leads_within(entry, home):
            reason = "It is a link that leads out of the folder of runs, and isn't read: move the run itself here."
            listed.append(ListedRun(PastRun(entry, "", entry.name, "", "unknown", reason), address, ()))
        elif is_run(entry):
            files = tuple(name for name in SHOWN if os.path.isfile(entry / name))  # noqa: PTH113 - never raises
            listed.append(ListedRun(read_run(entry), address, files))
    return sorted(listed, key=lambda one: one.run.order, reverse=True)


def _leads_within(link: Path, home: Path) -> bool:
    try:
        return link.resolve().is_relative_to(home)
    except (OSError, RuntimeError):  # in a circle
        return False


def list_page(folder: Path, runs: Sequence[ListedRun], wanted: Filter, trouble: str = "") -> str:
    """Make the page of all runs that a reader wants to see; ``trouble``: what couldn't be done, in a sentence."""
    matches = [one for one in runs if wanted.keeps(one.run)]
    return template("runs.html").render(
        folder=escaped(str(folder), _MOST_SAID),
        all=runs,
        runs=matches,
        wanted=wanted,
        trouble=escaped(trouble, _MOST_SAID),
        statuses=sorted({one.run.status for one in runs}),
        lights=[light for light in LIGHT_WORDS if any(one.run.light == light for one in runs)],
        over_time=over_time([one.run for one in matches]),
    )


def over_time(runs: Sequence[PastRun]) -> Chart | None:
    """Draw how much leaked most, run by run, a line for the runs of the same tables; None of fewer than two runs."""
    dated = sorted(
        (
            (_tables(run), (datetime.fromisoformat(run.when) - _EPOCH) / timedelta(days=1), run.part)
            for run in runs
            if run.part is not None and _FIRST <= run.when < _LAST
        ),
        key=lambda one: one[1],
    )
    if len(dated) < 2:
        return None
    series = [
        Series(
            escaped(name, 60) or "unnamed tables",
            tuple(day for tables, day, _ in dated if tables == name),
            tuple(part for tables, _, part in dated if tables == name),
            f"s{number}",
        )
        for number, (name, _) in enumerate(Counter(one[0] for one in dated).most_common(_MOST_LINES), start=1)
    ]
    across = Axis(*padded([day for _, day, _ in dated]), "", Values(_moment_words, day_ticks), most=2)
    return lines("The largest part that a federation gave away", series, across, Axis(0, 1, "part", PERCENT))


def _moment_words(days: float, step: float) -> str:
    """Write a day; of runs within a few days the minute as well, beside ticks without the year."""
    if step >= 1:
        return day_words(days, step)
    return (_EPOCH + timedelta(days=days)).isoformat(" ", "minutes")[5 if step else 0 :]


def _tables(run: PastRun) -> str:
    return run.what.partition(", ")[0]


def compare_page(runs: Sequence[ListedRun]) -> str:
    """Put two to four runs side by side; raises ValueError where they are fewer or more, or one has no results."""
    if not FEWEST <= len(runs) <= MOST:
        raise ValueError(f"Choose {FEWEST} to {MOST} runs to compare: {len(runs)} were chosen.")
    comparison = compare_runs(*(one.run.folder for one in runs))
    return template("runs_compared.html").render(
        runs=runs,
        sections=[
            (title, [[escaped(cell, _MOST_SAID) for cell in row] for row in rows])
            for title, rows in comparison.sections
        ],
    )


class RunPagesHandler(PageHandler):
    """Answers with the list, a comparison, and reports of the folder of runs."""

    # Before a request has been read, which may be none.
    path = ""

    def page(self) -> Page | None:
        """Make the list or a comparison of what the folder holds now."""
        path, _, query = self.path.partition("?")
        if path not in _PAGES:
            return None
        folder, parameters, runs = Path(self.directory), parse_qs(query, errors="replace"), list[ListedRun]()
        wanted = Filter(**{name: parameters[name][0] for name in ("text", "light", "status") if name in parameters})
        try:
            runs = listed_runs(folder)
            addresses = parameters.get("run", [])
            return Page(list_page(folder, runs, wanted) if path == "/" else compare_page(_chosen(runs, addresses)))
        except ValueError as error:
            trouble = str(error)
        except OSError as error:
            trouble = unreadable(error)
        return Page(list_page(folder, runs, Filter(), trouble), HTTPStatus.BAD_REQUEST)

    def may_show(self, within: Path) -> bool:
        """Tell whether this is a run's report or annex."""
        return super().may_show(within) and len(within.parts) == 2 and within.name in SHOWN

    def end_headers(self) -> None:
        """Keep a report, which may be anybody's, apart from the pages that are made here."""
        if self.path.partition("?")[0] not in _PAGES:
            self.send_header("Content-Security-Policy", _APART)
        super().end_headers()


def _chosen(runs: Sequence[ListedRun], addresses: Sequence[str]) -> list[ListedRun]:
    """Find runs by their addresses, in the list alone: none that is asked for becomes a path. Raises ValueError."""
    by_address = {one.address: one for one in runs}
    if unknown := [address for address in addresses if address not in by_address]:
        raise ValueError(f"There is no run {escaped(unknown[0], 80)} here any more: choose again.")
    return [by_address[address] for address in dict.fromkeys(addresses)]
