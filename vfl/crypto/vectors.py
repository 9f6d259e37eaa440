"""Encrypted vectors: what one half of Protocol 1 (Hu) exchanges.

The key holder encrypts its residual (`encrypt_vector`), the other party multiplies it by its features
(`matvec`) and masks the result (`mask_vector`), the key holder decrypts the masked answer
(`decrypt_integers`), the other party takes the mask off (`unmask`). `vfl.crypto.wire` has the bytes and the
checks of what arrives.
"""

import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from vfl.arrays import FloatArray, IntArray
from vfl.crypto.engine import Engine, blind, default_engine
from vfl.crypto.errors import InvalidAnswer, KeyMismatch, LayoutMismatch
from vfl.crypto.fixed_point import RESIDUAL, FixedPoint, decode, feature_format_of
from vfl.crypto.kernels import InvalidCiphertext, ProductTask
from vfl.crypto.keys import PrivateKey, PublicKey
from vfl.crypto.packing import PackingLayout
from vfl.crypto.widths import ColumnFormats


@dataclass(frozen=True)
class CipherVector:
    """An encrypted array under one key, with one public exponent: value = integer * 16**exponent.

    Attributes:
        ciphertexts: without a layout one integer per value, in row order of `shape`.
        shape: of the array, (s,) or (s, k) for a residual, (d,) or (d, k) for a product.
        layout: how the values are packed, or None.
        is_product: whether `matvec` made it; packed residuals and packed products use different slots.
        columns: of a product, which integers the columns held; None where all are in the layout's own format.

    Raises:
        InvalidCiphertext: if the number of ciphertexts does not agree with shape and layout.
        LayoutMismatch: if the layout was made for fewer rows, other classes, or a longer key.

    Examples:
        >>> c = encrypt_vector(keygen(256, insecure=True)[0], [0.5, -0.25])
        >>> c.shape, c.exponent, len(c.ciphertexts)
        ((2,), -8, 2)
    """

    public_key: PublicKey
    ciphertexts: tuple[int, ...] = field(repr=False)
    exponent: int
    shape: tuple[int, ...]
    layout: PackingLayout | None = None
    is_product: bool = False
    columns: ColumnFormats | None = None

    def __post_init__(self) -> None:
        if self.layout is not None:
            _check_layout(self.layout, self.shape, self.public_key, is_product=self.is_product)
        expected = ciphertext_count(self.shape, self.layout, is_product=self.is_product, columns=self.columns)
        if len(self.ciphertexts) != expected:
            raise InvalidCiphertext(f"Expected {expected} ciphertexts for {self.shape=}, got {len(self.ciphertexts)}.")


@dataclass(frozen=True)
class Mask:
    """What takes the mask off a decrypted answer.

    Attributes:
        summands: secret, uniform in Z_n, one per ciphertext; they are never shown.
        exponent: of the masked product.
        shape: of the masked product.
        layout: how its values are packed, or None.
        columns: which integers its columns held; None where all are in the layout's own format.

    Examples:
        >>> _, mask = mask_vector(encrypt_vector(keygen(256, insecure=True)[0], [0.5]))
        >>> mask
        Mask(public_key=PublicKey(n=...), exponent=-8, shape=(1,), layout=None, columns=None)
    """

    public_key: PublicKey
    summands: tuple[int, ...] = field(repr=False)
    exponent: int
    shape: tuple[int, ...]
    layout: PackingLayout | None
    columns: ColumnFormats | None = None


def ciphertext_count(
    shape: tuple[int, ...],
    layout: PackingLayout | None,
    *,
    is_product: bool = False,
    columns: ColumnFormats | None = None,
) -> int:
    """Count the ciphertexts that carry an array of this shape: what a receiver should expect.

    Args:
        shape: of the array.
        layout: how its values are packed, or None.
        is_product: whether `matvec` made it.
        columns: of a product, which integers the columns held; None where all are in the layout's own format.

    Examples:
        >>> ciphertext_count((100, 3), layout=None)
        300
    """
    if layout is None:
        return math.prod(shape)
    return layout.answers_for(columns or shape[0]) if is_product else layout.ciphertexts_for(shape[0])


