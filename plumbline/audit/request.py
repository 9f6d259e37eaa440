"""What an audit is asked, option by option: of its tables, its federation, its adversary and its output."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, Self, get_type_hints

from attacks import LEVELS, Level, spec_of
from attacks.registry import REGISTRY as ATTACKS
from defences.registry import REGISTRY as DEFENCES
from plumbline.audit.variants import Variant, variants_of
from plumbline.recipe import BOTH, Recipe, own_tables, party_names, shares_of
from services.common.agreement import TrainingPlan
from services.common.identity import Role
from services.common.setting_texts import attacks_labelled, listed
from services.common.settings import Settings, environment_values, settings_of
from vfl.crypto import ciphers
from vfl.data import DATASETS, column_blocks, dataset
from vfl.data.cell_forms import ID_FORMS, LABEL_FORMS
from vfl.data.encodings import is_encoding
from vfl.data.reading_rules import UNLABELLED
from vfl.source_words import recorded, without_password
from vfl.suggestions import did_you_mean

# In place of names: every attack that can apply, which is what an audit mounts unless told otherwise, or none.
ALL, NO_ATTACKS = "all", "none"
# How much the terminal is told: the verdict alone, its tables as well, or what it cost on the wire besides.
Verbosity = Literal["quiet", "normal", "verbose"]


# How tables are read: settings of every party, and of the one with the labels.
_OF_TABLES, _OF_LABELS = ("ignore_in_ids",), ("unlabelled", "ignore_in_labels")
# What may be asked of them.
_KNOWN: Mapping[str, Collection[str]] = {
    "unlabelled": UNLABELLED,
    "ignore_in_labels": LABEL_FORMS,
    "ignore_in_ids": ID_FORMS,
}


@dataclass(frozen=True)
class TableOptions:
    """A registered data set that is dealt out to parties, one table per party, or one that is split.

    Attributes:
        data: name of a registered data set, or, with ``active_columns``, a table of all parties; empty with tables.
        active: the active party's table.
        passive: the passive parties' tables.
        label: column of the labels in the active party's table.
        id_column: column of the record ids in every table.
        columns: names and patterns such as ``c*`` of the columns to use, of all tables; empty for all.
        drop: names and patterns of columns to leave out.
        public: names and patterns of columns whose values are published.
        sensitive: names and patterns of columns to protect first.
        encode: what columns become, by name: one of ``vfl.data.columns.ENCODINGS``.
        encoding: of text files, as Python calls it: of all, or behind a party's name and a colon of that one's.
        sheet: of workbooks, likewise.
        missing: what stands for no value: ``-9999``, or ``age=-1``, likewise.
        unlabelled: ``refuse`` rows without a label, or ``predict`` them.
        ignore_in_labels: differences that don't make two classes, of ``vfl.data.cell_forms.LABEL_FORMS``.
        ignore_in_ids: differences that don't make two ids, of ``vfl.data.cell_forms.ID_FORMS``.
        active_columns: names and patterns of the active party's columns in ``data``; the rest is the passive party's.
        passive_columns: where there are several passive parties, a text for each: ``age,c*``.
        frames: names of the parties whose table is a data frame, in a file that goes when the run is over.
        parties: number of parties that a registered data set is dealt out to, the active one included.
    """

    data: str = ""
    active: str = ""
    passive: tuple[str, ...] = ()
    label: str = ""
    id_column: str = "id"
    columns: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    public: tuple[str, ...] = ()
    sensitive: tuple[str, ...] = ()
    encode: dict[str, str] = field(default_factory=dict)
    encoding: tuple[str, ...] = ()
    sheet: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    unlabelled: str = "refuse"
    ignore_in_labels: tuple[str, ...] = ()
    ignore_in_ids: tuple[str, ...] = ()
    active_columns: tuple[str, ...] = ()
    passive_columns: tuple[str, ...] = ()
    frames: tuple[str, ...] = ()
    parties: int = 2

    def __post_init__(self) -> None:
        tables = bool(self.active or self.passive or (self.label and not self.active_columns))
        if self.data and tables:
            raise ValueError("--data contradicts --active, --passive and --label: give a data set or tables, not both.")
        if not self.data and not (self.active and self.passive and self.label):
            raise ValueError("Give --data NAME (see `plumbline datasets`), or all of --active, --passive and --label.")
        if self.splits and not (self.data and self.label):
            raise ValueError("--active-columns splits one table: give it with --data FILE and --label as well.")
        if self.splits and self.data in DATASETS:
            raise ValueError(
                f"{self.data} is a registered data set, which --parties deals out: --active-columns is for a file."
            )
        if self.passive_columns and not self.splits:
            raise ValueError("--passive-columns splits one table: give it with --data FILE and --active-columns.")
        if self.data and not self.splits and "." in self.data:
            raise ValueError(
                f"--data {without_password(self.data)} names a file: say which of its columns are the active party's "
                "with --active-columns, and name the label with --label; the rest is the passive party's."
            )
        if (self.columns or self.drop or self.encode) and not self.has_tables:
            raise ValueError(
                "--columns, --drop and --encode are for tables of your own, not for a registered data set."
            )
        self.check_words()
        if not self.has_tables:
            for name in ("encoding", "sheet", "missing", *_KNOWN):
                if getattr(self, name) != DEFAULTS[name]:
                    option = f"--{name.replace('_', '-')}"
                    raise ValueError(f"{option} is for tables of your own, not for a registered data set.")
            column_blocks(dataset(self.data).features, self.parties)

    def check_words(self) -> None:
        """Raise ValueError for an encoding that there isn't, and for words that an option doesn't know."""
        if wrong := [one for one in self.encoding if not is_encoding(one.rpartition(":")[2])]:
            raise ValueError(f"--encoding is one of text, such as gb18030 or windows-1251, got {wrong[0]!r}.")
        for name, known in _KNOWN.items():
            asked = getattr(self, name)
            for word in (asked,) if isinstance(asked, str) else asked:
                if word not in known:
                    option = f"--{name.replace('_', '-')}"
                    raise ValueError(f"{option} is {_or(known)}, got {word!r}.{did_you_mean(word, known)}")

    @property
    def splits(self) -> bool:
        """Whether one table is split by columns."""
        return bool(self.active_columns)

    @property
    def has_tables(self) -> bool:
        """Whether parties have tables of files or databases, not a registered data set."""
        return self.splits or not self.data

    @property
    def files(self) -> tuple[str, ...]:
        """Each party's table, the active party's first."""
        if self.splits:
            return (self.data,) * (1 + max(1, len(self.passive_columns)))
        return (self.active, *self.passive)

    @property
    def passive_names(self) -> tuple[str, ...]:
        """Names of the passive parties, in the agreement's order."""
        return tuple(sorted(party_names(len(self.files) if self.has_tables else self.parties)[1:]))

    @property
    def titles(self) -> dict[str, str]:
        """What a person calls each party: its table's file, where each party's has a name of its own."""
        if not self.active:
            return {}
        stems = [Path(table).stem for table in (self.active, *self.passive) if "://" not in table]
        names = party_names(1 + len(self.passive))
        if len(set(stems)) != len(names) or len(stems) != len(names):
            return {}
        # A frame without a name of its own is in a file that is called as its party is.
        return {party: stem for party, stem in zip(names, stems, strict=True) if stem != party}

    @property
    def party_settings(self) -> dict[str, dict[str, Any]]:
        """Settings of each party's own data, by its name, but for which columns are whose: that, tables tell."""
        if not self.has_tables:
            roles = {"public": self.public, "sensitive": self.sensitive}
            said = {role: names for role, names in roles.items() if names}
            return {party: {**own, **said} for party, own in shares_of(self.data, self.parties).items()}
        tables = own_tables(self.files, label=self.label, id_column=self.id_column)
        for party, own in tables.items():
            names = _OF_TABLES if party != Role.ACTIVE else (*_OF_TABLES, *_OF_LABELS)
            asked: dict[str, Any] = {name: getattr(self, name) for name in names}
            asked |= {name: "".join(self._meant(name, party)[-1:]) for name in ("encoding", "sheet")}
            asked["missing"] = self._meant("missing", party)
            own.update({name: value for name, value in asked.items() if value and value != DEFAULTS[name]})
        return tables

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all parties, the active one's first."""
        return party_names(len(self.files))

    @property
    def named_columns(self) -> dict[str, tuple[str, ...]]:
        """Names and patterns of columns by the option that says them; each must mean a column of some table."""
        return {
            "--columns": self.columns,
            "--drop": self.drop,
            "--public": self.public,
            "--sensitive": self.sensitive,
            "--encode": tuple(self.encode),
            "--active-columns": self.active_columns,
            "--missing": tuple(one for entry in self.missing if (one := entry.rpartition("=")[0])),
            "--passive-columns": tuple(name for text in self.passive_columns for name in listed(text)),
        }

    def _meant(self, name: str, party: str) -> tuple[str, ...]:
        """List what an option says of one party: of all, then of this one by its name."""
        parties = self.names
        entries = [entry.partition(":") for entry in getattr(self, name)]
        of_all = ["".join(entry) for entry in entries if not (entry[1] and entry[0] in parties)]
        return (*of_all, *(entry[2] for entry in entries if entry[1] and entry[0] == party))

    def without_passwords(self) -> Self:
        """Take the same as a run records it: with no password in a database's URL."""
        return replace(
            self, data=recorded(self.data), active=recorded(self.active), passive=tuple(map(recorded, self.passive))
        )


