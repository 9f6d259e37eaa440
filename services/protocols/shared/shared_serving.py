"""A model whose weights stay shared, at one party: what it keeps, and what it computes for a request. Knows no network.

    owner of the features                             holder of their V, who made the serving key
    ask(features)        ── masked products ──>       keep(masked)
         └── residues ──>   the coordinator   <── residues ──┘

Both are uniform without each other. Only the coordinator has both, and reads a sum of all parties' products.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from services.common.errors import InvalidMessage, NotAllowed
from services.common.limits import PREDICTION_ROWS
from services.protocols.shared.shared_terms import SharedTerms
from vfl.arrays import FloatArray
from vfl.crypto import Engine, InvalidCiphertext, PrivateKey, PublicKey, check_ciphertexts, from_bytes, to_bytes
from vfl.crypto.sharing.frozen_weights import Residues, residues_of
from vfl.crypto.sharing.masked_products import kept, mask
from vfl.crypto.sharing.shares import encoded
from vfl.learning import Learner, LinearPart, Part

# Of masked products in a message, which holds 4 MiB.
_MASKED_BYTES = 3 << 20
# Of a part's arrays: names of those of the learner's part start with the last.
_FIELDS = ("share", "holder_key", "frozen", "serving_key")
_OWN = "own_"


def _bytes_of(values: Sequence[int], width: int) -> NDArray[np.uint8]:
    return np.frombuffer(to_bytes(values, width), dtype=np.uint8)


@dataclass(frozen=True, eq=False)
class SharedPart:
    """A party's part of a model whose weights stay shared. Without every party's it tells nothing, and answers nothing.

    Attributes:
        share: (d, k) U, rounded as it would be opened, modulo 2**64.
        holder_key: modulus of the serving key that V is under; bytes, as all that follow.
        frozen: V under that key, output by output d ciphertexts. It is sent once in a session, and never changes.
        serving_key: p and q of this party's own, under which it has encrypted others' V; empty where it holds none.
        own: the learner's part of weights that this party has whole: of what its learner has above a first layer, too.
            ``holder_key`` and ``frozen`` are empty then; None where its weights are shared.
        turn: (d, d) R where the columns were turned before they were shared, U and V of X R; None where they weren't.
    """

    share: Residues = field(repr=False)
    holder_key: NDArray[np.uint8]
    frozen: NDArray[np.uint8] = field(repr=False)
    serving_key: NDArray[np.uint8] = field(repr=False)
    own: Part | None = field(repr=False, default=None)
    turn: FloatArray | None = field(repr=False, default=None)

    @classmethod
    def of_owner(cls, share: Residues, serving_key: PrivateKey, own_part: Part) -> "SharedPart":
        """Make a part of who has its own weights whole, and shares of others'."""
        nothing, width = np.zeros(0, dtype=np.uint8), serving_key.public_key.bits // 16
        return cls(share, nothing, nothing, _bytes_of((serving_key.p, serving_key.q), width), own_part)

    @classmethod
    def made(
        cls,
        share: Residues,
        holder_key: PublicKey,
        frozen: tuple[int, ...],
        serving_key: PrivateKey | None,
        turn: FloatArray | None = None,
    ) -> "SharedPart":
        """Make a part of what training has left a party with."""
        width = holder_key.bits // 8
        primes = () if serving_key is None else (serving_key.p, serving_key.q)
        keys = _bytes_of((holder_key.n,), width), _bytes_of(frozen, 2 * width), _bytes_of(primes, width // 2)
        return cls(share, *keys, turn=turn)

    def shares(self, features: FloatArray) -> FloatArray:
        """Raise ValueError: scores on shares take two parties (`SharedServer`)."""
        raise ValueError("Weights that stay shared answer together with the other parties only.")

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """Give all of it: for this party's own state, and nowhere else."""
        own_arrays = {} if self.own is None else {f"{_OWN}{name}": array for name, array in self.own.arrays().items()}
        turn = {} if self.turn is None else {"turn": self.turn}
        return {**{name: getattr(self, name) for name in _FIELDS}, **turn, **own_arrays}

    @classmethod
    def of(
        cls, arrays: Mapping[str, NDArray[Any]], read: Callable[[Mapping[str, NDArray[Any]]], Part] | None = None
    ) -> "SharedPart":
        """Read the part that ``arrays`` wrote, its learner's part as ``read`` reads it; raises ValueError."""
        shared = {name: array for name, array in arrays.items() if not name.startswith(_OWN)}
        own_arrays = {name.removeprefix(_OWN): array for name, array in arrays.items() if name.startswith(_OWN)}
        if (
            shared.keys() - {"turn"} != set(_FIELDS)
            or shared["share"].dtype != np.uint64
            or (own_arrays and read is None)
        ):
            raise ValueError("a part of shared weights has a share, a frozen one and keys")
        turn, columns = shared.get("turn"), len(shared["share"])
        if turn is not None and (turn.dtype != np.float64 or turn.shape != (columns, columns)):
            raise ValueError("a part of shared weights has a turn of its columns that doesn't fit them")
        return cls(**shared, own=read(own_arrays) if own_arrays and read is not None else None)

    @property
    def class_rows(self) -> FloatArray | None:
        """None: no party knows its weights."""
        return None

    def with_class_rows(self, rows: FloatArray) -> "SharedPart":
        """Raise ValueError, as nobody is asked for other rows."""
        raise ValueError("Weights that stay shared can't be distorted.")

    def scores(self, joined: FloatArray) -> FloatArray:
        """Score with the learner's part on all parties' joined shares; raises ValueError at a party without one."""
        make: Callable[[FloatArray], FloatArray] | None = getattr(self.own, "scores", None)
        if make is None:
            raise ValueError("only the label party's part has the layers that make scores")
        return make(joined)

    @cached_property
    def key(self) -> PublicKey:
        """The serving key that V is under."""
        return PublicKey(int.from_bytes(self.holder_key.tobytes(), "big"))

    @cached_property
    def by_output(self) -> list[tuple[int, ...]]:
        """V, encrypted: for each output d ciphertexts."""
        width, content = self.key.bits // 4, self.frozen.tobytes()
        values, columns = from_bytes(content, len(content) // width, width), len(self.share)
        return [values[start : start + columns] for start in range(0, len(values), columns)]

    @cached_property
    def own_key(self) -> PrivateKey:
        """This party's own serving key; raises ValueError without one."""
        half = len(self.serving_key) // 2
        return PrivateKey(*from_bytes(self.serving_key.tobytes(), 2, half))


@dataclass(frozen=True, eq=False)
class SharedServer:
    """What one party computes of the scores of a model that stays shared.

    Attributes:
        terms: of the session that it was trained in.
        name: the party's.
        part: its part of the model.
        engine: what computes.
        draw: a uniform number below another, for masks; another one than the default is for tests.
    """

    terms: SharedTerms
    name: str
    part: SharedPart
    engine: Engine
    draw: Callable[[int], int] = secrets.randbelow

    def ask(self, features: FloatArray) -> tuple[bytes, Residues]:
        """Multiply records, (n, d) in the session's fixed point, under masks that are drawn anew each time.

        Columns that training has turned are turned here. Who has its weights whole asks nobody: nothing is masked.

        Returns:
            The products in two halves that were drawn together: masked, for the holder of its V, which decrypts it;
            and (n, k) residues, its own, for the coordinator.
        """
        scores, part = self.terms.scores, self.part
        cells = self.terms.turn(part.turn).cells(features)
        integers = encoded(cells, scores.feature_fraction_bits).astype(np.int64)
        if part.own is not None:
            return b"", scores.own_products(integers, part.share)
        key = part.key
        products = scores.masked_products(integers, part.by_output, key, self.engine)
        masked = mask(products, scores.layout, scores.sizes(len(features)), key, self.engine, self.draw)
        content = to_bytes(masked.ciphertexts, scores.key_bits // 4)
        return content, scores.own_products(integers, part.share) + residues_of(masked.residues)

    def keep(self, owner: str, masked: bytes, records: int) -> Residues:
        """Keep what another party's masked products leave this one with, (n, k). Any ciphertexts give some.

        Raises:
            NotAllowed: for a party whose V this one doesn't hold.
            InvalidMessage: for anything but the agreed number of ciphertexts.
        """
        if owner not in self.terms.held_by(self.name):
            raise NotAllowed(f"{owner} has no masked products to send to {self.name}.")
        scores, key = self.terms.scores, self.part.own_key
        count = scores.groups(records) * self.part.share.shape[1]
        try:
            ciphertexts = from_bytes(masked, count, scores.key_bits // 4)
            check_ciphertexts(key.public_key, ciphertexts, count)
        except InvalidCiphertext as error:
            raise InvalidMessage(f"{owner}'s masked products are refused: {error}") from error
        return residues_of(kept(ciphertexts, scores.layout, scores.sizes(records), key, self.engine))


def check_is_served_shared(learner: Learner) -> None:
    """Raise InvalidMessage for a learner whose shares of scores aren't products of records and weights."""
    if not (learner.spec.forwards or issubclass(learner.spec.part, LinearPart)):
        raise InvalidMessage(
            f"The learner {learner.name} doesn't answer on shares, and the weights of this session stay shared: set "
            "PLUMBLINE_OPENING=always at every party, or learner=linear."
        )


def records_at_once(terms: SharedTerms) -> int:
    """Count the records that a request may ask about, so that their masked products fit a message."""
    scores = terms.scores
    answers = _MASKED_BYTES // (scores.key_bits // 4 * terms.formats.outputs)
    return max(1, min(PREDICTION_ROWS, answers * scores.layout.count))
