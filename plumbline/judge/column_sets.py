"""What if columns were left out or coarser: sets of passive columns, what each gives away, and what it is worth.

Sets are simulated. How exact that is, its replay of the audited columns says, beside each set.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from plumbline.judge.answer import Answer, listed
from plumbline.judge.federation_part import at
from plumbline.judge.lights import are_too_few
from plumbline.telling.numbers import hundredths, percent
from vfl.data.faults import counted

# What a simulated set may differ in from the federation that confirms it, for its numbers to stand.
# Parts that differ by less are the same to who chooses.
WITHIN_PART, WITHIN_AUC = 0.03, 0.005
DROP = "drop"
# Of settings: a defence that is named; other kinds are an option's value.
DEFENCE = "defence"
LABELS = "labels"
_NOT_MEASURED = "not measured"
HEADINGS = ("columns", "largest part", "exposed", "AUC")
Row = tuple[str, ...]
# Measured by taking either away: docs/how-to/what-if.md.
_WHY_COARSER_TELLS = (
    "The model weighs all columns anew, and who knows that some take few values is left with fewer that fit."
)


@dataclass(frozen=True, order=True)
class Change:
    """What becomes of one column, or of a setting of the session.

    Attributes:
        party: name of its owner; empty for a setting.
        column: its name, or that of an option of the learner or of a defence.
        kind: ``drop``, or one of `vfl.data.columns.COARSENINGS`; of a setting ``defence``, or the option's value.
    """

    party: str
    column: str
    kind: str = DROP


def by_party(changes: Iterable[Change]) -> dict[str, dict[str, str]]:
    """List what is asked of each column, by party."""
    kinds: dict[str, dict[str, str]] = {}
    for change in changes:
        if not change.party:
            continue
        kinds.setdefault(change.party, {})[change.column] = change.kind
    return kinds


@dataclass(frozen=True)
class ColumnPart:
    """What a federation gives away of one column, or of the labels.

    Attributes:
        party: name of its owner; empty for labels.
        column: name of the column.
        part: the federation's part at the headline level, of means, names and persons the largest; None where none was
            measured.
        is_exposed: whether that is a tenth or more, beyond chance.
    """

    party: str
    column: str
    part: float | None
    is_exposed: bool


@dataclass(frozen=True)
class ColumnSet:
    """A federation of some of the columns.

    Attributes:
        changes: in what it differs from all columns as they are, sorted.
        columns: those that it has; where training is simulated, labels behind them.
        auc: of the test records.
        is_measured: whether attacks could say something of all that it tells.
    """

    changes: tuple[Change, ...]
    columns: tuple[ColumnPart, ...]
    auc: float
    is_measured: bool = True

    @property
    def largest(self) -> ColumnPart | None:
        """The column of which most is given away; None where nothing was measured."""
        measured = [one for one in self.columns if one.part is not None and one.party]
        return max(measured, key=lambda one: one.part or 0.0, default=None)

    @property
    def part(self) -> float:
        """The largest part of a column; 0 where none was measured."""
        return (self.largest.part or 0.0) if self.largest else 0.0

    @property
    def labels(self) -> float | None:
        """The part of labels; None where it wasn't measured."""
        return next((one.part for one in self.columns if not one.party), None)

    @property
    def leaking(self) -> float:
        """By how much sets are compared: the largest part of a column, and that of labels."""
        return self.part + (self.labels or 0.0)

    @property
    def exposed(self) -> tuple[ColumnPart, ...]:
        """The columns, and labels, of which a tenth or more is told, most of all first."""
        return tuple(sorted((one for one in self.columns if one.is_exposed), key=lambda one: -(one.part or 0.0)))

    @property
    def title(self) -> str:
        """What it is called: ``without age, job; euribor3m as bins4; with own_trees=30``."""
        several = len({one.party for one in self.columns if one.party}) > 1
        kinds: dict[str, list[str]] = {}
        settings = [one.column if one.kind == DEFENCE else f"{one.column}={one.kind}" for one in self.settings]
        for change in (one for one in self.changes if one.party):
            kinds.setdefault(change.kind, []).append(f"{change.party}:{change.column}" if several else change.column)
        phrases = [
            f"without {listed(names, most=8)}" if kind == DROP else f"{listed(names, most=8)} as {kind}"
            for kind, names in sorted(kinds.items(), key=lambda one: one[0] != DROP)
        ]
        phrases += [f"with {listed(settings, most=8)}"] if settings else []
        phrases += [] if self.is_measured else ["not all of it measured"]
        return "; ".join(phrases) or "all columns"

    @property
    def settings(self) -> tuple[Change, ...]:
        """Those of the changes that are of the session's settings."""
        return tuple(one for one in self.changes if not one.party)


