"""What a judge of received columns is asked: three tables of the same records, and what their receiver knows."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from plumbline.audit.request import OutputOptions, TableOptions
from services.common.setting_texts import listed
from vfl.source_words import recorded, without_password
from vfl.suggestions import did_you_mean

# What the tables are called in messages, and before a colon in options such as --drop secret:zip.
OWN, RECEIVED, SECRET = "own", "received", "secret"
PARTS = (OWN, RECEIVED, SECRET)

_LISTS = (
    "columns",
    "drop",
    "public",
    "sensitive",
    "ignore_in_ids",
    "missing",
    "encoding",
    "sheet",
    "kinds",
    "sends",
    "receiver_has",
)
# What a model sends.
SENT = ("scores", "leaves")
# Options of the tables, of the judge itself, and of what becomes of it.
_TABLES = (*_LISTS, "label", "secret_label", "known_from", "id_column", "encode", "model")
_OWN = ("known", "seed", "before")
_OUTPUT = ("name", "runs", "dry_run", "fail_above", "verbosity")


@dataclass(frozen=True)
class JudgedTables(TableOptions):
    """The receiver's own table in ``active``; in ``passive`` what it received, and what it must not learn.

    Attributes:
        kinds: what received columns are: ``COLUMN=KIND``, see ``plumbline.received.kinds``.
        secret_label: column of the secret table that is the sender's label: classes, whatever it looks like.
        known_from: table of other records that the receiver has in full, with the columns of all three; empty for none.
        model: file of the model whose scores are received; empty for none. Without a received table they are computed.
        receiver_has: names and patterns of columns of the secret table that a made-up receiver has, in place of a table
            of its own.
        sends: what is computed of it, of ``SENT``; empty for scores.
    """

    kinds: tuple[str, ...] = ()
    secret_label: str = ""
    known_from: str = ""
    model: str = ""
    sends: tuple[str, ...] = ()
    receiver_has: tuple[str, ...] = ()

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
        if not self.secret_label:
            return named
        label = f"{SECRET}:{self.secret_label}"
        encode = tuple(one for one in named["--encode"] if one != label)
        return {**named, "--encode": encode, "--secret-label": (label,)}

    @property
    def party_settings(self) -> dict[str, dict[str, Any]]:
        """Settings that each table is read by, by its name."""
        return {part: self.settings_of(part, file) for part, file in zip(PARTS, self.files, strict=True) if file}

    def settings_of(self, part: str, file: str) -> dict[str, Any]:
        """List the settings that one table is read by."""
        asked = {name: "".join(self._meant(name, part)[-1:]) for name in ("encoding", "sheet")}
        more = {"missing": self._meant("missing", part), "ignore_in_ids": self.ignore_in_ids}
        said = {name: value for name, value in {**asked, **more}.items() if value}
        return {"data": file, "id_column": self.id_column, **said}


@dataclass(frozen=True)
class JudgeRequest:
    """What to judge.

    Attributes:
        tables: own, received and secret columns.
        known: how many records the receiver has in full besides; neither they nor their duplicates are judged.
        seed: draws these, and who gets whose received row in the control.
        before: whether fewer and coarser columns are judged as well, before any is sent.
        output: what becomes of it.

    Raises ValueError for a number below 0.
    """

    tables: JudgedTables
    known: int = 0
    seed: int = 0
    before: bool = False
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
        if unknown := sorted(set(options) - {*_TABLES, *_OWN, *_OUTPUT}):
            meant = did_you_mean(unknown[0], (*_TABLES, *_OWN, *_OUTPUT))
            raise ValueError(f"A judge has no option {unknown[0]!r}.{meant} See `plumbline judge --help`.")
        lists = {name: options[name] for name in _LISTS if name in options}
        options |= {name: tuple(listed(one) if isinstance(one, str) else one) for name, one in lists.items()}
        tables, mine, output = (
            {name: options[name] for name in names if name in options} for names in (_TABLES, _OWN, _OUTPUT)
        )
        judged = JudgedTables(active=own, passive=(received, secret), **tables)
        return cls(judged, **mine, output=OutputOptions(**output))

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
        files = {part: recorded(file) for part, file in zip(PARTS, tables.files, strict=True) if file}
        files |= {"known_from": recorded(tables.known_from)} if tables.known_from else {}
        names = (name for name in _TABLES if name not in ("id_column", "known_from"))
        more = {name: getattr(tables, name) for name in names if getattr(tables, name)}
        return {
            **files,
            "id": tables.id_column,
            **more,
            "known": self.known,
            "before": self.before,
            "seed": self.seed,
            "name": self.output.name,
        }
