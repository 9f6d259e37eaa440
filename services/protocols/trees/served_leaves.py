"""What becomes of trees: each party keeps its own part, and a model answers with shares of leaves."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from services.common.agreement import Agreement
from services.common.errors import InvalidMessage
from services.common.protocols import DrawsOnce
from services.common.scores import Products, are_residues, check_magnitude
from services.party.party_model import PartyModel, checked_rows
from services.party.turned_columns import Turn
from services.protocols.trees.leaf_serving import SECRET_BYTES, LeafServer, named_request, reached_places
from vfl.arrays import FloatArray
from vfl.crypto.pairwise_masks import AgreedMasks
from vfl.learning import Half, Part
from vfl.learning.trees.boosted_trees import BoostedTrees
from vfl.learning.trees.trees_part import TreesPart

_DRAWN_BYTES = 16
# Of a part's arrays: names of those of the learner's part start with it.
_OWN = "own_"


@dataclass(frozen=True, eq=False)
class ServedTrees:
    """A party's part of a model, with the secrets that it answers by: all of it for this party's own state alone.

    Attributes:
        own: the learner's part.
        order: `SECRET_BYTES` that all parties know, from which orders of leaves are drawn; bytes, as all that follow.
        secret: `SECRET_BYTES` of this party's own.
        seeds: of its masks, by the other parties' places, each of `SECRET_BYTES`.
    """

    own: TreesPart
    order: NDArray[np.uint8] = field(repr=False)
    secret: NDArray[np.uint8] = field(repr=False)
    seeds: NDArray[np.uint8] = field(repr=False)

    @classmethod
    def made(cls, own: TreesPart, order: bytes, secret: bytes, seeds: Sequence[bytes]) -> "ServedTrees":
        """Make a part of what training has left a party with."""
        rows = np.frombuffer(b"".join(seeds), dtype=np.uint8).reshape(-1, SECRET_BYTES)
        return cls(own, np.frombuffer(order, dtype=np.uint8), np.frombuffer(secret, dtype=np.uint8), rows)

    def shares(self, features: FloatArray) -> FloatArray:
        """Raise ValueError: as the learner's part does."""
        return self.own.shares(features)

    def scores(self, joined: FloatArray) -> FloatArray:
        """Score reached leaves, (n, trees): (n, 2)."""
        return self.own.scores(joined)

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """Give all of it."""
        own = {f"{_OWN}{name}": array for name, array in self.own.arrays().items()}
        return {**own, "order": self.order, "secret": self.secret, "seeds": self.seeds}

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]]) -> "ServedTrees":
        """Read the part that ``arrays`` wrote; raises ValueError for anything else."""
        own = {name.removeprefix(_OWN): array for name, array in arrays.items() if name.startswith(_OWN)}
        kept = {name: array for name, array in arrays.items() if not name.startswith(_OWN)}
        wrong = kept.keys() != {"order", "secret", "seeds"} or any(
            one.dtype != np.uint8 or one.shape[-1:] != (SECRET_BYTES,) for one in kept.values()
        )
        if wrong:
            raise ValueError("a part of served trees has an order, a secret and seeds of masks")
        return cls(TreesPart.of(own), **kept)

    @property
    def class_rows(self) -> None:
        """None: outputs aren't linear in the features."""

    def with_class_rows(self, rows: FloatArray) -> "ServedTrees":
        """Never asked for: there are no class rows."""
        raise NotImplementedError("trees have no class rows")


