"""Whole parties in one process, without a network."""

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from attacks import PassiveMoments, TrainingAttack
from defences import ScoreDefence
from services.active.interfaces import EpochOutcome
from services.active.party import ActiveParty
from services.adversary.predictions import AttackHost
from services.adversary.training import TrainingAdversary
from services.common.agreement import TrainingPlan
from services.common.identity import Identity, Role
from services.common.meters import TrafficMeter
from services.common.run_folder import RunFolder
from services.common.run_records import DeliveredScores
from services.common.scores import PartialScores
from services.common.settings import Settings, load_settings
from services.coordinator.sessions import Sessions
from services.party.context import PartyContext
from services.party.features import PartyData
from services.party.party_defences import PartyDefences
from services.party.party_training import PartyTraining
from services.party.record import RunRecord
from services.passive.party import PassiveParty
from tests.harness.direct_parties import DirectPassive, ways_of
from tests.harness.exchanges import names_of
from vfl.arrays import FloatArray
from vfl.data import Table, typed_table_of

# -- level 2: whole parties in one process ----------------------------------------------------------------------------

ACTIVE = Identity(Role.ACTIVE, "active")
PASSIVE = Identity(Role.PASSIVE, "passive")


def submit(
    sessions: Sessions,
    caller: Identity,
    session_id: str,
    request_id: int,
    products: FloatArray,
    gram: FloatArray | None = None,
    tokens: Sequence[int] | None = None,
) -> None:
    """A passive party's share, with pseudonyms that take records of the same products for the same one."""
    own = [zlib.crc32(row.tobytes()) for row in products] if tokens is None else tokens
    sessions.submit(caller, session_id, request_id, PartialScores(products, gram, tuple(own)))


@dataclass
class Watcher:
    """Notes what a job tells."""

    stages: list[str] = field(default_factory=list)
    steps: list[tuple[int, int]] = field(default_factory=list)
    told: list[tuple[str, int, int, str]] = field(default_factory=list)
    epochs: list[EpochOutcome] = field(default_factory=list)

    def stage(self, name: str) -> None:
        self.stages.append(name)

    def step(self, done: int, planned: int, what: str = "") -> None:
        """Notes how far the stage is; ``told`` has the stage and what is at work as well."""
        self.steps.append((done, planned))
        self.told.append((self.stages[-1], done, planned, what))

    def of_stage(self, stage: str) -> list[tuple[int, int]]:
        """How far one stage was, each time that it said so."""
        return [(done, planned) for told, done, planned, _ in self.told if told == stage]

    def epoch(self, outcome: EpochOutcome) -> None:
        self.epochs.append(outcome)


@dataclass
class House:
    """A whole federation of party objects under one roof: no network, no processes."""

    active: ActiveParty
    passive: dict[str, PassiveParty]
    sessions: Sessions
    settings: Settings
    folder: Path

    def train(self, **changes: Any) -> Watcher:
        watcher = Watcher()
        self.active.train(self.settings.plan().changed(**changes), watcher)
        return watcher

    @property
    def active_training(self) -> PartyTraining:
        """The active party's part of the last session."""
        session = self.active._session
        assert session is not None
        return session.training

    def opened(self) -> str:
        """A session that the active party has opened, and nobody has joined."""
        return self.sessions.open(ACTIVE, self.settings.plan(), 2, tuple(self.passive))

    def tested(self) -> DeliveredScores:
        """The active party's test records of the last session."""
        folder = RunFolder(self.folder)
        agreement = folder.record("active").agreement
        assert agreement is not None
        return folder.delivered_scores(agreement)

    def record(self, name: str = "active") -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.folder / f"{name}.json").read_text())
        return content


def small_settings(**changes: Any) -> Settings:
    """Settings for tests: small keys, said in plain words, short waits, as many sessions as it takes."""
    chosen: dict[str, Any] = {
        "most_equations": 1.0,
        "alignments_per_day": 1_000,
        "least_ids": 1,
        "epochs": 2,
        "batch_size": 8,
        "step_timeout": 10,
        "private_seed": 1,
        "key_bits": 512,
        "allow_insecure_keys": True,
        "resume_within": 0,
        **changes,
    }
    if chosen.get("cipher") == "plain":
        del chosen["key_bits"]
    return load_settings(**chosen)


