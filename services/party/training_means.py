"""What a party trains with in one session besides its data, and who watches it."""

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from services.ciphers.cipher import Cipher, make_cipher
from services.common import limits
from services.common.agreement import Agreement
from services.common.errors import InvalidMessage
from services.common.ledger_marks import LedgerMark
from services.exchange.opening_ledger import OpeningLedger
from services.exchange.peer import Peer
from services.exchange.tape import Tape
from services.party.party_defences import PartyDefences
from services.party.training_log import TrainingLog
from services.watching.tally import Tally
from vfl.arrays import FloatArray
from vfl.crypto import Engine


class OtherColumns(Protocol):
    """What a party encrypts in place of its columns.

    Attributes:
        forward: (n, d), for products with weights.
        backward: (n, d), for products with residuals.
    """

    forward: FloatArray
    backward: FloatArray

    def read(self, opened: FloatArray) -> FloatArray:
        """Read (d, k) opened weights, and return those that the party goes on with."""


class AddedShares(Protocol):
    """What a label party adds to its shares of others' first layers."""

    def added(self, step: int, peer: str) -> FloatArray | None:
        """Give (d, h) numbers to add in a step to its share of a peer's weights; None for nothing."""

    def read(self, step: int, products: FloatArray) -> FloatArray:
        """Read the (s, h) sum of the others' products, and return what the party goes on with."""


MakesCipher = Callable[[Agreement, str], Cipher]
# How a party comes to its side of a session: it is given the setting and what makes the honest side of a setting.
# Untyped, for a setting has these means.
Seat = Callable[[Any, Callable[[Any], Any]], Any]


def honest_seat(setting: Any, make: Callable[[Any], Any]) -> Any:
    """Take the side as the protocol makes it."""
    return make(setting)


@dataclass(frozen=True)
class TrainingMeans:
    """What a party trains with in one session, besides its data.

    Attributes:
        peers: the other parties, by name.
        generator: draws the initial weights; private to this party.
        timeout: seconds to wait for a peer's message.
        executor: threads for what is sent to several peers at once.
        cipher: makes the party's cipher of a session.
        tape: is told what peers' messages say; None where nobody listens.
        defences: what the party applies to residuals and parameters.
        engine: computes what is shared.
        ledger: counts what others are opened about the party's records, over all sessions, and keeps it.
        seat: how the party comes to its side; an adversary's changes what the side is made of, and wraps it.
        others: what is encrypted in place of features where weights are shared, made of these; an honest party nothing.
        chosen: what is added to shares of others' weights where a first layer is shared, likewise.
        tally: counts what peers are told.
        log: where the training is; of one that has begun before, it goes on from there when ``resume`` says where.
        anchor: has how far the log is known outside this party, or raises where an older copy of it was put back.
        most_interruptions: after which it goes on; None for at least eight, and one an epoch.
    """

    peers: Mapping[str, Peer]
    generator: np.random.Generator
    timeout: float
    executor: Executor
    cipher: MakesCipher = make_cipher
    tape: Tape | None = None
    defences: PartyDefences = field(default_factory=PartyDefences)
    engine: Engine = field(default_factory=Engine)
    ledger: OpeningLedger = field(default_factory=OpeningLedger.in_memory)
    seat: Seat = honest_seat
    others: Callable[[FloatArray], OtherColumns | None] = lambda _: None
    chosen: AddedShares | None = None
    tally: Tally = field(default_factory=Tally)
    log: TrainingLog = field(default_factory=TrainingLog)
    anchor: Callable[[LedgerMark], object] = lambda _: None
    most_interruptions: int | None = None


def check_kept_weights(agreement: Agreement, features: int) -> None:
    """Raise InvalidMessage where each epoch's weights, kept until training ends, would fill the memory."""
    plan = agreement.plan
    size = plan.epochs * plan.training.kept_bytes(agreement, features) * agreement.residual_columns
    if size > limits.KEPT_WEIGHTS_BYTES:
        raise InvalidMessage(
            f"The weights of {plan.epochs} epochs take {size >> 20} MiB, at most "
            f"{limits.KEPT_WEIGHTS_BYTES >> 20} can be kept: choose fewer epochs."
        )
