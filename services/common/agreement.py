"""The public terms of a session as immutable values, their checks, and their place on the wire."""

import json
import logging
from collections.abc import Callable, Container, Iterable, Mapping
from contextlib import suppress
from copy import copy
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property, partial
from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator

from protos.v1 import common_pb2
from services.common import limits, protocols
from services.common.announced import AnnouncedDefence, check_announced, options_in
from services.common.earlier_plans import plan_content
from services.common.errors import InvalidMessage, one_line
from services.common.learner_calls import LearnerCalls, LearnerFailed, made
from services.common.opening_options import OpeningOptions
from services.common.roster import Roster
from vfl.arrays import IntArray
from vfl.crypto import ciphers
from vfl.crypto.ciphers import Cipher, Paillier
from vfl.crypto.widths import ColumnWidths
from vfl.learning import BatchSchedule, EquationLeakage, Learner, RowCounts, RowSplit, count_rows, split_rows
from vfl.learning import registry as learners
from vfl.learning.schedule import merged_sizes, smallest_batch
from vfl.plugin_options import described as _term
from vfl.plugin_options import expected_of
from vfl.plugin_options import from_to as _from_to

_log = logging.getLogger(__name__)

RESHUFFLED, FIXED = BATCHES = ("reshuffled", "fixed")
Training: TypeAlias = protocols.TrainingProtocol["TrainingPlan", "Agreement"]
# What a plan names, with options of its own.
_PLUGINS = ("cipher", "learner", "protocol")
# Options of ciphers that are terms of their own, as they are settings.
_OF_CIPHERS = Paillier.__dataclass_fields__
# Options of protocols that are settings, whichever protocol is named.
OF_SHARING = OpeningOptions.__dataclass_fields__


def _of_ciphers(name: str) -> Any:
    return field(default=_OF_CIPHERS[name].default, metadata=_OF_CIPHERS[name].metadata)


def _options() -> Any:
    """Declare a field of a plugin's options. Not in the hash, which a dict has none of."""
    return field(default_factory=dict, hash=False, metadata={"holds": None})


def _all_options(plugin: Any) -> dict[str, Any]:
    """List the options of a loaded plugin, as JSON has them."""
    options = {one.name: getattr(plugin, one.name) for one in fields(plugin) if one.init}
    return dict(json.loads(json.dumps(options)))


