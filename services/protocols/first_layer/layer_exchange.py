"""One party's messages of a network's first layer on shared weights, to its peers and from them. Knows no network.

    label party, with V and the key                      passive party, with features X and U
    hide_weights(step)     ── [Q], V - Q ──>             forward(step): waits for them
    products(step)         <── masked [X Q], and what is left of X (U + V), in the clear ──┘
        └── z, of all parties together
    hide_signal(step)      ── [R], delta - R ──>         backward(step): waits for them
    sums(step)             <── masked [X^T R] ──         sums: what is left of X^T delta
    complete_step(step)                                  complete_step(step)
    after an epoch that is validated, of other records: hide_weights, forward, products
    at the end
    freeze                 ── once, [V] ──>              frozen

Pads Q and R are drawn for each message and are all that is ever under the label party's key: it encrypts no number that
it decrypted, and none that follows from one (`vfl.crypto.sharing.padded_products`). A passive party sees uniform
numbers and encrypted pads. The label party sees z: where several parties forward, the sum of theirs, since what they
send in the clear stands under masks that cancel in it. A peer is at most one step ahead.
"""

import secrets
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from services.ciphers.shown_keys import shown_key
from services.common.errors import NotAllowed, OutOfOrder, refusals_of
from services.exchange.message_table import KeyRow
from services.exchange.vectors import PublicKeyShown
from services.protocols.first_layer.layer_messages import FORWARDING, LayerSizes
from services.protocols.first_layer.layer_terms import LayerTerms
from services.protocols.shared.share_mailbox import SERVING, Outgoing, ShareMailbox
from services.protocols.shared.share_messages import Kind
from vfl.crypto import Engine, PrivateKey, PublicKey
from vfl.crypto.pairwise_masks import PairwiseMasks
from vfl.crypto.sharing.padded_products import Padded, PaddedFormats, hide, kept, multiply
from vfl.crypto.sharing.shares import Integers, Shares, lifted


