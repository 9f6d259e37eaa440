"""Keys of Paillier for tests."""

from vfl.crypto import PrivateKey, PublicKey

KeyPair = tuple[PublicKey, PrivateKey]
