"""What a judge of received columns is asked: three tables of the same records, and what their receiver knows."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from plumbline.audit.request import FederationOptions, OutputOptions, TableOptions
from plumbline.options import Declared, Option, declared
from services.common.setting_texts import listed
from vfl.data.table_limits import TableLimits
from vfl.source_words import recorded, without_password
from vfl.suggestions import did_you_mean

# What the tables are called in messages, and before a colon in options such as --drop secret:zip.
OWN, RECEIVED, SECRET = "own", "received", "secret"
PARTS = (OWN, RECEIVED, SECRET)

# What a model sends.
SENT = ("scores", "leaves")
_table = partial(Option, "What to judge")
_NAMES = "NAME,NAME"


def _each(texts: str | list[str]) -> tuple[str, ...]:
    return tuple(entry for text in ([texts] if isinstance(texts, str) else texts) for entry in listed(text))


@dataclass(frozen=True)
class JudgedTables(TableOptions):
    """The receiver's own table in ``active``; in ``passive`` what it received, and what it must not learn."""

    receiver_has: Annotated[
        tuple[str, ...], _table(_NAMES, "Or: columns of --secret that a made-up receiver has, in place of --own.")
    ] = ()
    model: Annotated[
        str, _table("FILE", "Or: the model whose scores it gets, linear or XGBoost's, as JSON, not --received.")
    ] = ""
    sends: Annotated[tuple[str, ...], _table(_NAMES, f"What --model sends: {', '.join(SENT)}.")] = ()
    known_from: Annotated[
        str, _table("TABLE", "Or: a table of other records that it has, with the columns of all three.")
    ] = ""
    label: Annotated[str, _table("COLUMN", "Column of labels in --own, if any.")] = ""
    secret_label: Annotated[str, _table("COLUMN", "The sender's label, in --secret: classes.")] = ""
    trained: Annotated[str, _table("COLUMN", "Who the model was trained on, yes or no, in --secret.")] = ""
    kinds: Annotated[
        tuple[str, ...],
        _table(
            "COLUMN=KIND",
            "What a received column is, where it is guessed wrong; repeat.",
            flag="kind",
            repeats=True,
            read=_each,
        ),
    ] = ()
    columns: Annotated[tuple[str, ...], _table(_NAMES, "Use these columns only; secret:c* of one table.")] = ()
    public: Annotated[tuple[str, ...], _table(_NAMES, "Secret columns that are published.")] = ()

    def __post_init__(self) -> None:
        if self.receiver_has:
            self._make_receiver()
        if not (self.active and len(self.passive) == 2 and (self.passive[0] or self.model) and self.passive[1]):
            raise ValueError(
                "Give all of --own, --received and --secret: three tables of the same records; or --model in place of "
                "--received."
            )
        if unknown := [one for one in self.sends if one not in SENT]:
            hint = did_you_mean(unknown[0], SENT)
            raise ValueError(f"--sends is {' or '.join(SENT)}, or both, got {unknown[0]!r}.{hint}")
        if self.sends and (self.passive[0] or not self.model):
            raise ValueError("--sends says what --model sends: give --model and no --received, or leave it out.")
        self.check_words()
        if self.secret_label:
            encode = {**self.encode, f"{SECRET}:{self.secret_label}": "onehot"}
            object.__setattr__(self, "encode", encode)

    def _make_receiver(self) -> None:
        """Give a made-up receiver its columns of the secret table, which then aren't secret, and the label."""
        if self.active or self.columns:
            raise ValueError("--receiver-has stands for --own: leave out --own and --columns (--drop may stay).")
        object.__setattr__(self, "active", self.passive[-1])
        object.__setattr__(self, "columns", tuple(f"{OWN}:{one}" for one in self.receiver_has))
        label = (self.label,) if self.label else ()
        object.__setattr__(self, "drop", (*self.drop, *(f"{SECRET}:{one}" for one in (*self.receiver_has, *label))))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the tables, as messages have them."""
        return PARTS

    @property
    def named_columns(self) -> dict[str, tuple[str, ...]]:
        """Names and patterns of columns by the option that says them."""
        named = super().named_columns
        if self.receiver_has:
            receivers = [f"{SECRET}:{one}" for one in (*self.receiver_has, self.label)]
            drop = tuple(one for one in self.drop if one not in receivers)
            named = {**named, "--columns": (), "--drop": drop, "--receiver-has": self.receiver_has}
        if self.trained:
            named = {**named, "--trained": (f"{SECRET}:{self.trained}",)}
        if not self.secret_label:
            return named
        label = f"{SECRET}:{self.secret_label}"
        encode = tuple(one for one in named["--encode"] if one != label)
        return {**named, "--encode": encode, "--secret-label": (label,)}

    @property
    def limits(self) -> TableLimits:
        """How large a table may be, as PLUMBLINE_* variables say."""
        return FederationOptions().said("table_megabytes", "table_columns", "table_cells").table_limits

    @property
    def party_settings(self) -> dict[str, dict[str, Any]]:
        """Settings that each table is read by, by its name."""
        return {part: self.settings_of(part, file) for part, file in zip(PARTS, self.files, strict=True) if file}

    def settings_of(self, part: str, file: str) -> dict[str, Any]:
        """List the settings that one table is read by."""
        choices = {name: "".join(self._meant(name, part)[-1:]) for name in ("encoding", "sheet")}
        more = {"missing": self._meant("missing", part), "ignore_in_ids": self.ignore_in_ids}
        settings = {name: value for name, value in {**choices, **more}.items() if value}
        return {"data": file, "id_column": self.id_column, **settings}


@dataclass(frozen=True)
class JudgeRequest:
    """What to judge.

    Attributes:
        tables: own, received and secret columns.
        known: neither they nor their duplicates are judged.
        output: what becomes of it.

    Raises ValueError for a number below 0.
    """

    tables: JudgedTables
    known: Annotated[
        int, _table("N", "Complete records that the receiver has beforehand; none is judged.", least=0)
    ] = 0
    seed: Annotated[int, Option("Output", "N", "Draws who is known, and the control.", least=0)] = 0
    before: Annotated[bool, Option("Output", "", "Judge fewer and coarser columns too, before any is sent.")] = False
    output: OutputOptions = field(default_factory=OutputOptions)

    def __post_init__(self) -> None:
        if self.known < 0 or self.seed < 0:
            raise ValueError("--known and --seed are whole numbers from 0 on.")
        if self.before and not (self.known or self.tables.known_from):
            raise ValueError("--before compares what is told to who knows some records: say how many with --known.")
        if self.known and self.tables.known_from:
            raise ValueError("--known-from has the known records, and --known draws some: give one of them.")

    @classmethod
    def of(cls, own: str, received: str, secret: str, **options: Any) -> "JudgeRequest":
        """Make a request of the command's options by their names, lists as tuples or as texts with commas.

        Raises ValueError for one that can't be, or that there isn't.
        """
        option_names = {*OPTIONS, "verbosity"}
        if unknown := sorted(set(options) - option_names):
            meant = did_you_mean(unknown[0], option_names)
            raise ValueError(f"A judge has no option {unknown[0]!r}.{meant} See `plumbline judge --help`.")
        options = {name: OPTIONS[name].read(value) if name in OPTIONS else value for name, value in options.items()}
        tables, mine, output = (
            {one.name: options[one.name] for one in fields(kind) if one.name in options}
            for kind in (JudgedTables, cls, OutputOptions)
        )
        judged_tables = JudgedTables(active=own, passive=(received, secret), **tables)
        return cls(judged_tables, **mine, output=OutputOptions(**output))

    @property
    def title(self) -> str:
        """What the run is called: by its own name, or by the received table's."""
        return self.output.name or Path(self.title_of(RECEIVED)).stem or "judge"

    def title_of(self, part: str) -> str:
        """Name a table as a person does: by its file."""
        source = dict(zip(PARTS, self.tables.files, strict=True))[part] or self.tables.model
        return without_password(source) if "://" in source else Path(source).stem

    def facts(self) -> Mapping[str, Any]:
        """List what was asked, with no password in a database's URL."""
        tables = self.tables
        options = {one.name: getattr(tables, one.name) for one in declared(JudgedTables) if one.name in OPTIONS}
        options["id"] = options.pop("id_column")
        files = {**dict(zip(PARTS, tables.files, strict=True)), "known_from": options.pop("known_from")}
        return {
            **{name: recorded(file) for name, file in files.items() if file},
            **{name: value for name, value in options.items() if value},
            "known": self.known,
            "before": self.before,
            "seed": self.seed,
            "name": self.output.name,
        }


# An audit's options that a judge hasn't, and all that it has.
_OF_AUDITS = (
    *("active", "passive", "data", "parties", "active_columns", "passive_columns"),
    *("unlabelled", "ignore_in_labels", "assume_yes"),
)
OPTIONS: Mapping[str, Declared] = {
    one.name: one
    for kind in (JudgedTables, JudgeRequest, OutputOptions)
    for one in declared(kind)
    if one.name not in _OF_AUDITS
}
