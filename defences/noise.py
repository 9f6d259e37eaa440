"""The randomness of defences, from the operating system unless a test or a simulation gives a seed."""

import hashlib
import itertools
import math
import secrets
from collections.abc import Callable, Iterable

import numpy as np

from defences.discrete_gaussian import WordArray, discrete_gaussian
from vfl.arrays import FloatArray, IntArray

ByteStream = Callable[[int], bytes]

# Far coarser than the last bits, in which a record's logits differ from batch to batch; far finer than scores.
_RECORD_GRID = 2.0**-24
_SEED_STREAM = 0xDEFE
# The same on every machine.
_WORDS = np.dtype("<u8")


class NoiseSource:
    """Secret randomness of a defence; without a seed it comes from the operating system.

    A seed makes it repeat bit for bit (PCG64), for tests and simulations only: who knows the seed can subtract.

    Attributes:
        is_seeded: whether what is drawn is to be the same in another run.

    Examples:
        >>> NoiseSource(seed=0).integers(10, count=3).tolist() == NoiseSource(seed=0).integers(10, count=3).tolist()
        True
    """

    def __init__(self, seed: int | None = None, *, stream: ByteStream | None = None, key: bytes | None = None) -> None:
        """Take a seed, or a function that gives as many secret bytes as it is asked for.

        ``key`` is the secret behind all that repeats. Without one it is drawn here, and ends with this object.
        """
        if stream is None:
            stream = secrets.token_bytes if seed is None else np.random.default_rng((_SEED_STREAM, seed)).bytes
        self.is_seeded = seed is not None
        self._stream = stream
        self._key = stream(32) if key is None else key

    def gaussian(self, shape: tuple[int, ...]) -> FloatArray:
        """Draw independent standard normal numbers, fresh at each call."""
        return _normal(self._words(math.prod(shape))).reshape(shape)

    def discrete_gaussian(self, shape: tuple[int, ...], deviation: int) -> IntArray:
        """Draw whole numbers of the discrete Gaussian with this deviation, fresh at each call.

        Of the same words they are the same for ever, where ``gaussian`` may change in the last bits with a library.

        Raises:
            ValueError: for a deviation that isn't from 1 to 2^48.
        """
        return discrete_gaussian(self._words, deviation, math.prod(shape)).reshape(shape)

    def integers(self, bound: int, count: int) -> IntArray:
        """Draw ``count`` numbers uniform in [0, bound), fresh at each call; bound far below 2^64."""
        return (self._words(count) % np.uint64(bound)).astype(np.int64)

    def gaussian_per_record(self, records: FloatArray, columns: int) -> FloatArray:
        """Draw standard normal numbers, (n, columns), that are a secret function of each record of an (n, m) matrix.

        The same record gets the same noise however often it is asked for, so that answers can't be averaged. Records
        are told apart on a grid of 2^-24 (keyed SHAKE-256 over it; the key is shown to nobody). Add the noise to
        ``on_grid(records)`` only: records in the same cell share their noise, so that their difference would be bare.
        """
        grid = np.rint(records / _RECORD_GRID).astype(np.int64)
        digests = b"".join(_keyed(self._key, b"record" + row.tobytes(), 8 * columns) for row in grid)
        return _normal(np.frombuffer(digests, dtype=_WORDS)).reshape(len(records), columns)

    def integers_per_text(self, texts: Iterable[str], bits: int) -> IntArray:
        """Draw numbers uniform in [0, 2^bits), bits at most 63, that are a secret function of each text, (n,)."""
        digests = b"".join(_keyed(self._key, b"text" + text.encode(), 8) for text in texts)
        return (np.frombuffer(digests, dtype=_WORDS) >> np.uint64(64 - bits)).astype(np.int64)

    def repeating(self, label: str) -> "NoiseSource":
        """Make a source that gives the same secret sequence each time it is asked for under the same label.

        For what is drawn once and told again and again: a second draw would tell more.
        """
        return NoiseSource(stream=_repeating_stream(self._key, label))

    def of_message(self, *content: bytes) -> "NoiseSource":
        """Make the source of one message, which draws the same whenever it is made of the same content.

        What is drawn is a secret function of the content, of nothing else: not of what was drawn before, of the process
        or of who is sent it. Other content gives independent draws. Noise per record and per text, and what repeats by
        a label, stay those of this source.
        """
        digest = hashlib.sha256(b"".join(len(part).to_bytes(8, "big") + part for part in content)).hexdigest()
        return NoiseSource(stream=_repeating_stream(self._key, f"message/{digest}"), key=self._key)

    def _words(self, count: int) -> WordArray:
        return np.frombuffer(self._stream(8 * count), dtype=_WORDS)


def on_grid(records: FloatArray) -> FloatArray:
    """Round records to multiples of 2^-24, which ``NoiseSource.gaussian_per_record`` tells apart."""
    return np.rint(records / _RECORD_GRID) * _RECORD_GRID


def _repeating_stream(key: bytes, label: str) -> ByteStream:
    """Bytes as a secret function of the label and of how often they were asked for."""
    messages = itertools.chain([label], (f"{label}/{call}" for call in itertools.count()))
    return lambda size: _keyed(key, next(messages).encode(), size)


def _keyed(key: bytes, message: bytes, size: int) -> bytes:
    return hashlib.shake_256(key + message).digest(size)


def _normal(random_words: WordArray) -> FloatArray:
    """Uniform 64-bit words to standard normal numbers: a sign, and the inverse of the lower half's distribution.

    Near 0 doubles are as dense as 63 bits need. The upper half's tail would have gaps wider than the fixed point's
    grid, through which who knows two candidate values tells which one the noise was added to.
    """
    from scipy.special import ndtri  # where it is used: servers start without it

    tail = ((random_words >> np.uint64(1)).astype(np.float64) + 0.5) * 2.0**-64
    normal: FloatArray = np.where(random_words & np.uint64(1), -ndtri(tail), ndtri(tail))
    return normal