def encrypt_vector(
    key: PublicKey | PrivateKey,
    g: npt.ArrayLike,
    *,
    layout: PackingLayout | None = None,
    fixed_point: FixedPoint = RESIDUAL,
    engine: Engine | None = None,
) -> CipherVector:
    """Encrypt real numbers.

    Args:
        key: of the receiver. A private key encrypts faster than its public key; both make ordinary ciphertexts.
        g: (s,) or (s, k) values of magnitude below 2**fixed_point.integer_bits.
        layout: how to pack values, or None for one value per ciphertext.
        fixed_point: the public format of g.
        engine: what computes; by default the best kernel there is, on one core.

    Raises:
        FixedPointOverflow: before anything is encrypted, if a value is not finite or out of range.
        LayoutMismatch: if g is not of such a shape, or not what `layout` was made for.

    Examples:
        >>> public_key, private_key = keygen(256, insecure=True)
        >>> decrypt_vector(private_key, encrypt_vector(public_key, [0.5, -0.25]))
        array([ 0.5 , -0.25])
    """
    values = np.asarray(g, dtype=np.float64)
    if values.ndim not in (1, 2) or values.size == 0:
        raise LayoutMismatch(f"Expected (s,) or (s, k) values, at least one, got {values.shape=}.")
    integers = fixed_point.encode(values, inclusive=False)
    public_key = key if isinstance(key, PublicKey) else key.public_key
    if layout is None:
        plaintexts = integers.ravel().tolist()
    else:
        if fixed_point != layout.residual:
            raise LayoutMismatch(f"The layout was made for residuals in {layout.residual}, got {fixed_point}.")
        _check_layout(layout, values.shape, public_key, is_product=False)
        plaintexts = layout.pack_residual(integers.reshape(len(integers), -1))
    engine = engine or default_engine()
    if isinstance(key, PrivateKey):
        ciphertexts = engine.encrypt(key, plaintexts)
    else:
        ciphertexts = blind(plaintexts, engine.rerandomisers(key.n, len(plaintexts)), key.n)
    return CipherVector(public_key, tuple(ciphertexts), fixed_point.exponent, values.shape, layout)


def matvec(
    X: npt.ArrayLike,
    c: CipherVector,
    *,
    features: FixedPoint | None = None,
    columns: ColumnFormats | None = None,
    engine: Engine | None = None,
) -> CipherVector:
    """Multiply a feature matrix by an encrypted residual: X.T @ g, encrypted.

    The answer is a deterministic function of X and c. Whoever sends it to the holder of the key must send
    `mask_vector` of it instead: as it is, its randomness tells a malicious key holder every entry of X.

    Args:
        X: (s, d) real numbers within the bound of the format, or whole numbers within those of `columns`.
        c: an encrypted g, (s,) or (s, k).
        features: the public format of X. By default the layout's; without a layout, read off the data.
        columns: which whole numbers each column of X holds, where it holds some: its digits only are worked through,
            and with one row per ciphertext its sums take their own bits only.
        engine: what computes; by default the best kernel there is, on one core.

    Returns:
        The encrypted product, (d,) or (d, k).

    Raises:
        FixedPointOverflow: if an entry of X is not finite or out of range.
        LayoutMismatch: if X and c differ in their number of rows, `features` is not the layout's format, or `columns`
            are others in number than those of X, or too wide for the layout.

    Examples:
        >>> public_key, private_key = keygen(256, insecure=True)
        >>> product = matvec([[1.0, 0.5], [0.0, 1.0]], encrypt_vector(public_key, [0.5, -0.25]))
        >>> decrypt_vector(private_key, product)
        array([0.5, 0. ])
    """
    matrix = np.asarray(X, dtype=np.float64)
    if matrix.ndim != 2 or 0 in matrix.shape or len(matrix) != c.shape[0] or c.is_product:
        raise LayoutMismatch(
            f"Expected X of shape (s, d) for an encrypted residual of {c.shape=}, got {matrix.shape=}."
        )
    layout = c.layout
    if columns is not None:
        if columns.total != matrix.shape[1] or features is not None:
            raise LayoutMismatch(f"Expected {columns.total} columns of whole numbers, and no fixed point of features.")
        formats, exponent, integers = columns, 0, columns.encode(matrix)
    else:
        fixed_point = _feature_format(matrix, layout, features)
        formats, exponent = fixed_point.columns(matrix.shape[1]), fixed_point.exponent
        integers = fixed_point.encode(matrix)
    task = product_task(integers, formats, layout)
    classes = 1 if layout else math.prod(c.shape[1:])
    engine = engine or default_engine()
    per_class = [engine.product(c.ciphertexts[k::classes], task, c.public_key.n_squared) for k in range(classes)]
    return CipherVector(
        c.public_key,
        tuple(answer for row in zip(*per_class, strict=True) for answer in row),
        c.exponent + exponent,
        (matrix.shape[1], *c.shape[1:]),
        layout,
        is_product=True,
        columns=columns,
    )


