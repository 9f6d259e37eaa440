"""Two real parties on shared weights, of which one dies when it is told to: then others speak in its name."""

import hashlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from services.common.errors import FederationError
from services.common.settings import Settings
from services.exchange.outgoing import OutgoingVector
from services.exchange.vectors import WireVector
from services.party.context import PartyContext
from services.party.equation_count import EQUATIONS, spent_in
from services.party.resumption import Place, Resumption
from services.party.training_log import kept_training
from services.protocols.shared.share_messages import Kind
from tests.harness.interruptions import Interrupted
from tests.harness.once import SECONDS, UNBOUNDED
from tests.harness.parties import ACTIVE, PASSIVE, active_data, party_data, small_settings
from tests.harness.passive_peer import Silent
from tests.harness.siege import Delegating


@dataclass
class Sharing(Interrupted):
    """A town of two real parties on shared weights. The label party dies when it is told to; then others use its name.

    Attributes:
        forwarded: how often the passive party has forwarded its products of each step, each time under other masks.
        opened: what it has sent for the opening of weights, and for keeping them shared.
        steps_per_epoch: of its training.
        attempt: in which try of the training it is.
    """

    forwarded: dict[int, int] = field(default_factory=dict)
    opened: set[bytes] = field(default_factory=set)
    steps_per_epoch: int = 1
    attempt: int = 0
    _job: Future[Any] | None = None

    def _context(self, name: str, state: Any) -> PartyContext:
        context = super()._context(name, state)
        if name == PASSIVE.name:
            peers = {other: _Sent(peer, self) for other, peer in context.peers.items()}
            context = replace(context, peers=cast(Any, peers))
        return context

    def run(self, events: int) -> None:
        """Have the label party train until so many events of its process, or to the end, and kill it."""
        work: Callable[[], Any]
        if self._job is None:
            work = partial(self.active.train, self.settings.plan(), Silent())
        else:
            self.start("active")
            if not self.active.is_interrupted:
                return self.kill("active")
            work = self.active.go_on
        life = self.lives["active"]
        life.dies_at = events
        self._job = job = self.executor.submit(work)
        while not life.is_dead.wait(0.01) and not job.done():
            continue
        self.kill("active")
        job.exception(SECONDS)
        if (training := self._training_of(PASSIVE.name)) is not None:
            self.steps_per_epoch = training.schedule.steps_per_epoch
        return None

    @property
    def session_id(self) -> str:
        """The passive party's session."""
        session = self.passive()._session
        return "" if session is None else session.session_id

    def stop(self) -> Place | None:
        """Stop the passive party's training in the label party's name; None where it refuses."""
        with suppress(FederationError):
            place = self.passive().stop_training(ACTIVE, self.session_id)
            self.attempt = place.attempt
            return place
        return None

    def resume(self, step: int, skipped: frozenset[int] = frozenset()) -> bool:
        """Have it go on from a step; whether it takes that."""
        resumption = Resumption(step, skipped, attempt=self.attempt + 1)
        try:
            self.passive().resume_training(ACTIVE, self.session_id, resumption)
        except FederationError:
            return False
        self.attempt += 1
        return True

    def check_folder(self) -> None:
        """Raise where the passive party's next process could not read its folder."""
        kept_training(self.states[PASSIVE.name], PASSIVE.name)

    @property
    def forms_counted(self) -> int:
        """The most forms of one record that the passive party has on its disk."""
        content = self.states[PASSIVE.name].read(EQUATIONS)
        return 0 if content is None else max((one.most for one in spent_in(content)), default=0)

    def state_of(self, name: str) -> Path:
        """A party's folder."""
        return self.folder / "state" / name


class _Sent(Delegating):
    """A peer on shared weights, at which a test sees what it is sent."""

    def __init__(self, peer: Any, seen: Sharing) -> None:
        super().__init__(peer)
        self._seen = seen

    def send(self, session_id: str, kind: str, step: int, vector: WireVector | OutgoingVector) -> None:
        if kind == Kind.FORWARD:
            self._seen.forwarded[step] = self._seen.forwarded.get(step, 0) + 1
        if kind in (Kind.OPENED, Kind.FROZEN):
            self._seen.opened.add(hashlib.sha256(vector.whole().data).digest())
        self._thing.send(session_id, kind, step, vector)


@contextmanager
def sharing(folder: Path, *, columns: int = 12, **settings: Any) -> Iterator[Sharing]:
    """Two parties that can train on shared weights; nothing has begun."""
    chosen = {
        "private_seed": None,
        "step_timeout": SECONDS,
        "resume_within": SECONDS,
        "cipher": "paillier",
        "protocol": "shared",
        "key_bits": 1024,
        "opening": "always",
        "epochs": 2,
        "batch_size": 16,
        "validation_fraction": 0.0,
        **{name: value for name, value in UNBOUNDED.items() if name in Settings.model_fields},
        **settings,
    }
    data = {"active": active_data(), "passive": party_data(rows=range(59, -1, -1), columns=columns)}
    with ThreadPoolExecutor(32) as executor:
        town = Sharing(folder, executor, small_settings(**chosen), data)
        town.start(*town.names)
        try:
            yield town
        finally:
            town.kill(*town.names)