@dataclass(frozen=True)
class WhatIf:
    """What an audit's federation would give away with fewer or coarser columns.

    Attributes:
        run: all columns, as the audit measured them.
        whole: all columns, simulated.
        without: each column left out by itself, simulated.
        frontier: one column after another left out, of those that leak the one whose absence leaves least; simulated.
        coarser: all leaking numbers, dates and codes coarser, a set for each way; simulated.
        settings: other settings with all columns, each by itself and those that leave least together; simulated.
        asked: sets that a person named, simulated.
        confirmed: sets whose federation was run.
        attacks: names of the attacks that were simulated.
    """

    run: ColumnSet
    whole: ColumnSet
    without: tuple[ColumnSet, ...] = ()
    frontier: tuple[ColumnSet, ...] = ()
    coarser: tuple[ColumnSet, ...] = ()
    settings: tuple[ColumnSet, ...] = ()
    asked: tuple[ColumnSet, ...] = ()
    confirmed: tuple[ColumnSet, ...] = ()
    attacks: tuple[str, ...] = ()

    @property
    def simulated(self) -> tuple[ColumnSet, ...]:
        """All sets that were simulated."""
        return (self.whole, *self.without, *self.frontier, *self.coarser, *self.settings, *self.asked)

    @property
    def chosen(self) -> ColumnSet | None:
        """The set that nothing leaks of and that loses least AUC; without any the one that leaks least; None for all.

        Nothing is chosen where a person has named the sets, and no coarser columns that tell more, nor what attacks say
        nothing of.
        """
        able = [one for one in self.simulated if one.is_measured or one is self.whole]
        sets = [one for one in able if one not in self.coarser or not self.raised(one)]
        closed = [one for one in sets if not one.exposed]
        best = max(closed, key=lambda one: one.auc) if closed else least_leaking(sets)
        return best if best.changes and not self.asked else None

    def off(self, columns: ColumnSet) -> float | None:
        """Measure how far off the replay of the audit was, of the columns of a set; None where none can be compared."""
        names = {(one.party, one.column) for one in columns.columns}
        return max((gap for one, gap in _gaps(self.whole, self.run) if (one.party, one.column) in names), default=None)

    def is_trusted(self, columns: ColumnSet) -> bool:
        """Tell whether the replay was near enough, of the columns of a set, for what is simulated of it to stand."""
        off = self.off(columns)
        return off is not None and off <= WITHIN_PART and not abs(self.whole.auc - self.run.auc) > WITHIN_AUC

    def raised(self, columns: ColumnSet) -> tuple[ColumnPart, ...]:
        """List the columns of which a set tells more than all columns as they are, by more than the replay was off."""
        before = {(one.party, one.column): one.part or 0.0 for one in self.whole.columns}
        least = max(WITHIN_PART, self.off(columns) or 0.0)
        more = [one for one in columns.columns if (one.part or 0.0) > before[one.party, one.column] + least]
        return tuple(sorted(more, key=lambda one: -(one.part or 0.0)))

    def row(self, columns: ColumnSet) -> Row:
        """Write a set as a row of a table under ``HEADINGS``, with what its replay was off by."""
        title, part, exposed, auc = row_of(columns)
        off = self.off(columns)
        return title, part if off is None or part == _NOT_MEASURED else f"{part} ± {hundredths(off)}", exposed, auc

    @property
    def groups(self) -> tuple[tuple[str, list[Row]], ...]:
        """The sets in tables under ``HEADINGS``, each table with its title; empty ones left out."""
        before: Sequence[Change] = ()
        steps = []
        for columns in self.frontier:
            added = replace(columns, changes=tuple(change for change in columns.changes if change not in before))
            steps.append((f"and {added.title}" if before else columns.title, *self.row(columns)[1:]))
            before = columns.changes
        groups = (
            ("One column after another left out", steps),
            ("Without one column", list(map(self.row, self.without))),
            ("Leaking columns coarser", list(map(self.row, self.coarser))),
            ("Other settings", list(map(self.row, self.settings))),
            ("Sets side by side", list(map(self.row, (self.whole, *self.asked) if self.asked else ()))),
        )
        return tuple((title, rows) for title, rows in groups if rows)

    def beside(self, measured: ColumnSet) -> ColumnSet | None:
        """Find the simulation of a set whose federation was run; None where nobody simulated it."""
        return next((one for one in self.simulated if one.changes == measured.changes), None)