@dataclass(frozen=True)
class LeavesOnShares:
    """Each party knows its own splits, and a record's leaves are found on shares.

    Attributes:
        agreement: the session's public terms.
    """

    agreement: Agreement
    name: ClassVar[str] = "leaves"
    tells_owners: ClassVar[bool] = False
    discloses: ClassVar[bool] = True

    def read_part(
        self, arrays: Mapping[str, NDArray[Any]], read: Callable[[Mapping[str, NDArray[Any]]], Part]
    ) -> ServedTrees:
        """Read a party's part and the secrets that it answers by."""
        return ServedTrees.of(arrays)

    def known(self, part: Part) -> TreesPart:
        """Give the party's trees and splits, without the secrets that it answers by."""
        assert isinstance(part, ServedTrees)  # noqa: S101 - the agreement says so
        return part.own

    def numbers(self, part: Part, half: Half) -> FloatArray:
        """Give the learner's weights, which are 0."""
        return half.weights

    def turn(self, part: Part) -> Turn:
        """Turn nothing."""
        return Turn()

    @property
    def _is_defended(self) -> bool:
        """Whether the coordinator makes scores, and so is told what leaves weigh."""
        return bool(self.agreement.score_defences)

    def most_records(self, at_most: int) -> int:
        """As many as fit a message of the label party."""
        return max(1, at_most // self.active_columns(1))

    def ask(self, model: PartyModel, rows: Sequence[int], engine: Any) -> "LeafQuestion":
        """Draw what names the question, for all parties."""
        return LeafQuestion(model, rows, secrets.token_bytes(_DRAWN_BYTES))

    def answer(
        self, model: PartyModel, rows: Sequence[int], masked: bytes, defences: Any, engine: Any, once: DrawsOnce
    ) -> tuple[bytes, Products]:
        """Answer with this party's shares of leaves, which follow from the question."""
        if len(masked) != _DRAWN_BYTES:
            raise InvalidMessage(f"Expected {_DRAWN_BYTES} bytes that name a question about leaves, got {len(masked)}.")
        return b"", _answer(model, rows, masked)

    def check(self, products: Products) -> None:
        """Raise InvalidMessage for numbers."""
        if not are_residues(products):
            raise InvalidMessage("Expected shares of leaves as residues here.")

    def active_columns(self, columns: int) -> int:
        """Count the label party's shares, and where scores are defended what each leaf weighs beside them."""
        return 2 * columns if self._is_defended else columns

    def added(self, products: Sequence[Any]) -> Sequence[Any]:
        """Give the places of reached leaves, in an order that the coordinator doesn't know; or (rows, 1) margins.

        Raises:
            InvalidMessage: for shares of which not exactly one leaf of each tree is reached, and for weights that are
                no finite numbers.
        """
        learner = _learner(self.agreement)
        if not self._is_defended:
            return [reached_places(products, learner.n_estimators).astype(np.float64)]
        shares, weights = np.hsplit(products[0], 2)
        places = reached_places([shares, *products[1:]], learner.n_estimators)
        weights = np.ascontiguousarray(weights).view(np.float64).reshape(*places.shape, learner.leaves)
        check_magnitude(weights)
        reached = np.take_along_axis(weights, places[:, :, None], axis=2)[:, :, 0]
        # One after the other, as a model's own margins are added up.
        return [np.cumsum(reached, axis=1)[:, -1:]]


@dataclass(frozen=True, eq=False)
class LeafQuestion:
    """The label party's question about some rows.

    Attributes:
        model: the party's.
        rows: of the common order.
        drawn: names the question, with the rows.
    """

    model: PartyModel
    rows: Sequence[int]
    drawn: bytes

    def masked_for(self, peer: str) -> bytes:
        """Give what names the question."""
        return self.drawn

    def products(self, answers: Callable[[], Mapping[str, bytes]]) -> Products:
        """Give this party's own shares of leaves, once the others have sent theirs."""
        own = _answer(self.model, self.rows, self.drawn)
        if self.model.agreement.score_defences:
            own = np.hstack([own, self._weights()])
        answers()
        return own

    def _weights(self) -> NDArray[np.uint64]:
        """Give what each leaf weighs in the order of its shares, as the bits of numbers: (rows, trees * leaves)."""
        learner, part = _learner(self.model.agreement), _part(self.model).own
        weights = part.leaf_margins(_records(self.model, self.rows), learner.n_estimators, learner.leaves)
        request = _named(self.model, self.rows, self.drawn)
        ordered = _server(self.model).in_order(request, weights)
        return ordered.reshape(len(self.rows), -1).view(np.uint64)

    def read(self, answer: FloatArray) -> FloatArray:
        """Undo the order of the places, (rows, trees): which leaf of each tree is reached, own trees behind them.

        Defended scores are given as they are.
        """
        if answer.shape[0] != len(self.rows):
            raise InvalidMessage(f"The coordinator answers about {len(answer)} records, expected {len(self.rows)}.")
        if self.model.agreement.score_defences:
            return answer
        request = _named(self.model, self.rows, self.drawn)
        reached = _server(self.model).reached(request, answer.astype(np.int64))
        own = _part(self.model).own.before.reached(_records(self.model, self.rows))
        return np.hstack([reached, own]).astype(np.float64)


def _answer(model: PartyModel, rows: Sequence[int], drawn: bytes) -> NDArray[np.uint64]:
    return _server(model).answer(_named(model, rows, drawn), _records(model, rows))


def _records(model: PartyModel, rows: Sequence[int]) -> FloatArray:
    """Give a party's columns of some rows, at the label party without the bias of other learners."""
    records = model.features[checked_rows(rows, len(model.features))]
    return records[:, :-1] if model.name == model.agreement.active.name else records


def _named(model: PartyModel, rows: Sequence[int], drawn: bytes) -> bytes:
    return named_request(drawn, len(_part(model).own.trees), rows)


def _server(model: PartyModel) -> LeafServer:
    part, learner = _part(model), _learner(model.agreement)
    peers = [party.name for party in model.agreement.peers_of(model.name)]
    masks = AgreedMasks(model.name, dict(zip(peers, (seed.tobytes() for seed in part.seeds), strict=True)))
    paths = part.own.paths(learner.n_estimators)
    return LeafServer(paths, masks, part.order.tobytes(), part.secret.tobytes(), learner.leaves)


def _part(model: PartyModel) -> ServedTrees:
    assert isinstance(model.part, ServedTrees)  # noqa: S101 - the agreement says so
    return model.part


def _learner(agreement: Agreement) -> BoostedTrees:
    assert isinstance(agreement.plan.family, BoostedTrees)  # noqa: S101 - the protocol has checked it
    return agreement.plan.family
