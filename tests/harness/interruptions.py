"""A federation of party objects, one of which is killed at some event and started again while others train on."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from services.common.agreement import TrainingPlan
from services.common.errors import PeerVanished
from services.party.context import PartyContext
from services.party.party_training import PartyTraining
from tests.harness.restarts import Killed, Town, town

# Nobody waits so long: who waits for the dead is told. A busy machine may be slow.
STEP_TIMEOUT = 20.0
SECONDS = 60.0
# By what a party asks another, what answers it there.
_ANSWERS = {"ask": "answer"}


@dataclass
class Life:
    """One process of one party: nothing that it does counts once it is dead.

    Attributes:
        dies_at: at which of its events it is killed; None for never.
        dies_on: the name of an event at which it is killed; empty for none.
        behind: what has to have happened elsewhere before; None for nothing.
        events: how many there were since its first residuals, products or encrypted features: messages and writes to
            its state, each before and after.
        is_dead: set when it has been killed.
    """

    dies_at: int | None = None
    dies_on: str = ""
    behind: threading.Event | None = None
    events: int | None = None
    is_dead: threading.Event = field(default_factory=threading.Event)

    def event(self, name: str) -> None:
        if self.events is not None or name == "send":
            self.events = (self.events or 0) + 1
            if self.events == self.dies_at or name == self.dies_on:
                if self.behind is not None:
                    self.behind.wait(STEP_TIMEOUT)
                self.is_dead.set()
        if self.is_dead.is_set():
            raise Killed

    def fenced(self, thing: Any) -> Any:
        """The same thing, whose every call is two events of this life."""
        return _Fenced(self, thing)


class _Fenced:
    def __init__(self, life: Life, thing: Any) -> None:
        self._life = life
        self._thing = thing

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._thing, name)
        if not callable(attribute):
            return attribute

        def call(*arguments: Any, **named: Any) -> Any:
            event = f"{name} {arguments[0]}" if name == "write" else name
            self._life.event(event)
            result = attribute(*arguments, **named)
            self._life.event(event)
            return result

        return call


class _Cut:
    """A party as others see it: calls to a dead one, and those in which it dies, get no answer."""

    def __init__(self, name: str, life: Life, thing: Any) -> None:
        self._name, self._life, self._thing = name, life, thing

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._thing, name)
        if not callable(attribute):
            return attribute

        def call(*arguments: Any, **named: Any) -> Any:
            cut = PeerVanished(f"{self._name} does not answer: its process has ended.")
            if name == _ANSWERS.get(self._life.dies_on):
                # It dies on a question of its own, and answers nobody's like it before.
                self._life.is_dead.wait(STEP_TIMEOUT)
            if self._life.is_dead.is_set():
                raise cut
            try:
                result = attribute(*arguments, **named)
            except BaseException:
                if self._life.is_dead.is_set():
                    raise cut from None
                raise
            return _Cut(self._name, self._life, result) if name.endswith("exchange_of") else result

        return call


@dataclass
class Interrupted(Town):
    """A town whose parties train on while one is away.

    Attributes:
        lives: of the processes that run, by party.
    """

    lives: dict[str, Life] = field(default_factory=dict)

    def find(self, name: str) -> Any:
        life, party = self.lives.get(name), super().find(name)
        return party if life is None else _Cut(name, life, party)

    def start(self, *names: str) -> None:
        for name in names:
            if name != "coordinator":
                self.lives[name] = Life()
            super().start(name)

    def _reach(self, passive: str) -> Any:
        return self.lives["active"].fenced(super()._reach(passive))

    def _context(self, name: str, state: Any) -> PartyContext:
        context = super()._context(name, state)
        life = self.lives[name]
        return replace(
            context,
            coordinator=life.fenced(context.coordinator),
            peers={other: life.fenced(peer) for other, peer in context.peers.items()},
            state=life.fenced(context.state),
        )

    def kill(self, *names: str) -> None:
        for name in names:
            if name in self.lives:
                self.lives[name].is_dead.set()
                if name in self.running and (training := self._training_of(name)) is not None:
                    training.exchange.end("killed")
        super().kill(*names)

    def _training_of(self, name: str) -> PartyTraining | None:
        session = self.running[name]._session
        joined = getattr(session, "joined", session)
        return None if joined is None else joined.training

    def training(self, name: str) -> PartyTraining:
        found = self._training_of(name)
        assert found is not None
        return found


@contextmanager
def interrupted(folder: Path, *, parties: int = 2, **settings: Any) -> Iterator[Interrupted]:
    """A town that can be interrupted; its start weights are the same in each."""
    chosen: dict[str, Any] = {"private_seed": 1, "step_timeout": STEP_TIMEOUT, "resume_within": SECONDS, **settings}
    with town(folder, parties=parties, kind=Interrupted, **chosen) as made:
        yield cast(Interrupted, made)


def train_through(made: Interrupted, victim: str, strike: Callable[[Interrupted], None], **plan: Any) -> TrainingPlan:
    """Train, strike at the victim, start it again as soon as it is dead, and wait for the end; returns the plan."""
    terms = made.settings.plan().changed(**plan)
    with ThreadPoolExecutor(2) as operator:
        training: Future[Any] = operator.submit(made.active.train, terms, _Silent())
        strike(made)
        life = made.lives[victim]
        while not life.is_dead.wait(0.01) and not training.done():
            continue
        if life.is_dead.is_set():
            made.kill(victim)
            made.start(victim)
            if victim == "active" and made.active.is_interrupted:
                training.exception(SECONDS)
                made.active.go_on()
        if victim != "active" or not life.is_dead.is_set():
            training.result(SECONDS)
    return terms


class _Silent:
    def stage(self, name: str) -> None: ...

    def step(self, done: int, planned: int, what: str = "") -> None: ...

    def epoch(self, outcome: Any) -> None: ...