@dataclass(frozen=True)
class TrainingPlan:
    """The training that the active party proposes. protos/v1/common.proto explains each field.

    Attributes:
        cipher_options: those of the cipher that aren't terms of their own; empty for ours.
        protocol_options: all of the protocol's.
        learner_options: all of the learner's.
    """

    epochs: int = _term(60, "Passes over the training rows. 0: follows the table.", *_from_to(0, limits.EPOCHS))
    batch_size: int = _term(
        0,
        "Records per step, at most: an epoch's steps share them evenly. 0: follows the table's size.",
        *_from_to(0, limits.BATCH_SIZE),
    )
    batches: str = _term(
        FIXED,
        "fixed: every epoch has the same batches. reshuffled: each has its own, and a peer that listens reads labels.",
        lambda value: value in BATCHES,
        f"one of {', '.join(BATCHES)}",
    )
    validation_fraction: float = _term(0.1, "Of the aligned records.", lambda value: 0 <= value < 1, "in [0, 1)")
    test_fraction: float = _term(0.2, "Of the aligned records.", lambda value: 0 <= value < 1, "in [0, 1)")
    patience: int = _term(
        0,
        "Epochs without a better validation loss before stopping; 0: never.",
        *_from_to(0, limits.EPOCHS),
    )
    seed: int = _term(
        1, "Public: batch schedule and row split.", lambda value: 0 <= value < 2**64, "from 0 to 2^64 - 1"
    )
    cipher: str = _term(ciphers.ENCRYPTED, "paillier, or plain: INSECURE, no encryption.")
    packing: bool = _of_ciphers("packing")
    key_bits: int = _of_ciphers("key_bits")
    feature_fraction_bits: int = _of_ciphers("feature_fraction_bits")
    residual_fraction_bits: int = _of_ciphers("residual_fraction_bits")
    residual_integer_bits: int = _of_ciphers("residual_integer_bits")
    rerandomise: bool = _of_ciphers("rerandomise")
    cipher_options: Mapping[str, Any] = _options()
    protocol: str = _term(
        "hu",
        "hu: who decrypts sends back. shared: who decrypts keeps it, as a share of weights that are opened at the end.",
    )
    protocol_options: Mapping[str, Any] = _options()
    learner: str = _term("linear", "What is trained.")
    learner_options: Mapping[str, Any] = _options()

    def __post_init__(self) -> None:
        with suppress(ValueError, TypeError):  # ``check`` says why
            protocol = protocols.made(self.protocol, self.protocol_options)
            object.__setattr__(self, "protocol_options", _all_options(protocol))
        with suppress(ValueError, TypeError, LearnerFailed):  # ``check`` says why
            object.__setattr__(self, "learner_options", _all_options(self.family))
            further = {name: value for name, value in _all_options(self.encryption).items() if name not in _OF_CIPHERS}
            object.__setattr__(self, "cipher_options", further)

    @cached_property
    def family(self) -> Learner:
        """The learner that the plan names, with its options.

        Raises:
            ValueError: for a name that no learner has, with the known ones, and for options that it doesn't take.
            LearnerFailed: where it takes too long.
        """
        return made(self.learner, self.learner_options)

    @property
    def calls(self) -> LearnerCalls:
        """Calls of the learner, outside a step."""
        return LearnerCalls(self.family)

    @cached_property
    def leakage(self) -> EquationLeakage:
        """What one answered equation tells, as the learner says; raises LearnerFailed."""
        return self.calls.leakage()

    @cached_property
    def encryption(self) -> Cipher:
        """The cipher that the plan names, with its options; raises ValueError as ``family``."""
        if twice := [name for name in self.cipher_options if name in _OF_CIPHERS]:
            raise ValueError(f"cipher_options names {twice[0]}, which is a setting of its own: set that.")
        return ciphers.load(self.cipher, **_own_terms(self.cipher, vars(self)), **self.cipher_options)

    @cached_property
    def training(self) -> Training:
        """The protocol that the plan names, as it trains the plan's learner; raises ValueError as ``family``."""
        return protocols.load(self.protocol, self.family, self.protocol_options)

    @property
    def is_encrypted(self) -> bool:
        """Whether only key holders can read what travels in training."""
        return self.encryption.spec.is_encrypted

    def encrypted(self) -> "TrainingPlan":
        """Take this plan, or the same under the default cipher where it could have one and is in the clear."""
        return self if self.is_encrypted or self.training.only_clear else self.changed(cipher=ciphers.ENCRYPTED)

    @property
    def terms(self) -> dict[str, Any]:
        """Every term by its name, the protocol's and the learner's options among them."""
        apart = ("protocol_options", "learner_options")
        plan_terms = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in apart}
        return {**plan_terms, **self.protocol_options, **self.learner_options}

    def changed(self, **changes: Any) -> "TrainingPlan":
        """Change terms of the plan; an option of its learner or protocol, or of those named, goes by its own name."""
        plan_terms = {name: value for name, value in changes.items() if name in TrainingPlan.__dataclass_fields__}
        of_protocol = {
            *protocols.option_names(plan_terms.get("protocol", self.protocol)),
            *OF_SHARING,
        } - plan_terms.keys()
        options_of = {f"{plugin}_options": getattr(self, f"{plugin}_options") for plugin in _PLUGINS}
        renamed = [
            plugin for plugin in _PLUGINS if plan_terms.get(plugin, getattr(self, plugin)) != getattr(self, plugin)
        ]
        options_of |= {f"{plugin}_options": {} for plugin in renamed}
        for name in changes.keys() - plan_terms.keys():
            options = "protocol_options" if name in of_protocol else "learner_options"
            options_of[options] = {**options_of[options], name: changes[name]}
        return replace(self, **{**options_of, **plan_terms}).following_its_learner(plan_terms)

    def following_its_learner(self, given: Container[str] = ()) -> "TrainingPlan":
        """Take over the terms that the learner's options ask for; those that are given stay as they are."""
        try:
            wanted: Mapping[str, Any] = self.calls.terms()
        except (ValueError, TypeError, LearnerFailed):
            return self  # ``check`` says why
        differing = {name: wanted[name] for name in wanted if name not in given and getattr(self, name) != wanted[name]}
        if not differing:
            return self
        option_names = protocols.option_names(differing.get("protocol", self.protocol))
        options = {name: self.protocol_options[name] for name in option_names if name in self.protocol_options}
        return replace(self, **differing, protocol_options=options)

    def schedule(self, train_rows: IntArray) -> BatchSchedule:
        """Make the public batches of the training rows."""
        lasting = self.lasting(len(train_rows))
        return BatchSchedule(train_rows, self.batch_size, self.seed, self.batches == RESHUFFLED, lasting)

    def split(self, aligned_rows: int) -> RowSplit:
        """Deal out rows of the common order, by the public seed: the same at every party; or as a roster does."""
        if self.roster is not None and self.roster.total == aligned_rows:
            return self.roster.rows
        validation, test = self.validation_fraction, self.test_fraction
        return split_rows(aligned_rows, validation_fraction=validation, test_fraction=test, seed=self.seed)

    @property
    def roster(self) -> Roster | None:
        """The records by batch, of an agreement whose parties remember these; on the wire it is a part of theirs."""
        return vars(self).get("_roster")

    def lasting(self, training_rows: int) -> tuple[int, ...]:
        """Sizes of the batches of earlier sessions that so many rows are in; none where batches are drawn."""
        if self.roster is None or self.batches == RESHUFFLED or self.roster.counts.train != training_rows:
            return ()
        return self.roster.batches

    def smallest_batch(self, training_rows: int) -> int:
        """Count the records of the smallest batch."""
        return smallest_batch(training_rows, self.batch_size, self.lasting(training_rows))

    def steps_per_epoch(self, training_rows: int) -> int:
        """Count the batches of an epoch."""
        return len(merged_sizes(self.lasting(training_rows), self.batch_size)) or -(-training_rows // self.batch_size)

    def check_steps(self, training_rows: int) -> None:
        """Raise InvalidMessage for more steps than a party records."""
        steps = self.epochs * self.steps_per_epoch(training_rows)
        if steps > limits.STEPS:
            raise InvalidMessage(
                f"{self.epochs} epochs of {training_rows} training rows are {steps} steps, at most {limits.STEPS} can "
                "be run: choose a larger batch_size or fewer epochs."
            )

    def placed(self, roster: Roster | None) -> "TrainingPlan":
        """Take the same plan where records have the places of this roster."""
        placed = copy(self)
        vars(placed).update(_roster=roster)
        return placed

    def of_size(self, epochs: int, batch_size: int) -> "TrainingPlan":
        """Change a plan's epochs and batch size, and keep the plugins that are made: they aren't made again."""
        sized = copy(self)
        vars(sized).update(epochs=epochs, batch_size=batch_size)
        return sized

    def check(self) -> None:
        """Raise InvalidMessage with a sentence about the first field that cannot work."""
        try:
            _, training, needed = self.encryption, self.training, self.calls.terms()
            json.dumps([self.cipher_options, self.protocol_options, self.learner_options])
        except (ValueError, TypeError) as error:
            raise InvalidMessage(one_line(str(error))) from error
        for name, value in needed.items():
            if (actual := getattr(self, name, None)) != value:
                both = " and ".join(f"{one}={word}" for one, word in needed.items())
                raise InvalidMessage(
                    f"The learner {self.learner} trains under {both} with these options, and the plan has {name}="
                    f"{one_line(str(actual))}: leave {name} out, or change learner_options."
                )
        for term in fields(self):
            value = getattr(self, term.name)
            if expected := expected_of(term, value):
                raise InvalidMessage(f"Expected {term.name} to be {expected}, got {one_line(repr(value))}.")
        if self.validation_fraction + self.test_fraction >= 1:
            raise InvalidMessage("validation_fraction + test_fraction must leave rows to train on: make them smaller.")
        if self.patience > 0 and self.validation_fraction == 0:
            raise InvalidMessage("patience needs validation rows: set validation_fraction above 0, or patience to 0.")
        training.check(self)

    def to_message(self) -> common_pb2.TrainingPlan:
        """Write the plan as a message."""
        terms = {name: value for name, value in asdict(self).items() if name not in _OF_CIPHERS}
        terms["cipher_options"] |= _own_terms(self.cipher, vars(self))
        for plugin in _PLUGINS:
            terms[f"{plugin}_options"] = json.dumps(terms[f"{plugin}_options"], sort_keys=True)
        return common_pb2.TrainingPlan(**terms)

    @classmethod
    def from_message(cls, message: common_pb2.TrainingPlan) -> "TrainingPlan":
        """Read and check a plan; raises InvalidMessage."""
        values = {name: getattr(message, name) for name in cls.__dataclass_fields__.keys() - _OF_CIPHERS}
        for term in (*_PLUGINS, "batches"):
            if not values[term]:
                raise InvalidMessage(
                    f"The plan names no {term}: whoever proposes it runs an older version of Plumbline."
                    " Run one version everywhere."
                )
        for plugin in _PLUGINS:
            limits.check_name(values[plugin])
            values[f"{plugin}_options"] = options_in(values[f"{plugin}_options"], values[plugin])
        with suppress(ValueError):  # ``check`` says that nobody knows it
            cipher_terms = _own_terms(message.cipher, values["cipher_options"])
            further = {name: value for name, value in values["cipher_options"].items() if name not in cipher_terms}
            values |= {**cipher_terms, "cipher_options": further}
        plan = cls(**values)
        plan._check_others(plan.learner, learners, lambda: plan.family)
        plan._check_others(plan.protocol, protocols, lambda: protocols.made(plan.protocol, plan.protocol_options))
        plan.check()
        return plan

    @staticmethod
    def _check_others(name: str, registry: Any, make: Callable[[], object]) -> None:
        """Check another party's plan: what another package's plugin says of it here stays in this party's log."""
        try:
            make()
        except (ValueError, TypeError) as error:
            if name in registry.names() and not registry.is_built_in(name):
                _log.error("%s", error)
                raise InvalidMessage(
                    f"{name} can't be used with these options here: the log of who refuses says why."
                ) from error


def _own_terms(cipher: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Take those options of a cipher that are terms of their own; raises ValueError for an unknown one."""
    return {name: options[name] for name in ciphers.option_names(cipher) if name in options and name in _OF_CIPHERS}


@dataclass(frozen=True)
class PartyDescription:
    """What the others must know of a party: counts and bounds, nothing of its data.

    Attributes:
        name: the party's, as its certificate states it.
        feature_count: columns, the active party's bias included.
        feature_integer_bits: features stay below 2 to this power.
        features_signed: whether a feature may be negative.
        aligned_rows: records that every party holds, as this one counts them.
        truncates_answers: whether the party cuts its decrypted answers to their honest width.
        disclosure_defences: what changes the meaning of the parameters that it discloses, in order.
        binary_features: features that travel as integers 0 or 1, first of all.
        byte_features: features that travel as integers 0 to 255, next; all others are in the session's fixed point.
        validated_epochs: in so many epochs, spread evenly, it scores validation records; 0 for every epoch.
        opens_always: whether it lets shared weights be opened however much of its data they could carry.
        roster: its records by batch and role where it remembers earlier sessions; None in a first one.
    """

    name: str
    feature_count: int
    feature_integer_bits: int
    features_signed: bool
    aligned_rows: int
    truncates_answers: bool = True
    disclosure_defences: tuple[AnnouncedDefence, ...] = ()
    binary_features: int = 0
    byte_features: int = 0
    validated_epochs: int = 0
    opens_always: bool = False
    roster: Roster | None = None

    @property
    def widths(self) -> ColumnWidths:
        """How many features there are of each width."""
        full = self.feature_count - self.binary_features - self.byte_features
        return ColumnWidths(self.binary_features, self.byte_features, full)

    def check(self) -> None:
        """Raise InvalidMessage with a sentence about the first field that cannot work."""
        limits.check_name(self.name)
        if min(self.binary_features, self.byte_features, self.widths.full) < 0:
            raise InvalidMessage(f"{self.name} describes more narrow features than it has.")
        if self.feature_count < 1:
            raise InvalidMessage(f"{self.name} joins with no feature. A party needs at least one column.")
        limits.check_count(self.feature_count, limits.FEATURES, f"features of {self.name}")
        limits.check_count(self.aligned_rows, limits.ALIGNED_ROWS, f"aligned records of {self.name}")
        if self.feature_integer_bits > limits.FEATURE_INTEGER_BITS:
            raise InvalidMessage(
                f"{self.name} has features up to 2^{self.feature_integer_bits}. Scale them first: encoder=minmax."
            )
        limits.check_count(self.validated_epochs, limits.EPOCHS, f"validated epochs of {self.name}")
        if self.roster is not None:
            limits.check_count(self.roster.total, self.aligned_rows, f"records of {self.name}", least=self.aligned_rows)
        check_announced(self.disclosure_defences, limits.DISCLOSURE_DEFENCES, f"defences of {self.name}'s parameters")

    def to_message(self) -> common_pb2.PartyDescription:
        """Write the description as a message."""
        return common_pb2.PartyDescription(**asdict(self))

    @classmethod
    def from_message(cls, message: common_pb2.PartyDescription) -> "PartyDescription":
        """Read and check a description; raises InvalidMessage."""
        values: dict[str, Any] = {name: getattr(message, name) for name in cls.__dataclass_fields__}
        limits.check_count(message.disclosure_defences, limits.DISCLOSURE_DEFENCES, "defences of a party's parameters")
        values["disclosure_defences"] = _announced(message.disclosure_defences)
        values["roster"] = Roster.from_message(message.roster) if message.HasField("roster") else None
        party = cls(**values)
        party.check()
        return party


@dataclass(frozen=True)
class Agreement:
    """A session's public terms, the same for every party.

    Attributes:
        session_id: made by the coordinator.
        plan: the training, as the active party proposed it, with a batch size.
        classes: of the labels.
        parties: the active party first.
        score_defences: names of what the coordinator applies to scores, in order.
        wants_parameter_gram: whether one of them needs W W^T of the passive parties' parameters.
        announced: the same defences with their options; empty where the coordinator doesn't tell them.
    """

    session_id: str
    plan: Annotated[TrainingPlan, BeforeValidator(partial(plan_content, terms=TrainingPlan.__dataclass_fields__))]
    classes: int
    parties: tuple[PartyDescription, ...]
    score_defences: tuple[str, ...] = ()
    wants_parameter_gram: bool = False
    announced: tuple[AnnouncedDefence, ...] = ()

    def __post_init__(self) -> None:
        roster = self.parties[0].roster if self.parties else None
        if roster != self.plan.roster:
            object.__setattr__(self, "plan", self.plan.placed(roster))

    def check_all(self) -> None:
        """Check the plan and every party's description as well: all that messages check one by one."""
        self.plan.check()
        for party in self.parties:
            party.check()
        self.check()

    def check(self) -> None:
        """Raise InvalidMessage with a sentence about the first term that no session has."""
        limits.check_session_id(self.session_id)
        limits.check_classes(self.classes)
        limits.check_count(self.parties, 1 + limits.PASSIVE_PARTIES, "parties in a session", least=2)
        if len({party.name for party in self.parties}) < len(self.parties):
            raise InvalidMessage("A session's parties have different names.")
        limits.check_count(self.score_defences, limits.SCORE_DEFENCES, "defences of scores")
        for name in self.score_defences:
            limits.check_name(name)
        check_announced(self.announced, limits.SCORE_DEFENCES, "announced defences of scores")
        self.plan.training.check_parties(self.plan, len(self.parties))
        if self.announced and tuple(one.name for one in self.announced) != self.score_defences:
            raise InvalidMessage("The agreement announces other defences of scores than it names.")

    @property
    def active(self) -> PartyDescription:
        """The active party's description."""
        return self.parties[0]

    def record_bits(self, name: str) -> int:
        """Count the bits of a party's features in one record."""
        party, plan = self.party(name), self.plan
        return party.feature_count * (plan.feature_fraction_bits + party.feature_integer_bits + party.features_signed)

    def party(self, name: str) -> PartyDescription:
        """Find the description of the party of this name; raises StopIteration for a name that isn't in the session."""
        return next(party for party in self.parties if party.name == name)

    def peers_of(self, name: str) -> tuple[PartyDescription, ...]:
        """List the descriptions of all parties but this one, in the agreement's order."""
        return tuple(party for party in self.parties if party.name != name)

    @property
    def residual_columns(self) -> int:
        """Columns of what is sent in a step, as the learner says: shares of the residual, for most."""
        return self.plan.calls.columns(self.classes)

    @property
    def outputs(self) -> int:
        """Columns of a share of a record's outputs, as the learner says."""
        return self.plan.calls.outputs(self.classes)

    @property
    def senders(self) -> frozenset[str]:
        """Who sends in a step, as the learner says."""
        names = [party.name for party in self.parties]
        return frozenset({"all": names, "active": names[:1], "none": []}[self.plan.family.spec.senders])

    @property
    def row_counts(self) -> RowCounts:
        """Aligned records that are trained on, validated with and tested."""
        plan, rows = self.plan, self.active.aligned_rows
        if plan.roster is not None:
            return plan.roster.counts
        return count_rows(rows, validation_fraction=plan.validation_fraction, test_fraction=plan.test_fraction)

    @property
    def training_rows(self) -> int:
        """Aligned records that are trained on."""
        return self.row_counts.train

    @property
    def validated_epochs(self) -> int:
        """In how many epochs every passive party helps to validate."""
        allowed = min([party.validated_epochs or self.plan.epochs for party in self.parties[1:]] + [self.plan.epochs])
        return self.plan.training.validated_epochs(self, allowed)

    def validates(self, epoch: int) -> bool:
        """Tell whether validation records are scored after an epoch, from 0: the last one, and others spread evenly."""
        count, epochs = self.validated_epochs, self.plan.epochs
        return epoch >= 0 and (epoch + 1) * count // epochs > epoch * count // epochs

    @cached_property
    def serving(self) -> protocols.Serving:
        """What becomes of weights after training."""
        return self.plan.training.served(self)

    @property
    def answers(self) -> str:
        """What the label party is answered with: scores, sums or leaves; scores for leaves where they are defended."""
        answers = self.plan.family.spec.answers
        return "scores" if answers == "leaves" and self.score_defences else answers

    @property
    def total_features(self) -> int:
        """Features of all parties together."""
        return sum(party.feature_count for party in self.parties)

    def to_message(self) -> common_pb2.Agreement:
        """Write the terms as a message."""
        return common_pb2.Agreement(
            session_id=self.session_id,
            plan=self.plan.to_message(),
            classes=self.classes,
            parties=[party.to_message() for party in self.parties],
            score_defences=self.score_defences,
            wants_parameter_gram=self.wants_parameter_gram,
            announced=[one.to_message() for one in self.announced],
        )

    @classmethod
    def from_message(cls, message: common_pb2.Agreement) -> "Agreement":
        """Read and check terms; raises InvalidMessage."""
        limits.check_count(message.parties, 1 + limits.PASSIVE_PARTIES, "parties in a session", least=2)
        limits.check_count(message.score_defences, limits.SCORE_DEFENCES, "defences of scores")
        limits.check_count(message.announced, limits.SCORE_DEFENCES, "announced defences of scores")
        plan = TrainingPlan.from_message(message.plan)
        if not (plan.batch_size and plan.epochs):
            raise InvalidMessage("The agreement leaves epochs or batch size open: the coordinator fixes them.")
        agreement = cls(
            message.session_id,
            plan,
            message.classes,
            tuple(PartyDescription.from_message(party) for party in message.parties),
            tuple(message.score_defences),
            message.wants_parameter_gram,
            _announced(message.announced),
        )
        agreement.check()
        return agreement


def _announced(messages: Iterable[common_pb2.AnnouncedDefence]) -> tuple[AnnouncedDefence, ...]:
    return tuple(AnnouncedDefence.from_message(message) for message in messages)


@dataclass(frozen=True)
class ProposedTerms:
    """What the active party opened a session with, as the coordinator tells its parties.

    Attributes:
        session_id: made by the coordinator.
        active: name of the active party.
        passive_parties: names of the others.
        plan: the training.
        classes: of the labels.
    """

    session_id: str
    active: str
    passive_parties: tuple[str, ...]
    plan: TrainingPlan
    classes: int

    def check(self) -> None:
        """Raise InvalidMessage with a sentence about the first term that no session has."""
        limits.check_session_id(self.session_id)
        limits.check_classes(self.classes)
        limits.check_passive_parties(self.passive_parties)
        limits.check_name(self.active)
        self.plan.training.check_parties(self.plan, 1 + len(self.passive_parties))

    def to_message(self) -> common_pb2.SessionTerms:
        """Write the terms as a message."""
        return common_pb2.SessionTerms(**{**vars(self), "plan": self.plan.to_message()})

    @classmethod
    def from_message(cls, message: common_pb2.SessionTerms) -> "ProposedTerms":
        """Read and check terms; raises InvalidMessage."""
        limits.check_count(message.passive_parties, limits.PASSIVE_PARTIES, "passive parties in a session", least=1)
        terms = cls(
            message.session_id,
            message.active,
            tuple(message.passive_parties),
            TrainingPlan.from_message(message.plan),
            message.classes,
        )
        terms.check()
        return terms
