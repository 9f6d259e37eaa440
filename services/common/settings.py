"""Every setting of every service, in one place: environment variables with the prefix PLUMBLINE_."""

import difflib
import json
import os
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from services.common.agreement import TrainingPlan
from services.common.errors import InvalidMessage
from services.common.identity import Role, role_of

PREFIX = "PLUMBLINE_"
# Settings of tools and tests around the services; known, so that they are not taken for typing errors.
_ELSEWHERE = frozenset({"PLUMBLINE_PORT", "PLUMBLINE_TEST_POSTGRES_URL"})


class SettingsError(ValueError):
    """A setting that is unknown, wrong or contradicts another; the text says what to do."""


class Settings(BaseSettings):
    """Settings of one process. Each field is the environment variable PLUMBLINE_<NAME IN CAPITALS>."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, env_ignore_empty=True)

    name: str = Field("", description="This party's name; default: its role.")
    listen: str = Field("127.0.0.1:50051", description="Address to serve on, HOST:PORT.")
    peers: Annotated[dict[str, str], NoDecode] = Field(
        default_factory=dict,
        description="The others: coordinator=HOST:PORT,active=HOST:PORT,NAME=HOST:PORT (the rest are passive).",
    )
    transport: Literal["mtls", "insecure"] = Field(
        "mtls", description="insecure: no TLS and no checked identities. For tests only."
    )
    certs: Path = Field(Path("certs"), description="Folder of ca.crt, NAME.crt and NAME.key.")

    data: str = Field(
        "",
        description="A .csv or .parquet file, a SQLAlchemy URL with ?table=NAME, or a registered data set.",
    )
    data_dir: Path = Field(Path("data"), description="Folder of the registry's raw files.")
    share: str = Field(
        "",
        description="K/N: with a registered data set, this party's share of its columns (1/N is the active one).",
    )
    missing_fraction: float = Field(
        0.02, ge=0, lt=1, description="Rows that each share of a registered data set lacks."
    )
    whole_row_unit_norm: bool = Field(
        False, description="SIMULATION, with a registered data set: rows of norm 1 over all parties' columns (Hu)."
    )
    id_column: str = Field("id", description="Column of the record ids.")
    label_column: str = Field("", description="Column of the labels; the active party's only.")
    encoder: Literal["minmax", "standardise", "unit_norm", "none"] = Field(
        "minmax", description="How this party scales its own columns."
    )

    epochs: int = Field(40, ge=1, description="Passes over the training rows.")
    batch_size: int = Field(64, ge=1, description="Records per step, at most: an epoch's steps share them evenly.")
    learning_rate: float = Field(0.5, gt=0, description="Constant step size.")
    l2: float = Field(0.0, ge=0, description="Weight of the squared norm; spares the bias.")
    initialisation: Literal["zero", "xavier", "kaiming", "normal"] = Field(
        "xavier", description="Of the weights. zero shows the first batch's labels to who solves for them."
    )
    validation_fraction: float = Field(0.1, ge=0, lt=1, description="Of the aligned records.")
    test_fraction: float = Field(0.2, ge=0, lt=1, description="Of the aligned records.")
    patience: int = Field(0, ge=0, description="Epochs without a better validation loss before stopping; 0: never.")
    seed: int = Field(1, ge=0, description="Public: batch schedule and row split.")
    private_seed: int | None = Field(
        None, ge=0, description="This party's initial weights and noise; default: the operating system's randomness."
    )

    cipher: Literal["paillier", "plain"] = Field("paillier", description="plain: INSECURE, no encryption.")
    packing: bool = Field(True, description="off: one ciphertext per feature, the paper's protocol to the letter.")
    rerandomise: bool = Field(True, description="off: INSECURE, answers keep the key holder's randomness.")
    key_bits: int = Field(2048, description="Size of the Paillier modulus.")
    allow_insecure_keys: bool = Field(False, description="Needed for keys under 2048 bits.")
    feature_fraction_bits: int = Field(16, description="Fixed point of features; a multiple of 4.")
    residual_fraction_bits: int = Field(32, description="Fixed point of residuals; a multiple of 4.")
    residual_integer_bits: int = Field(7, description="Residuals stay below 2 to this power.")

    model: Path | None = Field(None, description="This party's part of a model trained elsewhere; nothing is trained.")
    disclose: bool = Field(False, description="Passive party: disclose parameters after training (white box).")
    attacks: Annotated[tuple[str, ...], NoDecode] = Field((), description="Attacks to mount here, NAME,NAME.")
    attack_options: Annotated[dict[str, dict[str, Any]], NoDecode] = Field(
        default_factory=dict, description='Their options as JSON: {"gia": {"init": "half"}}.'
    )
    defences: Annotated[tuple[str, ...], NoDecode] = Field((), description="Defences to apply here, in this order.")
    defence_options: Annotated[dict[str, dict[str, Any]], NoDecode] = Field(
        default_factory=dict, description='Their options as JSON: {"dp_noise": {"epsilon": 0.5}}.'
    )
    guard: Literal["warn", "refuse", "off"] = Field(
        "warn", description="Of a session whose answers could tell residuals or labels: warn, refuse or off."
    )

    auxiliary: str = Field(
        "", description="Complete records that the adversary holds: a table of ids and passive features."
    )

    run_dir: Path | None = Field(
        None, description="Folder for what this party writes of a run; default: nothing is written."
    )
    record_features: bool = Field(False, description="Write own encoded features to run_dir, for an auditor.")
    autostart: bool = Field(False, description="Active party: train as soon as all parties answer.")
    step_timeout: float = Field(60.0, gt=0, description="Seconds to wait for another party's message.")
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field("INFO", description="What to log.")

    @field_validator("peers", mode="before")
    @classmethod
    def _parse_peers(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        peers = {}
        for entry in filter(None, (part.strip() for part in value.split(","))):
            name, separator, address = entry.partition("=")
            if not separator or ":" not in address:
                raise ValueError(f"expected NAME=HOST:PORT, got {entry!r}")
            peers[name.strip()] = address.strip()
        return peers

    @field_validator("attacks", "defences", mode="before")
    @classmethod
    def _parse_names(cls, value: Any) -> Any:
        return [name.strip() for name in value.split(",") if name.strip()] if isinstance(value, str) else value

    @field_validator("attack_options", "defence_options", mode="before")
    @classmethod
    def _parse_options(cls, value: Any) -> Any:
        return json.loads(value) if isinstance(value, str) else value

    @field_validator("share")
    @classmethod
    def _check_share(cls, value: str) -> str:
        if value:
            index, _, count = value.partition("/")
            if not (index.isdigit() and count.isdigit() and 1 <= int(index) <= int(count)):
                raise ValueError(f"expected K/N with 1 <= K <= N, such as 1/2, got {value!r}")
        return value

    @model_validator(mode="after")
    def _check_together(self) -> "Settings":
        if self.cipher == "paillier" and self.key_bits < 2048 and not self.allow_insecure_keys:
            raise ValueError(
                f"key_bits={self.key_bits} can be broken: use 2048 or more, or say allow_insecure_keys=true in a test"
            )
        if self.transport == "insecure" and "certs" in self.model_fields_set:
            raise ValueError("transport=insecure contradicts certs: drop one of them")
        if self.cipher == "plain" and "key_bits" in self.model_fields_set:
            raise ValueError("cipher=plain uses no keys and contradicts key_bits: drop one of them")
        if unused := set(self.attack_options) - set(self.attacks):
            raise ValueError(f"attack_options names {', '.join(sorted(unused))}, which attacks doesn't: add or drop it")
        if unused := set(self.defence_options) - set(self.defences):
            raise ValueError(
                f"defence_options names {', '.join(sorted(unused))}, which defences doesn't: add or drop it"
            )
        try:
            self.plan()
        except InvalidMessage as error:
            raise ValueError(str(error)) from error
        return self

    @property
    def installed_model(self) -> bool:
        """Whether this party brings its part of a model."""
        return self.model is not None

    def plan(self) -> TrainingPlan:
        """The training plan that these settings propose; raises InvalidMessage when it can't work."""
        plan = TrainingPlan(**{name: getattr(self, name) for name in TrainingPlan.__dataclass_fields__})
        plan.check()
        return plan

    def passive_peers(self) -> tuple[str, ...]:
        """Names of the passive parties among the peers, sorted."""
        return tuple(sorted(name for name in self.peers if role_of(name) is Role.PASSIVE))


def load_settings(**overrides: Any) -> Settings:
    """Read the settings from the environment; raises SettingsError with what to do."""
    known = {PREFIX + field.upper() for field in Settings.model_fields} | _ELSEWHERE
    for name in os.environ:
        if name.startswith(PREFIX) and name not in known:
            # Without the prefix, which alone would make every name close.
            close = difflib.get_close_matches(name.removeprefix(PREFIX), [one.removeprefix(PREFIX) for one in known], 1)
            hint = f"Did you mean {PREFIX}{close[0]}?" if close else "See `plumbline serve --help` for the list."
            raise SettingsError(f"Unknown setting {name}. {hint}")
    try:
        return Settings(**overrides)
    except ValidationError as error:
        first = error.errors()[0]
        place = PREFIX + str(first["loc"][0]).upper() + ": " if first["loc"] else "Settings: "
        raise SettingsError(place + first["msg"].removeprefix("Value error, ") + ".") from error
