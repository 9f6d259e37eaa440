"""What of a step reaches a Dask cluster, byte by byte: the peer's ciphertexts, and nothing of the party's own keys."""

import secrets
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from services.protocol1.formats import CipherFormats
from tests.harness.clusters import connected, running_cluster
from tests.harness.exchanges import SMALL_PLAN, random_problem
from tests.harness.proxy import Proxy
from vfl.cores.cores import OneCore
from vfl.crypto import keygen, vectors
from vfl.crypto.engine import Engine
from vfl.crypto.kernels import PortableKernel
from vfl.crypto.kernels.integers import random_unit
from vfl.crypto.messages import HonestMessages

pytest.importorskip("distributed", reason="needs the extra dask")
PLAN = replace(SMALL_PLAN, key_bits=1024, batch_size=32)


@pytest.fixture
def heard(tmp_path: Path) -> Iterator[Proxy]:
    """A cluster, and all that passes between it and whoever uses it; its workers hear nothing but from there."""
    with running_cluster(tmp_path) as running:
        proxy = Proxy(running.address.removeprefix("tcp://"), listens=True)
        yield proxy
        proxy.close()


def forms_of(number: int) -> list[bytes]:
    """A number as it may stand in a message."""
    size = (number.bit_length() + 7) // 8
    big = number.to_bytes(size, "big")
    return [big, big[::-1], str(number).encode(), f"{number:x}".encode(), f"{number:X}".encode()]


def test_no_prime_mask_or_randomness_reaches_a_cluster(heard: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    masks: list[int] = []
    randomness: list[int] = []

    class Recording:
        """The operating system's randomness, noted."""

        @staticmethod
        def randbelow(limit: int) -> int:
            masks.append(secrets.randbelow(limit))
            return masks[-1]

    def noted(function: Any) -> Any:
        def call(*arguments: Any) -> Any:
            found = function(*arguments)
            randomness.extend(found if isinstance(found, list) else [found])
            return found

        return call

    monkeypatch.setattr(vectors, "secrets", Recording)
    monkeypatch.setattr("vfl.crypto.rerandomising.random_unit", noted(random_unit))
    for name in ("obfuscators", "rerandomisers"):
        monkeypatch.setattr(Engine, name, noted(getattr(Engine, name)))

    problem = random_problem(rows=80, columns=60)
    formats = {name: CipherFormats(problem.agreement(PLAN)).messages_of(name) for name in problem.blocks}
    cores = connected(f"tcp://{heard.address}", OneCore())
    keys = {name: keygen(PLAN.key_bits, insecure=True)[1] for name in formats}
    engine = Engine(PortableKernel(), OneCore(), cores)
    own = HonestMessages(formats["active"], keys["active"], engine)
    peer = HonestMessages(formats["passive"], keys["passive"])
    rows = {name: problem.gridded[name].integers_of(block[:32]) for name, block in problem.blocks.items()}
    residual = problem.blocks["passive"][:32, :1]

    own.encrypt(0, residual)
    sent = peer.encrypt(0, residual)
    combination = own.combine(0, "passive", rows["active"], sent)
    question = own.mask(0, "passive", combination)
    question.read(peer.answer(0, "active", question.masked))
    asked = peer.mask(0, "active", peer.combine(0, "active", rows["passive"], own.encrypt(0, residual))).masked
    own.answer(0, "passive", asked)
    cores.close()

    assert heard.heard is not None
    passed = b"\0".join(map(bytes, heard.heard.values()))
    # It would be found: what a product is of has passed, as a job writes it.
    assert all(any(form in passed for form in forms_of(one)) for one in sent.ciphertexts)
    assert peer.private_key.public_key.n_squared.to_bytes(256, "big") in passed
    assert len(masks) > 0
    assert len(randomness) > len(masks)
    secret = [own.private_key.p, own.private_key.q, own.private_key.public_key.n, *masks, *randomness]
    secret += question.masked.ciphertexts
    assert not [one for one in secret for form in forms_of(one) if form in passed]
