"""``plumbline preflight``: what a passive party's table will give away, before the party joins (Rassouli, Remark 4)."""

import math
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from plumbline.cli.output import AsJson, console_out, plain_errors, print_json
from plumbline.telling.numbers import percent
from plumbline.terminal import shown
from services.common.agreement import Agreement, TrainingPlan
from services.common.exposure import Exposure, GuardedParty
from services.common.settings import environment_values, settings_of
from services.common.state_folder import read_state
from services.exchange.opening_ledger import OpeningLedger
from services.party.features import description_of
from services.party.label_sums import WHOLE, sums_of_plan
from services.party.lasting_batches import BATCHES, Waiting, waiting_in
from services.party.share_guard import rank_of
from vfl.arrays import FloatArray
from vfl.crypto.sharing.shared_squares import WORD_BITS
from vfl.data import GriddedFeatures
from vfl.data.faults import bounded, counted
from vfl.data.typed_tables import TypedTable
from vfl.learning.independent_equations import most_equations
from vfl.theory.prediction import Interval, PreflightBounds, preflight_bounds

# What parties are called in sentences, in a session that there isn't.
_SELF, _ACTIVE, _NO_SESSION = "this party", "the active party", "0" * 32
# Settings of the party's service that count here.
_OWN = ("most_equations", "state_dir")
# Columns of a table of any width, those first that hide least; --json has all.
_MOST_SHOWN = 100
_ASSUMPTIONS = (
    "Columns are scaled to [0, 1] by their own smallest and largest values (PLUMBLINE_ENCODER=minmax, the default).",
    "The active party gets exact scores of a linear model and all of its parameters. With complete records of other "
    "people it does better: `plumbline audit` measures that.",
    "This is the only passive party, and all rows of the table are asked about.",
    "Of training: the active party has as many columns, of as many binary digits.",
)


@dataclass(frozen=True)
class ColumnGuesses:
    """What is wrong with a column's blind guesses, as mean squared errors on the scale of 0 to 1.

    Attributes:
        name: of the column.
        half: of guessing one half.
        mean: of guessing the column's mean: its variance.
    """

    name: str
    half: float
    mean: float


