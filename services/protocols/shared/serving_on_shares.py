"""Weights that stay shared after training: a model answers with residues of all parties, drawn for each request."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from services.common.agreement import Agreement
from services.common.errors import InvalidMessage
from services.common.opening_options import SHARED
from services.common.protocols import Asking, DrawsOnce, Serving
from services.common.scores import Products, are_residues
from services.party.party_model import PartyModel, checked_rows
from services.party.turned_columns import Turn
from services.protocols.shared.shared_serving import SharedPart, SharedServer, records_at_once
from services.protocols.shared.shared_terms import SharedTerms
from vfl.arrays import FloatArray
from vfl.crypto import Engine
from vfl.crypto.sharing.frozen_weights import Residues
from vfl.learning import Half, Part


@dataclass(frozen=True)
class WeightsOnShares(Serving):
    """No party knows its weights, and scores are computed on shares of them.

    Attributes:
        agreement: the session's public terms.
    """

    agreement: Agreement
    name: ClassVar[str] = SHARED
    tells_owners: ClassVar[bool] = False
    discloses: ClassVar[bool] = False

    def read_part(
        self, arrays: Mapping[str, NDArray[Any]], read: Callable[[Mapping[str, NDArray[Any]]], Part]
    ) -> SharedPart:
        """Read a party's share and keys, and the learner's part of what it has whole."""
        return SharedPart.of(arrays, read)

    def known(self, part: Part) -> Part | None:
        """Give what a label party has whole of a network; None of shares alone."""
        return _shared(part).own

    def numbers(self, part: Part, half: Half) -> FloatArray:
        """Give the share, as if it were weights."""
        return np.asarray(_shared(part).share.view(np.int64) * 0.5**63, dtype=np.float64)

    def turn(self, part: Part) -> Turn:
        """Give the turn that training was on."""
        return SharedTerms(self.agreement).turn(_shared(part).turn)

    def most_records(self, at_most: int) -> int:
        """As many as masked products of fit a message."""
        return min(at_most, records_at_once(SharedTerms(self.agreement)))

    def ask(self, model: PartyModel, rows: Sequence[int], engine: Engine) -> "SharedQuestion":
        """Mask this party's products, for who holds the other shares of its weights."""
        server = _server(model, engine)
        return SharedQuestion(server, *_asked(server, model, rows), len(rows))

    def answer(
        self, model: PartyModel, rows: Sequence[int], masked: bytes, defences: Any, engine: Engine, once: DrawsOnce
    ) -> tuple[bytes, Products]:
        """Compute masked products for the active party, and this party's residues for the coordinator."""

        def drawn() -> tuple[bytes, Products]:
            server, active = _server(model, engine), model.agreement.active.name
            own_masked, residues = _asked(server, model, rows)
            if active in server.terms.held_by(model.name):
                residues = residues + server.keep(active, masked, len(rows))
            return own_masked, residues

        return once(drawn)

    def check(self, products: Products) -> None:
        """Raise InvalidMessage for numbers."""
        if not are_residues(products):
            raise InvalidMessage("Expected scores as residues here.")

    def added(self, products: Sequence[Any]) -> Sequence[Any]:
        """Add up residues: what is uniform of each is none of the sum."""
        return [SharedTerms(self.agreement).scores.sums(list(products))]


@dataclass(frozen=True, eq=False)
class SharedQuestion(Asking):
    """A question about some rows of a model whose weights stay shared.

    Attributes:
        server: computes this party's part.
        masked: its products' half for the holder of its other shares.
        residues: its own half.
        records: how many there are.
    """

    server: SharedServer
    masked: bytes
    residues: Residues
    records: int

    def masked_for(self, peer: str) -> bytes:
        """Give this party's masked products to the holder of its other shares."""
        return self.masked if peer == self.server.terms.holder(self.server.name) else b""

    def products(self, answers: Callable[[], Mapping[str, bytes]]) -> Products:
        """Add what the others' masked products leave this party with."""
        total = self.residues
        for name, masked in answers().items():
            total = total + self.server.keep(name, masked, self.records)
        return total


def _server(model: PartyModel, engine: Engine) -> SharedServer:
    """Make what computes a party's part of scores."""
    return SharedServer(SharedTerms(model.agreement), model.name, _shared(model.part), engine)


def _shared(part: Part) -> SharedPart:
    assert isinstance(part, SharedPart)  # noqa: S101 - the agreement says so
    return part


def _asked(server: SharedServer, model: PartyModel, rows: Sequence[int]) -> tuple[bytes, Residues]:
    return server.ask(model.features[checked_rows(rows, len(model.features))])
