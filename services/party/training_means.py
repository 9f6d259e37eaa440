"""What a party trains with in one session besides its data, and who watches it."""

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from attacks.training import ChosenShares, OtherFeatures
from services.common import limits
from services.common.agreement import Agreement
from services.common.errors import InvalidMessage
from services.common.ledger_marks import LedgerMark
from services.exchange.message_kinds import MessagePeer
from services.party.party_defences import PartyDefences
from services.party.training_log import TrainingLog
from services.protocol1.cipher import Cipher, make_cipher
from services.protocol1.peer import Peer
from services.shared_weights.opening_ledger import OpeningLedger
from services.shared_weights.share_peer import SharePeer
from services.shared_weights.shared_steps import SharedObserver
from services.watching.tally import Tally
from vfl.arrays import FloatArray
from vfl.crypto import Engine


class ForwardingObserver(Protocol):
    """Sees what a party is shown where a learner forwards."""

    def forwarded(self, step: int, products: FloatArray) -> None:
        """Add up the other parties' products of a step, (rows, h); at the label party."""

    def read(self, step: int, peer: str, residuals: FloatArray) -> None:
        """Read what a peer has sent in the clear, (rows, columns)."""


class TrainingObserver(SharedObserver, ForwardingObserver, Protocol):
    """Sees what a party computes for itself in training."""

    def own_share(self, step: int, share: FloatArray) -> None:
        """Compute the party's share of a step, before its own defences change it: (rows, columns) of the residual.

        Where a learner forwards, at a passive party: its products, (rows, h).
        """


@dataclass(frozen=True)
class TrainingMeans:
    """What a party trains with in one session, besides its data.

    Attributes:
        peers: the other ends of Protocol 1, by name.
        generator: draws the initial weights; private to this party.
        timeout: seconds to wait for a peer's message.
        executor: threads for what is sent to several peers at once.
        cipher: makes the party's cipher of a session.
        observer: is told this party's own shares; None where nobody looks.
        defences: what the party applies to residuals and parameters.
        share_peers: the other ends of training on shared weights, by name.
        message_peers: the other ends of a mailbox, by name.
        engine: computes what is shared.
        ledger: counts what others are opened about the party's records, over all sessions, and keeps it.
        others: what an adversary encrypts in place of its features where weights are shared; an honest party nothing.
        chosen: what an adversary adds to its shares of others' weights where a first layer is shared, likewise.
        tally: counts what peers are told.
        log: where the training is; of one that has begun before, it goes on from there when ``resume`` says where.
        anchor: has how far the log is known outside this party, or raises where an older copy of it was put back.
        most_interruptions: after which it goes on; None for at least eight, and one an epoch.
    """

    peers: Mapping[str, Peer]
    generator: np.random.Generator
    timeout: float
    executor: Executor
    cipher: Callable[[Agreement, str], Cipher] = make_cipher
    observer: TrainingObserver | None = None
    defences: PartyDefences = field(default_factory=PartyDefences)
    share_peers: Mapping[str, SharePeer] = field(default_factory=dict)
    message_peers: Mapping[str, MessagePeer] = field(default_factory=dict)
    engine: Engine = field(default_factory=Engine)
    ledger: OpeningLedger = field(default_factory=OpeningLedger.in_memory)
    others: Callable[[Agreement, str, FloatArray], OtherFeatures | None] = lambda *_: None
    chosen: Callable[[Agreement, FloatArray], ChosenShares | None] = lambda *_: None
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
