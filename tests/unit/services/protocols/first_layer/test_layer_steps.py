"""A network whose first layer is on shared weights, against the same network in float64, and what each party sees."""

import secrets
from collections import deque
from typing import Any

import numpy as np
import pytest

from attacks.training_attack import TrainingResult
from services.common.agreement import TrainingPlan
from services.common.errors import InvalidMessage
from services.exchange.outgoing import OutgoingVector
from services.exchange.vectors import PublicKeyShown, WireVector
from services.in_process.direct_peers import DirectPeer
from services.protocols.first_layer import layer_steps
from services.protocols.first_layer.layer_steps import LayerSteps
from services.protocols.shared.share_messages import Kind
from tests.harness.shared_layers import (
    LAYER_PLAN,
    joined_weights,
    reference_of,
    run_layers,
    wired_layers,
)
from tests.harness.shared_sessions import SharedProblem, WatchedEngine
from vfl.arrays import FloatArray
from vfl.crypto import from_bytes, keygen
from vfl.crypto.sharing.padded_products import kept
from vfl.learning.network import Network

# The label party trains with it.
pytest.importorskip("torch")

# Of weights after some 30 steps: what rounding to 2**-32 in z and in the signal leaves.
TOLERANCE = 1e-7


def largest_error(problem: SharedProblem, plan: TrainingPlan, found: dict[str, FloatArray]) -> float:
    pairs = zip(found.values(), reference_of(problem, plan).parts, strict=True)
    return max(float(np.abs(one - part.weights).max()) for one, part in pairs)


@pytest.mark.parametrize("columns", [(3, 2), (2, 3, 1)])
@pytest.mark.parametrize("classes", [2, 3])
def test_thirty_steps_are_those_of_float64(columns: tuple[int, ...], classes: int) -> None:
    """With momentum, a bias, features of either sign, batches of unequal size, one passive party and two."""
    problem = SharedProblem.random(columns=columns, classes=classes)
    plan = LAYER_PLAN.changed(epochs=6, upper=2)
    with wired_layers(problem, plan) as parties:
        run_layers(parties)
        assert largest_error(problem, plan, joined_weights(parties)) < TOLERANCE


def test_two_hundred_steps_are_those_of_float64() -> None:
    """Where units die and weights grow to ten times what they were: nothing adds up that a step has rounded."""
    problem = SharedProblem.random(rows=40, columns=(3, 2))
    plan = LAYER_PLAN.changed(epochs=40, hidden=2, key_bits=256, activation="relu")
    with wired_layers(problem, plan) as parties:
        run_layers(parties)
        assert largest_error(problem, plan, joined_weights(parties)) < TOLERANCE
        assert not parties["active"].left_range


@pytest.mark.parametrize(("hidden", "key_bits"), [(1, 512), (2, 512), (5, 256), (5, 1024)])
def test_any_number_of_units(hidden: int, key_bits: int) -> None:
    """Several records in a plaintext, one, and several plaintexts for a record."""
    problem = SharedProblem.random(rows=19, columns=(2, 2))
    plan = LAYER_PLAN.changed(hidden=hidden, key_bits=key_bits, optimiser="sgd", activation="relu", epochs=2)
    with wired_layers(problem, plan) as parties:
        run_layers(parties)
        assert largest_error(problem, plan, joined_weights(parties)) < TOLERANCE


