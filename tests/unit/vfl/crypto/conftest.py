"""Keys for the tests of `vfl.crypto`: small ones for speed, one of 2048 bits for the real thing."""

import pytest

from tests.harness.keys import KeyPair
from vfl.crypto import keygen


@pytest.fixture(scope="session")
def small_keys() -> KeyPair:
    return keygen(512, insecure=True)


@pytest.fixture(scope="session")
def secure_keys() -> KeyPair:
    return keygen()
