"""Every setting of every service, in one place: environment variables with the prefix PLUMBLINE_."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field, ValidationError, ValidationInfo, field_validator, model_validator
from pydantic_settings import (
    EnvSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from services.common import protocols
from services.common.agreement import TrainingPlan
from services.common.errors import FederationError, InvalidMessage
from services.common.identity import Role, role_of
from services.common.opening_options import SHARED, OpeningOptions
from services.common.plan_settings import LINEAR, OF_LEARNERS, TERMS, PlanSettings
from services.common.setting_texts import (
    as_text,
    attacks_labelled,
    is_address,
    listed_labels,
    read_names,
    read_options,
)
from services.common.value_faults import fault_words
from vfl.crypto import ciphers
from vfl.learning import registry as learners
from vfl.plugin_options import options_of
from vfl.suggestions import did_you_mean, nearest

PREFIX = "PLUMBLINE_"
# Settings of tools and tests around the services; known, so that they are not taken for typing errors.
_ELSEWHERE = frozenset({"PLUMBLINE_PAGES_PORT", "PLUMBLINE_PORT", "PLUMBLINE_TEST_POSTGRES_URL"})


# The defence whose proof is of plain steps.
_OF_PLAIN_STEPS = "dp_noise"

Names: TypeAlias = Annotated[tuple[str, ...], NoDecode, BeforeValidator(read_names)]
# Of one attack; a list mounts it once for each entry.
AttackOptions: TypeAlias = dict[str, Any] | Annotated[list[dict[str, Any]], Field(min_length=1)]


# By the names that they had before, which are read for one release more.
FORMER_NAMES = {"most_forms": "most_equations"}


class SettingsError(ValueError):
    """A setting that is unknown, wrong or contradicts another; the text says what to do."""


class Settings(PlanSettings):
    """Settings of one process. Each field is the environment variable PLUMBLINE_<NAME IN CAPITALS>."""

    # Inputs stay out of errors' own texts, which may reach a log: a database's URL has a password in it.
    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, env_ignore_empty=True, hide_input_in_errors=True)

    truncate_answers: bool = Field(
        True,
        description="This party cuts its decrypted answers to their honest width. false: INSECURE, for Algorithm 2.",
    )

    pad_widths: bool = Field(
        False,
        description="This party's columns all take the full number of binary digits: slower, and nobody learns which "
        "are 0 or 1.",
    )
    kernel: Literal["auto", "native", "portable", "phe"] = Field(
        "auto",
        description="Arithmetic of ciphertexts: native (C), portable (Python), auto: native where it was built; phe: "
        "the slow reference.",
    )
    workers: int | None = Field(
        None, ge=1, le=256, description="Cores that this party's cryptography uses; default: all that it may use."
    )

    model: Path | None = Field(None, description="This party's part of a model trained elsewhere; nothing is trained.")
    disclose: bool = Field(False, description="Passive party: disclose parameters after training (white box).")
    attacks: Names = Field((), description="Attacks to mount here: NAME,gia(init=half).")
    attack_options: Annotated[dict[str, AttackOptions], NoDecode, BeforeValidator(read_options)] = Field(
        default_factory=dict,
        description='Their options as JSON: {"gia": {"init": "half"}}; a list of objects mounts an attack for each.',
    )
    attacked_records: int = Field(
        0, ge=0, description="Attack so many of the test records, spread evenly over them; 0: all."
    )
    defences: Names = Field((), description="Defences to apply here, in this order.")
    defence_options: Annotated[dict[str, dict[str, Any]], NoDecode, BeforeValidator(read_options)] = Field(
        default_factory=dict, description='Their options as JSON: {"dp_noise": {"epsilon": 0.5}}.'
    )
    guard: Literal["warn", "refuse", "off"] = Field(
        "warn", description="Of a session whose answers could tell residuals or labels: warn, refuse or off."
    )

    allow: Names = Field(
        (),
        description="Learners and protocols of the sessions that this party joins, by name: linear,network,shared; "
        "default: all installed.",
    )
    alignments_per_day: int = Field(
        5, ge=1, le=1_000_000, description="Passive party: alignments that it answers an active party within 24 hours."
    )
    least_ids: int = Field(
        20,
        ge=1,
        le=1_000_000,
        description="Passive party: ids that an active party must ask about in an alignment, at least.",
    )
    most_equations: float = Field(
        0.25,
        gt=0,
        le=1,
        description="Passive party: independent sums of its columns that it answers an active party with about one "
        "record, in all sessions, as a share of its columns; 1: counts, and refuses nothing.",
    )
    most_sums: float = Field(
        0.25,
        gt=0,
        le=1,
        description="Active party: sums of labels to a record that its honest answers tell the others, in all "
        "sessions; the same batches again tell none anew. 1: counts, and refuses nothing.",
    )

    auxiliary: str = Field(
        "", description="Complete records that the adversary holds: a table of ids and passive features."
    )
    known_labels: str = Field(
        "",
        description="Passive party: labels that its adversary knows: a table of ids and one column, the class by its "
        "number from 0.",
    )
    prior_knowledge: Path | None = Field(
        None, description="Statistics of the passive columns that the adversary knows beforehand: a JSON file."
    )

    run_dir: Path | None = Field(
        None, description="Folder for what this party writes of a run; default: nothing is written."
    )
    state_dir: Path | None = Field(
        None,
        description="Folder of this party's own for what survives a restart: its model, and what defences must not "
        "forget; default: nothing survives.",
    )
    record_features: bool = Field(False, description="Write own encoded features to run_dir, for an auditor.")
    autostart: bool = Field(
        False, description="Active party: train as soon as all parties answer, unless a model is there from before."
    )
    step_timeout: float = Field(60.0, gt=0, description="Seconds to wait for another party's message.")
    resume_within: float = Field(
        3600.0,
        ge=0,
        description="Seconds that a training waits for parties that are away, in all its interruptions, to go on where "
        "it was; 0: it ends.",
    )
    most_interruptions: int | None = Field(
        None,
        ge=0,
        description="Interruptions after which a training goes on; default: one an epoch, and 8 at least. A peer that "
        "has it go back once more is refused.",
    )
    reflection: bool = Field(
        False, description="Let who may ask for a training list the calls, with grpcurl for instance. For a demo."
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field("INFO", description="What to log.")
    metrics: str = Field(
        "",
        description="HOST:PORT, such as 127.0.0.1:9464, at which this process serves Prometheus metrics; default: "
        "nowhere.",
    )
    log_format: Literal["text", "json"] = Field(
        "text", description="json: each line an object with time, level, party, message, and session, step and caller."
    )

    @classmethod
    def settings_customise_sources(cls, *_: Any, **sources: Any) -> tuple[PydanticBaseSettingsSource, ...]:
        """Take settings from what they are made of; ``load_settings`` alone reads the environment."""
        return (sources["init_settings"],)

    @field_validator("listen", "metrics")
    @classmethod
    def _check_address(cls, value: str, info: ValidationInfo) -> str:
        # gRPC takes a port modulo 2^16, and blames the certificates for what is no address.
        if value and not is_address(value, least_port=0):
            example = "0.0.0.0:50051" if info.field_name == "listen" else "127.0.0.1:9464"
            raise ValueError(f"expected HOST:PORT, such as {example}, got {value!r}")
        return value

    @model_validator(mode="before")
    @classmethod
    def _read_labels(cls, values: Any) -> Any:
        """Attacks may have their options behind their names, as in reports."""
        values = by_present_names(values)
        attacks, options = values.get("attacks", ()), values.get("attack_options", {})
        labels = listed_labels(attacks) if isinstance(attacks, str) else attacks
        if not any("(" in str(label) for label in labels):
            return values
        names, merged = attacks_labelled(labels, read_options(options))
        return {**values, "attacks": names, "attack_options": merged}

    @field_validator("allow")
    @classmethod
    def _check_allow(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        kinds = {"learner": learners.names(), "protocol": protocols.names()} if value else {}
        every = [name for names in kinds.values() for name in names]
        if unknown := [name for name in value if name not in every]:
            meant = did_you_mean(unknown[0], every)
            raise ValueError(f"expected learners and protocols of {', '.join(every)}; got {unknown[0]!r}.{meant}")
        for kind, names in kinds.items():
            if not {*value} & {*names}:
                raise ValueError(f"names no {kind}, so no session could be joined: add some of {', '.join(names)}")
        return value

    @model_validator(mode="after")
    def _check_together(self) -> "Settings":
        if self.transport == "insecure" and "certs" in self.model_fields_set:
            raise ValueError("transport=insecure contradicts certs: drop one of them")
        if unused := set(self.attack_options) - set(self.attacks):
            raise ValueError(f"attack_options names {', '.join(sorted(unused))}, which attacks doesn't: add or drop it")
        if unused := set(self.defence_options) - set(self.defences):
            raise ValueError(
                f"defence_options names {', '.join(sorted(unused))}, which defences doesn't: add or drop it"
            )
        if self.model is not None and self.learner not in ("linear", "installed"):
            raise ValueError(f"model contradicts learner={self.learner}: nothing is trained with a model")
        given = self.model_fields_set & OF_LEARNERS.keys()
        if foreign := sorted(given - self._own_options):
            raise ValueError(
                f"{', '.join(foreign)} is of learner={OF_LEARNERS[foreign[0]]}: give {self.learner} its own in "
                "learner_options"
            )
        if self.learner == "installed" and self.model is None:
            raise ValueError("learner=installed has each party answer with its own part: set PLUMBLINE_MODEL")
        if twice := given & set(self.learner_options):
            raise ValueError(f"{', '.join(sorted(twice))} is said twice: by its own setting, and in learner_options")
        try:
            plan = self.plan()
        except FederationError as error:
            raise ValueError(str(error)) from error
        if self.allow and plan.protocol not in self.allow:
            raise ValueError(f"allow leaves out protocol={plan.protocol}, which this party runs: add it, or change it")
        of_ours = self.model_fields_set & set(ciphers.option_names(ciphers.ENCRYPTED))
        if foreign := sorted(of_ours - set(ciphers.option_names(plan.cipher))):
            raise ValueError(
                f"{', '.join(foreign)} is of cipher={ciphers.ENCRYPTED}: drop it, and give {plan.cipher} its own in "
                "cipher_options"
            )
        cipher = plan.encryption
        if cipher.weakness and not self.allow_insecure_keys:
            raise ValueError(f"{cipher.weakness}: use 2048 or more, or say allow_insecure_keys=true in a test")
        if not cipher.spec.is_encrypted and "key_bits" in self.model_fields_set:
            raise ValueError(f"cipher={plan.cipher} uses no keys and contradicts key_bits: drop one of them")
        return self

    def plan(self) -> TrainingPlan:
        """Make the training plan that these settings propose; raises InvalidMessage when it can't work."""
        terms = {name: getattr(self, name) for name in TERMS}
        plan = TrainingPlan(**terms, learner=self._learner, learner_options=self._learner_options)
        plan = plan.following_its_learner(self.model_fields_set)
        plan = replace(plan, protocol_options=self._options_of(plan.protocol))
        plan.check()
        return plan

    def _options_of(self, protocol: str) -> dict[str, Any]:
        """Take those that are settings where the protocol has them, and its own."""
        names, options = protocols.option_names(protocol), vars(OpeningOptions(self.serving, self.opening_bits))
        if self.serving == SHARED and "serving" not in names:
            raise InvalidMessage("serving=shared goes on from protocol=shared: set that too, or serving=opened.")
        return {name: options[name] for name in names if name in options} | self.protocol_options

    @property
    def _learner(self) -> str:
        return self.learner if self.model is None else "installed"

    @property
    def _learner_options(self) -> dict[str, Any]:
        given = LINEAR.keys() if self._learner == "linear" else self.model_fields_set & self._own_options
        own = {name: getattr(self, name) for name in given} if self._learner != "installed" else {}
        if "steps" in own and own["steps"] is None:
            is_cut = self.protocol == "shared" and bool(self.batch_size or self.l2)
            own["steps"] = "plain" if is_cut or _OF_PLAIN_STEPS in self.defences else "own_moments"
        return own | self.learner_options

    @property
    def _own_options(self) -> set[str]:
        """Which settings are options of this learner."""
        if self.learner == "installed":
            # An installed model's settings may say how one was trained.
            return set(LINEAR)
        options = options_of(learners.REGISTRY.class_of(self.learner)) if learners.is_built_in(self.learner) else ()
        return {one.name for one in options} & OF_LEARNERS.keys()

    def given(self) -> dict[str, Any]:
        """List the settings that were given, by field name; all others have their default."""
        return {name: getattr(self, name) for name in sorted(self.model_fields_set)}

    def environment(self) -> dict[str, str]:
        """Write variables that reproduce these settings: a process that has them, and no other, loads an equal object.

        What is empty or was never given is left out: it is the default.
        """
        return {PREFIX + name.upper(): text for name, value in self.given().items() if (text := as_text(value))}

    def passive_peers(self) -> tuple[str, ...]:
        """Name the passive parties among the peers, sorted."""
        return tuple(sorted(name for name in self.peers if role_of(name) is Role.PASSIVE))


