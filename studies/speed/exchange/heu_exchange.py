"""The exchange with HEU's fastest Paillier, of a key of its own: timed on a part, and scaled."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from studies.speed.exchange.work import ExchangeWork, Phases, exact_product
from studies.speed.repetition import require_equal, timed

ROWS, COLUMNS = 64, 2


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