def least_leaking(sets: Sequence[ColumnSet]) -> ColumnSet:
    """Find the set that gives away least; of several that give away as little, the one of the highest AUC."""
    least = min(one.leaking for one in sets)
    return max((one for one in sets if one.leaking <= least + WITHIN_PART), key=lambda one: one.auc)


def set_of(
    answer: Answer, changes: Iterable[Change], auc: float, *, with_labels: bool = False, is_measured: bool = True
) -> ColumnSet:
    """Take what a judge answered as a set of columns, ``with_labels`` where training was attacked as well."""
    parts = []
    for column in answer.columns:
        headlines = [at(one).part for one in column.measures if not are_too_few(one)]
        part = max((one.mean for one in headlines if one is not None), default=None)
        parts.append(ColumnPart(column.party, column.column, part, column.is_exposed()))
    if with_labels:
        heads = [at(one) for one in answer.label_levels if not are_too_few(one)]
        is_told = any(one.is_exposed for one in heads)
        # The audit's own number first: of the rarest class all is told soon, however much else is hidden.
        told = [one.part.mean for one in heads if one.part is not None] + [*([] if is_told else answer.rarest)]
        parts.append(ColumnPart("", LABELS, max(told, default=None), is_told or bool(answer.rarest)))
    return ColumnSet(tuple(sorted(changes)), tuple(parts), auc, is_measured)


def change_words(before: ColumnSet, after: ColumnSet) -> str:
    """Say what a set changes: ``without age: part 65 % (age) -> 12 % (job), AUC .792 -> .781``."""
    aucs = f"AUC {decimals(before.auc)} -> {decimals(after.auc)}"
    return f"{after.title}: part {part_words(before)} -> {part_words(after)}, {aucs}"


def part_words(columns: ColumnSet) -> str:
    """Write the largest part, and of which column it is, and that of labels."""
    largest, labels = columns.largest, columns.labels
    words = [] if largest is None else [f"{percent(largest.part or 0.0)} ({listed([largest.column])})"]
    words += [] if labels is None else [f"{percent(labels)} ({LABELS})"]
    return ", ".join(words) or _NOT_MEASURED


def row_of(columns: ColumnSet) -> Row:
    """Write a set as a row of a table under ``HEADINGS``."""
    return columns.title, part_words(columns), f"{len(columns.exposed)} of {len(columns.columns)}", f"{columns.auc:.4f}"


def decimals(share: float) -> str:
    """Write an AUC as a person compares it: .792."""
    return f"{share:.3f}".removeprefix("0")


def sentences(what_if: WhatIf) -> list[str]:
    """Say in sentences what follows for who chooses columns."""
    paragraphs = [_replay_words(what_if)]
    if not what_if.whole.exposed:
        paragraphs.append(
            "No column of the audited federation is shown to leak a tenth or more: none has to be left out."
        )
    else:
        paragraphs += proposals(what_if)
    for columns in what_if.confirmed:
        simulated = what_if.beside(columns)
        off = differs(simulated, columns) if simulated else ""
        comparison = f"but the simulation differs: {off}" if off else "as simulated"
        paragraphs.append(
            f"A federation {columns.title} was run: part {part_words(columns)}, AUC {decimals(columns.auc)}, "
            f"{comparison}."
        )
    return paragraphs


