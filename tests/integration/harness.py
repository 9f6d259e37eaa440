"""Federations for tests: exchanges wired to each other, whole parties in one process, and real processes."""

import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from numpy.typing import NDArray

from attacks.training_views import TrainingAttack
from defences import ScoreDefence
from plumbline.audit import AuditRequest
from plumbline.federation import Federation
from plumbline.processes import LocalProcesses
from services.active.attack_host import AttackHost
from services.active.interfaces import EpochOutcome
from services.active.party import ActiveParty
from services.common.agreement import Agreement, PartyDescription, TrainingPlan
from services.common.certificates import CertificateFiles
from services.common.identity import Identity, Role, role_of
from services.common.metrics import StageTimer, TrafficMeter
from services.common.scores import PartialScores
from services.common.settings import Settings, load_settings
from services.common.transport import Transport
from services.coordinator.sessions import Sessions
from services.party.adversary import TrainingAdversary
from services.party.cipher import DecryptedVector, PublicKeyShown, WireVector, make_cipher
from services.party.defences import PartyDefences
from services.party.exchange import GradientExchange
from services.party.features import PartyData
from services.party.record import RunRecord
from services.party.training import PartyTraining, Peer
from services.passive.party import PassiveParty
from vfl.data import (
    DATASETS,
    BlindedIds,
    common_order,
    encode_labels,
    fit_encoder,
    is_signed,
    load_dataset,
    magnitude_bits,
    party_share,
    rows_of,
    snap_to_grid,
)
from vfl.learning import BatchSchedule, initial_weights, split_rows, train_centrally

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

SESSION = "session"
# Small keys for speed; the tests at 2048 bits say so.
SMALL_PLAN = TrainingPlan(epochs=3, batch_size=8, key_bits=512)


# -- level 1: Protocol 1 without anything around it -------------------------------------------------------------------


@dataclass(frozen=True)
class Problem:
    """Blocks of features by party, the active party first with its bias last, and labels."""

    blocks: dict[str, FloatArray]
    labels: IntArray
    classes: int

    @property
    def rows(self) -> int:
        return len(self.labels)

    def agreement(self, plan: TrainingPlan) -> Agreement:
        parties = tuple(
            PartyDescription(name, block.shape[1], magnitude_bits(block), is_signed(block), self.rows)
            for name, block in self.blocks.items()
        )
        return Agreement(SESSION, plan, self.classes, parties)


def problem_of(features: FloatArray, labels: IntArray, parties: int) -> Problem:
    """Deal columns out to ``parties``, min-max scaled and snapped to the grid, with a bias for the active one."""
    low, high = features.min(axis=0), features.max(axis=0)
    scaled = snap_to_grid((features - low) / np.where(high > low, high - low, 1.0))
    blocks = np.array_split(scaled, parties, axis=1)
    blocks[0] = np.hstack([blocks[0], np.ones((len(features), 1))])
    return Problem(dict(zip(names_of(parties), blocks, strict=True)), labels, int(labels.max()) + 1)


def random_problem(*, rows: int = 37, columns: int = 6, parties: int = 2, classes: int = 2, seed: int = 5) -> Problem:
    generator = np.random.default_rng(seed)
    labels = np.arange(rows) % classes
    return problem_of(generator.normal(size=(rows, columns)) + labels[:, None], labels, parties)


def names_of(parties: int) -> list[str]:
    return ["active", "passive"] if parties == 2 else ["active", *(f"passive-{i}" for i in range(1, parties))]


class DirectPeer:
    """The other end of Protocol 1 in the same process."""

    def __init__(self, sender: str, exchange_of: Callable[[str], GradientExchange]) -> None:
        self._sender = sender
        self._exchange_of = exchange_of

    def send_public_key(self, session_id: str, key: PublicKeyShown) -> None:
        self._exchange_of(session_id).receive_public_key(self._sender, key)

    def send_residuals(self, session_id: str, step: int, vector: WireVector) -> None:
        self._exchange_of(session_id).receive_residuals(self._sender, step, vector)

    def decrypt(self, session_id: str, step: int, vector: WireVector) -> DecryptedVector:
        return self._exchange_of(session_id).answer_sums(self._sender, step, vector)


def _ignore(step: int, timer: StageTimer) -> None:
    """Watches nothing."""


