"""Powers from own tables: n-th powers as uniform as their proof says, made once and only where they pay."""

import math
import pickle
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import phe
import pytest
from gmpy2 import jacobi

from tests.harness.keys import KeyPair
from vfl.crypto import Engine, keygen
from vfl.crypto.kernels import FixedBases, Kernel, PortableKernel
from vfl.crypto.pool import PooledEngine
from vfl.crypto.rerandomising import Rerandomiser


class Counting(PortableKernel):
    """Counts tables and powers."""

    tables = 0
    powers_drawn = 0

    def fixed_bases(self, *arguments: Any) -> FixedBases:
        Counting.tables += 1
        return super().fixed_bases(*arguments)

    def powers(self, *arguments: Any) -> list[int]:
        found = super().powers(*arguments)
        Counting.powers_drawn += len(found)
        return found


def drawing(n: int, kernel: Kernel) -> Rerandomiser:
    """One that has its tables."""
    rerandomiser = Rerandomiser(n, kernel)
    rerandomiser.draw(rerandomiser.windows)
    rerandomiser.draw(1)
    assert rerandomiser._tables
    return rerandomiser


@pytest.mark.parametrize("count", [0, 1, 2, 5, 9, 40])
def test_powers_from_tables_are_fresh_and_change_no_plaintext(kernel: Kernel, small_keys: KeyPair, count: int) -> None:
    public, private = small_keys
    drawn = drawing(public.n, kernel).draw(count)
    assert len(set(drawn)) == len(drawn) == count
    assert all(private.raw_decrypt(one) == 0 and math.gcd(one, public.n) == 1 for one in drawn)
    theirs = phe.PaillierPrivateKey(phe.PaillierPublicKey(public.n), private.p, private.q)
    assert all(theirs.raw_decrypt((1 + 7 * public.n) * one % public.n_squared) == 7 for one in drawn)


def test_a_power_is_that_of_its_bases_and_digits(small_keys: KeyPair, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the definition: (prod rho_k**d_k)**n, a unit and a digit for every window."""
    n, units = small_keys[0].n, list(range(2, 10_000))
    rerandomiser = Rerandomiser(n, PortableKernel())
    rerandomiser.draw(rerandomiser.windows)
    monkeypatch.setattr("vfl.crypto.rerandomising.random_unit", lambda _: units.pop(0))
    digits = [(7 * k + 3) % 256 for k in range(rerandomiser.windows)]
    monkeypatch.setattr("secrets.randbits", lambda bits: int.from_bytes(bytes(digits), "little") % (1 << bits))
    unit = math.prod(base**digit for base, digit in enumerate(digits, 2))
    assert rerandomiser.draw(1) == [pow(unit % n, n, n * n)]


def test_tables_are_made_once_and_only_for_who_draws_many(small_keys: KeyPair) -> None:
    Counting.tables = Counting.powers_drawn = 0
    engine = Engine(Counting())
    n, windows = small_keys[0].n, Rerandomiser(small_keys[0].n, Counting()).windows
    for _ in range(windows):
        engine.rerandomisers(n, 1)
    assert (Counting.tables, Counting.powers_drawn) == (0, windows)
    with ThreadPoolExecutor(4) as threads:
        drawn = [one for part in threads.map(lambda _: engine.rerandomisers(n, 5), range(8)) for one in part]
    assert (Counting.tables, Counting.powers_drawn) == (1, 2 * windows)
    assert len(set(drawn)) == 40


@pytest.mark.parametrize("bits", [1024, 2048, 3072, 4096])
def test_there_are_more_windows_than_a_hostile_modulus_has_factors(bits: int) -> None:
    """Both terms of the bound on the distance: of what digits have in common, and of how many digits there are."""
    windows = Rerandomiser((1 << bits) - 1, PortableKernel()).windows
    factors = int(bits / math.log2(6370))
    assert factors - windows <= -128
    assert bits - 8 * windows <= -128


def test_a_product_of_a_tiny_group_is_uniform() -> None:
    """Z_n* of 15: eight elements, products of smaller groups only."""
    n = 15
    counts = Counter(drawing(n, PortableKernel()).draw(8000))
    assert set(counts) == {pow(unit, n, n * n) for unit in range(n) if math.gcd(unit, n) == 1}
    assert all(abs(count - 1000) < 7 * 1000**0.5 for count in counts.values())


def test_tables_end_with_their_session(small_keys: KeyPair) -> None:
    shared = Engine()
    one, n = PooledEngine.of(shared), small_keys[0].n
    one.rerandomisers(n, 2)
    assert set(one._rerandomisers) == {n}
    assert not shared._rerandomisers
    with pytest.raises(TypeError):
        pickle.dumps(one._rerandomisers[n])
    one.close()
    assert not one._rerandomisers
    assert len(one.rerandomisers(n, 2)) == 2


def test_an_engine_of_no_session_has_tables_of_the_latest_keys_only(small_keys: KeyPair) -> None:
    """Every model that is served on shares comes with a key: retrainings would fill the memory."""
    n = small_keys[0].n
    lasting, session = Engine(), PooledEngine.of(Engine())
    for number in range(5):
        for engine in (lasting, session):
            assert len(engine.rerandomisers(n + 2 * number, 1)) == 1
    assert set(lasting._rerandomisers) == {n + 6, n + 8}
    assert len(session._rerandomisers) == 5


def test_powers_of_one_base_would_be_seen_through() -> None:
    """Why bases are independent: the powers of one stay in a subgroup, where half of all units aren't."""
    n = keygen(128, insecure=True)[0].n
    kernel = PortableKernel()
    single = [pow(4, k, n) for k in range(64)]
    assert len({math.gcd(one, n) for one in single}) == 1
    several = drawing(n, kernel).draw(64)
    assert {jacobi(one, n) for one in single} == {1}
    assert {jacobi(one, n) for one in several} == {1, -1}
