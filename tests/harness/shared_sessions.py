"""Training on shared weights in one thread, at all parties at once; shares are joined here and nowhere else."""

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from services.common.agreement import Agreement, PartyDescription, TrainingPlan
from services.common.learner_calls import LearnerCalls
from services.protocols.shared.share_holder import ShareHolder
from services.protocols.shared.shared_half import begin_half
from services.protocols.shared.shared_terms import SharedTerms
from vfl.arrays import FloatArray, IntArray
from vfl.crypto import Engine, PrivateKey, keygen
from vfl.crypto.kernels import ProductTask
from vfl.crypto.sharing.shares import Shares
from vfl.learning import Half, OwnData, ResidualScheme, TrainingColumns

SESSION = "5e55104e" * 4
SHARED_PLAN = TrainingPlan(epochs=2, batch_size=8, key_bits=512, validation_fraction=0.0, test_fraction=0.0)
_KEYS: dict[int, list[PrivateKey]] = {}


def keys_of(count: int, bits: int) -> list[PrivateKey]:
    """Small keys, made once for all tests; no session of the product is given a key."""
    made = _KEYS.setdefault(bits, [])
    made += [keygen(bits, insecure=True)[1] for _ in range(count - len(made))]
    return made[:count]


@dataclass(frozen=True)
class SharedProblem:
    """Features by party on the session's fixed point, the active party first with its bias last, and labels."""

    blocks: Mapping[str, FloatArray]
    labels: IntArray
    classes: int
    opens_always: bool = True

    @classmethod
    def random(
        cls, *, rows: int = 37, columns: tuple[int, ...] = (3, 2), classes: int = 2, signed: bool = True, seed: int = 5
    ) -> "SharedProblem":
        generator = np.random.default_rng(seed)
        names = ["active", *(f"passive-{i}" for i in range(1, len(columns)))]
        low = -1.0 if signed else 0.0
        blocks = {
            name: np.rint(generator.uniform(low, 1.0, (rows, count)) * 2**16) / 2**16
            for name, count in zip(names, columns, strict=True)
        }
        blocks["active"] = np.hstack([blocks["active"], np.ones((rows, 1))])
        return cls(blocks, generator.integers(0, classes, rows), classes)

    def agreement(self, plan: TrainingPlan = SHARED_PLAN) -> Agreement:
        parties = tuple(
            PartyDescription(
                name, block.shape[1], 0, bool((block < 0).any()), len(block), opens_always=self.opens_always
            )
            for name, block in self.blocks.items()
        )
        return Agreement(SESSION, plan, self.classes, parties)

    def terms(self, plan: TrainingPlan = SHARED_PLAN) -> SharedTerms:
        return SharedTerms(self.agreement(plan))

    def own(self, name: str, plan: TrainingPlan = SHARED_PLAN) -> OwnData:
        """What a party's half is begun with: its own seed, its own columns."""
        agreement, block = self.agreement(plan), self.blocks[name]
        return OwnData(
            block.shape[1],
            self.labels if name == "active" else None,
            self.classes,
            agreement.total_features,
            np.random.default_rng(1 + list(self.blocks).index(name)),
            parties=len(self.blocks),
            trained=TrainingColumns(block, plan.split(len(block)).train),
        )


