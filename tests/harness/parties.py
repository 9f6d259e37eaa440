"""Whole parties in one process, without a network."""

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attacks import PassiveMoments, TrainingAttack
from defences import ScoreDefence
from services.active.interfaces import EpochOutcome, ToldBatches
from services.active.party import ActiveParty
from services.adversary.predictions import AttackHost
from services.adversary.training import TrainingAdversary
from services.common.agreement import Agreement, PartyDescription, ProposedTerms, TrainingPlan
from services.common.errors import OutOfOrder
from services.common.identity import Identity, Role
from services.common.ledger_marks import LedgerMark
from services.common.meters import TrafficMeter
from services.common.run_folder import RunFolder
from services.common.run_records import DeliveredScores
from services.common.scores import PartialScores, Products
from services.common.settings import Settings, load_settings
from services.coordinator.sessions import Sessions
from services.party.context import PartyContext
from services.party.features import PartyData
from services.party.party_defences import PartyDefences
from services.party.party_training import PartyTraining
from services.party.record import RunRecord
from services.party.resumption import Place, Resumption
from services.passive.party import PassiveParty
from services.protocol1.exchange import GradientExchange
from services.shared_weights.share_mailbox import ShareMailbox
from tests.harness.exchanges import DirectPeer, ignore_step, names_of
from tests.harness.shared_wiring import DirectSharePeer
from vfl.arrays import FloatArray
from vfl.data import BlindedIds, Table, typed_table_of
from vfl.data.id_array import IdArray

# -- level 2: whole parties in one process ----------------------------------------------------------------------------

ACTIVE = Identity(Role.ACTIVE, "active")
PASSIVE = Identity(Role.PASSIVE, "passive")


@dataclass(frozen=True)
class DirectCoordinator:
    """The coordinator as one party sees it."""

    sessions: Sessions
    caller: Identity

    def open_session(self, plan: TrainingPlan, classes: int, passive_parties: tuple[str, ...]) -> str:
        return self.sessions.open(self.caller, plan, classes, passive_parties)

    def session_terms(self, session_id: str) -> ProposedTerms:
        return self.sessions.terms(self.caller, session_id)

    def join_session(self, session_id: str, party: PartyDescription) -> Agreement:
        return self.sessions.join(self.caller, session_id, party)

    def note_ledger(self, session_id: str, mark: LedgerMark) -> LedgerMark:
        return self.sessions.note_ledger(self.caller, session_id, mark)

    def submit_partial_scores(self, session_id: str, request_id: int, share: PartialScores) -> int:
        return self.sessions.submit(self.caller, session_id, request_id, share)

    def score(self, session_id: str, request_id: int, products: Products) -> FloatArray:
        return self.sessions.score(self.caller, session_id, request_id, products)

    def end_session(self, session_id: str, reason: str) -> None:
        self.sessions.end(self.caller, session_id, reason)

    def serve_model(self, session_id: str) -> None:
        self.sessions.serve(self.caller, session_id)

    def holds_model(self, session_id: str) -> bool:
        return self.sessions.holds_model(session_id)


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


