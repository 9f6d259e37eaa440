"""Parts of an encrypted matrix product, as they are given to cores of this machine or of a cluster.

A job has all that its answers follow from and nothing besides: no key, no mask, no obfuscator. What travels to a
cluster is ``to_bytes`` of it, numbers in fixed places; there is no field that anything else could hide in.
"""

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from gmpy2 import gcd

from vfl.arrays import IntArray
from vfl.crypto.kernels import Kernel, ProductTask, best_kernel
from vfl.crypto.wire import from_bytes, to_bytes

_FIELDS = ("digits", "offsets", "shifts", "answers")


@dataclass(frozen=True, eq=False)
class ProductJob:
    """A part of a product.

    Attributes:
        kernel: what computes it on this machine; elsewhere it is the best kernel there.
        ciphertexts: what the peer has sent, which holds the key; one block or several.
        task: what becomes of them: the party's own features, secret from the peer.
        modulus: n**2 of the peer's key.
    """

    kernel: Kernel
    ciphertexts: Sequence[int]
    task: ProductTask
    modulus: int

    @property
    def answers(self) -> int:
        """How many ciphertexts come out."""
        return len(self.ciphertexts) // len(self.task.entries) * (int(self.task.answers[-1]) + 1)

    @property
    def width(self) -> int:
        """Bytes of a ciphertext."""
        return (self.modulus.bit_length() + 7) // 8

    def to_bytes(self) -> bytes:
        """Write all of it but the kernel."""
        width, buffer = self.width, io.BytesIO()
        entries = np.asarray(self.task.entries, dtype=np.int64)
        numbers = to_bytes([self.modulus, *self.ciphertexts], width)
        np.savez(
            buffer,
            allow_pickle=False,
            numbers=np.frombuffer(numbers, dtype=np.uint8).reshape(-1, width),
            entries=entries.astype(np.min_scalar_type(int(entries.max()))),
            **{name: np.asarray(getattr(self.task, name), dtype=np.int64) for name in _FIELDS},
        )
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> "ProductJob":
        """Read what ``to_bytes`` wrote, for the best kernel here."""
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            rows: IntArray = file["numbers"]
            entries: IntArray = file["entries"].astype(np.int64)
            task = ProductTask(entries, file["digits"], file["offsets"], file["shifts"], file["answers"])
        modulus, *ciphertexts = from_bytes(rows.tobytes(), *rows.shape)
        return cls(best_kernel(), ciphertexts, task, modulus)

    def read_answers(self, data: bytes) -> list[int]:
        """Read the answers that ``answers_to_bytes`` wrote; raises ValueError for what are no ciphertexts of this job.

        Whether they are right only who computes them as well can tell.
        """
        answers = from_bytes(data, self.answers, self.width)
        if not all(answer < self.modulus and gcd(answer, self.modulus) == 1 for answer in answers):
            raise ValueError("An answer is no ciphertext: it is beyond n**2, or shares a factor with n.")
        return list(answers)

    def answers_to_bytes(self, answers: Sequence[int]) -> bytes:
        """Write answers, each in the width of a ciphertext."""
        return to_bytes(answers, self.width)


JobFunction = Callable[[ProductJob], list[int]]


class ProductCores(Protocol):
    """Cores for products. All `Cores` are; a cluster's are no more than this."""

    @property
    def count(self) -> int:
        """How many jobs are computed at once, at least 1."""

    def map(self, function: JobFunction, tasks: Iterable[ProductJob]) -> Iterator[list[int]]:
        """Compute jobs and give their answers in order."""


def compute_product(job: ProductJob) -> list[int]:
    """Compute the answers of a job; raises InvalidCiphertext as ``Kernel.product`` does."""
    return job.kernel.product(job.ciphertexts, job.task, job.modulus)