def test_adam_and_what_else_cannot_work_is_refused_in_words() -> None:
    with pytest.raises(ValueError, match="optimiser=momentum or sgd"):
        Network(**{**LAYER_PLAN.learner_options, "optimiser": "adam"})
    LAYER_PLAN.check()
    large = LAYER_PLAN.changed(key_bits=2048, hidden=1024, batch_size=100_000)
    with pytest.raises(InvalidMessage, match="choose a smaller batch_size or fewer hidden units"):
        begun(SharedProblem.random(rows=100_000, columns=(1, 1)), large)
    validated = LAYER_PLAN.changed(key_bits=2048, hidden=1024, batch_size=8, validation_fraction=0.4, patience=1)
    with pytest.raises(InvalidMessage, match="choose a smaller validation_fraction or fewer hidden units, or set pat"):
        begun(SharedProblem.random(rows=100_000, columns=(1, 1)), validated)
    fine = LAYER_PLAN.changed(feature_fraction_bits=32)
    with pytest.raises(InvalidMessage, match="lower feature_fraction_bits or residual_fraction_bits"):
        begun(SharedProblem.random(columns=(2, 1, 1)), fine)
    begun(SharedProblem.random(), fine)
    with pytest.raises(InvalidMessage, match="choose a longer key"):
        begun(SharedProblem.random(), LAYER_PLAN.changed(key_bits=128))


def begun(problem: SharedProblem, plan: TrainingPlan) -> None:
    with wired_layers(problem, plan):
        pass


# --- what is seen ---


class Recorder(DirectPeer):
    """Keeps what is sent, message by message."""

    def __init__(self, sender: str, receiver: str, exchanges: Any, sent: list[tuple[str, str, Kind, int, WireVector]]):
        super().__init__(sender, lambda _: exchanges[receiver])
        self._receiver, self._sent = receiver, sent

    def send(self, session_id: str, kind: str, step: int, vector: WireVector | OutgoingVector) -> None:
        self._sent.append((self._sender, self._receiver, Kind(kind), step, vector.whole()))
        super().send(session_id, kind, step, vector)


def numbers(vector: WireVector) -> list[int]:
    return list(from_bytes(vector.data, vector.count, vector.width))


def test_all_that_is_under_the_key_are_pads_and_nobody_sends_what_it_decrypted() -> None:
    sent: list[Any] = []
    pads: list[int] = []

    def drawn(bound: int) -> int:
        pads.append(secrets.randbelow(bound))
        return pads[-1]

    problem = SharedProblem.random(columns=(3, 2, 2))
    recorded = lambda sender, receiver, exchanges: Recorder(sender, receiver, exchanges, sent)  # noqa: E731
    with wired_layers(problem, peer=recorded, draws={"active": drawn}) as parties:
        run_layers(parties, 3)
        exchange = parties["active"].exchange
        engine, key = WatchedEngine(), exchange._own_key
        terms = parties["active"]._terms
        for kind, formats in ((Kind.WEIGHT_PADS, terms.forward), (Kind.SIGNAL_PADS, terms.backward)):
            ciphertexts = [one for *_, found, _, vector in sent if found is kind for one in numbers(vector)]
            slots = [slot for plain in engine.decrypt(key, ciphertexts) for slot in formats.layout.read(plain)]
            used = {slot for slot in slots if slot}
            assert used
            assert used <= set(pads)
        decrypted = {number for one in parties.values() for number in _engine(one).decrypted}
        sent_numbers = {number for *_, vector in sent for number in numbers(vector)}
        assert decrypted
        assert not decrypted & sent_numbers


def _engine(party: LayerSteps) -> WatchedEngine:
    engine = party._means.engine
    assert isinstance(engine, WatchedEngine)
    return engine


def test_other_labels_show_a_passive_party_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """For every draw of pads there is one under which other labels leave the same differences on the wire.

    With the same draws of its own the passive party is then left with the same shares of its weights, to the last bit:
    all that differs is what stands under the label party's key.
    """
    _, key = keygen(LAYER_PLAN.key_bits, insecure=True)
    problem = SharedProblem.random(columns=(3, 2))
    swapped = SharedProblem(problem.blocks, 1 - problem.labels, problem.classes)
    seen, weights = [], []
    left: list[Any] = []
    differences: deque[list[int]] = deque()
    for one in (problem, swapped):
        sent: list[Any] = []
        recorded = lambda sender, receiver, exchanges, sent=sent: Recorder(sender, receiver, exchanges, sent)  # noqa: E731
        own = np.random.default_rng(0)
        draws = {"passive-1": lambda below, own=own: int.from_bytes(own.bytes(80), "big") % below}
        monkeypatch.setattr(layer_steps, "made_key", lambda _: key)
        with wired_layers(one, peer=recorded, draws=draws) as parties, pytest.MonkeyPatch.context() as patch:
            if differences:
                # The pad that is drawn is what the number is, minus what was sent in the first run.
                _coupled(parties["active"].exchange, differences, patch)
            run_layers(parties, 2)
            weights.append(joined_weights(parties)["active"])
            left.append(parties["passive-1"].half.weights)
        in_the_clear = [numbers(v) for s, _, kind, _, v in sent if s == "active" and kind.endswith("differences")]
        differences = deque(list(found) for found in in_the_clear)
        seen.append(in_the_clear)
    assert seen[0] == seen[1]
    assert (left[0].integers == left[1].integers).all()
    assert np.abs(weights[0] - weights[1]).max() > 0.001


