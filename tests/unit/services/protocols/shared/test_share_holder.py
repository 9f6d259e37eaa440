"""Training on shared weights against float64, what each party sees of it, and that nothing depends on what it sees."""

import secrets
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from gmpy2 import isqrt, next_prime
from hypothesis import given, settings
from hypothesis import strategies as st

from services.common.errors import OutOfOrder
from tests.harness.shared_sessions import (
    SHARED_PLAN,
    SharedProblem,
    SharedSession,
    keys_of,
    largest_error,
    trained_in_float64,
)
from vfl.crypto import PrivateKey, PublicKey
from vfl.crypto.sharing.shares import Shares

# Every rounding aligned: 1,000 steps at a rate of .5, 30 columns and a bias (docs of ShareHolder's numbers).
TOLERANCE = 1e-6


def error_after(session: SharedSession, steps: int | None = None) -> float:
    first = session.joined()
    session.train(steps)
    return largest_error(session, trained_in_float64(session, first, steps))


@pytest.mark.slow("what rounding adds up to shows after a thousand encrypted steps")
@pytest.mark.parametrize(("columns", "classes"), [((2, 2), 2), pytest.param((2, 1, 2), 3, marks=pytest.mark.thorough)])
def test_a_thousand_steps_are_those_of_float64(columns: tuple[int, ...], classes: int) -> None:
    """With L2, a bias, negative features and batches of unequal size."""
    problem = SharedProblem.random(rows=10, columns=columns, classes=classes)
    plan = SHARED_PLAN.changed(epochs=250, key_bits=256, batch_size=3, l2=0.01)
    session = SharedSession.begin(problem, plan)
    assert {len(batch) for _, batch in session.batches()} == {2, 3}
    assert sum(1 for _ in session.batches()) == 1000
    # Rounding without bias stays far below the bound.
    assert error_after(session) < 1e-8 < TOLERANCE


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("columns", [(3, 2), (3, 2, 1), (1, 2, 3, 4)])
@pytest.mark.parametrize("signed", [False, True])
def test_parties_classes_and_signs(columns: tuple[int, ...], classes: int, signed: bool) -> None:
    problem = SharedProblem.random(columns=columns, classes=classes, signed=signed)
    session = SharedSession.begin(problem, SHARED_PLAN.changed(epochs=1, l2=0.1))
    assert error_after(session) < 1e-9


@settings(max_examples=12, deadline=None)
@given(
    rows=st.integers(1, 40),
    batch_size=st.integers(1, 40),
    columns=st.lists(st.integers(1, 9), min_size=2, max_size=4).map(tuple),
    key_bits=st.sampled_from([256, 512, 768]),
    initialisation=st.sampled_from(["zero", "normal", "xavier"]),
)
def test_any_shape(rows: int, batch_size: int, columns: Any, key_bits: int, initialisation: str) -> None:
    """One row, one block, a last block of fewer rows, columns that don't fill their answers."""
    problem = SharedProblem.random(rows=rows, columns=columns, seed=rows)
    plan = SHARED_PLAN.changed(key_bits=key_bits, batch_size=batch_size, initialisation=initialisation)
    assert error_after(SharedSession.begin(problem, plan), steps=3) < 1e-9


