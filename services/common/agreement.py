"""The public terms of a session as immutable values, their checks, and their place on the wire."""

import math
from dataclasses import asdict, dataclass
from typing import Any

from protos.v1 import common_pb2
from services.common.errors import InvalidMessage
from vfl.learning import INITIALISATIONS, residual_columns

CIPHERS = {"paillier": common_pb2.CIPHER_PAILLIER, "plain": common_pb2.CIPHER_PLAIN}
_CIPHER_NAMES = {value: name for name, value in CIPHERS.items()}


@dataclass(frozen=True)
class TrainingPlan:
    """The training that the active party proposes; protos/v1/common.proto explains each field."""

    epochs: int = 40
    batch_size: int = 64
    learning_rate: float = 0.5
    l2: float = 0.0
    initialisation: str = "xavier"
    validation_fraction: float = 0.1
    test_fraction: float = 0.2
    patience: int = 0
    seed: int = 1
    cipher: str = "paillier"
    packing: bool = True
    key_bits: int = 2048
    feature_fraction_bits: int = 16
    residual_fraction_bits: int = 32
    residual_integer_bits: int = 7
    installed_model: bool = False
    rerandomise: bool = True

    def check(self) -> None:
        """Raises InvalidMessage with a sentence about the first field that cannot work."""
        requirements = {
            "epochs": (self.epochs >= 1, "at least 1"),
            "batch_size": (self.batch_size >= 1, "at least 1"),
            "learning_rate": (
                math.isfinite(self.learning_rate) and self.learning_rate > 0,
                "a positive number",
            ),
            "l2": (math.isfinite(self.l2) and self.l2 >= 0, "zero or a positive number"),
            "initialisation": (
                self.initialisation in INITIALISATIONS,
                f"one of {', '.join(INITIALISATIONS)}",
            ),
            "validation_fraction": (0 <= self.validation_fraction < 1, "in [0, 1)"),
            "test_fraction": (0 <= self.test_fraction < 1, "in [0, 1)"),
            "cipher": (self.cipher in CIPHERS, f"one of {', '.join(CIPHERS)}"),
            "seed": (0 <= self.seed < 2**64, "from 0 to 2^64 - 1"),
            "key_bits": (self.key_bits >= 256 and self.key_bits % 8 == 0, "a multiple of 8 from 256"),
            "feature_fraction_bits": (
                self.feature_fraction_bits in range(4, 33, 4),
                "a multiple of 4 from 4 to 32",
            ),
            "residual_fraction_bits": (
                self.residual_fraction_bits in range(8, 49, 4),
                "a multiple of 4 from 8 to 48",
            ),
            "residual_integer_bits": (1 <= self.residual_integer_bits <= 14, "from 1 to 14"),
        }
        for field, (holds, expected) in requirements.items():
            if not holds:
                raise InvalidMessage(f"Expected {field} to be {expected}, got {getattr(self, field)!r}.")
        if self.residual_fraction_bits + self.residual_integer_bits > 52:
            raise InvalidMessage(
                "residual_fraction_bits + residual_integer_bits must be at most 52: lower one of them."
            )
        if self.validation_fraction + self.test_fraction >= 1:
            raise InvalidMessage("validation_fraction + test_fraction must leave rows to train on: make them smaller.")
        if self.patience > 0 and self.validation_fraction == 0:
            raise InvalidMessage("patience needs validation rows: set validation_fraction above 0, or patience to 0.")

    def to_message(self) -> common_pb2.TrainingPlan:
        """Write the plan as a message."""
        fields = asdict(self)
        return common_pb2.TrainingPlan(**{**fields, "cipher": CIPHERS[self.cipher]})

    @classmethod
    def from_message(cls, message: common_pb2.TrainingPlan) -> "TrainingPlan":
        """Read and check a plan; raises InvalidMessage."""
        fields: dict[str, Any] = {name: getattr(message, name) for name in cls.__dataclass_fields__}
        fields["cipher"] = _CIPHER_NAMES.get(message.cipher, "unspecified")
        plan = cls(**fields)
        plan.check()
        return plan


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
    """

    name: str
    feature_count: int
    feature_integer_bits: int
    features_signed: bool
    aligned_rows: int
    truncates_answers: bool = False

    def check(self) -> None:
        """Raises InvalidMessage with a sentence about the first field that cannot work."""
        if self.feature_count < 1:
            raise InvalidMessage(f"{self.name} joins with no feature. A party needs at least one column.")
        if self.feature_integer_bits > 20:
            raise InvalidMessage(
                f"{self.name} has features up to 2^{self.feature_integer_bits}. Scale them first: encoder=minmax."
            )

    def to_message(self) -> common_pb2.PartyDescription:
        """Write the description as a message."""
        return common_pb2.PartyDescription(**asdict(self))

    @classmethod
    def from_message(cls, message: common_pb2.PartyDescription) -> "PartyDescription":
        """Read and check a description; raises InvalidMessage."""
        party = cls(**{name: getattr(message, name) for name in cls.__dataclass_fields__})
        party.check()
        return party


@dataclass(frozen=True)
class Agreement:
    """A session's public terms, the same for every party.

    Attributes:
        session_id: made by the coordinator.
        plan: the training, as the active party proposed it.
        classes: of the labels.
        parties: the active party first.
        score_defences: names of what the coordinator applies to scores, in order.
        wants_parameter_gram: whether one of them needs W W^T of the passive parties' parameters.
    """

    session_id: str
    plan: TrainingPlan
    classes: int
    parties: tuple[PartyDescription, ...]
    score_defences: tuple[str, ...] = ()
    wants_parameter_gram: bool = False

    @property
    def active(self) -> PartyDescription:
        """The active party's description."""
        return self.parties[0]

    def party(self, name: str) -> PartyDescription:
        """The description of the party of this name; raises StopIteration for a name that isn't in the session."""
        return next(party for party in self.parties if party.name == name)

    def peers_of(self, name: str) -> tuple[PartyDescription, ...]:
        """The descriptions of all parties but this one, in the agreement's order."""
        return tuple(party for party in self.parties if party.name != name)

    @property
    def residual_columns(self) -> int:
        """Columns of the residual."""
        return residual_columns(self.classes)

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
        )

    @classmethod
    def from_message(cls, message: common_pb2.Agreement) -> "Agreement":
        """Read and check terms; raises InvalidMessage."""
        return cls(
            message.session_id,
            TrainingPlan.from_message(message.plan),
            message.classes,
            tuple(PartyDescription.from_message(party) for party in message.parties),
            tuple(message.score_defences),
            message.wants_parameter_gram,
        )
