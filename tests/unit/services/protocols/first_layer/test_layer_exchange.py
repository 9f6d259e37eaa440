"""The exchange of a first layer on shared weights: what it refuses, what it sends again, and real mTLS."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from services.common.certificates import create_federation_certificates
from services.common.errors import InvalidMessage, NotAllowed, OutOfOrder, PeerVanished
from services.common.identity import Identity, role_of
from services.exchange.message_link import MessageLink
from services.exchange.vectors import PublicKeyShown, WireVector
from services.protocols.first_layer.layer_exchange import LayerExchange
from services.protocols.shared.share_mailbox import Outgoing
from services.protocols.shared.share_messages import Kind
from services.protocols.shared.side_on_shares import made_key
from tests.harness.connections import transport_of
from tests.harness.shared_layers import joined_weights, layer_terms, reference_of, run_layers, wired_layers
from tests.harness.shared_sessions import SharedProblem
from tests.harness.shared_wiring import serve_shares
from vfl.crypto.pool import PooledEngine
from vfl.crypto.sharing.shares import Integers, Shares

# The label party trains with it.
pytest.importorskip("torch")


class Pair:
    """A label party and a passive one before their first step."""

    def __init__(self, label: LayerExchange, passive: LayerExchange, weights: Shares, features: Integers) -> None:
        self.label, self.passive, self.weights, self.features = label, passive, weights, features
        self.rows = label._layer.batches.rows_of_step(0)

    def shown(self) -> "Pair":
        assert self.label.public_key is not None
        self.passive.receive_key("active", self.label.public_key)
        return self

    def hidden(self) -> "Pair":
        for one in self.label.hide_weights(0, self.weights):
            self.passive.receive("active", one.kind, one.step, one.vector)
        return self

    def forward(self) -> list[Outgoing]:
        return self.passive.forward(0, self.features, np.zeros((self.rows, 3), dtype=object))


@pytest.fixture
def pair() -> Iterator[Pair]:
    problem = SharedProblem.random()
    with wired_layers(problem, timeout=0.2) as parties:
        weights = parties["active"].half.weights
        rows = next(iter(parties["active"].schedule.epoch(0)))
        features = parties["passive-1"]._features[rows]
        yield Pair(parties["active"].exchange, parties["passive-1"].exchange, weights, features)  # type: ignore[arg-type]


def test_the_same_step_again_is_sent_as_it_was(pair: Pair) -> None:
    first = pair.shown().label.hide_weights(0, pair.weights)
    assert pair.label.hide_weights(0, pair.weights + 1) is first
    assert pair.hidden().forward() is pair.forward()


def test_nothing_is_made_ahead_for_a_session_that_has_ended(pair: Pair) -> None:
    for exchange in (pair.label, pair.passive):
        exchange._engine = PooledEngine.of(exchange._engine)
    pair.shown().hidden().forward()
    pair.label.end("enough.")
    assert not pair.label._engine.make_ahead()  # type: ignore[attr-defined]
    assert pair.passive._engine.make_ahead()  # type: ignore[attr-defined]


def test_another_message_in_its_place_is_refused(pair: Pair) -> None:
    pair.shown().hidden()
    pads, differences = pair.label.hide_weights(0, pair.weights)
    pair.passive.receive("active", pads.kind, 0, pads.vector)
    other = bytes(len(differences.vector.data))
    with pytest.raises(OutOfOrder, match="taken once"):
        pair.passive.receive("active", differences.kind, 0, _with(differences.vector, other))


def test_who_sends_what_and_when(pair: Pair) -> None:
    pads, _ = pair.label.hide_weights(0, pair.weights)
    with pytest.raises(OutOfOrder, match="must show its public key"):
        pair.passive.receive("active", pads.kind, 0, pads.vector)
    pair.shown()
    key = pair.label.public_key
    assert key is not None
    with pytest.raises(NotAllowed, match="passive-1 has no public key to show"):
        pair.label.receive_key("passive-1", key)
    with pytest.raises(NotAllowed, match="passive-1 has no weight pads to send"):
        pair.label.receive("passive-1", pads.kind, 0, pads.vector)
    for step, error in ((2, OutOfOrder), (99, InvalidMessage)):
        with pytest.raises(error, match="step"):
            pair.passive.receive("active", pads.kind, step, pads.vector)
    with pytest.raises(OutOfOrder, match="must show its serving key"):
        pair.passive.receive("active", Kind.FROZEN, 15, pads.vector)
    for kind in (Kind.ROWS, Kind.OPENED, Kind.PADS, Kind.WORD):
        with pytest.raises(NotAllowed, match="has no"):
            pair.passive.receive("active", kind, 0, pads.vector)
    with pytest.raises(NotAllowed, match="stranger is not a party"):
        pair.passive.receive("stranger", pads.kind, 0, pads.vector)


@pytest.mark.parametrize("content", ["short", "zeros"])
def test_what_is_no_vector_of_ciphertexts_is_refused(pair: Pair, content: str) -> None:
    pads, _ = pair.shown().label.hide_weights(0, pair.weights)
    data = pads.vector.data[:-1] if content == "short" else bytes(len(pads.vector.data))
    with pytest.raises(InvalidMessage):
        pair.passive.receive("active", pads.kind, 0, _with(pads.vector, data))
    pair.hidden()


def test_the_serving_key_is_another_one(pair: Pair) -> None:
    key = pair.shown().label.public_key
    assert key is not None
    with pytest.raises(InvalidMessage, match="make another"):
        pair.passive.receive_key("active", replace(key, purpose="serving"))


def test_who_waits_is_told_and_the_end_forgets(pair: Pair) -> None:
    with pytest.raises(PeerVanished, match="active's weight pads of step 0"):
        pair.shown().forward()
    pair.hidden().forward()
    pair.passive.end("the owner stopped it.")
    assert not pair.passive._received
    assert not pair.passive._sent
    with pytest.raises(OutOfOrder, match="the owner stopped it"):
        pair.passive.backward(0, pair.features)
    (pads, _) = pair.label.hide_weights(0, pair.weights)
    with pytest.raises(OutOfOrder, match="the owner stopped it"):
        pair.passive.receive("active", pads.kind, 0, pads.vector)


def test_nothing_is_hidden_once_weights_are_frozen_nor_by_who_has_no_key(pair: Pair) -> None:
    pair.shown().hidden()
    pads = pair.label.hide_weights(0, pair.weights)
    pair.label.freeze(pair.weights, made_key(512))
    # What was hidden before is sent again.
    assert pair.label.hide_weights(0, pair.weights) == pads
    with pytest.raises(OutOfOrder, match="Training is over: no further step is taken"):
        pair.label.hide_weights(1, pair.weights)
    signal = np.zeros((pair.rows, 3), dtype=object)
    with pytest.raises(OutOfOrder, match="passive-1 has no key of its own in this session"):
        pair.passive.hide_signal(0, signal)


def test_masks_of_another_version_are_refused_in_words() -> None:
    problem = SharedProblem.random(columns=(2, 1, 2))
    with wired_layers(problem, timeout=0.2) as parties:
        one, other = (parties[name].exchange for name in ("passive-1", "passive-2"))
        key = other.public_key
        assert key is not None
        assert not key.content
        for key_id, content in (("key", b"content"), ("key", b""), ("", b"content")):
            with pytest.raises(NotAllowed, match="no public key"):
                one.receive_key("passive-2", PublicKeyShown(key_id, content, key.mask_key))
        with pytest.raises(PeerVanished, match="the other passive parties' keys"):
            one._agree_on_masks()
        one.receive_key("passive-2", PublicKeyShown("", b"", b"short"))
        with pytest.raises(OutOfOrder, match="one key a party"):
            one.receive_key("passive-2", key)
        with pytest.raises(InvalidMessage, match=r"passive-2 has shown .* masks"):
            one._agree_on_masks()


def test_three_parties_train_over_mutual_tls(tmp_path: Path) -> None:
    names = ["coordinator", "active", "passive-1", "passive-2", "operator"]
    create_federation_certificates(tmp_path, [Identity(role_of(name), name) for name in names])
    problem = SharedProblem.random(columns=(3, 2, 1))
    with ExitStack() as stack:
        addresses: dict[str, str] = {}

        def linked(sender: str, receiver: str, exchanges: dict[str, LayerExchange]) -> MessageLink:
            if receiver not in addresses:
                addresses[receiver] = serve_shares(stack, tmp_path, receiver, lambda _: exchanges[receiver])
            return MessageLink(receiver, transport_of(tmp_path, sender).dial(addresses[receiver], receiver), 20.0)

        parties = stack.enter_context(wired_layers(problem, peer=linked))  # type: ignore[arg-type]
        run_layers(parties)
        found = joined_weights(parties)
    for weights, part in zip(found.values(), reference_of(problem).parts, strict=True):
        assert np.abs(weights - part.weights).max() < 1e-7


def test_terms_follow_from_the_agreement() -> None:
    """A label party's own weights are its own: nobody else holds a share of them."""
    terms = layer_terms(SharedProblem.random(columns=(3, 2, 1)))
    assert terms.held_by("active") == ["passive-1", "passive-2"]
    assert terms.held_by("passive-1") == []
    assert terms.places("active") == {"passive-1": slice(0, 2), "passive-2": slice(2, 3), "active": slice(3, 7)}


def _with(vector: WireVector, data: bytes) -> WireVector:
    return WireVector(vector.key_id, vector.count, vector.width, 0, data)
