"""An engine's batches: what they give on any cores, and what never leaves this process's own children."""

import math
import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import gmpy2
import numpy as np
import pytest

from tests.harness.keys import KeyPair
from vfl.cores import OneCore
from vfl.crypto import Engine, encrypt_vector, mask_vector, matvec
from vfl.crypto.engine import ProductJob
from vfl.crypto.kernels import PortableKernel
from vfl.crypto.vectors import decrypt_integers


class Overheard(OneCore):
    """Two cores in name, which keep what they were given to do."""

    count = 2

    def __init__(self) -> None:
        self.tasks: list[Any] = []

    def map(self, function: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
        for task in tasks:
            self.tasks.append(task)
            yield function(task)


@pytest.mark.parametrize("count", [0, 1, 2, 7, 30])
def test_batches_have_what_was_asked_for(engine: Engine, small_keys: KeyPair, count: int) -> None:
    public_key, private_key = small_keys
    n, n_squared = public_key.n, public_key.n_squared
    plaintexts = [number * n // max(1, count) + number for number in range(count)]
    ciphertexts = engine.encrypt(private_key, plaintexts)
    assert [private_key.raw_decrypt(c) for c in ciphertexts] == plaintexts
    assert engine.decrypt(private_key, ciphertexts) == plaintexts
    for powers in (engine.obfuscators(private_key, count), engine.rerandomisers(n, count)):
        assert len(set(powers)) == len(powers) == count
        # n-th powers decrypt to 0.
        assert all(private_key.raw_decrypt(power) == 0 and math.gcd(power, n) == 1 for power in powers)
        assert all(0 < power < n_squared for power in powers)


def test_workers_share_no_randomness(engine: Engine, small_keys: KeyPair) -> None:
    """Forks of one process that drew alike would give the same obfuscator twice."""
    drawn = [*engine.obfuscators(small_keys[1], 40), *engine.rerandomisers(small_keys[0].n, 40)]
    assert len(set(drawn)) == 80


def test_tasks_with_secrets_of_a_key_are_for_own_workers_only(
    small_keys: KeyPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vfl.crypto.engine._FEWEST_PRODUCTS", 1)
    cores = Overheard()
    engine = Engine(PortableKernel(), cores)
    X, g = np.random.default_rng(1).uniform(size=(9, 4)), np.linspace(-1, 1, 9)
    product = matvec(X, encrypt_vector(small_keys[1], g, engine=engine), engine=engine)
    masked, _ = mask_vector(product, engine=engine)
    decrypt_integers(small_keys[1], masked, engine=engine)
    products = [task for task in cores.tasks if isinstance(task, ProductJob)]
    secret = [task for task in cores.tasks if not isinstance(task, ProductJob)]
    assert len(products) >= 2
    assert len(secret) >= 6
    for task in secret:
        with pytest.raises(TypeError, match="own workers only"):
            pickle.dumps(task)


def test_small_work_stays_in_the_calling_process(small_keys: KeyPair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vfl.crypto.engine._FEWEST_PRODUCTS", 256)
    cores = Overheard()
    engine = Engine(PortableKernel(), cores)
    c = encrypt_vector(small_keys[1], [0.25, 0.5], engine=engine)
    masked, _ = mask_vector(matvec(np.ones((2, 3)), c, engine=engine), engine=engine)
    decrypt_integers(small_keys[1], masked, engine=engine)
    assert not cores.tasks


def test_a_worker_keeps_the_tables_of_few_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    from vfl.cores.own_children import packed_for_child
    from vfl.crypto import keygen, obfuscation

    kernel = PortableKernel()
    packed = [packed_for_child(keygen(128, insecure=True)[1].obfuscator(kernel)) for _ in range(5)]
    cache = obfuscation._obfuscator_of
    cache.cache_clear()
    first = pickle.loads(packed[0])  # noqa: S301
    assert pickle.loads(packed[0]) is first  # noqa: S301
    for other in packed[1:]:
        pickle.loads(other)  # noqa: S301
    assert pickle.loads(packed[0]) is not first  # noqa: S301
    assert cache.cache_info().maxsize == cache.cache_info().currsize <= 4
    cache.cache_clear()


def test_an_engine_says_what_it_is() -> None:
    assert str(Engine(PortableKernel(), OneCore())) == "portable; 1 core"
    assert str(Engine(PortableKernel(), Overheard())) == "portable; 2 cores"


def test_threads_that_share_an_obfuscator_share_its_tables(small_keys: KeyPair) -> None:
    kernel = PortableKernel()
    obfuscator = small_keys[1].obfuscator(kernel)
    assert small_keys[1].obfuscator(kernel) is obfuscator
    drawn = obfuscator.draw(3)
    assert gmpy2.jacobi(drawn[0], small_keys[0].n) == 1
