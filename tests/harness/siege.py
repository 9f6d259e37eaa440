"""A town of two parties of which one is a peer that may say anything, and the other one is real."""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from defences import Defence, NoiseSource
from services.adversary.listening_side import listening
from services.ciphers.cipher import PaillierCipher
from services.common.agreement import Agreement
from services.common.scores import PartialScores
from services.common.settings import Settings
from services.common.state_folder import StateInMemory, secret_of
from services.party.context import PartyContext
from services.party.features import PartyData
from services.party.party_defences import PartyDefences
from services.party.record import RunRecord
from services.party.side import Side, SideSetting
from tests.harness.ciphers import honest_messages
from tests.harness.interruptions import Interrupted
from tests.harness.once import SECONDS, UNBOUNDED, ActivePeer, Peer
from tests.harness.parties import ACTIVE, PASSIVE, active_data, party_data, small_settings
from tests.harness.passive_peer import PassivePeer
from vfl.arrays import FloatArray
from vfl.crypto import PrivateKey


@dataclass
class Siege(Interrupted):
    """A town of two parties of which one is the peer.

    Attributes:
        victim: the name of the real one.
        peer: the other one.
        defending: what the victim applies.
    """

    victim: str = "active"
    peer: Any = None
    defending: Sequence[Defence] = ()
    _copies: dict[str, Path] = field(default_factory=dict)

    def start(self, *names: str) -> None:
        for name in names:
            if name == self.peer.name:
                self.running[name] = self.peer
            else:
                super().start(name)

    def context_of_peer(self) -> PartyContext:
        """What a body of the peer's would work with."""
        return super(Interrupted, self)._context(self.peer.name, StateInMemory())  # type: ignore[arg-type]

    def _context(self, name: str, state: Any) -> PartyContext:
        context, peer = super()._context(name, state), self.peer
        noise = NoiseSource(key=secret_of(state))
        return replace(
            context,
            record=cast(RunRecord, _Noting(context.record, peer.note_step)),
            adversary=_Noted(context.adversary, peer.keys, peer.shares),
            defences=PartyDefences(self.defending, noise) if self.defending else context.defences,
            coordinator=_Heard(context.coordinator, peer),
        )

    def copy_state(self, label: str = "copy") -> None:
        """Copy the victim's folder, as a back-up does."""
        self._copies[label] = into = self.folder / f"{label}-of-{self.victim}"
        shutil.rmtree(into, ignore_errors=True)
        # What is being written as it copies has no name yet.
        shutil.copytree(self.folder / "state" / self.victim, into, ignore=shutil.ignore_patterns("*.unfinished"))

    def put_copy_back(self, label: str = "copy") -> None:
        """Put the copy back in its place. The victim must not run."""
        folder = self.folder / "state" / self.victim
        shutil.rmtree(folder)
        shutil.copytree(self._copies[label], folder)


class Delegating:
    def __init__(self, thing: Any) -> None:
        self._thing = thing

    def __getattr__(self, name: str) -> Any:
        return getattr(self._thing, name)


class _Noting(Delegating):
    """A record that says which steps were completed."""

    def __init__(self, record: RunRecord, note: Callable[[int], None]) -> None:
        super().__init__(record)
        self._note = note

    def add_step(self, step: int, seconds: Mapping[str, float]) -> None:
        self._note(step)


class _Noted(Delegating):
    """An idle adversary, at whose side a test notes the victim's private keys: it may read all that is sent."""

    def __init__(self, adversary: Any, keys: dict[str, PrivateKey], shares: dict[int, FloatArray]) -> None:
        super().__init__(adversary)
        self._keys, self._shares = keys, shares

    def own_share(self, step: int, share: FloatArray) -> None:
        self._shares[step] = share

    def seat(self, setting: SideSetting, make: Callable[[SideSetting], Side], ids: Any = None) -> Side:
        honest = make(replace(setting, means=replace(setting.means, cipher=self._cipher)))
        return listening(setting, honest, self)

    def _cipher(self, agreement: Agreement, name: str) -> PaillierCipher:
        messages = honest_messages(agreement, name)
        self._keys[messages.private_key.public_key.key_id] = messages.private_key
        return PaillierCipher(agreement, name, messages)


class _Heard(Delegating):
    """A coordinator at which a test hears what the victim says of its records."""

    def __init__(self, coordinator: Any, peer: Peer) -> None:
        super().__init__(coordinator)
        self._peer = peer

    def submit_partial_scores(self, session_id: str, request_id: int, share: PartialScores) -> int:
        self._peer.products.append(share.products.astype(np.float64))
        return 0


@contextmanager
def besieged(
    folder: Path,
    victim: str,
    *,
    defending: Sequence[Defence] = (),
    columns: int = 3,
    rows: Sequence[int] = range(60),
    **settings: Any,
) -> Iterator[Any]:
    """A peer that speaks to a real party; their session has begun when this is entered."""
    chosen = {
        "private_seed": None,
        "step_timeout": SECONDS,
        "resume_within": SECONDS,
        "epochs": 6,
        "batch_size": 16,
        "validation_fraction": 0.2 if victim == PASSIVE.name else 0.0,
        "test_fraction": 0.1,
        **{name: value for name, value in UNBOUNDED.items() if name in Settings.model_fields},
        **settings,
    }
    peer: Peer = PassivePeer() if victim == ACTIVE.name else ActivePeer()
    data: dict[str, PartyData] = {
        "active": active_data(rows=rows),
        "passive": party_data(rows=rows[::-1], columns=columns),
    }
    with ThreadPoolExecutor(32) as executor:
        town = Siege(folder, executor, small_settings(**chosen), data, victim=victim, peer=peer, defending=defending)
        peer.town = town
        town.start(*town.names)
        try:
            peer.begin()
            yield peer
        finally:
            town.kill(*town.names)
            peer.leave()
