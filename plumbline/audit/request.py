"""What an audit is asked to run, and the recipe for it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from attacks import LEVELS, Level, spec_of
from plumbline.audit.applicable import ALL
from plumbline.recipe import Recipe, own_tables, party_names, shares_of
from vfl.data import column_blocks, dataset

# Which cipher trains; auto lets the plan decide.
CipherChoice = Literal["auto", "paillier", "plain"]
# How much the terminal is told: the verdict alone, its tables as well, or what it cost on the wire besides.
Verbosity = Literal["quiet", "normal", "verbose"]


@dataclass(frozen=True)
class AuditRequest:
    """What to run: a registered data set that is dealt out to parties, one table per party, or one that is split.

    Attributes:
        data: name of a registered data set, or, with ``active_columns``, a table of all parties; empty with tables.
        active: the active party's table.
        passive: the passive parties' tables.
        label: column of the labels in the active party's table.
        id_column: column of the record ids in every table.
        columns: names and patterns such as ``c*`` of the columns to use, of all tables; empty for all.
        drop: names and patterns of columns to leave out.
        encode: what columns become, by name: one of ``vfl.data.columns.ENCODINGS``.
        active_columns: names and patterns of the active party's columns in ``data``; the rest is the passive party's.
        parties: number of parties that a registered data set is dealt out to, the active one included.
        name: name of the run; default: that of the data set.
        runs: folder of all runs.
        attacks: names of the attacks to mount; ``all`` alone for every one that can apply.
        defences: names of the defences to apply, in this order.
        adversary: ``active`` or ``passive``: who mounts attacks that either can.
        black_box: whether passive parties keep their parameters to themselves.
        auxiliary: number of complete records that the adversary of predictions is given, neither trained on nor judged.
        hidden: layer sizes of a network that is trained in the lab and installed; None trains in the federation.
        activation: the network's activation.
        cipher: ``paillier``, ``plain`` or ``auto``.
        assume_yes: whether to go on, unasked, with a run that will take long.
        dry_run: whether to stop once it is known what would be done and how long it would take.
        try_defences: whether to run the candidate defences as well, to find the cheapest that holds.
        fail_above: the federation's part at the level of marginals, 0 to 1, above which the command says 3; None never.
        verbosity: how much the terminal is told.
        settings: settings of every process, by field name, on top of the PLUMBLINE_* variables.
    """

    data: str = ""
    active: str = ""
    passive: tuple[str, ...] = ()
    label: str = ""
    id_column: str = "id"
    columns: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    encode: dict[str, str] = field(default_factory=dict)
    active_columns: tuple[str, ...] = ()
    parties: int = 2
    name: str = ""
    runs: Path = Path("runs")
    attacks: tuple[str, ...] = ()
    defences: tuple[str, ...] = ()
    adversary: str = "active"
    black_box: bool = False
    auxiliary: int = 0
    hidden: tuple[int, ...] | None = None
    activation: str = "sigmoid"
    cipher: CipherChoice = "auto"
    assume_yes: bool = False
    dry_run: bool = False
    try_defences: bool = False
    fail_above: float | None = None
    verbosity: Verbosity = "normal"
    settings: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        tables = bool(self.active or self.passive or (self.label and not self.active_columns))
        if self.data and tables:
            raise ValueError("--data contradicts --active, --passive and --label: give a data set or tables, not both.")
        if not self.data and not (self.active and self.passive and self.label):
            raise ValueError("Give --data NAME (see `plumbline datasets`), or all of --active, --passive and --label.")
        if self.adversary not in ("active", "passive"):
            raise ValueError(f"--adversary is active or passive, got {self.adversary!r}.")
        if self.name in (".", "..") or "/" in self.name or "\\" in self.name:
            raise ValueError(
                f"--name is part of the name of the run's folder, got {self.name!r}: leave out / and \\; "
                "--runs says where the folder goes."
            )
        if self.auxiliary and not self.attacks_predictions:
            raise ValueError(
                "--auxiliary gives records to the adversary of predictions, and no attack on predictions is asked for: "
                "add one with --attacks, or drop it."
            )
        self._check_settings()
        if self.active_columns and not (self.data and self.label):
            raise ValueError("--active-columns splits one table: give it with --data FILE and --label as well.")
        if self.data and not self.active_columns:
            column_blocks(dataset(self.data).features, self.parties)

    def _check_settings(self) -> None:
        """Refuse what isn't there, and what contradicts itself."""
        if self.cipher not in get_args(CipherChoice):
            raise ValueError(f"--cipher is auto, paillier or plain, got {self.cipher!r}.")
        if self.cipher != "auto" and self.settings.get("cipher", self.cipher) != self.cipher:
            raise ValueError(f"--cipher {self.cipher} contradicts --set cipher={self.settings['cipher']}: drop one.")
        if self.fail_above is not None and not 0 <= self.fail_above <= 1:
            raise ValueError(f"--fail-above is a part between 0 and 1, such as .5, got {self.fail_above:g}.")

    @property
    def title(self) -> str:
        """What the run is called: by its own name, by its data's, or just an audit."""
        return self.name or Path(self.data).stem or "audit"

    @property
    def passive_names(self) -> tuple[str, ...]:
        """Names of the passive parties, in the agreement's order."""
        return tuple(sorted(party_names(self.parties if self.data else 1 + len(self.passive))[1:]))

    @property
    def attacks_predictions(self) -> bool:
        """Whether an attack on predictions is asked for."""
        return any(name == ALL or spec_of(name).phase == "prediction" for name in self.attacks)

    @property
    def levels(self) -> tuple[Level, ...]:
        """What adversaries of predictions may know beforehand: complete records only where they are asked for."""
        return LEVELS if self.auxiliary else LEVELS[:-1]

    def recipe(self) -> Recipe:
        """The federation that this request asks for."""
        if self.data:
            tables = shares_of(self.data, self.parties)
        else:
            tables = own_tables((self.active, *self.passive), label=self.label, id_column=self.id_column)
        return Recipe(
            tables=tables,
            attacks=self.attacks,
            adversary=self.adversary,
            levels=self.levels,
            defences=self.defences,
            disclose=bool(self.attacks) and not self.black_box,
            is_repeatable=True,
            has_lab=self.hidden is not None,
            heeds_shell=True,
            settings=self.settings if self.cipher == "auto" else {**self.settings, "cipher": self.cipher},
        )
