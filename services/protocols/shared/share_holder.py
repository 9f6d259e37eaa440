"""One party's key, ciphertexts and shares in a session. Knows no network, waits for nobody.

    take_key, take_features            once: every other party's, and its encrypted features
    forward(step)                ──>   to whose V this party holds: products with these shares
    products(step, answer)       <──   from the holder of its own V; gives its share of z
    backward(step, residual)     ──>   to every other party: products with this party's share of the residual,
                                       and to the holders of those parties' V what they leave this party with
    sums(step, answers, handed)  <──   from every other party; gives its shares of X^T f, of all weights that it shares

Whatever a ciphertext holds, the same calls send as many bytes: nothing that is decrypted is checked, compared or told.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from services.common.errors import OutOfOrder
from services.protocols.shared.shared_terms import SharedTerms
from vfl.arrays import FloatArray, IntArray
from vfl.crypto import Engine, PrivateKey, PublicKey
from vfl.crypto.sharing.masked_products import Masked, kept, mask, multiply, pack_blocks, pack_rows
from vfl.crypto.sharing.share_formats import SlotLayout
from vfl.crypto.sharing.shares import Integers, Shares, encoded, lifted

Ciphertexts = Sequence[int]


class ShareHolder:
    """What one party computes of a training on shared weights.

    Weights are its stacked shares, in the order of ``SharedTerms.places``. A batch is an array of block numbers. An
    answer is drawn once with its mask; the same step again gives the same answer.
    """

    def __init__(
        self,
        terms: SharedTerms,
        name: str,
        features: FloatArray,
        private_key: PrivateKey,
        engine: Engine,
        draw: Callable[[int], int] = secrets.randbelow,
        *,
        backward: FloatArray | None = None,
    ) -> None:
        """Begin a session under a key that serves it alone.

        Args:
            terms: public.
            name: the party's.
            features: (aligned rows, d) in the session's fixed point.
            private_key: encrypts these features and nothing else.
            engine: what computes, for this session alone.
            draw: a uniform number below another, for masks; another one than the default is for tests.
            backward: what it encrypts for products with residuals; an honest party its features.
        """
        self._terms, self._formats, self._name = terms, terms.formats, name
        self._features = encoded(features, self._formats.feature_fraction_bits)
        self._backward = self._features if backward is None else encoded(backward, self._formats.feature_fraction_bits)
        self._key, self.engine, self._draw = private_key, engine, draw
        # Of every pair one is the label party, which keeps its residues as they are.
        self._is_first = name == terms.agreement.active.name
        self._residual_offset = 1 << self._formats.residual_bits - 1
        self._peers = [peer.name for peer in terms.agreement.peers_of(name)]
        self._holder, self._held, self._places = terms.holder(name), terms.held_by(name), terms.places(name)
        self._peer_keys: dict[str, PublicKey] = {}
        self._rows: dict[str, list[Ciphertexts]] = {}
        self._blocks: dict[str, list[Ciphertexts]] = {}
        self._drawn: dict[tuple[int, str, str], tuple[Any, Masked]] = {}
        # Where each training row stands among the ciphertexts of rows; validation rows, which are in none, come after.
        self._order = np.concatenate(terms.blocks)
        self._starts = np.cumsum([0, *map(len, terms.blocks)])
        self._training_rows = sum(map(len, terms.schedule.blocks))

    # -- once --

    def plaintexts_of_rows(self) -> list[int]:
        """List what every peer gets encrypted: training rows for products with residuals."""
        return pack_rows(self._backward[self._order[: self._training_rows]], self._formats.backward)

    def plaintexts_of_blocks(self) -> list[int]:
        """List what the holder of V gets encrypted: blocks for products with weights."""
        return pack_blocks((self._features[block] for block in self._terms.blocks), self._formats.forward)

    def encrypted(self, plaintexts: Sequence[int]) -> list[int]:
        """Put own features under the own key."""
        return self.engine.encrypt(self._key, plaintexts)

    def take_key(self, peer: str, key: PublicKey) -> None:
        """Take a peer's key, once its proof was checked."""
        self._peer_keys[peer] = key

    def take_rows(self, peer: str, ciphertexts: Ciphertexts) -> None:
        """Take a peer's encrypted rows: ciphertexts in Z_n^2*, as many as its columns fill."""
        self._rows[peer] = _cut(ciphertexts, self._training_rows)

    def take_blocks(self, peer: str, ciphertexts: Ciphertexts) -> None:
        """Take the encrypted blocks of a party whose V this one holds."""
        self._blocks[peer] = _cut(ciphertexts, self._terms.columns(peer))

    # -- a step --

    def forward(self, step: int, batch: IntArray, weights: Shares, purpose: str = "forward") -> dict[str, Ciphertexts]:
        """Answers, by receiver: products of encrypted blocks with this party's shares of their owners' weights.

        Another purpose than a step's is answered beside it.
        """
        formats = self._formats
        answers: dict[str, Ciphertexts] = {}
        for owner in self._held:
            exponents = self._exponents(weights, owner)
            groups = [self._blocks[owner][number] for number in batch]
            masked = self._masked(
                (step, purpose, owner), groups, exponents, formats.ring, formats.forward, self._block_sizes(batch)
            )
            answers[owner] = masked.ciphertexts
        return answers

    def products(
        self, step: int, batch: IntArray, weights: Shares, answer: Ciphertexts, purpose: str = "forward"
    ) -> Shares:
        """Compute this party's share of z, (s, k): of every pair that it is in."""
        formats, X = self._formats, self._features[self._rows_of(batch)]
        own_residues = kept(answer, formats.forward, self._block_sizes(batch), self._key, self.engine)
        residues = {self._holder: own_residues + X @ self._exponents(weights, self._name)}
        for owner in self._held:
            residues[owner] = residues.get(owner, 0) + self._drawn[step, purpose, owner][1].residues
        z = sum(lifted(pair, formats.ring, first=self._is_first) for pair in residues.values())
        return Shares(np.asarray(z), formats.product_fraction_bits).rescaled(formats.fraction_bits)

    def backward(
        self, step: int, batch: IntArray, residual: Shares
    ) -> tuple[dict[str, Ciphertexts], dict[str, Integers]]:
        """Answers to every peer, and by holder what it is handed: this party's residues of other parties' gradients.

        What is handed is uniform, (columns of the holder's other owners, k), in the agreement's order.
        """
        formats = self._formats
        exponents = (residual.integers + self._residual_offset) % (1 << formats.residual_bits)
        rows = self._positions(batch)
        answers, handed = dict[str, Ciphertexts](), dict[str, list[Integers]]()
        for owner in self._peers:
            groups = [[group[row] for row in rows] for group in self._rows[owner]]
            masked = self._masked(
                (step, "backward", owner),
                groups,
                exponents,
                formats.residual_bits,
                formats.backward,
                self._fills(owner),
            )
            answers[owner] = masked.ciphertexts
            if (holder := self._terms.holder(owner)) != self._name:
                handed.setdefault(holder, []).append(masked.residues % (1 << formats.gradient_ring))
        return answers, {holder: np.concatenate(residues) for holder, residues in handed.items()}

    def sums(
        self,
        step: int,
        batch: IntArray,
        residual: Shares,
        answers: Mapping[str, Ciphertexts],
        handed: Mapping[str, Integers],
    ) -> Shares:
        """Stack this party's shares of X^T f as its weights are.

        Args:
            step: as before.
            batch: as before.
            residual: this party's share of f.
            answers: of every peer.
            handed: by who hands them on, residues of the gradients whose V this party holds.
        """
        formats, X = self._formats, self._backward[self._rows_of(batch)]
        total = X.T @ residual.integers
        for answer in answers.values():
            total = total + kept(answer, formats.backward, self._fills(self._name), self._key, self.engine)
            # The public offset of exponents, times own features only.
            total = total - X.sum(axis=0)[:, None] * self._residual_offset
        residues = {self._name: total}
        for owner in self._held:
            residues[owner] = self._drawn[step, "backward", owner][1].residues
        for peer, content in handed.items():
            start = 0
            for owner in self._terms.handed_owners(peer, self._name):
                stop = start + self._terms.columns(owner)
                residues[owner], start = residues[owner] + content[start:stop], stop
        gradient = [lifted(residues[owner], formats.gradient_ring, first=self._is_first) for owner in self._places]
        return Shares(np.concatenate(gradient), formats.product_fraction_bits)

    def forget(self, before: int) -> None:
        """Forget answers and masks of steps before this one."""
        self._drawn = {key: drawn for key, drawn in self._drawn.items() if key[0] >= before}

    def forget_features(self) -> None:
        """Forget the other parties' encrypted features, all answers, and what was made of keys: the session is over."""
        self._rows, self._blocks, self._drawn = {}, {}, {}
        self.engine.close()

    # -- inner --

    def _exponents(self, weights: Shares, owner: str) -> Integers:
        """Weights in the units of forward products, as residues."""
        share = weights[self._places[owner]].rescaled(self._formats.fraction_bits)
        residues: Integers = share.integers % (1 << self._formats.ring)
        return residues

    def _masked(
        self,
        key: tuple[int, str, str],
        groups: Sequence[Ciphertexts],
        exponents: Integers,
        bits: int,
        layout: SlotLayout,
        sizes: Sequence[int],
    ) -> Masked:
        """Mask an answer, with a mask drawn once. Raises OutOfOrder for other exponents in the same step."""
        content = exponents.tolist()
        if key not in self._drawn:
            peer_key = self._peer_keys[key[2]]
            products = multiply(groups, exponents, bits, peer_key, self.engine)
            self._drawn[key] = content, mask(products, layout, sizes, peer_key, self.engine, self._draw)
        former_content, masked = self._drawn[key]
        if former_content != content:
            raise OutOfOrder(f"Step {key[0]} was answered with other shares already; a step is answered once.")
        return masked

    def _rows_of(self, batch: IntArray) -> IntArray:
        """List the aligned rows of a batch, block by block."""
        return self._order[self._positions(batch)]

    def _positions(self, batch: IntArray) -> IntArray:
        return np.concatenate([np.arange(self._starts[number], self._starts[number + 1]) for number in batch])

    def _block_sizes(self, batch: IntArray) -> list[int]:
        return [len(self._terms.blocks[number]) for number in batch]

    def _fills(self, owner: str) -> list[int]:
        """Count the columns of a party that each of its backward answers holds."""
        count, columns = self._formats.backward.count, self._terms.columns(owner)
        return [min(count, columns - start) for start in range(0, columns, count)]


def _cut(ciphertexts: Ciphertexts, size: int) -> list[Ciphertexts]:
    return [ciphertexts[start : start + size] for start in range(0, len(ciphertexts), size)]
