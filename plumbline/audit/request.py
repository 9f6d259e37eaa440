"""What an audit is asked, option by option: of its tables, its federation, its adversary and its output."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from attacks import LEVELS, Level, spec_of
from attacks.registry import REGISTRY as ATTACKS
from defences.registry import REGISTRY as DEFENCES
from plumbline.audit.variants import Variant, variants_of
from plumbline.options import TABLES, Declared, Option, declared
from plumbline.recipe import BOTH, Recipe, own_tables, party_names, shares_of
from services.common.agreement import TrainingPlan
from services.common.identity import Role
from services.common.setting_texts import attacks_labelled, listed, listed_labels
from services.common.settings import Settings, by_present_names, environment_values, settings_of
from vfl.crypto import ciphers
from vfl.data import DATASETS, column_blocks, dataset
from vfl.data.cell_forms import ID_FORMS, LABEL_FORMS
from vfl.data.columns import ENCODINGS
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


def encodings(entries: str | list[str]) -> dict[str, str]:
    """``age=number``, ``job=onehot``: a column of any name becomes one of the kinds there are; raises ValueError."""
    texts = [entries] if isinstance(entries, str) else entries
    pairs = [entry.rpartition("=") for text in texts for entry in text.split(",") if entry.strip()]
    for column, _, kind in pairs:
        if not column or kind not in ENCODINGS:
            meant = did_you_mean(kind, ENCODINGS)
            raise ValueError(
                f"--encode takes COLUMN=KIND with KIND one of {', '.join(ENCODINGS)}, got {kind!r}.{meant}"
            )
    return {column.strip(): kind for column, _, kind in pairs}


def _layer_sizes(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(size) for size in text.split(",") if size.strip())
    except ValueError:
        raise ValueError(f"--hidden takes layer sizes such as 8,8, got {text!r}.") from None


# An option in one of the help's panels.
_table = partial(Option, TABLES)
_plugin = partial(Option, "Attacks and defences")
_training = partial(Option, "Training")
_output = partial(Option, "Output")
_NAMES = "NAME,NAME"


@dataclass(frozen=True)
class TableOptions:
    """A registered data set that is dealt out to parties, one table per party, or one that is split.

    Attributes:
        encode: what columns become, by name: one of ``vfl.data.columns.ENCODINGS``.
        frames: names of the parties whose table is a data frame, in a file that goes when the run is over.
    """

    active: Annotated[str, _table("TABLE", "The active party's table: a file or a database URL.")] = ""
    passive: Annotated[tuple[str, ...], _table("TABLE", "A passive party's table; repeat for more.", repeats=True)] = ()
    label: Annotated[str, _table("COLUMN", "The active party's column of labels.")] = ""
    id_column: Annotated[str, _table("COLUMN", "Column of the ids in all tables.", flag="id")] = "id"
    data: Annotated[
        str, _table("NAME", "Or: a data set of `plumbline datasets`, dealt out; with --active-columns a file.")
    ] = ""
    parties: Annotated[int, _table("N", "Parties that --data is dealt out to.", least=2)] = 2
    active_columns: Annotated[
        tuple[str, ...], _table(_NAMES, "Of one table in --data: the active party's columns; the rest is passive.")
    ] = ()
    passive_columns: Annotated[
        tuple[str, ...],
        _table(_NAMES, "Of one table in --data: a passive party's columns; repeat for several.", repeats=True),
    ] = ()
    columns: Annotated[tuple[str, ...], _table(_NAMES, "Use these columns only; c* is all with c.")] = ()
    drop: Annotated[tuple[str, ...], _table(_NAMES, "Leave these columns out.")] = ()
    public: Annotated[
        tuple[str, ...], _table(_NAMES, "Columns of published figures: no secret, and known to any guess.")
    ] = ()
    sensitive: Annotated[
        tuple[str, ...], _table(_NAMES, "Columns to protect first: they come first in the verdict.")
    ] = ()
    encode: Annotated[
        dict[str, str],
        _table("COLUMN=KIND", f"Make a column {', '.join(ENCODINGS)}; repeat.", repeats=True, read=encodings),
    ] = field(default_factory=dict)
    missing: Annotated[
        tuple[str, ...], _table("VALUE,VALUE", "What stands for no value: --missing=-9999, or age=-1 of one column.")
    ] = ()
    encoding: Annotated[
        tuple[str, ...], _table("NAME", "Of text files, where it isn't found out; passive:gb18030 of one party's.")
    ] = ()
    sheet: Annotated[
        tuple[str, ...], _table("NAME", "Of workbooks; passive:NAME of one party's; repeat.", repeats=True)
    ] = ()
    unlabelled: Annotated[
        str, _table("refuse|predict", "Rows without a label: predict them, and train on the others.")
    ] = "refuse"
    ignore_in_labels: Annotated[
        tuple[str, ...], _table(_NAMES, f"Classes that differ by this alone are one: {', '.join(LABEL_FORMS)}.")
    ] = ()
    ignore_in_ids: Annotated[
        tuple[str, ...], _table(_NAMES, f"Ids that differ by this alone are one: {', '.join(ID_FORMS)}.")
    ] = ()
    frames: tuple[str, ...] = ()

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
        for name, vocabulary in _KNOWN.items():
            value = getattr(self, name)
            for word in (value,) if isinstance(value, str) else value:
                if word not in vocabulary:
                    option = f"--{name.replace('_', '-')}"
                    raise ValueError(f"{option} is {_or(vocabulary)}, got {word!r}.{did_you_mean(word, vocabulary)}")

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
            column_roles = {role: names for role, names in roles.items() if names}
            return {party: {**own, **column_roles} for party, own in shares_of(self.data, self.parties).items()}
        tables = own_tables(self.files, label=self.label, id_column=self.id_column)
        for party, settings in tables.items():
            names = _OF_TABLES if party != Role.ACTIVE else (*_OF_TABLES, *_OF_LABELS)
            choices: dict[str, Any] = {name: getattr(self, name) for name in names}
            choices |= {name: "".join(self._meant(name, party)[-1:]) for name in ("encoding", "sheet")}
            choices["missing"] = self._meant("missing", party)
            settings.update({name: value for name, value in choices.items() if value and value != DEFAULTS[name]})
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
            "--missing": tuple(pattern for entry in self.missing if (pattern := entry.rpartition("=")[0])),
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
        hidden: layer sizes of a network that is trained in the lab and installed; None trains in the federation.
        cipher: its name, or ``auto``, which lets the plan decide.
        listed: settings as they were asked for, with lists, where they ask for variants side by side.
        settings: settings of every process, by field name, on top of the PLUMBLINE_* variables.
    """

    defences: Annotated[
        tuple[str, ...], _plugin(_NAMES, "Defences, in the order to apply them. See `plumbline defences`.")
    ] = ()
    try_defences: Annotated[bool, _plugin("", "Try candidates: which is the cheapest that holds?")] = False
    cipher: Annotated[str, _training("NAME", "paillier, plain (INSECURE), or auto: paillier where it is quick.")] = (
        "auto"
    )
    hidden: Annotated[
        tuple[int, ...] | None,
        _training("8,8", "SIMULATION: install a network trained in the lab; '' is linear.", read=_layer_sizes),
    ] = None
    activation: Annotated[str, _training("NAME", "Of its layers: sigmoid, tanh or relu.")] = "sigmoid"
    listed: dict[str, Any] = field(default_factory=dict)
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
        values = {**environment_values(), **by_present_names(self.all_settings)}
        return settings_of({name: values[name] for name in names if name in values})