@contextmanager
def wired(
    problem: Problem,
    plan: TrainingPlan,
    *,
    timeout: float = 30.0,
    through: Callable[[str, Peer], Peer] = lambda sender, peer: peer,
    defences: Mapping[str, PartyDefences] | None = None,
) -> Iterator[dict[str, PartyTraining]]:
    """Trainings of all parties, wired to each other; ``through`` may put something between a sender and its peer."""
    agreement = problem.agreement(plan)
    trainings: dict[str, PartyTraining] = {}

    def peer(sender: str, receiver: str) -> Peer:
        return through(sender, DirectPeer(sender, lambda _: trainings[receiver].exchange))

    with ExitStack() as stack:
        for number, name in enumerate(problem.blocks):
            trainings[name] = PartyTraining(
                agreement,
                name,
                problem.blocks[name],
                problem.labels if number == 0 else None,
                {other: peer(name, other) for other in problem.blocks if other != name},
                generator=np.random.default_rng(100 + number),
                timeout=timeout,
                executor=stack.enter_context(ThreadPoolExecutor(thread_name_prefix=name)),
                defences=(defences or {}).get(name),
            )
        yield trainings


def run_together(trainings: Mapping[str, PartyTraining], epochs: int) -> list[FloatArray]:
    """Show keys, run ``epochs`` epochs with one thread per party; returns every party's weights."""
    for training in trainings.values():
        training.show_public_key()
    with ThreadPoolExecutor(len(trainings)) as threads:
        for epoch in range(epochs):
            running = [threads.submit(training.run_epoch, epoch, _ignore) for training in trainings.values()]
            for done in running:
                done.result()
    return [training.weights for training in trainings.values()]


def train_encrypted(problem: Problem, plan: TrainingPlan) -> list[FloatArray]:
    with wired(problem, plan) as trainings:
        return run_together(trainings, plan.epochs)


def train_plainly(problem: Problem, plan: TrainingPlan, seeds: Sequence[int] | None = None) -> list[FloatArray]:
    """The yardstick: the same training in float64 in one place, from the same initial weights."""
    columns = 1 if problem.classes == 2 else problem.classes
    blocks = list(problem.blocks.values())
    generators = [np.random.default_rng(seed) for seed in seeds or range(100, 100 + len(blocks))]
    split = split_rows(
        problem.rows,
        validation_fraction=plan.validation_fraction,
        test_fraction=plan.test_fraction,
        seed=plan.seed,
    )
    spared = [np.zeros(block.shape[1], dtype=np.bool_) for block in blocks]
    spared[0][-1] = True
    return train_centrally(
        blocks,
        problem.labels,
        [
            initial_weights(
                plan.initialisation,
                block.shape[1],
                columns,
                total_features=sum(b.shape[1] for b in blocks),
                generator=generator,
            )
            for block, generator in zip(blocks, generators, strict=True)
        ],
        classes=problem.classes,
        schedule=BatchSchedule(split.train, plan.batch_size, plan.seed),
        epochs=plan.epochs,
        learning_rate=plan.learning_rate,
        l2=plan.l2,
        unpenalised=spared,
    )


def largest_difference(one: Sequence[FloatArray], other: Sequence[FloatArray]) -> float:
    return max(float(np.abs(a - b).max()) for a, b in zip(one, other, strict=True))


@dataclass(frozen=True)
class ExchangePair:
    """The active party's exchange under test and a passive peer's cipher that speaks to it; keys are shown."""

    exchange: GradientExchange
    peer: GradientExchange
    rows: int
    features: FloatArray

    def peer_residuals(self, step: int) -> WireVector:
        """Some residuals of the peer, afresh at each call."""
        return self.peer._cipher.encrypt(np.full((self.rows, 1), 0.5 + step / 16))

    def peer_sums(self, own_residuals: WireVector) -> WireVector:
        """The peer's masked sums of this side's residuals, afresh at each call."""
        cipher = self.peer._cipher
        return cipher.mask("active", cipher.combine("active", self.features, own_residuals))[0]


