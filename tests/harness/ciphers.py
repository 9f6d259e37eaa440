"""Plans with each cipher, small."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import pytest

from services.ciphers.formats import CipherFormats
from services.common.agreement import Agreement
from tests.harness.exchanges import SMALL_PLAN
from vfl.crypto import PrivateKey, keygen
from vfl.crypto.messages import HonestMessages

PLAIN = replace(SMALL_PLAN, cipher="plain")
TINY = replace(SMALL_PLAN, key_bits=256)
CIPHERS = pytest.mark.parametrize("plan", [PLAIN, TINY], ids=["plain", "paillier"])


@contextmanager
def in_thread() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as threads:
        yield threads


def honest_messages(agreement: Agreement, name: str, private_key: PrivateKey | None = None) -> HonestMessages:
    """Make a party's messages under a fresh key pair of the agreed length, or under the given one."""
    bits = agreement.plan.key_bits
    formats = CipherFormats(agreement).messages_of(name)
    return HonestMessages(formats, private_key or keygen(bits, insecure=bits < 2048)[1])