def test_a_modulus_just_above_a_power_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room above the highest slot is counted from the shortest modulus of its length."""
    key = _shortest_key(512)
    assert key.public_key.n.bit_length() == 512
    assert key.public_key.n - 2**511 < 2**400
    monkeypatch.setattr(
        "tests.harness.shared_sessions.keys_of", lambda count, bits: [key, *keys_of(count, bits)][:count]
    )
    assert error_after(SharedSession.begin(SharedProblem.random())) < 1e-9


def _shortest_key(bits: int) -> PrivateKey:
    p = q = int(isqrt(2 ** (bits - 1)))
    while True:
        p, q = q, int(next_prime(q))
        while q % 4 != 3 or (q - 1) % 3 == 0:
            q = int(next_prime(q))
        try:
            if p * q > 2 ** (bits - 1):
                return PrivateKey(p, q)
        except ValueError:
            continue


def test_one_step_at_2048_bits() -> None:
    problem = SharedProblem.random(columns=(3, 2))
    session = SharedSession.begin(problem, SHARED_PLAN.changed(key_bits=2048, batch_size=37))
    assert error_after(session, steps=1) < 1e-9


# --- what is seen ---


def test_nobody_sends_a_number_that_it_decrypted() -> None:
    session = SharedSession.begin(SharedProblem.random(columns=(3, 2, 2)))
    session.train(4)
    seen = {number for engine in session.engines.values() for number in engine.decrypted}
    sent = {int(number) for *_, content in session.sent for number in np.ravel(np.array(content, dtype=object))}
    assert seen
    assert not seen & sent


@pytest.mark.parametrize("columns", [(3, 2), (3, 2, 2)])
def test_other_labels_show_a_passive_party_the_same_numbers(columns: tuple[int, ...]) -> None:
    """Masks r' = r + P - P' mod n stand one to one for the label party's r: so nothing tells both labels apart."""
    problem = SharedProblem.random(columns=columns)
    swapped = SharedProblem(problem.blocks, 1 - problem.labels, problem.classes)
    plan = SHARED_PLAN.changed(batch_size=13)
    passive = [name for name in problem.blocks if name != "active"]
    records: dict[str, list[int]] = {name: [] for name in problem.blocks}
    session = SharedSession.begin(problem, plan, draws={name: _recorded(records[name]) for name in problem.blocks})
    session.train(5)

    keys = {key.public_key.n: key for key in keys_of(len(problem.blocks), plan.key_bits)}
    replayed: dict[str, Callable[[int], int]] = {name: _replayed(records[name]) for name in passive}
    coupling = _Coupled(session.engines["active"].bare, records["active"], keys)
    other = SharedSession.begin(swapped, plan, draws={**replayed, "active": lambda n: coupling(n)})
    coupling.bare = other.engines["active"].bare
    other.train(5)

    for name in passive:
        assert other.engines[name].decrypted == session.engines[name].decrypted
        assert (_integers(other, name) == _integers(session, name)).all()
    for one, same in zip(_handed(session), _handed(other), strict=True):
        assert (one == same).all()
    assert largest_error(session, other.joined()) > 0.01


class _Coupled:
    """Draws for another run's answers the masks under which the keeper decrypts what it did in the first run."""

    def __init__(self, bare: list[int], summands: list[int], keys: dict[int, PrivateKey]) -> None:
        self._first, self._keys, self.bare = deque(zip(bare, summands, strict=True)), keys, list[int]()
        self._used = 0

    def __call__(self, n: int) -> int:
        (before, summand), now = self._first.popleft(), self.bare[self._used]
        self._used += 1
        return (summand + self._keys[n].raw_decrypt(before) - self._keys[n].raw_decrypt(now)) % n


def _recorded(record: list[int]) -> Callable[[int], int]:
    def draw(n: int) -> int:
        record.append(secrets.randbelow(n))
        return record[-1]

    return draw


def _replayed(record: list[int]) -> Callable[[int], int]:
    left = deque(record)
    return lambda n: left.popleft()


def _integers(session: SharedSession, name: str) -> Any:
    weights: Any = session.halves[name].weights
    return weights.integers


def _handed(session: SharedSession) -> list[Any]:
    return [content for kind, *_, content in session.sent if kind == "handed"]


# --- nothing depends on content ---


def _noise(kind: str, content: Any, key: PublicKey, gradient_ring: int) -> Any:
    if kind == "handed":
        shape = np.shape(content)
        return np.array([secrets.randbits(gradient_ring) for _ in range(int(np.prod(shape)))], dtype=object).reshape(
            shape
        )
    return [key.raw_encrypt(secrets.randbelow(key.n), secrets.randbelow(key.n)) for _ in content]