def exchange_pair(
    plan: TrainingPlan, *, steps: int = 6, rows: int = 4, timeout: float = 5.0, keys: bool = True
) -> ExchangePair:
    agreement = Agreement(
        SESSION,
        replace(plan, batch_size=rows),
        2,
        (PartyDescription("active", 3, 0, False, 40), PartyDescription("passive", 2, 0, False, 40)),
    )
    mine, theirs = (
        GradientExchange(
            make_cipher(agreement, name), [other], steps=steps, rows_of_step=lambda _: rows, timeout=timeout
        )
        for name, other in (("active", "passive"), ("passive", "active"))
    )
    if keys:
        mine.receive_public_key("passive", theirs.public_key)
    theirs.receive_public_key("active", mine.public_key)
    features = snap_to_grid(np.random.default_rng(3).uniform(size=(rows, 2)))
    return ExchangePair(mine, theirs, rows, features)


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

    def join_session(self, session_id: str, party: PartyDescription) -> Agreement:
        return self.sessions.join(self.caller, session_id, party)

    def submit_partial_scores(self, session_id: str, request_id: int, share: PartialScores) -> None:
        self.sessions.submit(self.caller, session_id, request_id, share)

    def score(self, session_id: str, request_id: int, products: FloatArray) -> FloatArray:
        return self.sessions.score(self.caller, session_id, request_id, products)

    def end_session(self, session_id: str, reason: str) -> None:
        self.sessions.end(self.caller, session_id, reason)


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

    def align(self, session_id: str, request: Iterable[bytes], client_count: int) -> Iterable[bytes]:
        return self.party.align(self.caller, session_id, request)

    def fix_order(self, session_id: str, common_ids: Sequence[str]) -> None:
        self.party.fix_order(self.caller, session_id, list(common_ids))

    def join(self, session_id: str) -> None:
        self.party.join(self.caller, session_id)

    def show_public_key(self, session_id: str) -> None:
        self.party.show_public_key(self.caller, session_id)

    def run_epoch(self, session_id: str, epoch: int) -> None:
        self.party.run_epoch(self.caller, session_id, epoch, _ignore)

    def finish_training(self, session_id: str, kept_epoch: int) -> None:
        self.party.finish_training(self.caller, session_id, kept_epoch)

    def contribute_scores(self, session_id: str, request_id: int, rows: Sequence[int]) -> None:
        self.party.contribute_scores(self.caller, session_id, request_id, list(rows))

    def disclose_parameters(self, session_id: str) -> None:
        """These parties keep their parameters to themselves."""

    def end_session(self, session_id: str, reason: str) -> None:
        self.party.end_session(self.caller, session_id, reason)


@dataclass
class Watcher:
    """Notes what a job tells."""

    stages: list[str] = field(default_factory=list)
    steps: list[tuple[int, int]] = field(default_factory=list)
    epochs: list[EpochOutcome] = field(default_factory=list)

    def stage(self, name: str) -> None:
        self.stages.append(name)

    def step(self, done: int, planned: int) -> None:
        self.steps.append((done, planned))

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
        self.active.train(replace(self.settings.plan(), **changes), watcher)
        return watcher

    def record(self, name: str = "active") -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.folder / f"{name}.json").read_text())
        return content


def small_settings(**changes: Any) -> Settings:
    """Settings for tests: small keys, said in plain words, short waits."""
    chosen: dict[str, Any] = {
        "epochs": 2,
        "batch_size": 8,
        "step_timeout": 10,
        "private_seed": 1,
        "key_bits": 512,
        "allow_insecure_keys": True,
        **changes,
    }
    if chosen.get("cipher") == "plain":
        del chosen["key_bits"]
    return load_settings(**chosen)


def party_data(
    *, rows: Sequence[int] = range(60), columns: int = 3, labels: Sequence[object] | None = None, seed: int = 1
) -> PartyData:
    """A small table of one party: ids id-0, id-1 and so on in the given order, uniform features."""
    features = np.random.default_rng(seed).uniform(size=(len(rows), columns))
    return PartyData(
        tuple(f"id-{row}" for row in rows),
        tuple(f"f{column}" for column in range(columns)),
        features,
        None if labels is None else np.array(labels, dtype=object),
    )


