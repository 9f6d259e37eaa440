"""The exchange with python-paillier and with HEU's fastest Paillier, timed on a part, and scaled."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from studies.speed.exchange.work import RESIDUAL, ExchangeWork, Phases, exact_product
from studies.speed.repetition import require_equal, timed
from vfl.crypto import PrivateKey, encrypt_vector

ENCRYPTIONS, DECRYPTIONS = 6, 6
ROWS, COLUMNS = 64, 2


def phe_integers(work: ExchangeWork) -> Phases:
    """With integers, the fastest way to use `phe`. Raises WrongResult for another product than the exact one."""
    public_key, private_key = phe_keys(work.private_key)
    residual, matrix = work.residual[:ROWS], work.matrix[:ROWS, :COLUMNS]
    ciphertexts = encrypt_vector(work.private_key, residual, fixed_point=RESIDUAL).ciphertexts
    numbers = [phe_number(public_key, ciphertext) for ciphertext in ciphertexts]
    pair, answers = _pair(numbers, matrix)
    found = [private_key.decrypt(answer) for answer in answers]
    require_equal("phe, integers", found, exact_product(matrix, residual))
    return _scaled(work, pair, answers)


def phe_floats(work: ExchangeWork) -> Phases:
    """As most people use `phe`: float64 features at their full precision, so that no product is exact."""
    public_key, _ = phe_keys(work.private_key)
    rows = ROWS // 2
    numbers = [public_key.encrypt(value) for value in (work.residual[:rows] / 2.0**32).tolist()]
    # Not the fixed point's: what a float of these sizes is by itself.
    matrix = work.matrix[:rows, :COLUMNS] / 3.0
    return _scaled(work, *_pair(numbers, matrix))


def phe_keys(private_key: PrivateKey) -> tuple[Any, Any]:
    """A key pair of ours as `phe` has it."""
    import phe

    public_key = phe.PaillierPublicKey(private_key.public_key.n)
    return public_key, phe.PaillierPrivateKey(public_key, private_key.p, private_key.q)


def phe_number(public_key: Any, ciphertext: int) -> Any:
    """A ciphertext of ours as `phe` has it, an integer."""
    import phe

    return phe.EncryptedNumber(public_key, ciphertext, 0)


def _pair(numbers: list[Any], matrix: npt.NDArray[Any]) -> tuple[float, list[Any]]:
    """Seconds per pair of a ciphertext and an entry, and the encrypted products."""

    def product() -> list[Any]:
        columns = matrix.T.tolist()
        return [sum((c * x for c, x in zip(numbers[1:], xs[1:], strict=True)), numbers[0] * xs[0]) for xs in columns]

    seconds, answers = timed(product)
    return seconds / matrix.size, answers


def _scaled(work: ExchangeWork, pair: float, answers: list[Any]) -> Phases:
    """One exchange from single operations; the mask is an encryption per answer, as it is with this library."""
    public_key, private_key = phe_keys(work.private_key)
    values = (work.residual[:ENCRYPTIONS] / 2.0**32).tolist()
    encrypt, _ = timed(lambda: [public_key.encrypt(value) for value in values])
    some = (answers * DECRYPTIONS)[:DECRYPTIONS]
    decrypt, _ = timed(lambda: [private_key.decrypt(answer) for answer in some])
    rows, columns = work.matrix.shape
    each = encrypt / len(values)
    return Phases(rows * each, np.prod(work.matrix.shape) * pair, columns * each, columns * decrypt / DECRYPTIONS)


def heu_variants(work: ExchangeWork) -> dict[str, Callable[[], Phases]]:
    """HEU as it is, and with signed entries shifted to be positive; nothing where it isn't installed."""
    try:
        from heu import numpy as heu_numpy
    except ImportError:
        return {}
    with _words_on_standard_error():
        kit = heu_numpy.setup("zpaillier", work.private_key.public_key.bits)
    variants = {"HEU zpaillier": lambda: _heu(work, heu_numpy, kit, shift=0)}
    if work.entries.signed:
        variants["HEU zpaillier, shifted to be positive"] = lambda: _heu(work, heu_numpy, kit, work.entries.offset)
    return variants


@contextmanager
def _words_on_standard_error() -> Iterator[None]:
    """HEU tells how many threads it starts, on standard output, where a document may stand."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def _heu(work: ExchangeWork, heu_numpy: Any, kit: Any, shift: int) -> Phases:
    """The correction of the shift is left out, in its favour; the mask is an encryption per answer."""
    encoder = kit.bigint_encoder()
    residual, matrix = work.residual[:ROWS], work.matrix[:ROWS, :COLUMNS] + shift
    plain_residual = heu_numpy.array(residual.reshape(-1, 1), encoder)
    plain_matrix = heu_numpy.array(np.ascontiguousarray(matrix.T), encoder)
    encrypt, c = timed(lambda: kit.encryptor().encrypt(plain_residual))
    multiply, answers = timed(lambda: kit.evaluator().matmul(plain_matrix, c))
    decrypt, plain = timed(lambda: kit.decryptor().decrypt(answers))
    found = [int(value) for value in plain.to_numpy(encoder).ravel()]
    require_equal("HEU", found, exact_product(matrix, residual))
    rows, columns = work.matrix.shape
    each = encrypt / len(residual)
    pairs = rows * columns / matrix.size
    return Phases(rows * each, pairs * multiply, columns * each, columns * decrypt / matrix.shape[1])
