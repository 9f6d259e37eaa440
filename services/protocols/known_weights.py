"""What becomes of weights that each party knows: a model answers with each party's own numbers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from services.common.errors import InvalidMessage
from services.common.opening_options import OPENED
from services.common.protocols import Asking, DrawsOnce, Serving
from services.common.scores import Products, are_residues
from services.party.party_defences import Message, PartyDefences
from services.party.party_model import PartyModel
from services.party.turned_columns import Turn
from vfl.arrays import FloatArray
from vfl.learning import Half, Part


@dataclass(frozen=True)
class KnownWeights(Serving):
    """Each party knows its weights, and its shares of scores are sums of its own columns."""

    name: ClassVar[str] = OPENED
    tells_owners: ClassVar[bool] = True
    discloses: ClassVar[bool] = True

    def read_part(self, arrays: Mapping[str, NDArray[Any]], read: Callable[[Mapping[str, NDArray[Any]]], Part]) -> Part:
        """Read the learner's part."""
        return read(arrays)

    def known(self, part: Part) -> Part:
        """Give the part: it is known."""
        return part

    def numbers(self, part: Part, half: Half) -> FloatArray:
        """Give the weights."""
        return np.asarray(half.weights, dtype=np.float64)

    def turn(self, part: Part) -> Turn:
        """Turn nothing: weights are of the columns themselves."""
        return Turn()

    def ask(self, model: PartyModel, rows: Sequence[int], engine: Any) -> "KnownShares":
        """Ask the others for their shares; this party's own are computed meanwhile."""
        return KnownShares(model, rows)

    def answer(
        self,
        model: PartyModel,
        rows: Sequence[int],
        masked: bytes,
        defences: PartyDefences,
        engine: Any,
        once: DrawsOnce,
    ) -> tuple[bytes, FloatArray]:
        """Answer with the part's shares."""
        return b"", self.products(model, rows, defences)

    def products(self, model: PartyModel, rows: Sequence[int], defences: PartyDefences) -> FloatArray:
        """Compute what this party's columns add to rows, (rows, columns)."""
        return model.partial_scores(rows)

    def check(self, products: Products) -> None:
        """Raise InvalidMessage for residues."""
        if are_residues(products):
            raise InvalidMessage("Expected scores as numbers here.")


@dataclass(frozen=True)
class KnownLayers(KnownWeights):
    """The same of a layer that is forwarded: what is answered is forwarded as in training, and defended as there."""

    def products(self, model: PartyModel, rows: Sequence[int], defences: PartyDefences) -> FloatArray:
        """Compute them as the party's defences leave them."""
        message = Message("answer", model.agreement.session_id, model.epochs, np.asarray(rows))
        return defences.protect_hidden(super().products(model, rows, defences), message)


@dataclass(frozen=True, eq=False)
class KnownShares(Asking):
    """A question about some rows of a model whose parties know their weights."""

    model: PartyModel
    rows: Sequence[int]

    def products(self, answers: Callable[[], Mapping[str, bytes]]) -> Products:
        """Compute this party's shares, and wait for the others to have sent theirs."""
        shares = self.model.partial_scores(self.rows)
        answers()
        return shares