def active_data(*, rows: Sequence[int] = range(60), labels: Sequence[object] | None = None) -> PartyData:
    """An active party's table: the bias is its last column, labels alternate."""
    data = party_data(rows=rows, seed=0, labels=labels or [("no", "yes")[row % 2] for row in rows])
    features = data.features.copy()
    features[:, -1] = 1.0
    return replace(data, features=features)


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
            return party.exchange_of(session_id)

        def peers_of(name: str) -> dict[str, DirectPeer]:
            return {
                other: DirectPeer(name, lambda session_id, other=other: exchange_of(other, session_id))  # type: ignore[misc]
                for other in names
                if other != name
            }

        for name, data in zip(names[1:], passive, strict=True):
            passive_parties[name] = PassiveParty(
                name,
                data.protected_by(passive_defences),
                passive_settings or settings,
                DirectCoordinator(sessions, Identity(Role.PASSIVE, name)),
                peers_of(name),
                RunRecord(folder, name, TrafficMeter()),
                stack.enter_context(ThreadPoolExecutor()),
                TrainingAdversary(passive_adversary or {}, name, folder),
                passive_defences,
            )
        active_party = ActiveParty(
            active or active_data(),
            settings,
            DirectCoordinator(sessions, Identity(Role.ACTIVE, "active")),
            {name: DirectPassive(party) for name, party in passive_parties.items()},
            peers_of("active"),
            RunRecord(folder, "active", TrafficMeter()),
            stack.enter_context(ThreadPoolExecutor(16)),
            AttackHost({}, None),
            TrainingAdversary({}, "active", None),
            active_defences or PartyDefences(),
            name="active",
            insecure_transport=False,
        )
        yield House(active_party, passive_parties, sessions, settings, folder)


# -- level 3: real processes over mTLS --------------------------------------------------------------------------------


def local_processes(folder: Path, *, data: str = "breast_cancer", parties: int = 2, **settings: Any) -> LocalProcesses:
    """Processes of a registered data set's federation, not started; their records go to ``folder``/parties."""
    request = AuditRequest(data=data, parties=parties, settings=settings)
    return LocalProcesses(folder, request.party_settings(folder / "parties"))


# Small keys, few rows per step and short waits: for tests of anything but the arithmetic.
QUICK = {
    "key_bits": 512,
    "allow_insecure_keys": True,
    "batch_size": 64,
    "epochs": 1,
    "step_timeout": 8,
}


@contextmanager
def quick_federation(folder: Path, **settings: Any) -> Iterator[Federation]:
    with Federation.start(local_processes(folder, **{**QUICK, **settings})) as federation:
        yield federation


def dial(processes: LocalProcesses, caller: str, callee: str, certificates: Path | None = None) -> grpc.Channel:
    """A channel from party ``caller``, with its own certificate, to ``callee``."""
    files = CertificateFiles.of(certificates or processes.certificates, caller)
    transport = Transport(Identity(role_of(caller), caller), files, TrafficMeter())
    return transport.dial(processes.addresses[callee], callee)


def refused(error: pytest.ExceptionInfo[grpc.RpcError]) -> tuple[grpc.StatusCode, str]:
    """Status and words of a refused call."""
    call = error.value
    assert isinstance(call, grpc.Call)
    return call.code(), call.details() or ""


def registered_problem(processes: LocalProcesses, name: str, plan: TrainingPlan) -> Problem:
    """What the processes train on, put together again: a test may see all the data."""
    parties = [party for party in processes.settings if party != "coordinator"]
    missing = float(str(processes.settings["active"].get("missing_fraction", 0.02)))
    tables = [
        party_share(load_dataset(name, Path("data")), number, len(parties), seed=0, missing_fraction=missing)
        for number in range(len(parties))
    ]
    common = common_order(set(tables[0].ids).intersection(*(table.ids for table in tables[1:])))
    blocks = {}
    for party, table in zip(parties, tables, strict=True):
        encoded = fit_encoder("minmax", table.features).transform(table.features)
        if party == "active":
            encoded = np.hstack([encoded, np.ones((len(encoded), 1))])
        blocks[party] = snap_to_grid(encoded[rows_of(table.ids, common)], plan.feature_fraction_bits)
    labels = tables[0].labels
    assert labels is not None
    indices, _ = encode_labels(labels)
    return Problem(blocks, indices[rows_of(tables[0].ids, common)], DATASETS[name].classes)


def weights_of(folder: Path, parties: Sequence[str]) -> list[FloatArray]:
    """What each party wrote of its own weights."""
    return [np.load(folder / f"{name}-weights.npz")["weights"] for name in parties]
