"""Products of encrypted features and shares: the keeper of a key encrypts, another party multiplies and masks.

    keeper                                              the other, who has exponents
    encrypts pack_rows, pack_blocks   once  ──>
                                            <──         mask(multiply(groups, exponents))
    kept(ciphertexts)       residues of the products    Masked.residues

Answers come in groups, a block of rows (forward) or some columns (backward), and within a group one for each output.
The mask is uniform in Z_n and never statistical per slot: behind slot masks a keeper that encrypts 2**200 in place of a
feature reads shares. So the keeper decrypts uniform numbers, whatever it has encrypted, and both keep slots of theirs:
y = T + r has the slots of T and of r, up to a carry of 1 in the last place. Nobody sends a number that it decrypted.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from vfl.crypto.engine import Engine, blind
from vfl.crypto.kernels import ProductTask
from vfl.crypto.keys import PrivateKey, PublicKey
from vfl.crypto.sharing.share_formats import SlotLayout
from vfl.crypto.sharing.shares import Integers

# Exponents are longer than the entries of a product: each is several columns of it, one above the other.
_LIMB_BITS = 60


def pack_rows(features: Integers, layout: SlotLayout) -> list[int]:
    """Plaintexts for products with residuals: per group of ``layout.count`` columns one for each of n rows."""
    groups = range(0, features.shape[1], layout.count)
    return [layout.pack(row[at : at + layout.count].tolist()) for at in groups for row in features]


def pack_blocks(blocks: Iterable[Integers], layout: SlotLayout) -> list[int]:
    """Plaintexts for products with weights: per block of at most ``layout.count`` rows one for each column."""
    return [layout.pack(column.tolist()) for block in blocks for column in block.T]


def multiply(
    groups: Iterable[Sequence[int]], exponents: Integers, bits: int, key: PublicKey, engine: Engine
) -> list[int]:
    """Raise u ciphertexts to (u, k) exponents in [0, 2**bits) and multiply them: k answers for each group.

    The answers tell the exponents to the holder of the key: send `mask` of them.
    """
    count = exponents.shape[1]
    starts = np.arange(0, bits, _LIMB_BITS)
    limbs = exponents[:, :, None] >> starts.astype(np.object_) & (1 << _LIMB_BITS) - 1
    task = ProductTask(
        entries=limbs.reshape(len(exponents), -1).astype(np.int64),
        digits=np.tile(np.minimum(_LIMB_BITS, bits - starts), count),
        offsets=np.zeros(count * len(starts), dtype=np.int64),
        shifts=np.tile(starts, count),
        answers=np.repeat(np.arange(count), len(starts)),
    )
    return engine.product([ciphertext for group in groups for ciphertext in group], task, key.n_squared)


@dataclass(frozen=True, eq=False)
class Masked:
    """Answers for the keeper of the key, and what they leave the other party with: one draw, kept together.

    Attributes:
        ciphertexts: uniform among all, whatever was multiplied.
        residues: (places, k) of the other party. With the keeper's they add up to the products, or to 1 more.
    """

    ciphertexts: tuple[int, ...]
    residues: Integers = field(repr=False)


def mask(
    products: Sequence[int],
    layout: SlotLayout,
    sizes: Sequence[int],
    key: PublicKey,
    engine: Engine,
    draw: Callable[[int], int],
) -> Masked:
    """Add r uniform in Z_n, and a fresh rho**n, to every product.

    Args:
        products: of `multiply`.
        layout: of the slots.
        sizes: how many slots of each group are used.
        key: that they are under.
        engine: what computes.
        draw: gives a uniform number below another, each time anew: ``secrets.randbelow``, but for tests.
    """
    summands = [draw(key.n) for _ in products]
    blinded = blind([r + layout.lift for r in summands], engine.rerandomisers(key.n, len(summands)), key.n)
    ciphertexts = tuple(p * b % key.n_squared for p, b in zip(products, blinded, strict=True))
    return Masked(ciphertexts, -_placed(summands, layout, sizes))


def kept(
    ciphertexts: Sequence[int], layout: SlotLayout, sizes: Sequence[int], key: PrivateKey, engine: Engine
) -> Integers:
    """Decrypt masked products, and keep them: the keeper's (places, k) residues. Any ciphertexts give some."""
    residues: Integers = _placed(engine.decrypt(key, ciphertexts), layout, sizes) - layout.offset
    return residues


def _placed(answers: Sequence[int], layout: SlotLayout, sizes: Sequence[int]) -> Integers:
    """Pick the used slots of k answers for each group: (sum of sizes, k)."""
    outputs = len(answers) // len(sizes)
    slots = np.array([layout.read(answer) for answer in answers], dtype=np.object_)
    by_place = slots.reshape(len(sizes), outputs, layout.count).transpose(0, 2, 1)
    return np.concatenate([group[:size] for group, size in zip(by_place, sizes, strict=True)])