def load_settings(**overrides: Any) -> Settings:
    """Read the settings from the environment; raises SettingsError with what to do."""
    return settings_of({**environment_values(), **overrides})


def environment_values() -> dict[str, Any]:
    """Read the PLUMBLINE_* variables by field name, unchecked; raises SettingsError for an unknown one."""
    fields = (*Settings.model_fields, *FORMER_NAMES)
    names = {PREFIX + field.upper() for field in fields} | _ELSEWHERE
    for name in os.environ:
        if name.startswith(PREFIX) and name not in names:
            # Without the prefix, which alone would make every name close.
            meant = nearest(name.removeprefix(PREFIX), [one.removeprefix(PREFIX) for one in names])
            hint = f"Did you mean {PREFIX}{meant}?" if meant else "See `plumbline serve --help` for the list."
            raise SettingsError(f"Unknown setting {name}. {hint}")
    former = {name: text for name in FORMER_NAMES if (text := os.environ.get(PREFIX + name.upper()))}
    return by_present_names({**former, **EnvSettingsSource(Settings)()})


def by_present_names(values: Mapping[str, Any]) -> dict[str, Any]:
    """Give settings that are called by a former name their present one; who gives both means the present one."""
    former = {FORMER_NAMES[name]: value for name, value in values.items() if name in FORMER_NAMES}
    return former | {name: value for name, value in values.items() if name not in FORMER_NAMES}


def settings_of(values: Mapping[str, Any]) -> Settings:
    """Make settings of these values and nothing of the environment; raises SettingsError with what to do."""
    try:
        return Settings(**values)
    except ValidationError as error:
        first = error.errors()[0]
        place = PREFIX + str(first["loc"][0]).upper() + ": " if first["loc"] else "Settings: "
        is_own = first["type"] == "value_error"
        words = fault_words(first) + ("" if is_own else f", got {first['input']!r}")
        raise SettingsError(f"{place}{words}" + ("" if words.endswith(("?", ".")) else ".")) from error