def _overflowing(kind: str, content: Any, key: PublicKey, gradient_ring: int) -> Any:
    if kind == "handed":
        return content + (1 << 2000)
    return [pow(one, 1 << key.bits // 2, key.n_squared) for one in content]


@pytest.mark.parametrize("bad", [_noise, _overflowing])
@pytest.mark.parametrize("attacked", ["rows", "blocks", "forward", "backward", "handed"])
def test_whatever_arrives_the_session_goes_on_alike(attacked: str, bad: Callable[..., Any]) -> None:
    """Same counts, same work; all that changes is the model. What is decrypted is as uniform as ever."""
    problem = SharedProblem.random(columns=(3, 2, 2))
    honest = SharedSession.begin(problem)
    honest.train(6)
    keys = dict(zip(problem.blocks, keys_of(3, SHARED_PLAN.key_bits), strict=True))
    ring = honest.terms.formats.gradient_ring

    def tamper(kind: str, sender: str, receiver: str, content: Any) -> Any:
        if kind != attacked:
            return content
        owner = sender if kind in ("rows", "blocks") else receiver
        return bad(kind, content, keys[owner].public_key, ring)

    session = SharedSession.begin(problem, tamper=tamper)
    session.train(6)
    assert _shape_of(session) == _shape_of(honest)
    for name, engine in session.engines.items():
        assert engine.multiplied == honest.engines[name].multiplied
        assert len(engine.decrypted) == len(honest.engines[name].decrypted)


def _shape_of(session: SharedSession) -> list[tuple[str, str, str, int, int]]:
    return [(*who, len(content)) for *who, content in session.sent]  # type: ignore[misc]


def test_what_is_decrypted_is_uniform_under_overflowing_ciphertexts() -> None:
    """Kolmogorov and Smirnov at 1e-6, for a key holder that encrypts what fills all slots and more."""
    problem = SharedProblem.random(rows=200, columns=(6, 6))
    keys = dict(zip(problem.blocks, keys_of(2, 512), strict=True))
    for bad in (lambda kind, content, key, ring: content, _overflowing):
        session = SharedSession.begin(
            problem,
            SHARED_PLAN.changed(batch_size=100),
            tamper=lambda kind, sender, receiver, content, bad=bad: (
                bad(kind, content, keys[sender].public_key, 0) if kind in ("rows", "blocks") else content
            ),
        )
        session.train(4)
        for name, engine in session.engines.items():
            n = keys[name].public_key.n
            ordered = np.sort([number * 2**50 // n / 2**50 for number in engine.decrypted])
            assert len(ordered) > 90
            distance = np.abs(ordered - (np.arange(len(ordered)) + 0.5) / len(ordered)).max()
            assert distance * len(ordered) ** 0.5 < 2.7


def test_a_rate_that_diverges_ends_nothing() -> None:
    session = SharedSession.begin(SharedProblem.random(), SHARED_PLAN.changed(learning_rate=1e6, epochs=4))
    session.train()
    honest = SharedSession.begin(SharedProblem.random(), SHARED_PLAN.changed(epochs=4))
    honest.train()
    assert _shape_of(session) == _shape_of(honest)


def test_blocks_of_other_rows_make_another_model_and_nothing_else() -> None:
    problem = SharedProblem.random()

    def tamper(kind: str, sender: str, receiver: str, content: Any) -> Any:
        return list(reversed(content)) if kind == "blocks" and sender == "active" else content

    session = SharedSession.begin(problem, tamper=tamper)
    assert error_after(session) > 1e-3


# --- once ---


def test_a_step_is_answered_once() -> None:
    """The same request gets the same bytes, another one in its place is refused; steps that are over are forgotten."""
    session = SharedSession.begin(SharedProblem.random())
    holder, (step, batch) = session.holders["passive-1"], next(session.batches())
    weights = Shares(_integers(session, "passive-1"), session.terms.formats.product_fraction_bits)
    first = holder.forward(step, batch, weights)
    assert holder.forward(step, batch, weights) == first
    with pytest.raises(OutOfOrder, match="answered once"):
        holder.forward(step, batch, weights + 1.0)
    holder.forget(step + 1)
    again = holder.forward(step, batch, weights)
    assert not set(again["active"]) & set(first["active"])


def test_masks_of_two_answers_are_independent() -> None:
    """The difference of two answers to the same exponents is no number that exponents explain."""
    session = SharedSession.begin(SharedProblem.random())
    holder, (_, batch) = session.holders["passive-1"], next(session.batches())
    weights = Shares(_integers(session, "passive-1"), session.terms.formats.product_fraction_bits)
    key = keys_of(2, SHARED_PLAN.key_bits)[0]
    plain = [[key.raw_decrypt(one) for one in holder.forward(step, batch, weights)["active"]] for step in (0, 1)]
    assert all(abs(one - other).bit_length() > 450 for one, other in zip(*plain, strict=True))