@dataclass(frozen=True)
class FederationOptions:
    """How parties train, and what protects them.

    Attributes:
        defences: names of the defences to apply, in this order.
        try_defences: whether to run the candidate defences as well, to find the cheapest that holds.
        listed: settings as they were asked for, with lists, where they ask for variants side by side.
        hidden: layer sizes of a network that is trained in the lab and installed; None trains in the federation.
        activation: the network's activation.
        cipher: its name, or ``auto``, which lets the plan decide.
        settings: settings of every process, by field name, on top of the PLUMBLINE_* variables.
    """

    defences: tuple[str, ...] = ()
    try_defences: bool = False
    listed: dict[str, Any] = field(default_factory=dict)
    hidden: tuple[int, ...] | None = None
    activation: str = "sigmoid"
    cipher: str = "auto"
    settings: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.defences:
            DEFENCES.check(name)
        if self.listed and self.hidden is not None:
            raise ValueError("--hidden trains one network in the lab: give one learner, and one protocol.")
        trained = sorted({"learner", "backward"} & set(self.settings))
        if trained and self.hidden is not None:
            raise ValueError(
                f"--hidden installs a network that is trained in the lab, and --{trained[0]} is of training in the "
                "federation: drop one. The units of --learner network are --set learner_options='{\"hidden\": 8}'."
            )
        if self.cipher not in ("auto", *ciphers.names()):
            raise ValueError(f"--cipher is auto or one of {', '.join(ciphers.names())}, got {self.cipher!r}.")
        if self.cipher != "auto" and self.settings.get("cipher", self.cipher) != self.cipher:
            raise ValueError(f"--cipher {self.cipher} contradicts --set cipher={self.settings['cipher']}: drop one.")

    @property
    def all_settings(self) -> Mapping[str, Any]:
        """The settings, with the cipher where one is asked for."""
        return self.settings if self.cipher == "auto" else {**self.settings, "cipher": self.cipher}

    @property
    def variants(self) -> tuple[Variant, ...]:
        """What is trained side by side, the audit's own first; nothing where there is one federation."""
        return variants_of(self.listed)

    @property
    def protocol(self) -> str:
        """That the audit's own variant trains by."""
        return self._plan.protocol

    @property
    def forwards(self) -> bool:
        """Whether a network is trained in the federation, whose first layer is forwarded."""
        return self._plan.family.spec.answers == "sums"

    @property
    def _plan(self) -> TrainingPlan:
        return self.said("protocol", "cipher", "learner", "learner_options", "backward").plan()

    def said(self, *names: str) -> Settings:
        """Read what PLUMBLINE_* variables, and above them ``settings``, say of some settings; others aren't checked."""
        said = {**environment_values(), **self.all_settings}
        return settings_of({name: said[name] for name in names if name in said})


