"""Keys for the tests of `vfl.crypto`: small ones for speed, one of 2048 bits for the real thing."""

import pytest

from vfl.crypto import PrivateKey, PublicKey, keygen

KeyPair = tuple[PublicKey, PrivateKey]


@pytest.fixture(scope="session")
def small_keys() -> KeyPair:
    return keygen(512, insecure=True)


@pytest.fixture(scope="session")
def secure_keys() -> KeyPair:
    return keygen()