@dataclass
class SharedSession:
    """All parties of one training, and what each was sent and has decrypted."""

    problem: SharedProblem
    agreement: Agreement
    holders: dict[str, ShareHolder]
    halves: dict[str, Half]
    engines: dict[str, "WatchedEngine"]
    sent: list[tuple[str, str, str, int, Any]] = field(default_factory=list)
    tamper: Callable[[str, str, str, Any], Any] = lambda kind, sender, receiver, content: content

    @property
    def terms(self) -> SharedTerms:
        return SharedTerms(self.agreement)

    @classmethod
    def begin(
        cls,
        problem: SharedProblem,
        plan: TrainingPlan = SHARED_PLAN,
        *,
        draws: Mapping[str, Callable[[int], int]] | None = None,
        **tampering: Any,
    ) -> "SharedSession":
        agreement = problem.agreement(plan)
        terms = SharedTerms(agreement)
        engines, calls = {name: WatchedEngine() for name in problem.blocks}, LearnerCalls(plan.family)
        holders, halves = {}, {}
        for (name, block), key in zip(problem.blocks.items(), keys_of(len(problem.blocks), plan.key_bits), strict=True):
            draw = (draws or {}).get(name, secrets.randbelow)
            own = problem.own(name, plan)
            turn = terms.made_turn(own, calls)
            holders[name] = ShareHolder(terms, name, turn.cells(block), key, engines[name], draw)
            halves[name] = begin_half(terms, name, own, turn)
        session = cls(problem, agreement, holders, halves, engines, **tampering)
        session._show_features(keys_of(len(holders), plan.key_bits))
        return session

    def train(self, steps: int | None = None) -> None:
        for step, batch in islice(self.batches(), steps):
            self.step(step, batch)

    def batches(self) -> Iterator[tuple[int, IntArray]]:
        schedule, plan = self.terms.schedule, self.agreement.plan
        return enumerate(batch for epoch in range(plan.epochs) for batch in schedule.epoch(epoch))

    def step(self, step: int, batch: IntArray) -> None:
        rows = np.concatenate([self.terms.schedule.blocks[number] for number in batch])
        # Opaque to its types, as shares are to a learner.
        programs: dict[str, Any] = {name: half.step(rows) for name, half in self.halves.items()}
        weights = {name: next(program).weights for name, program in programs.items()}
        received: dict[str, dict[str, Any]] = {name: {} for name in self.holders}
        for name, holder in self.holders.items():
            for peer, answer in holder.forward(step, batch, weights[name]).items():
                received[peer][name] = self._send("forward", name, peer, step, answer)
        residual = {}
        for name, holder in self.holders.items():
            (answer,) = received[name].values()
            z = holder.products(step, batch, weights[name], answer)
            residual[name] = programs[name].send(z).values
        answers: dict[str, dict[str, Any]] = {name: {} for name in self.holders}
        handed: dict[str, dict[str, Any]] = {name: {} for name in self.holders}
        for name, holder in self.holders.items():
            found, left = holder.backward(step, batch, residual[name])
            for peer, answer in found.items():
                answers[peer][name] = self._send("backward", name, peer, step, answer)
            for peer, residues in left.items():
                handed[peer][name] = self._send("handed", name, peer, step, residues)
        for name, holder in self.holders.items():
            programs[name].send(None)
            sums = holder.sums(step, batch, residual[name], answers[name], handed[name])
            with suppress(StopIteration):
                raise AssertionError(f"a step goes on with {programs[name].send(sums)}")
            holder.forget(step)

    def joined(self) -> dict[str, FloatArray]:
        """U + V of every party's features, in float64."""
        bits = self.terms.formats.product_fraction_bits
        total: dict[str, Any] = dict.fromkeys(self.holders, 0)
        for name, half in self.halves.items():
            assert isinstance(half.weights, Shares)
            for owner, place in self.terms.places(name).items():
                total[owner] = total[owner] + half.weights.integers[place]
        return {name: (value / 2**bits).astype(np.float64) for name, value in total.items()}

    def _show_features(self, keys: list[PrivateKey]) -> None:
        for (name, holder), key in zip(self.holders.items(), keys, strict=True):
            rows, blocks = (
                holder.encrypted(plain) for plain in (holder.plaintexts_of_rows(), holder.plaintexts_of_blocks())
            )
            for peer, other in self.holders.items():
                if peer != name:
                    other.take_key(name, key.public_key)
                    other.take_rows(name, self._send("rows", name, peer, 0, rows))
            holding = self.terms.holder(name)
            self.holders[holding].take_blocks(name, self._send("blocks", name, holding, 0, blocks))

    def _send(self, kind: str, sender: str, receiver: str, step: int, content: Any) -> Any:
        content = self.tamper(kind, sender, receiver, content)
        self.sent.append((kind, sender, receiver, step, content))
        return content


class WatchedEngine(Engine):
    """Keeps all that a party decrypts, and what it multiplies: shapes of exponents, and answers before their masks."""

    def __init__(self) -> None:
        super().__init__()
        self.decrypted: list[int]
        self.multiplied: list[tuple[int, ...]]
        self.bare: list[int]
        self.__dict__.update(decrypted=[], multiplied=[], bare=[])

    def decrypt(self, private_key: PrivateKey, ciphertexts: Sequence[int]) -> list[int]:
        found = super().decrypt(private_key, ciphertexts)
        self.decrypted += found
        return found

    def product(self, ciphertexts: Sequence[int], task: ProductTask, modulus: int) -> list[int]:
        found = super().product(ciphertexts, task, modulus)
        self.multiplied.append(task.entries.shape)
        self.bare += found
        return found


def trained_in_float64(
    session: SharedSession, initial: Mapping[str, FloatArray], steps: int | None = None
) -> dict[str, FloatArray]:
    """The same steps from the same weights in one place; the bias isn't penalised."""
    problem, learner = session.problem, session.agreement.plan.family
    scheme = ResidualScheme(problem.classes)
    features = np.hstack(list(problem.blocks.values()))
    theta = np.vstack([initial[name] for name in problem.blocks])
    ends = np.cumsum([block.shape[1] for block in problem.blocks.values()])
    penalty = np.full((len(theta), 1), learner.l2)  # type: ignore[attr-defined]
    penalty[ends[0] - 1] = 0.0
    for _, batch in islice(session.batches(), steps):
        rows = np.concatenate([session.terms.schedule.blocks[number] for number in batch])
        residual = scheme.active_share(features[rows] @ theta, problem.labels[rows])
        gradient = scheme.gradient_scale(len(rows)) * features[rows].T @ residual + penalty * theta
        theta = theta - learner.learning_rate * gradient  # type: ignore[attr-defined]
    return dict(zip(problem.blocks, np.split(theta, ends[:-1]), strict=True))


def largest_error(session: SharedSession, expected: Mapping[str, FloatArray]) -> float:
    found = session.joined()
    return max(float(np.abs(found[name] - expected[name]).max()) for name in found)
