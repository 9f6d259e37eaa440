"""What single operations of a session cost on this machine: each is done a few times, in seconds of processor time.

What neighbours do on the same cores is not in it, but for what they take of caches.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import numpy as np

from plumbline.audit.forecast import Calibration, CipherSeconds
from services.ciphers.arithmetic import Arithmetic
from services.ciphers.formats import CipherFormats
from services.common.agreement import Agreement
from services.protocols.hu.decrypted_sums import products_of
from vfl.arrays import FloatArray
from vfl.cores import available_cores
from vfl.crypto import CipherVector, PackingLayout, ciphertext_count, decrypt_integers
from vfl.crypto.messages import Messages
from vfl.crypto.widths import ColumnFormats, ColumnWidths
from vfl.data import PsiClient, PsiServer

_IDS = 128
# Encryptions that are timed; a batch repeats their ciphertexts.
_ENCRYPTIONS = 16
# Of a product that is timed: enough that what is beside modular products doesn't count.
_ROWS, _COLUMNS = 256, 24

T = TypeVar("T")


def timed_calibration(agreement: Agreement, arithmetic: Arithmetic, workers: int | None = None) -> Calibration:
    """Time the operations of a session of these terms.

    Args:
        agreement: the terms, with a batch size.
        arithmetic: what computes ciphertexts.
        workers: cores that a party is given; None for all there are.

    Raises:
        ValueError: for terms that no ciphertext fits.
    """
    blinded, reblinded = _seconds_per_id()
    cores = available_cores()
    return Calibration(
        blinded, reblinded, cores, _cipher_seconds(agreement, arithmetic), workers=min(workers or cores, cores)
    )


def _seconds_per_id() -> tuple[float, float]:
    ids = [f"calibration-{number}" for number in range(_IDS)]
    client, server = PsiClient(ids, "calibration"), PsiServer(ids, "calibration")
    setup = server.setup(_IDS)
    blinded, chunks = _timed(lambda: list(setup.chunks))
    reblinded, _ = _timed(lambda: client.receive_setup(replace(setup, chunks=chunks)))
    return blinded / _IDS, reblinded / _IDS


def _cipher_seconds(agreement: Agreement, arithmetic: Arithmetic) -> CipherSeconds:
    """One exchange of the active party with a passive one, by itself, of a few ciphertexts and columns."""
    me, peer = agreement.parties[0], agreement.parties[1]
    rows, columns = min(agreement.plan.batch_size, _ROWS), agreement.residual_columns
    formats = replace(CipherFormats(agreement).messages_of(me.name), widths=_few(me.widths))
    key, private_key = _timed(lambda: arithmetic.new_key(agreement.plan.key_bits))
    messages = arithmetic.messages(formats, private_key)
    messages.encrypt(0, np.zeros((1, columns)))  # builds the owner's tables: once per key
    encryption, residuals = _some_residuals(messages, formats.layout, rows, columns)
    features = _features(formats.own, rows)
    product, combination = _timed(lambda: messages.combine(0, peer.name, features, residuals))
    answers = len(combination.encrypted.ciphertexts)
    mask, question = _timed(lambda: messages.mask(0, peer.name, combination))
    decrypt, _ = _timed(lambda: decrypt_integers(private_key, question.masked))
    multiplication = product / products_of(formats, rows, formats.own)
    return CipherSeconds(key, encryption, multiplication, (mask + decrypt) / answers)


def _few(widths: ColumnWidths) -> ColumnWidths:
    """Some columns of every width that there is."""
    return ColumnWidths(*(min(count, _COLUMNS) for count in (widths.binary, widths.byte, widths.full)))


def _some_residuals(
    messages: Messages, layout: PackingLayout | None, rows: int, columns: int
) -> tuple[float, CipherVector]:
    """Seconds per encryption, and a batch whose ciphertexts repeat the few that were timed."""
    count = ciphertext_count((rows, columns), layout)
    per_row = max(count / rows, 1 / rows)
    few = min(rows, max(1, round(_ENCRYPTIONS / per_row)))
    draw = np.random.default_rng(1)
    seconds, some = _timed(lambda: messages.encrypt(0, draw.uniform(-1, 1, (few, columns))))
    repeated = tuple(some.ciphertexts[index % len(some.ciphertexts)] for index in range(count))
    return seconds / len(some.ciphertexts), replace(some, ciphertexts=repeated, shape=(rows, columns))


def _features(columns: ColumnFormats, rows: int) -> FloatArray:
    """Whole numbers of every column's format."""
    draw = np.random.default_rng(2)
    made = [draw.integers(-one.offset, one.bound + 1, size=rows) for one in columns.each()]
    return np.stack(made, axis=1).astype(np.float64)


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    start = time.process_time()
    result = work()
    return time.process_time() - start, result