@dataclass(frozen=True)
class AdversaryOptions:
    """Who attacks with what, and what it has beforehand.

    Attributes:
        attacks: names of the attacks to mount; ``all`` alone for every one that can apply.
        adversary: ``active``, ``passive`` or ``both``: who mounts attacks that either can.
        black_box: whether passive parties keep their parameters to themselves.
        auxiliary: number of complete records that the adversary of predictions is given, neither trained on nor judged.
        known_labels: number of training records whose labels every passive party's adversary knows; none is judged.
    """

    attacks: tuple[str, ...] = ()
    adversary: str = BOTH
    black_box: bool = False
    auxiliary: int = 0
    known_labels: int = 0

    def __post_init__(self) -> None:
        if self.adversary not in (Role.ACTIVE, Role.PASSIVE, BOTH):
            raise ValueError(f"--adversary is active, passive or both, got {self.adversary!r}.")
        for name in () if self.mounts_all else self.attacks:
            ATTACKS.check(name)
        if self.auxiliary and not self.uses_records:
            raise ValueError(
                "--auxiliary gives records to the active party's adversary, and no attack that could use them is asked "
                "for: add one with --attacks, such as one on predictions, or drop it."
            )
        if self.known_labels and not self.uses_labels:
            raise ValueError(
                "--known-labels gives labels to passive parties' adversaries, and no attack of theirs is asked for: "
                "add one with --attacks, such as one on labels, or drop it."
            )

    @property
    def mounts_all(self) -> bool:
        """Whether every attack that can apply is asked for."""
        return self.attacks == (ALL,)

    @property
    def attacks_predictions(self) -> bool:
        """Whether an attack on predictions is asked for."""
        return self.mounts_all or any(spec_of(name).phase == "prediction" for name in self.attacks)

    @property
    def uses_records(self) -> bool:
        """Whether an attack is asked for that complete records, or published statistics, may help."""
        specs = map(spec_of, () if self.mounts_all else self.attacks)
        return self.attacks_predictions or any("known_records" in one.needs or one.at_level for one in specs)

    @property
    def uses_labels(self) -> bool:
        """Whether an attack of a passive party's is asked for."""
        specs = () if self.adversary == Role.ACTIVE else map(spec_of, () if self.mounts_all else self.attacks)
        return (self.mounts_all and self.adversary != Role.ACTIVE) or any(one.adversary != "active" for one in specs)

    @property
    def levels(self) -> tuple[Level, ...]:
        """What adversaries of predictions may know beforehand: complete records only where they are asked for."""
        return LEVELS if self.auxiliary else LEVELS[:-1]