@dataclass(frozen=True)
class AdversaryOptions:
    """Who attacks with what, and what it has beforehand.

    Attributes:
        attacks: names of the attacks to mount; ``all`` alone for every one that can apply.
        auxiliary: records that are neither trained on nor judged.
        known_labels: of training records, and every passive party's adversary knows the same; none is judged.
    """

    attacks: Annotated[
        tuple[str, ...],
        _plugin(
            _NAMES,
            "Attacks, with options as in 'gia(init=half)', or none; else all that can apply.",
            read=lambda labels: tuple(listed_labels(labels) if isinstance(labels, str) else labels),
        ),
    ] = ()
    adversary: Annotated[str, _plugin("ROLE", "Who mounts what either side can: active, passive or both.")] = BOTH
    black_box: Annotated[bool, _plugin("", "Passive parties disclose no parameters.")] = False
    auxiliary: Annotated[int, _plugin("N", "Complete records that the adversary has beforehand.", least=0)] = 0
    known_labels: Annotated[int, _plugin("N", "Labels that passive parties' adversaries have beforehand.", least=0)] = 0

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
        fail_above: of the federation's part at the level of marginals; None never.
        verbosity: how much the terminal is told.
    """

    name: Annotated[str, _output("NAME", "Name of the run; else its data's.")] = ""
    runs: Annotated[Path, _output("FOLDER", "Folder of all runs.")] = Path("runs")
    dry_run: Annotated[bool, _output("", "Say what would be done, and how long it takes.")] = False
    assume_yes: Annotated[bool, _output("", "Start unasked, however long it takes.", flag="yes")] = False
    fail_above: Annotated[
        float | None,
        _output("PART", "Exit with 3 where more than this part leaks of a column, or of labels.", least=0, most=1),
    ] = None
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
        if unknown := set(options) - _FIELDS:
            raise TypeError(f"An audit has no option {sorted(unknown)[0]!r}.")
        settings = options.get("settings", {})
        if any("(" in label for label in options.get("attacks", ())):
            attack_options = settings.get("attack_options", {})
            names, merged = attacks_labelled(
                options["attacks"], json.loads(attack_options) if isinstance(attack_options, str) else attack_options
            )
            options |= {"attacks": names, "settings": {**settings, "attack_options": merged}}
        if variants := variants_of(settings := options.get("settings", {})):
            options |= {"settings": dict(variants[0].settings), "listed": dict(settings)}
        part_options = ({one.name: options[one.name] for one in fields(kind) if one.name in options} for kind in _PARTS)
        return cls(*(kind(**own) for kind, own in zip(_PARTS, part_options, strict=True)))

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
# The fields that are options, by name; and the default of every field that has one that isn't made anew.
OPTIONS: Mapping[str, Declared] = {one.name: one for part in _PARTS for one in declared(part)}
DEFAULTS: Mapping[str, Any] = {one.name: one.default for part in _PARTS for one in fields(part)}
_FIELDS = frozenset(DEFAULTS)


def _or(choices: Collection[str]) -> str:
    *most, last = choices
    return f"{', '.join(most)} or {last}"


def attacks_to_mount(asked: Sequence[str] | None) -> tuple[str, ...]:
    """List the attacks that are meant by names, ``none`` or nothing at all, which is every one that can apply."""
    if asked is None:
        return (ALL,)
    return () if tuple(asked) == (NO_ATTACKS,) else tuple(asked)
