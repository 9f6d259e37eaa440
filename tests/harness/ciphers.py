"""Plans with each cipher, small."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import pytest

from tests.harness.exchanges import SMALL_PLAN

PLAIN = replace(SMALL_PLAN, cipher="plain")
TINY = replace(SMALL_PLAN, key_bits=256)
CIPHERS = pytest.mark.parametrize("plan", [PLAIN, TINY], ids=["plain", "paillier"])


@contextmanager
def in_thread() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as threads:
        yield threads