@dataclass(frozen=True)
class DirectPassive:
    """A passive party as the active party sees it."""

    party: PassiveParty
    caller: Identity = ACTIVE

    def set_up_alignment(self, session_id: str, client_count: int) -> BlindedIds:
        return self.party.set_up_alignment(self.caller, session_id, client_count)

    def align(self, session_id: str, request: Iterable[bytes], client_count: int) -> BlindedIds:
        return BlindedIds(client_count, self.party.align(self.caller, session_id, request))

    def toss(self, session_id: str, commitments: Sequence[bytes] = (), contributions: Sequence[bytes] = ()) -> bytes:
        return self.party.toss(self.caller, session_id, commitments, contributions)

    def fix_order(self, session_id: str, common_ids: IdArray, told: ToldBatches) -> None:
        self.party.fix_order(self.caller, session_id, [common_ids], told.roster, told.key)

    def join(self, session_id: str) -> None:
        self.party.join(self.caller, session_id)

    def show_public_key(self, session_id: str) -> None:
        self.party.show_public_key(self.caller, session_id)

    def run_epoch(self, session_id: str, epoch: int, steps: int, first: int = 0, attempt: int = 0) -> None:
        self.party.run_epoch(self.caller, session_id, epoch, ignore_step, attempt)

    def stop_training(self, session_id: str) -> Place:
        return self.party.stop_training(self.caller, session_id)

    def resume_training(self, session_id: str, resumption: Resumption) -> None:
        self.party.resume_training(self.caller, session_id, resumption)

    def finish_training(self, session_id: str, kept_epoch: int, slope_step: int = 0) -> tuple[float, ...]:
        return self.party.finish_training(self.caller, session_id, kept_epoch, slope_step)

    def contribute_scores(self, session_id: str, request_id: int, rows: Sequence[int], masked: bytes = b"") -> bytes:
        return self.party.contribute_scores(self.caller, session_id, request_id, list(rows), masked)

    def disclose_parameters(self, session_id: str) -> Mapping[str, NDArray[Any]] | None:
        """None from a party that keeps its parameters to itself."""
        with suppress(OutOfOrder):
            return self.party.disclose_parameters(self.caller, session_id).arrays()
        return None

    def end_session(self, session_id: str, reason: str) -> None:
        self.party.end_session(self.caller, session_id, reason)

    def serve_model(self, session_id: str) -> None:
        self.party.serve_model(self.caller, session_id)

    def holds_model(self, session_id: str) -> bool:
        return self.party.holds_model(session_id)


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
        "most_forms": 1.0,
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

        def exchange_of(receiver: str, session_id: str) -> GradientExchange:
            party = active_party if receiver == "active" else passive_parties[receiver]
            return party.exchange_of(session_id, GradientExchange)

        def peers_of(name: str) -> dict[str, DirectPeer]:
            return {
                other: DirectPeer(name, lambda session_id, other=other: exchange_of(other, session_id))  # type: ignore[misc]
                for other in names
                if other != name
            }

        def share_exchange_of(receiver: str, session_id: str) -> ShareMailbox:
            party = active_party if receiver == "active" else passive_parties[receiver]
            return party.exchange_of(session_id, ShareMailbox)

        def share_peers_of(name: str) -> dict[str, DirectSharePeer]:
            return {other: DirectSharePeer(name, partial(share_exchange_of, other)) for other in names if other != name}

        for name, data in zip(names[1:], passive, strict=True):
            passive_parties[name] = PassiveParty(
                PartyContext(
                    name=name,
                    data=data.protected_by(passive_defences),
                    settings=passive_settings or settings,
                    coordinator=DirectCoordinator(sessions, Identity(Role.PASSIVE, name)),
                    peers=peers_of(name),
                    record=RunRecord(folder, name, TrafficMeter()),
                    executor=stack.enter_context(ThreadPoolExecutor()),
                    adversary=TrainingAdversary(passive_adversary or {}, name, folder, known=known_labels),
                    defences=passive_defences,
                    share_peers=share_peers_of(name),
                )
            )
        active_party = ActiveParty(
            PartyContext(
                name="active",
                data=active or active_data(),
                settings=settings,
                coordinator=DirectCoordinator(sessions, Identity(Role.ACTIVE, "active")),
                peers=peers_of("active"),
                record=RunRecord(folder, "active", TrafficMeter()),
                executor=stack.enter_context(ThreadPoolExecutor(16)),
                adversary=TrainingAdversary(active_adversary or {}, "active", folder, known=known, moments=moments),
                defences=active_defences or PartyDefences(),
                share_peers=share_peers_of("active"),
            ),
            {name: DirectPassive(party) for name, party in passive_parties.items()},
            AttackHost({}, None),
        )
        yield House(active_party, passive_parties, sessions, settings, folder)