def _coupled(exchange: Any, differences: deque[list[int]], patch: pytest.MonkeyPatch) -> None:
    hidden = exchange._hidden

    def coupled(values: Any, formats: Any) -> Any:
        found, ring = iter(differences.popleft()), 1 << formats.ring
        flat = iter(values.ravel().tolist())
        exchange._draw = lambda bound: (next(flat) - next(found)) % ring
        return hidden(values, formats)

    patch.setattr(exchange, "_hidden", coupled)


def test_the_label_party_sees_only_the_sum_of_several() -> None:
    """What each of two passive parties sends it in the clear, with what it decrypts of it, isn't that party's z."""
    sent: list[Any] = []
    problem = SharedProblem.random(columns=(2, 3, 2))
    recorded = lambda sender, receiver, exchanges: Recorder(sender, receiver, exchanges, sent)  # noqa: E731
    watcher = Watcher()
    with wired_layers(problem, peer=recorded, tapes={"active": watcher}) as parties:
        first = joined_weights(parties)
        run_layers(parties, 1)
        terms, exchange = parties["active"]._terms, parties["active"].exchange
        rows = next(iter(terms.batches.epoch(0)))
        expected = {name: problem.blocks[name][rows] @ first[name] for name in terms.passive}
        assert np.abs(watcher.products[0] - sum(expected.values())).max() < 1e-8
        for name in terms.passive:
            mine = {kind: vector for sender, _, kind, _, vector in sent if sender == name}
            residues = kept(numbers(mine[Kind.FORWARD]), len(rows), terms.forward, exchange._own_key, WatchedEngine())
            clear = np.array(numbers(mine[Kind.HANDED]), dtype=object).reshape(residues.shape)
            ring = 1 << terms.forward.ring
            alone = ((residues + clear + ring // 2) % ring - ring // 2) / 2.0**terms.formats.product_fraction_bits
            # Uniform in (-128, 128), where z stays within a few units.
            assert np.abs(alone.astype(float) - expected[name]).max() > 10


class Watcher:
    """Keeps what the label party is forwarded."""

    def __init__(self) -> None:
        self.products: dict[int, FloatArray] = {}

    def forwarded(self, step: int, products: FloatArray) -> None:
        self.products[step] = products

    def read(self, step: int, peer: str, residuals: FloatArray) -> None:
        raise AssertionError(f"{peer} sends nothing in the clear")


# --- nothing depends on content ---


@pytest.mark.parametrize(
    "kind",
    [
        Kind.WEIGHT_PADS,
        Kind.WEIGHT_DIFFERENCES,
        Kind.SIGNAL_PADS,
        Kind.SIGNAL_DIFFERENCES,
        Kind.FORWARD,
        Kind.HANDED,
        Kind.BACKWARD,
    ],
)
def test_whatever_arrives_the_session_goes_on_alike(kind: Kind) -> None:
    """As many bytes and products as ever; all that changes is the model."""
    problem, counted = SharedProblem.random(columns=(3, 2)), []
    for tampers in (False, True):
        sent: list[Any] = []

        class Tampering(Recorder):
            def send(self, session_id: str, found: str, step: int, vector: WireVector | OutgoingVector) -> None:
                if tampers and found == kind:  # noqa: B023
                    vector = self._tampered(vector.whole())
                super().send(session_id, found, step, vector)

            def _tampered(self, vector: WireVector) -> WireVector:
                if not vector.key_id:
                    data = b"\xff" * len(vector.data)
                else:
                    # Whatever is in them: powers of ciphertexts are ciphertexts.
                    key = parties["active"].exchange._own_key.public_key
                    found = [pow(one, 1 << 300, key.n_squared) for one in numbers(vector)]
                    data = b"".join(one.to_bytes(vector.width, "big") for one in found)
                return WireVector(vector.key_id, vector.count, vector.width, 0, data)

        made = lambda sender, receiver, exchanges: Tampering(sender, receiver, exchanges, sent)  # noqa: E731, B023
        with wired_layers(problem, peer=made) as parties:
            run_layers(parties)
            counted.append(
                (
                    sorted((kind, step, len(vector.data)) for *_, kind, step, vector in sent),
                    [_engine(one).multiplied for one in parties.values()],
                )
            )
    assert counted[0] == counted[1]


def test_a_signal_beyond_every_number_ends_nothing() -> None:
    """A top that diverges shows the others nothing: the session goes on, the model is wrong."""
    problem = SharedProblem.random()
    with wired_layers(problem) as parties:
        half: Any = parties["active"].half
        half._top.backward = lambda hidden, labels: np.where(hidden > 0, np.inf, np.nan)
        run_layers(parties)
        assert all(np.isfinite(one).all() for one in joined_weights(parties).values())


# --- messages again, and others in their place ---


def test_messages_that_come_twice_change_nothing() -> None:
    class Insistent(DirectPeer):
        def send(self, session_id: str, kind: str, step: int, vector: WireVector | OutgoingVector) -> None:
            for _ in range(3):
                super().send(session_id, kind, step, vector)

        def show_key(self, session_id: str, key: PublicKeyShown) -> None:
            for _ in range(2):
                super().show_key(session_id, key)

    problem = SharedProblem.random(columns=(3, 2, 1))
    made = lambda sender, receiver, exchanges: Insistent(sender, lambda _: exchanges[receiver])  # noqa: E731
    with wired_layers(problem, peer=made) as parties:
        run_layers(parties)
        assert largest_error(problem, LAYER_PLAN, joined_weights(parties)) < TOLERANCE


# --- a label party that chooses its shares ---


class Chooser:
    """Adds a multiple of one column to each unit in the second epoch, and takes the first epoch's products off."""

    def __init__(self, factor: float) -> None:
        self._factor, self.read_by_step = factor, dict[int, FloatArray]()

    def added(self, step: int, peer: str) -> FloatArray | None:
        return self._factor * np.eye(3) if step >= 5 else None

    def read(self, step: int, products: FloatArray) -> FloatArray:
        self.read_by_step[step] = products
        return products if step < 5 else self.read_by_step[step - 5]

    def result(self) -> TrainingResult:
        raise NotImplementedError


@pytest.mark.parametrize("factor", [64.0, 0.0])
def test_a_label_party_that_chooses_its_shares_reads_as_many_columns_as_units(factor: float) -> None:
    """Without one known record: what the rung can't prevent. It trains on, and the model stays what it was."""
    problem = SharedProblem.random(columns=(2, 3))
    plan = LAYER_PLAN.changed(epochs=2, learning_rate=1e-6)
    chooser = Chooser(factor)
    with wired_layers(problem, plan, chosen=chooser) as parties:
        run_layers(parties)
        rows = next(iter(parties["active"].schedule.epoch(0)))
        assert largest_error(problem, plan, joined_weights(parties)) < 1e-5
    assert parties["active"].schedule.steps_per_epoch == 5
    found = (chooser.read_by_step[5] - chooser.read_by_step[0]) / 64
    error = float(np.abs(found - problem.blocks["passive-1"][rows]).max())
    assert error < 1e-6 if factor else error > 0.5