@dataclass(frozen=True)
class OutputOptions:
    """What becomes of a run, and how its owner is spoken to.

    Attributes:
        name: name of the run; default: that of the data set.
        runs: folder of all runs.
        assume_yes: whether to go on, unasked, with a run that will take long.
        dry_run: whether to stop once it is known what would be done and how long it would take.
        fail_above: the federation's part at the level of marginals, 0 to 1, above which the command says 3; None never.
        verbosity: how much the terminal is told.
    """

    name: str = ""
    runs: Path = Path("runs")
    assume_yes: bool = False
    dry_run: bool = False
    fail_above: float | None = None
    verbosity: Verbosity = "normal"

    def __post_init__(self) -> None:
        if self.name in (".", "..") or "/" in self.name or "\\" in self.name:
            raise ValueError(
                f"--name is part of the name of the run's folder, got {self.name!r}: leave out / and \\; "
                "--runs says where the folder goes."
            )
        if self.fail_above is not None and not 0 <= self.fail_above <= 1:
            raise ValueError(f"--fail-above is a part between 0 and 1, such as .5, got {self.fail_above:g}.")


@dataclass(frozen=True)
class AuditRequest:
    """What to run.

    Attributes:
        tables: whose data.
        federation: how it trains, and what protects it.
        adversary: who attacks it with what.
        output: what becomes of it.
    """

    tables: TableOptions
    federation: FederationOptions = FederationOptions()
    adversary: AdversaryOptions = AdversaryOptions()
    output: OutputOptions = OutputOptions()

    @classmethod
    def of(cls, **options: Any) -> Self:
        """Make a request of options by their names, whichever part they are of.

        Attacks may have their options behind their names, as in reports.

        Raises:
            ValueError: for one that can't be.
            TypeError: for an option that there isn't.
        """
        if unknown := set(options) - set(OPTIONS):
            raise TypeError(f"An audit has no option {sorted(unknown)[0]!r}.")
        settings = options.get("settings", {})
        if any("(" in label for label in options.get("attacks", ())):
            given = settings.get("attack_options", {})
            names, merged = attacks_labelled(options["attacks"], json.loads(given) if isinstance(given, str) else given)
            options |= {"attacks": names, "settings": {**settings, "attack_options": merged}}
        if variants := variants_of(settings := options.get("settings", {})):
            options |= {"settings": dict(variants[0].settings), "listed": dict(settings)}
        chosen = ({one.name: options[one.name] for one in fields(kind) if one.name in options} for kind in _PARTS)
        return cls(*(kind(**own) for kind, own in zip(_PARTS, chosen, strict=True)))

    def options(self) -> dict[str, Any]:
        """List every option by its name."""
        parts = (self.tables, self.federation, self.adversary, self.output)
        return {one.name: getattr(part, one.name) for part in parts for one in fields(part)}

    def changed(self, **options: Any) -> Self:
        """Change some options of the request; raises what ``of`` does."""
        return self.of(**{**self.options(), **options})

    @property
    def title(self) -> str:
        """What the run is called: by its own name, by its data's, or just an audit."""
        return self.output.name or Path(self.tables.data).stem or "audit"

    def recipe(self, tables: Mapping[str, Mapping[str, Any]]) -> Recipe:
        """Make the federation that this request asks for; ``tables``: settings of each party's own data, by name."""
        adversary, federation = self.adversary, self.federation
        return Recipe(
            tables=tables,
            attacks=adversary.attacks,
            adversary=adversary.adversary,
            levels=adversary.levels,
            defences=federation.defences,
            disclose=bool(adversary.attacks) and not adversary.black_box,
            is_repeatable=True,
            has_lab=federation.hidden is not None,
            heeds_shell=True,
            settings=dict(federation.all_settings),
        )


_PARTS = (TableOptions, FederationOptions, AdversaryOptions, OutputOptions)
# The type of every option.
OPTIONS: Mapping[str, Any] = {name: kind for part in _PARTS for name, kind in get_type_hints(part).items()}
# Its default, where it has one that isn't made anew.
DEFAULTS: Mapping[str, Any] = {one.name: one.default for part in _PARTS for one in fields(part)}


def _or(words: Collection[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} or {last}"


def attacks_to_mount(asked: Sequence[str] | None) -> tuple[str, ...]:
    """List the attacks that are meant by names, ``none`` or nothing at all, which is every one that can apply."""
    if asked is None:
        return (ALL,)
    return () if tuple(asked) == (NO_ATTACKS,) else tuple(asked)
