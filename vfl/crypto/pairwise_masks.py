"""Masks that cancel in the sum over several parties (Bonawitz et al. 2017, section 4.1, without their recovery).

Each two parties agree on a seed by X25519, and one adds what the other subtracts, modulo 2^64.

Guarantee: whoever sees the masked numbers of all parties learns their sum and nothing else of them, as long as two of
the parties don't tell it their seeds, X25519's shared points look random, and SHAKE-256 is a pseudorandom function. A
mask is for one step: two vectors under the same one would show their difference.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from numpy.typing import NDArray

MASK_KEY_BYTES = 32
# Masks cancel modulo 2 to this.
MASK_BITS = 64
_DOMAIN = b"plumbline pairwise masks v1"


@dataclass(frozen=True)
class AgreedMasks:
    """One party's masks, once it has agreed on seeds with the others: to be kept as secret as they are.

    Attributes:
        name: the party's.
        seeds: of each other party, `MASK_KEY_BYTES`.
    """

    name: str
    seeds: Mapping[str, bytes] = field(repr=False)

    def mask(self, about: bytes, shape: tuple[int, ...]) -> NDArray[np.uint64]:
        """Draw this party's mask of something that all of them name alike; zeros where no other party masks."""
        total = np.zeros(shape, dtype=np.uint64)
        for peer, seed in self.seeds.items():
            stream = hashlib.shake_256(seed + about).digest(total.nbytes)
            peer_mask = np.frombuffer(stream, dtype="<u8").astype(np.uint64).reshape(shape)
            total = total + peer_mask if self.name < peer else total - peer_mask
        return total


class PairwiseMasks:
    """One party's masks of one session, from a key pair that is made for it and never leaves this object.

    Attributes:
        public_key: to be shown to the other parties, 32 bytes.
    """

    def __init__(self, name: str, session_id: str) -> None:
        self._name = name
        self._session_id = session_id
        self._private_key = X25519PrivateKey.generate()
        self._seeds: dict[str, bytes] = {}
        self.public_key = self._private_key.public_key().public_bytes_raw()

    def agree(self, keys: Mapping[str, bytes]) -> None:
        """Agree on a seed with every other party that masks, by its public key.

        Raises:
            ValueError: for what is no key, or one whose seed everybody could guess; with the other party's name.
        """
        for peer, key in keys.items():
            try:
                shared = self._private_key.exchange(X25519PublicKey.from_public_bytes(key))
            except ValueError as error:
                raise ValueError(f"{peer} has shown a key that no masks can follow from: it isn't honest.") from error
            names = sorted([(self._name, self.public_key), (peer, key)])
            content = repr((self._session_id, names)).encode()
            self._seeds[peer] = hashlib.blake2b(_DOMAIN + content, key=shared, digest_size=32).digest()

    def mask(self, step: int, shape: tuple[int, ...]) -> NDArray[np.uint64]:
        """Draw this party's mask of a step, from 0; zeros where no other party masks."""
        return self.agreed.mask(step.to_bytes(8, "big"), shape)

    @property
    def agreed(self) -> AgreedMasks:
        """The seeds, for masks of what comes after this object's life."""
        return AgreedMasks(self._name, dict(self._seeds))
