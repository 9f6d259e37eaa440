"""What is made ahead serves once, is bounded, and changes nothing but the time."""

import pickle
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from vfl.arrays import FloatArray
from vfl.cores import OneCore
from vfl.cores.cores import Result, Task
from vfl.crypto import CipherVector, decrypt_vector, encrypt_vector, mask_vector, matvec
from vfl.crypto.engine import Engine
from vfl.crypto.kernels.portable import PortableKernel
from vfl.crypto.keys import PrivateKey, keygen
from vfl.crypto.pool import Pool, PooledEngine


class Counting:
    """Draws 0, 1, 2, ...: what comes twice was given out twice."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.drawn = 0

    def __call__(self, count: int) -> list[int]:
        with self._lock:
            start, self.drawn = self.drawn, self.drawn + count
        return list(range(start, start + count))


class PoolModel(RuleBasedStateMachine):
    """Any order of taking, topping up and closing."""

    def __init__(self) -> None:
        super().__init__()
        self.draw = Counting()
        self.pool = Pool(self.draw, batch=3)
        self.given: list[int] = []
        self.period = self.most = 0
        self.closed = False

    @rule(count=st.integers(0, 7))
    def take(self, count: int) -> None:
        taken = self.pool.take(count)
        assert len(taken) == count
        self.given += taken
        self.period += count

    @rule()
    def top_up(self) -> None:
        if self.period:
            self.most, self.period = max(self.most, self.period, 3), 0
        had, drawn = len(self.pool), self.draw.drawn
        told = self.pool.top_up()
        made = 0 if self.closed else min(3, max(0, self.most - had))
        assert told == (made > 0)
        assert self.draw.drawn == drawn + made
        assert len(self.pool) == had + made

    @rule()
    def close(self) -> None:
        self.pool.close()
        self.closed = True

    @invariant()
    def each_serves_once_and_few_are_kept(self) -> None:
        assert len(set(self.given)) == len(self.given)
        assert not set(self.given) & set(self.pool._ready)
        assert len(self.pool) <= self.most
        assert not (self.closed and len(self.pool))


TestPoolModel = PoolModel.TestCase
TestPoolModel.settings = settings(stateful_step_count=30)


def test_threads_that_take_while_another_tops_up_never_get_the_same() -> None:
    pool, stop = Pool(Counting(), batch=2), threading.Event()

    def filling() -> None:
        while not stop.is_set():
            pool.top_up()

    with ThreadPoolExecutor(4) as threads:
        threads.submit(filling)
        taken = [one for part in threads.map(lambda _: pool.take(3), range(300)) for one in part]
        stop.set()
    assert max(Counter(taken).values()) == 1
    assert len(taken) == 900


def test_nothing_is_made_ahead_before_anybody_asked() -> None:
    pool = Pool(Counting(), batch=4)
    assert not pool.top_up()
    assert len(pool) == 0


# -- in an engine --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def key() -> PrivateKey:
    return keygen(256, insecure=True)[1]


def _filled(engine: PooledEngine) -> PooledEngine:
    while engine.make_ahead():
        pass
    return engine


def _kept(engine: PooledEngine) -> list[int]:
    return [one for pool in engine._pools.values() for one in pool._ready]


def _step(engine: Engine, key: PrivateKey, features: FloatArray, residual: FloatArray) -> tuple[CipherVector, ...]:
    encrypted = encrypt_vector(key, residual, engine=engine)
    sums = matvec(features, encrypted, engine=engine)
    masked, _ = mask_vector(sums, engine=engine)
    return encrypted, sums, masked


def test_steps_use_what_was_made_ahead_each_once_and_give_the_same_numbers(
    key: PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = np.random.default_rng(3)
    features, residual = generator.normal(size=(5, 2)), generator.normal(size=5)
    engine = PooledEngine.of(Engine())
    _step(engine, key, features, residual)
    made = _kept(_filled(engine))
    assert len(made) == len(set(made))
    assert len(made) >= 5 + 2
    drawn: list[int] = []
    draw = Engine.obfuscators

    def drawing(self: Engine, own: PrivateKey, count: int) -> list[int]:
        drawn.append(count)
        return draw(self, own, count)

    monkeypatch.setattr(Engine, "obfuscators", drawing)
    encrypted, sums, _ = _step(engine, key, features, residual)
    assert drawn == [], "the second step takes what is there"
    assert len(_kept(engine)) == len(made) - 7
    assert not set(_kept(engine)) - set(made)
    np.testing.assert_allclose(decrypt_vector(key, encrypted), residual, atol=2**-32)
    np.testing.assert_allclose(decrypt_vector(key, sums), features.T @ residual, atol=1e-4)
    # An honest n-th power each: decryption to zero is what makes it one.
    assert all(key.raw_decrypt(one) == 0 for one in made)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=5), st.booleans())
@settings(max_examples=15, deadline=None)
def test_ciphertexts_never_share_their_randomness(counts: list[int], between: bool) -> None:
    key = keygen(128, insecure=True)[1]
    engine = PooledEngine.of(Engine())
    seen: list[int] = []
    for count in counts:
        # Encryptions of zero are their randomness.
        seen += engine.encrypt(key, [0] * count) + engine.rerandomisers(key.public_key.n, count)
        if between:
            _filled(engine)
    assert len(set(seen)) == len(seen)


def test_a_closed_engine_keeps_nothing_and_goes_on_computing(key: PrivateKey) -> None:
    engine = PooledEngine.of(Engine())
    engine.obfuscators(key, 3)
    _filled(engine)
    assert _kept(engine)
    engine.close()
    assert not engine.make_ahead()
    other = keygen(128, insecure=True)[1]
    assert key.raw_decrypt(engine.encrypt(key, [7])[0]) == 7
    engine.rerandomisers(other.public_key.n, 2)
    assert not engine.make_ahead()
    assert _kept(engine) == []


class EndingCores(OneCore):
    """Two cores, as far as anybody can tell; a session ends while they compute."""

    count = 2

    def __init__(self) -> None:
        self.end: Callable[[], None] = lambda: None
        self.have_workers = False
        self.maps = 0

    def map(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        self.maps += 1
        for task in tasks:
            self.end()
            self.have_workers = True
            yield function(task)

    def forget(self) -> None:
        self.have_workers = False


def test_who_computes_when_the_session_ends_leaves_no_worker_behind() -> None:
    """A worker has the key: one that is started after a session's end would keep it until the next one's."""
    cores, key = EndingCores(), keygen(512, insecure=True)[1]

    def ended(engine: PooledEngine) -> None:
        engine.close()
        cores.forget()

    rows = np.random.default_rng(0).uniform(size=(64, 40))
    residual = encrypt_vector(key, np.ones(64))
    works: list[Callable[[Engine], object]] = [
        lambda engine: engine.obfuscators(key, 200),
        lambda engine: engine.rerandomisers(key.public_key.n, 200),
        lambda engine: engine.decrypt(key, list(residual.ciphertexts) * 4),
        lambda engine: matvec(rows, residual, engine=engine),
    ]
    for work in works:
        engine = PooledEngine.of(Engine(PortableKernel(), cores))
        cores.end, cores.maps = partial(ended, engine), 0
        work(engine)
        assert cores.maps == 1
        assert not cores.have_workers
    # Afterwards nothing secret goes to any worker.
    cores.end, cores.maps = lambda: None, 0
    for work in works[:3]:
        work(engine)
    assert cores.maps == 0


def test_the_pools_are_of_one_session_and_show_and_pickle_nothing(key: PrivateKey) -> None:
    shared = Engine()
    one, other = PooledEngine.of(shared), PooledEngine.of(shared)
    one.obfuscators(key, 2)
    made = _kept(_filled(one))
    assert _kept(other) == []
    assert one.kernel is other.kernel is shared.kernel
    assert one.cores is shared.cores
    assert not any(str(number) in repr(one) for number in made)
    with pytest.raises(TypeError):
        pickle.dumps(one)