class LayerExchange(ShareMailbox):
    """One party's messages of a training.

    Attributes:
        public_key: to show to the peers: the label party's key, at a passive party what masks are agreed on with;
            None where there is nothing to show.
    """

    def __init__(
        self,
        terms: LayerTerms,
        name: str,
        private_key: PrivateKey | None,
        engine: Engine,
        *,
        timeout: float,
        draw: Callable[[int], int] = secrets.randbelow,
    ) -> None:
        """Make a session's exchange of the party ``name``.

        Args:
            terms: public.
            name: the party's.
            private_key: the label party's, for pads of this session and nothing else; None at the others.
            engine: what computes, for this session alone.
            timeout: seconds to wait for a peer's message.
            draw: a uniform number below another, for pads and masks; another one than the default is for tests.

        Raises:
            InvalidMessage: for terms whose messages are too large.
            PackingImpossible: for terms whose numbers don't fit a key.
        """
        sizes = LayerSizes(terms)
        sizes.check()
        super().__init__(terms, name, sizes, engine, steps=terms.steps, timeout=timeout)
        self._layer, self._key, self._draw = terms, private_key, draw
        self._active = terms.agreement.active.name
        self._others = [peer for peer in self._peers if peer != self._active]
        self._masks = PairwiseMasks(name, terms.agreement.session_id)
        self._has_agreed = False
        self._sent: dict[tuple[Kind, int], list[Outgoing]] = {}
        self._left: dict[int, Integers] = {}
        # To whom it is shown: the label party's to all, a passive one's to those that mask as well.
        self.key_receivers = self._others if private_key is None else self._peers
        self.public_key: PublicKeyShown | None = None
        if private_key is not None:
            self.public_key = shown_key(terms.agreement, name, private_key)
        elif self._others:
            self.public_key = PublicKeyShown("", b"", self._masks.public_key)

    def _keys_of(self, peer: str) -> Iterator[KeyRow]:
        """List, besides, what another passive party agrees on masks with."""
        yield from super()._keys_of(peer)
        if self._terms.agreement.active.name not in (self._name, peer):
            yield KeyRow("", peer, partial(_mask_key, peer))

    # -- the label party's steps -----------------------------------------------------------------------------------

    def hide_weights(self, step: int, weights: Shares) -> list[Outgoing]:
        """Hide its shares of the others' weights behind pads; the same again for the same step."""

        def hidden() -> list[Outgoing]:
            if self._is_over:
                raise OutOfOrder("Training is over: no further step is taken.")
            places, messages = self._terms.places(self._name), list[Outgoing]()
            for owner in self._peers:
                share = weights[places[owner]].rescaled(self._terms.formats.fraction_bits)
                padded = self._hidden(share.integers, self._layer.forward)
                messages.append(self._outgoing(owner, Kind.WEIGHT_PADS, step, padded.pads))
                messages.append(self._outgoing(owner, Kind.WEIGHT_DIFFERENCES, step, _flat(padded.differences)))
            return messages

        return self._once(Kind.WEIGHT_PADS, step, hidden)

    def products(self, step: int) -> Integers:
        """Add up the passive parties' products, (s, h); raises PeerVanished without any of them.

        In units of a product's fraction bits; exact but for a carry of each party in the last place, below 2^7.
        """
        formats, rows = self._layer.forward, self._layer.rows_of(step)
        total: Integers = np.zeros((rows, formats.outputs), dtype=np.object_)
        for peer in self._peers:
            masked, clear = (self._await(kind, peer, step) for kind in (Kind.FORWARD, Kind.HANDED))
            with self._going_on():
                peer_products = kept(masked, rows, formats, self._own_key, self._engine)
            total = total + peer_products + _matrix(clear, rows)
        half = 1 << formats.ring - 1
        centred: Integers = (total + half) % (2 * half) - half
        return centred

    def hide_signal(self, step: int, signal: Integers) -> list[Outgoing]:
        """Hide the backward signal, (s, h), behind pads: the same for every party, and again for the same step."""

        def hidden() -> list[Outgoing]:
            padded = self._hidden(signal, self._layer.backward)
            return [
                message
                for peer in self._peers
                for message in (
                    self._outgoing(peer, Kind.SIGNAL_PADS, step, padded.pads),
                    self._outgoing(peer, Kind.SIGNAL_DIFFERENCES, step, _flat(padded.differences)),
                )
            ]

        return self._once(Kind.SIGNAL_PADS, step, hidden)

    def held_sums(self, step: int) -> dict[str, Integers]:
        """Give, by passive party, this party's share of X^T delta, (d, h); raises PeerVanished without any of them."""
        formats, shares = self._layer.backward, dict[str, Integers]()
        for peer in self._peers:
            masked = self._await(Kind.BACKWARD, peer, step)
            with self._going_on():
                residues = kept(masked, self._terms.columns(peer), formats, self._own_key, self._engine)
            shares[peer] = lifted(residues, formats.ring, first=True)
        return shares

    # -- a passive party's steps -----------------------------------------------------------------------------------

    def forward(self, step: int, features: Integers, own_products: Integers) -> list[Outgoing]:
        """Products of whole features, (s, d), with all of its weights; the same again for the same step.

        Args:
            step: of the training.
            features: of its records.
            own_products: these times this party's share of the weights, (s, h).

        Raises:
            PeerVanished: without the label party's share behind pads.
        """

        def multiplied() -> list[Outgoing]:
            self._agree_on_masks()
            kinds = Kind.WEIGHT_PADS, Kind.WEIGHT_DIFFERENCES
            masked, residues = self._multiplied(step, kinds, features, self._layer.forward)
            mask = self._masks.mask(step, own_products.shape).astype(np.object_)
            clear = (residues + own_products + mask) % (1 << self._layer.forward.ring)
            return [
                self._outgoing(self._active, Kind.FORWARD, step, masked),
                self._outgoing(self._active, Kind.HANDED, step, _flat(clear)),
            ]

        return self._once(Kind.FORWARD, step, multiplied)

    def backward(self, step: int, features: Integers) -> list[Outgoing]:
        """Products of whole features, (s, d), with the backward signal; the same again for the same step.

        Raises PeerVanished without the signal behind pads.
        """

        def multiplied() -> list[Outgoing]:
            kinds = Kind.SIGNAL_PADS, Kind.SIGNAL_DIFFERENCES
            masked, self._left[step] = self._multiplied(step, kinds, features.T, self._layer.backward)
            return [self._outgoing(self._active, Kind.BACKWARD, step, masked)]

        return self._once(Kind.BACKWARD, step, multiplied)

    def own_sums(self, step: int) -> Integers:
        """Give this party's share of X^T delta, (d, h), once `backward` has left it with it."""
        return lifted(self._left[step], self._layer.backward.ring, first=False)

    def complete_step(self, step: int) -> None:
        """Go on to the next step and forget what no peer can send again."""
        with self._order:
            self._order.step = step + 1
            self._sent.clear()
            self._left.clear()
            self.forget(lambda _, other: self._layer.taken_before(other) < step)

    # -- inner -----------------------------------------------------------------------------------------------------

    def _once(self, kind: Kind, step: int, make: Callable[[], list[Outgoing]]) -> list[Outgoing]:
        """Draw what is sent of a step once; it is sent again as it was."""
        if (kind, step) not in self._sent:
            self._sent[kind, step] = make()
        return self._sent[kind, step]

    def _hidden(self, values: Integers, formats: PaddedFormats) -> Padded:
        with self._going_on():
            return hide(values, formats, self._own_key, self._engine, self._draw)

    def _multiplied(
        self, step: int, kinds: tuple[Kind, Kind], features: Integers, formats: PaddedFormats
    ) -> tuple[tuple[int, ...], Integers]:
        """Masked products with what the label party has hidden, and this party's residues of them."""
        pads, differences = (self._await(kind, self._active, step) for kind in kinds)
        padded = Padded(tuple(pads), _matrix(differences, features.shape[1]))
        with self._going_on():
            masked = multiply(features, padded, formats, self.key("", self._active), self._engine, self._draw)
        return masked.ciphertexts, masked.residues

    def _agree_on_masks(self) -> None:
        if self._has_agreed:
            return
        with self._order:
            self._order.await_value(
                lambda: all(("", peer) in self._shown for peer in self._others) or None,
                "the other passive parties' keys",
            )
            mask_keys = {peer: self.key("", peer) for peer in self._others}
        with refusals_of(ValueError):
            self._masks.agree(mask_keys)
        self._has_agreed = True

    @property
    def _own_key(self) -> PrivateKey:
        if self._key is None:
            raise OutOfOrder(f"{self._name} has no key of its own in this session.")
        return self._key

    def _key_taken(self, peer: str, key: PublicKey) -> None:
        """Do nothing: it stands among the shown ones."""

    def _check_step(self, peer: str, kind: Kind, step: int) -> None:
        if kind is Kind.FROZEN:
            self._check_over(kind, step, self._layer.batches.steps_per_epoch)
        elif kind in FORWARDING and self._layer.is_validation(step):
            self._check_validation(self._layer.taken_before(step))
        else:
            self._order.check(step)

    def _key_of(self, kind: Kind, sender: str, receiver: str) -> PublicKey | None:
        if kind in (Kind.WEIGHT_DIFFERENCES, Kind.SIGNAL_DIFFERENCES, Kind.HANDED):
            return None
        if kind is Kind.FROZEN:
            return self._serving_key.public_key if self._serving_key else self.key(SERVING, sender)
        return self._key.public_key if self._key else self.key("", self._active)

    def _forget(self) -> None:
        self._sent.clear()
        self._left.clear()
        self._engine.close()


def _flat(values: Integers) -> list[int]:
    numbers: list[int] = values.ravel().tolist()
    return numbers


def _matrix(values: Sequence[int], rows: int) -> Integers:
    return np.array(values, dtype=np.object_).reshape(rows, -1)


def _mask_key(peer: str, key: PublicKeyShown) -> bytes:
    if key.key_id or key.content:
        raise NotAllowed(f"{peer} has no public key to show in this session.")
    return key.mask_key
