"""What single operations of a federation cost on this machine: real ones, timed for a second before any work begins."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from services.common.agreement import Agreement
from services.protocol1.cipher import honest_messages
from vfl.arrays import FloatArray
from vfl.crypto import CipherVector, ciphertext_count, decrypt_integers
from vfl.crypto.messages import HonestMessages
from vfl.data import PsiClient, PsiServer

_IDS = 128
# Encryptions that are timed; a batch repeats their ciphertexts.
_ENCRYPTIONS = 16

T = TypeVar("T")


@dataclass(frozen=True)
class CipherSeconds:
    """Seconds of single operations under one session's keys and packing.

    Attributes:
        key: to make a key pair and prove it well-formed.
        encryption: of one ciphertext, by the key's owner.
        product: of one encrypted residual with its features, per answer.
        answer: to mask one answer, decrypt it and take the mask off.
    """

    key: float
    encryption: float
    product: float
    answer: float


@dataclass(frozen=True)
class Calibration:
    """Seconds of single operations on this machine.

    Attributes:
        blinded_id: to map an id to the curve and put a key on it.
        reblinded_id: to put a second key on it.
        cores: that processes can share.
        cipher: of operations under Paillier; None where no session would use it.
    """

    blinded_id: float
    reblinded_id: float
    cores: int
    cipher: CipherSeconds | None = None


def calibrate(agreement: Agreement, *, with_cipher: bool = True) -> Calibration:
    """Time the operations of a session of these terms.

    Args:
        agreement: the terms, with a batch size.
        with_cipher: whether to time Paillier as well.

    Raises:
        ValueError: for terms that no ciphertext fits.
    """
    blinded, reblinded = _seconds_per_id()
    calibration = Calibration(blinded, reblinded, _cores())
    return replace(calibration, cipher=_cipher_seconds(agreement)) if with_cipher else calibration


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _seconds_per_id() -> tuple[float, float]:
    ids = [f"calibration-{number}" for number in range(_IDS)]
    client, server = PsiClient(ids, "calibration"), PsiServer(ids, "calibration")
    setup = server.setup(_IDS)
    blinded, chunks = _timed(lambda: list(setup.chunks))
    reblinded, _ = _timed(lambda: client.receive_setup(replace(setup, chunks=chunks)))
    return blinded / _IDS, reblinded / _IDS


def _cipher_seconds(agreement: Agreement) -> CipherSeconds:
    """One exchange of the active party with a passive one, by itself, of a few ciphertexts and one or two answers."""
    me, peer = agreement.parties[0], agreement.parties[1]
    key, messages = _timed(lambda: honest_messages(agreement, me.name))
    formats, rows, columns = messages.formats, agreement.plan.batch_size, agreement.residual_columns
    messages.encrypt(0, np.zeros((1, columns)))  # builds the owner's tables: once per key
    encryption, residuals = _some_residuals(messages, rows, columns)
    features = _features_of_answers(messages, rows, me.feature_count)
    product, combination = _timed(lambda: messages.combine(0, peer.name, features, residuals))
    answers = len(combination.encrypted.ciphertexts)
    mask, question = _timed(lambda: messages.mask(0, peer.name, combination))
    decrypt, _ = _timed(lambda: decrypt_integers(messages.private_key, question.masked))
    pairs = answers * ciphertext_count((rows, columns), formats.layout)
    return CipherSeconds(key, encryption, product / pairs, (mask + decrypt) / answers)


def _some_residuals(messages: HonestMessages, rows: int, columns: int) -> tuple[float, CipherVector]:
    """Seconds per encryption, and a batch whose ciphertexts repeat the few that were timed."""
    layout = messages.formats.layout
    count = ciphertext_count((rows, columns), layout)
    per_row = max(count / rows, 1 / rows)
    few = min(rows, max(1, round(_ENCRYPTIONS / per_row)))
    draw = np.random.default_rng(1)
    seconds, some = _timed(lambda: messages.encrypt(0, draw.uniform(-1, 1, (few, columns))))
    repeated = tuple(some.ciphertexts[index % len(some.ciphertexts)] for index in range(count))
    return seconds / len(some.ciphertexts), replace(some, ciphertexts=repeated, shape=(rows, columns))


def _features_of_answers(messages: HonestMessages, rows: int, most: int) -> FloatArray:
    """Features of so many columns as fill one answer, or two."""
    formats = messages.formats
    per_answer = most // ciphertext_count((most, formats.columns), formats.layout, is_product=True)
    chosen = min(most, max(1, 2 * per_answer))
    return np.random.default_rng(2).random((rows, chosen))


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result