def party_data(
    *, rows: Sequence[int] = range(60), columns: int = 3, labels: Sequence[object] | None = None, seed: int = 1
) -> PartyData:
    """A small table of one party: ids id-0, id-1 and so on in the given order, uniform features, taken as they are."""
    features = np.random.default_rng(seed).uniform(size=(len(rows), columns))
    return data_of(features, ids=[f"id-{row}" for row in rows], labels=labels)


def data_of(
    features: FloatArray,
    *,
    ids: Sequence[str] | None = None,
    labels: Sequence[object] | None = None,
    **settings: Any,
) -> PartyData:
    """A party's table of these features, (n, d), which no session scales."""
    table = Table(
        tuple(ids or (f"id-{row}" for row in range(len(features)))),
        features,
        tuple(f"f{column}" for column in range(features.shape[1])),
        None if labels is None else np.array(labels, dtype=object),
    )
    return PartyData(typed_table_of(table), **{"encoder": "none", **settings})


def with_values(data: PartyData, values: FloatArray) -> PartyData:
    """The same records with these numbers, (n, d), in their place."""
    frame = data.table.frame
    return replace(data, table=replace(data.table, frame=frame * 0 + values))


def values_of(data: PartyData) -> FloatArray:
    """The table's own numbers, (n, d)."""
    return data.table.frame.to_numpy(dtype=np.float64, copy=True)


def features_of(data: PartyData, rows: Sequence[int] | None = None, **plan: Any) -> FloatArray:
    """What a session with these terms trains on: rows of the table in the given order, all of them by default."""
    own = np.arange(len(data.ids)) if rows is None else np.array(rows)
    return data.aligned(own, replace(TrainingPlan(), **plan)).features


def active_data(*, rows: Sequence[int] = range(60), labels: Sequence[object] | None = None) -> PartyData:
    """An active party's table: its bias comes last, labels alternate."""
    features = values_of(party_data(rows=rows, seed=0))
    labels = labels or [("no", "yes")[row % 2] for row in rows]
    return data_of(features[:, :-1], ids=[f"id-{row}" for row in rows], labels=labels, has_bias=True)


@contextmanager
def house(
    folder: Path,
    *,
    active: PartyData | None = None,
    passive: Sequence[PartyData] | None = None,
    passive_settings: Settings | None = None,
    settings: Settings | None = None,
    active_defences: PartyDefences | None = None,
    passive_defences: PartyDefences | None = None,
    score_defences: Sequence[ScoreDefence] = (),
    passive_adversary: Mapping[str, TrainingAttack] | None = None,
    active_adversary: Mapping[str, TrainingAttack] | None = None,
    known: Table | None = None,
    moments: PassiveMoments | None = None,
    known_labels: Table | None = None,
) -> Iterator[House]:
    settings = settings or small_settings()
    passive = [party_data(rows=range(59, 4, -1))] if passive is None else passive
    names = names_of(len(passive) + 1)
    sessions = Sessions(settings.step_timeout, score_defences)
    passive_defences = passive_defences or PartyDefences()
    passive_parties: dict[str, PassiveParty] = {}
    with ExitStack() as stack:

        def ways(name: str) -> dict[str, Any]:
            def find(other: str) -> Any:
                return active_party if other == "active" else passive_parties[other]

            return ways_of(name, [other for other in names if other != name], sessions, find)

        for name, data in zip(names[1:], passive, strict=True):
            passive_parties[name] = PassiveParty(
                PartyContext(
                    name=name,
                    data=data.protected_by(passive_defences),
                    settings=passive_settings or settings,
                    record=RunRecord(folder, name, TrafficMeter()),
                    executor=stack.enter_context(ThreadPoolExecutor()),
                    adversary=TrainingAdversary(passive_adversary or {}, name, folder, known=known_labels),
                    defences=passive_defences,
                    **ways(name),
                )
            )
        active_party = ActiveParty(
            PartyContext(
                name="active",
                data=active or active_data(),
                settings=settings,
                record=RunRecord(folder, "active", TrafficMeter()),
                executor=stack.enter_context(ThreadPoolExecutor(16)),
                adversary=TrainingAdversary(active_adversary or {}, "active", folder, known=known, moments=moments),
                defences=active_defences or PartyDefences(),
                **ways("active"),
            ),
            {name: DirectPassive(party) for name, party in passive_parties.items()},
            AttackHost({}, None),
        )
        yield House(active_party, passive_parties, sessions, settings, folder)