@dataclass(frozen=True)
class Preflight:
    """What can be said of one table.

    Attributes:
        rows: of the table.
        features: d.
        classes: k.
        bounds: of the attacks' errors, mean over columns.
        columns: one per feature.
        share: PLUMBLINE_MOST_EQUATIONS: of the sums of columns that tell a record, how many may be answered.
        rank: in how many directions records differ.
        of_model: how many such sums one model's answers tell.
        training: what several epochs under Protocol 1 add up to, in sentences.
        labels: what honest training under Protocol 1 tells this party of labels, in sentences.
        opening: what training on shared weights would open, against labels and records, in sentences.
        waiting: who of the records would wait, in each federation whose batches the party remembers.
    """

    rows: int
    features: int
    classes: int
    bounds: PreflightBounds
    columns: tuple[ColumnGuesses, ...]
    share: float
    rank: int
    of_model: int
    training: str
    labels: str
    opening: str
    waiting: tuple[Waiting, ...] = ()

    @property
    def most_equations(self) -> int:
        """How many independent sums of its columns an active party is answered with about one record."""
        return most_equations(self.share, self.features)

    @property
    def sessions(self) -> int:
        """How many sessions that is enough for; the first is never refused."""
        return max(1, self.most_equations // self.of_model)

    @property
    def limit(self) -> str:
        """What several sessions add up to, and where the passive party stops, in sentences."""
        each = min(self.of_model, self.features)
        sessions = "one session" if self.sessions == 1 else f"{self.sessions} sessions"
        return (
            f"Sessions add up: each one of {self.classes} classes answers {each} of the {self.features} independent "
            f"sums of columns that tell a whole record. With PLUMBLINE_MOST_EQUATIONS={self.share:g} at most "
            f"{self.most_equations} of a record are answered per active party: {sessions}. An epoch that is validated "
            "is one more model, of the validation records; epochs are validated only within the limit."
        )

    @property
    def verdict(self) -> str:
        """What the bounds mean, in a sentence or two."""
        bounds = self.bounds
        if bounds.fully_determined:
            return (
                f"Every value of every record can be computed from its scores: {self.classes} classes give "
                f"{counted(self.classes - 1, 'equation')}, for {counted(self.features, 'column')}."
            )
        least, most = (1 - error / bounds.mean for error in (bounds.mean_star.upper, bounds.mean_star.lower))
        directions = f"{bounds.rank} {'is' if bounds.rank == 1 else 'are'}"
        return (
            f"Of the {self.features} directions in which records differ, {directions} computed exactly, and "
            f"{bounds.nullity} can't be. Whatever the model, who knows the columns' means learns "
            f"{percent(least)} to {percent(most)} of what they leave open. That is of all columns together: of a "
            "single one more may leak, up to all of it."
        )

    @property
    def advice(self) -> str:
        """What to do about it."""
        if self.bounds.fully_determined:
            return (
                f"Join with {self.classes} columns or more, or only where the coordinator answers with the bare label "
                "(class_label) and nobody discloses parameters."
            )
        return (
            "If that is too much: fewer classes or more columns hide more; don't disclose parameters "
            "(PLUMBLINE_DISCLOSE=false), or ask the coordinator for a defence of scores. Then measure: plumbline audit."
        )


def preflight(
    table: Annotated[str, typer.Argument(help="This party's own table (a file or a database URL).")],
    classes: Annotated[int, typer.Option(help="How many classes the active party's labels have.")],
    id_column: Annotated[str, typer.Option("--id", help="Its id column.")] = "id",
    as_json: AsJson = False,
) -> None:
    """Bound what a passive party's own table will leak of itself by predictions, before it joins.

    Nothing is sent anywhere: it takes the table and the number of classes only.

    Example: plumbline preflight laboratory.csv --classes 2 --id patient
    """
    from services.common.settings import load_settings
    from vfl.data.selection import Selection
    from vfl.data.typed_tables import read_selected

    with plain_errors():
        settings, selection = load_settings(), Selection(id_column, None)
        typed = read_selected(table, lambda _: selection, settings.table_limits, settings.reading_rules)
        outlook = _examined(typed, classes)
    if as_json:
        print_json(_facts(outlook))
    else:
        _print(outlook)
        left_out = [plan for plan in typed.plans if plan.encoding == "drop"]
        for plan in left_out[:_MOST_SHOWN]:
            console_out.print(f"Column {shown(bounded(plan.name))} is {plan.becomes}.")
        if len(left_out) > _MOST_SHOWN:
            console_out.print(f"And {counted(len(left_out) - _MOST_SHOWN, 'more column')} left out.")


def _examined(table: TypedTable, classes: int) -> Preflight:
    from vfl.data import fit_columns

    fitted = fit_columns(table, np.arange(len(table.ids)), "minmax")
    features = fitted.transform(table)
    columns = tuple(
        ColumnGuesses(one.name, float(((values - 0.5) ** 2).mean()), float(values.var()))
        for one, values in zip(fitted.columns, features.T, strict=True)
    )
    # As the service of this party would read it.
    settings = settings_of({name: value for name, value in environment_values().items() if name in _OWN})
    bounds, rank = preflight_bounds(features, classes), rank_of(features)
    hu, shared = (_rehearsed(protocol, features, classes) for protocol in ("hu", "shared"))
    return Preflight(
        len(features),
        features.shape[1],
        classes,
        bounds,
        columns,
        settings.most_equations,
        rank,
        hu.plan.training.told_equations(hu.plan, classes).of_model,
        training=_of_training(hu, features, rank),
        labels=_of_labels(hu),
        opening=_of_opening(shared),
        waiting=tuple(_waiting(settings.state_dir, table)),
    )


def _rehearsed(protocol: str, features: FloatArray, classes: int) -> Agreement:
    """Agree on one epoch that is one batch of all records, with an active party of as many columns."""
    plan = TrainingPlan(1, len(features), protocol=protocol, validation_fraction=0.0, test_fraction=0.0)
    description = description_of(_SELF, GriddedFeatures.of(features, plan.feature_fraction_bits))
    return Agreement(_NO_SESSION, plan, classes, (replace(description, name=_ACTIVE), description))


def _shown(agreement: Agreement) -> dict[str, Exposure]:
    """Find what training shows each party."""
    return {exposure.party: exposure for exposure in agreement.plan.training.exposures(agreement)}


def _of_training(agreement: Agreement, features: FloatArray, rank: int) -> str:
    party = GuardedParty(_SELF, features, None, "warn", False, OpeningLedger.in_memory(), {})
    guarded = agreement.plan.training.guard(agreement, party)
    shares, (channel,) = guarded.shares[_ACTIVE], guarded.channels
    each = shares.of_a_record
    return (
        "Training with PLUMBLINE_PROTOCOL=hu tells a party that sends other messages than the protocol's "
        f"{counted(each, 'sum')} of the columns of every record in an epoch, and {rank} tell a whole record: "
        f"those of {counted(math.ceil(rank / each), 'epoch')}, in all sessions. It learns all columns of at most one "
        f"record for each {rank} sums that the answers have room for: {shares.in_answers:,} in every step where an "
        f"honest party of as many columns is answered with {channel.sums:,}."
    )


def _of_labels(agreement: Agreement) -> str:
    rows, (batch,) = agreement.training_rows, sums_of_plan(agreement)
    sums = batch.told[_SELF]
    return (
        f"It tells this party labels as well: {counted(sums.in_answers, 'honest sum')} of each batch, so "
        f"{sums.of_a_record / WHOLE:.2f} to a record where a batch is all {rows:,} rows, and more in smaller "
        "ones; with 1 to a record labels follow. The same batches in another session tell none anew. The label "
        "party counts them over sessions, and refuses other batches beyond its PLUMBLINE_MOST_SUMS."
    )


def _of_opening(agreement: Agreement) -> str:
    open_always = tuple(replace(party, opens_always=True) for party in agreement.parties)
    opened = _shown(replace(agreement, parties=open_always))
    passive, active = opened[_SELF], opened[_ACTIVE]
    labels = passive.unknowns * math.log2(agreement.classes)
    warning = (
        ""
        if _shown(agreement)[_SELF].bits
        else (
            " That is too much of one or of both: weights stay shared and none are opened, unless every party sets "
            "PLUMBLINE_OPENING=always."
        )
    )
    return (
        "Training with PLUMBLINE_PROTOCOL=shared tells nobody anything before weights are opened. A party that "
        f"sends other messages than the protocol's reads no more there than is opened: this one {passive.bits:,} bits, "
        f"where {passive.unknowns:,} labels of {agreement.classes} classes have {labels:,.0f} at most; the active "
        f"party {active.bits // agreement.active.feature_count} bits for each of its columns, where a record of this "
        f"table has {agreement.record_bits(_SELF):,}. With a patience, each epoch that is validated tells the active "
        f"party {WORD_BITS} bits more, and which one is kept tells this one a few.{warning}"
    )


def _waiting(state: Path | None, table: TypedTable) -> list[Waiting]:
    """Ask the party's state, where it has one, who of its records would wait for a batch."""
    content = None if state is None else read_state(state, BATCHES)
    return [] if content is None else waiting_in(content, table.ids)


def _facts(outlook: Preflight) -> dict[str, Any]:
    facts = asdict(outlook)
    facts["bounds"]["fully_determined"] = outlook.bounds.fully_determined
    terms = {"most_equations": outlook.most_equations, "sessions": outlook.sessions, "limit": outlook.limit}
    terms |= {"waiting": [{**asdict(one), "words": one.words} for one in outlook.waiting]}
    return {**facts, **terms, "verdict": outlook.verdict, "advice": outlook.advice, "assumptions": list(_ASSUMPTIONS)}


def _print(outlook: Preflight) -> None:
    bounds, console = outlook.bounds, Console(highlight=False, markup=False)
    waiting = [shown(one.words) for one in outlook.waiting]
    paragraphs = outlook.limit, outlook.training, outlook.labels, *waiting, f"{outlook.opening}\n"
    console.print(outlook.verdict, outlook.advice, *paragraphs, sep="\n\n")
    errors = RichTable(title="Mean squared error per value, on the scale of 0 to 1")
    for heading, side in (("who guesses how", "left"), ("least", "right"), ("most", "right")):
        errors.add_column(heading, justify="right" if side == "right" else "left")
    for guesser, interval in (
        ("half*: from the scores", bounds.half_star),
        ("least squares: from the scores", bounds.least_squares),
        ("from the scores and the columns' means", bounds.mean_star),
        ("the columns' means, blindly", Interval(bounds.mean, bounds.mean)),
        ("one half, blindly", Interval(bounds.half, bounds.half)),
        ("zero, blindly", Interval(bounds.zero, bounds.zero)),
        ("at random, blindly", Interval(bounds.random_guess, bounds.random_guess)),
    ):
        errors.add_row(guesser, f"{interval.lower:.4f}", f"{interval.upper:.4f}")
    console.print(errors)
    console.print(f"No attack of these errs by less than {bounds.floor:.4f}, whatever the model.\n")
    columns = RichTable(title="Columns", caption="Error of two blind guesses. A column with a small one hides little.")
    columns.add_column("column", overflow="fold")
    for heading in ("one half", "its mean"):
        columns.add_column(heading, justify="right")
    for column in sorted(outlook.columns, key=lambda one: one.mean)[:_MOST_SHOWN]:
        columns.add_row(Text(shown(bounded(column.name))), f"{column.half:.4f}", f"{column.mean:.4f}")
    if len(outlook.columns) > _MOST_SHOWN:
        columns.add_row(f"and {len(outlook.columns) - _MOST_SHOWN:,} more", "", "")
    console.print(columns)
    console.print("Assumed:", *_ASSUMPTIONS, sep="\n- ")
