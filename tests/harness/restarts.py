"""A federation of party objects whose state is on disk, each of which can be killed at any point and started again."""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np

from attacks import PredictionAttack
from defences import NoiseSource, ScoreDefence
from services.active.party import ActiveParty
from services.adversary.knowledge import PriorKnowledge
from services.adversary.predictions import AttackHost
from services.adversary.training import TrainingAdversary
from services.common.applied_defences import noise_source
from services.common.errors import PeerVanished
from services.common.identity import Identity, Role
from services.common.meters import TrafficMeter
from services.common.settings import Settings
from services.common.state_folder import StateFolder, secret_of
from services.coordinator.sessions import Sessions
from services.party.context import PartyContext
from services.party.features import PartyData
from services.party.party_defences import PartyDefences
from services.party.record import RunRecord
from services.passive.party import PassiveParty
from tests.harness.direct_parties import DirectPassive, ways_of
from tests.harness.exchanges import names_of
from tests.harness.parties import Watcher, active_data, party_data, small_settings
from vfl.arrays import FloatArray

IDS = [f"id-{row}" for row in range(5, 60)]


class Killed(BaseException):
    """What a process that is killed in mid-call comes to: no handler of its own sees it."""


class _Now:
    """Stands for a party as it is at each call: another object after a restart."""

    def __init__(self, find: Callable[[], Any]) -> None:
        self._find = find

    def __getattr__(self, name: str) -> Any:
        return getattr(self._find(), name)


@dataclass
class Town:
    """Party objects by name, those that run; their state outlives them.

    Attributes:
        folder: where state and records go.
        settings: of every party.
        data: each party's table, by its name, the active party's first.
        score_defences: what the coordinator applies.
        disclosing: what passive parties apply to parameters, made anew with the party's secret at each start.
        attacks: what the active party mounts on predictions.
        beforehand: what its adversary knows before any session.
    """

    folder: Path
    executor: Executor
    settings: Settings
    data: dict[str, PartyData]
    score_defences: Sequence[ScoreDefence] = ()
    disclosing: Sequence[Any] = ()
    attacks: Mapping[str, PredictionAttack] = field(default_factory=dict)
    beforehand: PriorKnowledge | None = None
    running: dict[str, Any] = field(default_factory=dict)
    states: dict[str, StateFolder] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        return ["coordinator", *self.data]

    @property
    def active(self) -> ActiveParty:
        return cast(ActiveParty, self.find("active"))

    @property
    def sessions(self) -> Sessions:
        return cast(Sessions, self.find("coordinator"))

    def passive(self, name: str = "passive") -> PassiveParty:
        return cast(PassiveParty, self.find(name))

    def find(self, name: str) -> Any:
        """A running party; one that doesn't run doesn't answer."""
        if name not in self.running:
            raise PeerVanished(f"{name} does not answer: there is no connection to it.")
        return self.running[name]

    def kill(self, *names: str) -> None:
        """End parties without a word to anybody."""
        for name in names:
            self.running.pop(name, None)
            if name in self.states:
                self.states.pop(name).close()

    def start(self, *names: str) -> None:
        for name in names:
            assert name not in self.running
            role = Role(name) if name in ("coordinator", "active") else Role.PASSIVE
            state = StateFolder(self.folder / "state" / name, Identity(role, name))
            self.states[name] = state
            if role is Role.COORDINATOR:
                noise = NoiseSource(key=secret_of(state))
                self.running[name] = Sessions(self.settings.step_timeout, self.score_defences, noise, state)
            elif role is Role.ACTIVE:
                self.running[name] = self._active(state)
            else:
                self.running[name] = PassiveParty(self._context(name, state))

    def restart(self, *names: str) -> None:
        self.kill(*names)
        self.start(*names)

    def copied(self, name: str, to: Path) -> Path:
        """Copy a party's state as it stands."""
        shutil.copytree(self.folder / "state" / name, to)
        return to

    def put_back(self, name: str, copy: Path) -> None:
        """Kill a party, and start it with this copy in place of its state."""
        self.kill(name)
        shutil.rmtree(self.folder / "state" / name)
        shutil.copytree(copy, self.folder / "state" / name)
        self.start(name)

    def _reach(self, passive: str) -> DirectPassive:
        return DirectPassive(cast(PassiveParty, _Now(lambda: self.find(passive))))

    def _active(self, state: StateFolder) -> ActiveParty:
        passive = {name: self._reach(name) for name in self.data if name != "active"}
        return ActiveParty(
            self._context("active", state), passive, AttackHost(self.attacks, self.folder), self.beforehand
        )

    def _context(self, name: str, state: StateFolder) -> PartyContext:
        role = Role.ACTIVE if name == "active" else Role.PASSIVE
        others = [other for other in self.data if other != name]
        return PartyContext(
            name=name,
            data=self.data[name],
            settings=self.settings,
            **ways_of(name, others, cast(Sessions, _Now(lambda: self.find("coordinator"))), self.find),
            record=RunRecord(self.folder, name, TrafficMeter()),
            executor=self.executor,
            adversary=TrainingAdversary({}, name, None),
            defences=PartyDefences(
                self.disclosing if role is Role.PASSIVE else (), noise_source(self.settings, secret_of(state))
            ),
            state=state,
        )

    def train(self, **changes: Any) -> str:
        """Train; returns the session."""
        outcome = self.active.train(self.settings.plan().changed(**changes), Watcher())
        return outcome.session_id

    def scores(self, ids: Sequence[str] = IDS) -> FloatArray:
        answers = self.active.predict(ids)
        return np.array([answers[one] for one in ids])


@contextmanager
def town(
    folder: Path,
    *,
    parties: int = 2,
    active: PartyData | None = None,
    score_defences: Sequence[ScoreDefence] = (),
    disclosing: Sequence[Any] = (),
    attacks: Mapping[str, PredictionAttack] | None = None,
    beforehand: PriorKnowledge | None = None,
    kind: type[Town] = Town,
    **settings: Any,
) -> Iterator[Town]:
    """A federation that runs."""
    tables = [active or active_data(), *(party_data(rows=range(59, 4, -1), seed=seed) for seed in range(1, parties))]
    chosen = small_settings(**{"cipher": "plain", "private_seed": None, **settings})
    with ThreadPoolExecutor(64) as executor:
        data = dict(zip(names_of(parties), tables, strict=True))
        made = kind(folder, executor, chosen, data, score_defences, disclosing, attacks or {}, beforehand)
        made.start(*made.names)
        try:
            yield made
        finally:
            made.kill(*made.names)
