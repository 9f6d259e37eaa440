"""What the cryptography of a session's step costs by itself: both parties' arithmetic, in this process."""

import numpy as np

from services.common.agreement import Agreement
from services.protocol1.arithmetic import EngineArithmetic, messages_by
from services.protocol1.formats import CipherFormats
from studies.speed.repetition import WrongResult, timed
from vfl.arrays import FloatArray
from vfl.crypto import Engine
from vfl.crypto.kernels import Kernel
from vfl.crypto.widths import ColumnFormats
from vfl.learning import smallest_batch

# Sums of float64 may round in another order; they are of whole numbers times residuals on their grid.
_SAME = 1e-3


class OwnCryptography:
    """Both parties of an agreement, without a network between them."""

    def __init__(self, agreement: Agreement, kernel: Kernel) -> None:
        """Make both parties' keys, and features and residuals of one batch."""
        arithmetic = EngineArithmetic(Engine(kernel))
        self._names = [party.name for party in agreement.parties]
        self._messages = {name: messages_by(arithmetic, agreement, name) for name in self._names}
        rows, draw = smallest_batch(agreement.training_rows, agreement.plan.batch_size), np.random.default_rng(0)
        step = 2.0**agreement.plan.residual_fraction_bits
        self._shares = np.rint(draw.uniform(-2, 2, (rows, agreement.residual_columns)) * step) / step
        self._features = {
            name: _features(CipherFormats(agreement).columns_of(name), rows, draw) for name in self._names
        }
        for name in self._names:
            self._messages[name].encrypt(0, self._shares[:1])  # builds the owner's tables: once per session

    def step(self) -> float:
        """Do one step's arithmetic: CPU seconds. Raises WrongResult unless it finds the plain sums."""
        seconds, found = timed(self._both)
        for name, sums in found.items():
            expected = self._features[name].T @ self._shares
            if np.abs(sums - expected).max() > _SAME:
                raise WrongResult(f"{name}'s sums aren't the plain ones: the time of its step means nothing.")
        return seconds

    def _both(self) -> dict[str, FloatArray]:
        first, second = self._names
        return {peer: self._sums(holder, peer) for holder, peer in ((first, second), (second, first))}

    def _sums(self, holder: str, peer: str) -> FloatArray:
        encrypted = self._messages[holder].encrypt(0, self._shares)
        combination = self._messages[peer].combine(0, holder, self._features[peer], encrypted)
        question = self._messages[peer].mask(0, holder, combination)
        return question.read(self._messages[holder].answer(0, peer, question.masked))


def _features(columns: ColumnFormats, rows: int, draw: np.random.Generator) -> FloatArray:
    """Whole numbers of every column's format, in wire order."""
    made = [draw.integers(-one.offset, one.bound + 1, size=rows) for one in columns.each()]
    return np.stack(made, axis=1).astype(np.float64)