def _feature_format(matrix: FloatArray, layout: PackingLayout | None, features: FixedPoint | None) -> FixedPoint:
    """Choose the fixed point that real numbers are to be encoded in."""
    if layout is None:
        return features or feature_format_of(matrix)
    if not isinstance(layout.features, FixedPoint):
        raise LayoutMismatch("The layout was made for whole numbers: say by `columns` which ones X holds.")
    if features not in (None, layout.features):
        raise LayoutMismatch(f"The layout was made for features in {layout.features}, got {features}.")
    return layout.features


def product_task(integers: IntArray, columns: ColumnFormats, layout: PackingLayout | None) -> ProductTask:
    """Say what is to become of the ciphertexts of one class, or of all where a layout packs them.

    Args:
        integers: (s, d) encoded features.
        columns: the formats of the d columns.
        layout: how values share plaintexts, or None for one value each.
    """
    formats = list(columns.each())
    if layout is None:
        entries, rows, step = integers, 1, 0
        answers, shifts = np.arange(len(formats)), np.zeros(len(formats), dtype=np.int64)
    else:
        entries, rows, step = layout.virtual_matrix(integers), layout.rows_per_ciphertext, layout.slot_bits
        places = layout.places(columns)
        answers = np.array([place.answer for place in places])
        shifts = np.array([place.shift for place in places])
    # With several rows per ciphertext, a column has an entry for each of them, a slot apart.
    offsets = np.repeat([entry.offset for entry in formats], rows)
    return ProductTask(
        entries=entries + offsets,
        digits=np.repeat([entry.digits for entry in formats], rows),
        offsets=offsets,
        shifts=np.repeat(shifts, rows) + np.tile(np.arange(rows) * step, len(formats)),
        answers=np.repeat(answers, rows),
    )


def mask_vector(
    m: CipherVector, *, rerandomise: bool = True, engine: Engine | None = None
) -> tuple[CipherVector, Mask]:
    """Hide a product from the key holder: to every answer, add r uniform in Z_n and a fresh rho**n.

    rerandomise=False is INSECURE: it leaves rho out, as common implementations do, to show what that gives away.

    Guarantee, for gcd(n, phi(n)) = 1: every answer is uniform among all ciphertexts, whatever X and g were.
    - The plaintext becomes uniform in Z_n: hiding is perfect, in unused slots as well.
    - The randomness becomes uniform in Z_n*. Without rho it would be prod r_i**x_i, from which the maker of a
      key with smooth p-1 and q-1 reads all x_i (the randomiser channel). rho is drawn anew for every answer;
      powers of a generator supplied by the key holder would leave that channel open.

    Examples:
        >>> public_key, private_key = keygen(256, insecure=True)
        >>> masked, mask = mask_vector(encrypt_vector(public_key, [0.5]))
        >>> unmask(mask, decrypt_integers(private_key, masked))
        array([0.5])
    """
    key = m.public_key
    summands = tuple(secrets.randbelow(key.n) for _ in m.ciphertexts)
    count = len(summands)
    randomness = (engine or default_engine()).rerandomisers(key.n, count) if rerandomise else [1] * count
    masked = tuple(
        ciphertext * blinded % key.n_squared
        for ciphertext, blinded in zip(m.ciphertexts, blind(summands, randomness, key.n), strict=True)
    )
    return replace(m, ciphertexts=masked), Mask(key, summands, m.exponent, m.shape, m.layout, m.columns)