def proposals(what_if: WhatIf) -> list[str]:
    """Say which set is proposed, or why none is, and why coarser columns aren't; nothing of sets that were named."""
    paragraphs = []
    proposal = what_if.chosen
    run = next((one for one in what_if.confirmed if proposal is not None and one.changes == proposal.changes), None)
    if proposal is not None:
        best = run or proposal
        remainder = (
            "nothing is shown to leak a tenth or more" if not best.exposed else f"{part_words(best)} still leaks"
        )
        change = f"{change_words(what_if.run if run else what_if.whole, best)}: {remainder}"
        if run or what_if.is_trusted(proposal):
            paragraphs.append(f"{change}.")
        else:
            paragraphs.append(
                f"Not proposed before a federation of it has been run, since the replay was off: {change}."
            )
    elif not what_if.asked:
        other = ", and no other setting," if what_if.settings else ""
        paragraphs.append(f"No column that can be left out or coarser{other} makes it leak less.")
    return [*paragraphs, *_coarser_words(what_if)]


def _replay_words(what_if: WhatIf) -> str:
    """Say how far off the simulation of the audited columns was."""
    if off := differs(what_if.whole, what_if.run):
        return f"Replayed on the audit's own columns, the simulation is off: {off}."
    most = what_if.off(what_if.whole)
    if most is None:
        return "The simulation could not be held against the audit, of which no part was measured."
    return (
        f"Replayed on the audit's own columns, the simulation is off by {counted(round(100 * most), 'point')} at most."
    )


def _coarser_words(what_if: WhatIf) -> list[str]:
    """Say of which columns coarser ones tell more, and why; nothing where they don't."""
    coarser = {
        one: [kind for kind in dict.fromkeys(change.kind for change in one.changes if change.party) if kind != DROP]
        for one in (*what_if.coarser, *what_if.asked)
    }
    worse = {one: raised for one, kinds in coarser.items() if kinds and (raised := what_if.raised(one))}
    if not worse:
        return []
    kinds = listed(list(dict.fromkeys(kind for one in worse for kind in coarser[one])))
    example, raised = max(worse.items(), key=lambda one: len(one[1]))
    first = raised[0]
    before = next(one.part for one in what_if.whole.columns if (one.party, one.column) == (first.party, first.column))
    return [
        f"Coarser columns aren't proposed as {kinds}: as {listed(coarser[example])} they tell more of "
        f"{counted(len(raised), 'column')}, such as {listed([first.column])} ({percent(before or 0.0)} -> "
        f"{percent(first.part or 0.0)}). {_WHY_COARSER_TELLS}"
    ]


def differs(simulated: ColumnSet, measured: ColumnSet) -> str:
    """Say in which numbers a simulation is further from a federation than it may be; empty where it is near."""
    parts = {(one.party, one.column): one.part for one in simulated.columns}
    far = [
        f"{listed([one.column])} {percent(parts[one.party, one.column] or 0.0)} in place of {percent(one.part or 0.0)}"
        for one, gap in _gaps(simulated, measured)
        if gap > WITHIN_PART
    ]
    if abs(simulated.auc - measured.auc) > WITHIN_AUC:
        far.append(f"AUC {decimals(simulated.auc)} in place of {decimals(measured.auc)}")
    return ", ".join(far)


def _gaps(simulated: ColumnSet, measured: ColumnSet) -> list[tuple[ColumnPart, float]]:
    """List the columns of which both measured a part, as a federation has them, with how far these are apart."""
    parts = {(one.party, one.column): one.part for one in simulated.columns}
    return [
        (one, abs(part - one.part))
        for one in measured.columns
        if one.part is not None and (part := parts.get((one.party, one.column))) is not None
    ]