def decrypt_integers(private_key: PrivateKey, m: CipherVector, *, engine: Engine | None = None) -> tuple[int, ...]:
    """Decrypt every ciphertext to an integer in [0, n): what the key holder answers to a masked product.

    Raises:
        KeyMismatch: if m was made under another key.
    """
    if m.public_key != private_key.public_key:
        raise KeyMismatch(
            f"Encrypted under key {m.public_key.key_id}, not under {private_key.public_key.key_id}: "
            "decrypt with the private key of the former."
        )
    return tuple((engine or default_engine()).decrypt(private_key, m.ciphertexts))


def unmask(mask: Mask, residues: Sequence[int], *, bits: Sequence[int] | None = None) -> FloatArray:
    """Take the mask off a decrypted answer: (d,) or (d, k) real numbers.

    An answer may be cut to its lowest w bits (`vfl.crypto.capacity.truncate`). The summand r is uniform in Z_n and the
    plaintext is (x + r) mod n, so (x + r) - r = x also modulo 2**w, unless x + r left [0, n). Then the result is off by
    n mod 2**w. This happens with probability |x| / n < 2**w / n: for one 71-bit sum under a 2048-bit key 2**-1976, and
    below 2**-64 in a layout with `WRAP_BITS` reserved.

    Args:
        mask: what `mask_vector` returned.
        residues: the key holder's answer.
        bits: w of each answer where the key holder answered modulo 2**w, else None.

    Raises:
        InvalidAnswer: for a wrong number of residues, one out of range, or one no product can give.
    """
    count = len(mask.summands)
    moduli = [mask.public_key.n] * count if bits is None else [1 << width for width in bits]
    if not len(residues) == len(moduli) == count:
        raise InvalidAnswer(f"Expected {count} residues, got {len(residues)}.")
    bare = []
    for index, (residue, summand, modulus) in enumerate(zip(residues, mask.summands, moduli, strict=True)):
        if not 0 <= residue < modulus:
            raise InvalidAnswer(f"Residue {index} is not in [0, {'n' if bits is None else f'2^{bits[index]}'}).")
        bare.append(_signed((residue - summand) % modulus, modulus))
    integers = bare if mask.layout is None else mask.layout.unpack_product(bare, mask.columns or mask.shape[0])
    return _decode(integers, mask.exponent, mask.shape)


def decrypt_vector(private_key: PrivateKey, m: CipherVector) -> FloatArray:
    """Decrypt m to real numbers: the exact integers of its fixed-point format, each as the nearest float64.

    Raises:
        KeyMismatch: if m was made under another key.
        InvalidAnswer: if a packed plaintext does not fit its layout.
    """
    integers: Sequence[int] = [_signed(residue, m.public_key.n) for residue in decrypt_integers(private_key, m)]
    if m.layout is not None and m.is_product:
        integers = m.layout.unpack_product(integers, m.columns or m.shape[0])
    elif m.layout is not None:
        integers = m.layout.unpack_residual(integers, m.shape[0])
    return _decode(integers, m.exponent, m.shape)


def _signed(residue: int, modulus: int) -> int:
    """Residues from half of the modulus stand for negative integers."""
    return residue - modulus if 2 * residue >= modulus else residue


def _decode(integers: Sequence[int], exponent: int, shape: tuple[int, ...]) -> FloatArray:
    """Signed integers of single values to real numbers."""
    try:
        return decode(integers, exponent).reshape(shape)
    except OverflowError:
        raise InvalidAnswer(
            "A plaintext is larger than any float64: wrong key, wrong mask, or dishonest answer."
        ) from None


def _check_layout(layout: PackingLayout, shape: tuple[int, ...], public_key: PublicKey, *, is_product: bool) -> None:
    if math.prod(shape[1:]) != layout.classes:
        raise LayoutMismatch(f"The layout was made for {layout.classes} classes, got {shape=}.")
    if not is_product and shape[0] > layout.batch_size:
        raise LayoutMismatch(f"The layout was made for at most {layout.batch_size} rows, got {shape=}.")
    if not layout.fits(public_key.bits):
        raise LayoutMismatch(f"The layout does not fit a {public_key.bits}-bit key: choose one for this key.")
