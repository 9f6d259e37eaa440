"""Networks trained over the exchange of Protocol 1: against the same halves trained in one place, and bad messages."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from services.ciphers.hidden_layer import hidden_vector, sum_of_hidden
from services.common.agreement import TrainingPlan
from services.common.errors import Diverged, FederationError, InvalidMessage, NotAllowed, OutOfOrder
from services.exchange.outgoing import OutgoingVector
from services.exchange.peer import Peer
from services.exchange.vectors import PublicKeyShown, WireVector
from services.in_process.wired_trainings import ignore_step
from services.party.party_training import PartyTraining
from services.protocols.hu.gradient_exchange import HIDDEN, GradientExchange
from tests.harness.exchanges import Problem, largest_difference, random_problem, run_together, wired
from vfl.arrays import FloatArray
from vfl.learning import VerticalData
from vfl.learning.network import Network, ReferenceTraining, train_network

# The label party trains with it.
pytest.importorskip("torch")

PLAN = TrainingPlan(epochs=2, batch_size=8, key_bits=512, learner="network").changed(hidden=4)


def in_one_place(problem: Problem, plan: TrainingPlan) -> ReferenceTraining:
    assert isinstance(plan.family, Network)
    blocks = list(problem.blocks.values())
    return train_network(
        plan.family,
        VerticalData(blocks, problem.labels, problem.classes),
        plan.schedule(plan.split(problem.rows).train),
        epochs=plan.epochs,
        generators=[np.random.default_rng(100 + number) for number in range(len(blocks))],
    )


def in_services(
    problem: Problem, plan: TrainingPlan, through: Callable[[str, Peer], Peer] = lambda _, peer: peer
) -> tuple[list[FloatArray], list[Any]]:
    plan.check()
    with wired(problem, plan, through=through, timeout=20.0) as trainings:
        weights = run_together(trainings, plan.epochs)
        return weights, [training.model.part for training in trainings.values()]


@pytest.mark.parametrize("backward", ["plain", "paillier"])
@pytest.mark.parametrize(("parties", "classes"), [(2, 2), (3, 3)])
def test_each_rung_trains_what_one_place_trains(backward: str, parties: int, classes: int) -> None:
    problem = random_problem(parties=parties, classes=classes, columns=7)
    plan = PLAN.changed(backward=backward, upper=3, activation="relu")
    weights, parts = in_services(problem, plan)
    expected = in_one_place(problem, plan)
    # Products are rounded to 2^-32; encrypted, the backward signal to the fixed point of residuals.
    tolerance = 1e-7 if backward == "plain" else 1e-4
    assert largest_difference(weights, [part.weights for part in expected.parts]) < tolerance
    blocks = list(problem.blocks.values())
    joined = np.asarray(sum(part.shares(block) for part, block in zip(parts, blocks, strict=True)))
    assert np.abs(parts[0].scores(joined) - expected.scores(blocks)).max() < tolerance
    assert all(part.top is None for part in parts[1:])


class Overheard:
    """A peer that keeps what is forwarded to it."""

    def __init__(self, sender: str, peer: Peer, heard: dict[tuple[str, int], WireVector]) -> None:
        self._sender, self._peer, self._heard = sender, peer, heard
        self.ask = peer.ask

    def show_key(self, session_id: str, key: PublicKeyShown) -> None:
        self._peer.show_key(session_id, key)

    def send(self, session_id: str, kind: str, step: int, vector: WireVector | OutgoingVector) -> None:
        if kind == HIDDEN:
            self._heard[self._sender, step] = vector.whole()
        self._peer.send(session_id, kind, step, vector)


def test_of_several_passive_parties_the_label_party_sees_the_sum_only() -> None:
    problem, plan = random_problem(parties=4, columns=8), PLAN.changed(backward="plain", epochs=1)
    heard: dict[tuple[str, int], WireVector] = {}
    in_services(problem, plan, lambda sender, peer: Overheard(sender, peer, heard))
    seen = in_one_place(problem, plan).seen
    for step in seen:
        vectors = [heard[name, step.step] for name in list(problem.blocks)[1:]]
        np.testing.assert_allclose(sum_of_hidden(vectors, len(step.rows)), step.forwarded, atol=1e-7)
        for number, vector in enumerate(vectors):
            # Uniform modulo 2^64, where products are about 1.
            alone = sum_of_hidden([vector], len(step.rows))
            assert (np.abs(alone) > 2.0**20).mean() > 0.9, number
            pair = sum_of_hidden([one for one in vectors if one is not vector], len(step.rows))
            assert (np.abs(pair) > 2.0**20).mean() > 0.9, number
    # A mask is of one step.
    first, second = (sum_of_hidden([heard["passive-1", step]], 7) for step in (0, 1))
    assert (np.abs(first - second) > 2.0**20).mean() > 0.9


def test_one_passive_party_forwards_without_a_mask() -> None:
    problem, plan = random_problem(), PLAN.changed(backward="plain", epochs=1)
    heard: dict[tuple[str, int], WireVector] = {}
    in_services(problem, plan, lambda sender, peer: Overheard(sender, peer, heard))
    seen = in_one_place(problem, plan).seen[0]
    np.testing.assert_allclose(sum_of_hidden([heard["passive", 0]], len(seen.rows)), seen.products[1], atol=2.0**-32)


def products(rows: int = 7, units: int = 4, value: float = 0.5) -> WireVector:
    return hidden_vector("passive", np.full((rows, units), value), np.zeros((rows, units), dtype=np.uint64))


def exchange_of(training: PartyTraining) -> GradientExchange:
    exchange: GradientExchange = training.exchange
    return exchange


def test_forwarded_products_come_once_a_step_in_the_agreed_shape_and_from_who_forwards() -> None:
    with wired(random_problem(), PLAN) as trainings:
        label_party, passive = exchange_of(trainings["active"]), exchange_of(trainings["passive"])
        for _ in range(2):
            label_party.receive("passive", "products", 0, products())
        label_party.receive("passive", "products", 1, products())
        refused: list[tuple[int, WireVector, type[FederationError], str]] = [
            (0, products(value=0.25), OutOfOrder, "Different products of step 0 were received already"),
            (2, products(), OutOfOrder, "Step 2 is out of order"),
            (999, products(), InvalidMessage, "Expected a step from 0 to"),
        ]
        for step, vector, kind, words in refused:
            with pytest.raises(kind, match=words):
                label_party.receive("passive", "products", step, vector)
        with pytest.raises(NotAllowed, match="active has no products to send"):
            passive.receive("active", "products", 0, products())
        with pytest.raises(NotAllowed, match="passive has no residuals to send"):
            label_party.receive("passive", "residuals", 0, products())
    with wired(random_problem(), PLAN) as trainings:
        label_party = exchange_of(trainings["active"])
        wrong: list[tuple[WireVector, str]] = [
            (products(rows=6), "Wrong count of products: expected 28, got 24"),
            (products(units=5), "Wrong count of products: expected 28, got 35"),
            (replace(products(), width=4), "Wrong width of products: expected 8, got 4"),
            (replace(products(), exponent=0), "Wrong exponent of products: expected -8, got 0"),
            (replace(products(), key_id="k"), "Wrong key id of products"),
            (replace(products(), data=products().data[:-1]), "Expected 224 bytes of products, got 223"),
        ]
        for vector, words in wrong:
            with pytest.raises(InvalidMessage, match=words):
                label_party.receive("passive", "products", 0, vector)
        for vector, words in wrong[:-1]:
            with pytest.raises(InvalidMessage, match=words):
                label_party.expects("passive", "products", 0, vector.header)
        # What was refused has changed nothing.
        label_party.receive("passive", "products", 0, products())


@pytest.mark.parametrize("value", [np.nan, np.inf, 2.0**20 + 1])
def test_products_that_do_not_fit_the_wire_end_the_session_where_they_are_made(value: float) -> None:
    with pytest.raises(Diverged, match="passive's products of the first layer leave the range"):
        products(value=value)


def test_a_backward_signal_in_the_clear_is_finite_and_comes_once_in_its_shape() -> None:
    with wired(random_problem(), PLAN.changed(backward="plain")) as trainings:
        label_party, passive = exchange_of(trainings["active"]), exchange_of(trainings["passive"])
        passive.receive_key("active", label_party.public_key)

        def delta(values: FloatArray) -> WireVector:
            data = values.astype(">f8").tobytes()
            return WireVector(label_party.public_key.key_id, values.size, 8, 0, data)

        with pytest.raises(InvalidMessage, match="Wrong count of residuals: expected 28, got 21"):
            passive.receive("active", "residuals", 0, delta(np.zeros((7, 3))))
        with pytest.raises(InvalidMessage, match="must be finite"):
            passive.receive("active", "residuals", 0, delta(np.full((7, 4), np.nan)))
        passive.receive("active", "residuals", 0, delta(np.zeros((7, 4))))
        with pytest.raises(OutOfOrder, match="Different residuals of step 0 were received already"):
            passive.receive("active", "residuals", 0, delta(np.ones((7, 4))))
        with pytest.raises(NotAllowed, match="passive has no sums to ask in this session"):
            label_party.answer("passive", "sums", 0, delta(np.ones((3, 4))))


@pytest.mark.parametrize(
    ("mask_key", "words"),
    [(b"", "passive-1 has shown no key of 32 bytes for masks"), (bytes(32), "passive-1 has shown a key that no masks")],
)
def test_a_passive_party_without_a_key_for_masks_is_named(mask_key: bytes, words: str) -> None:
    class Keyless(Overheard):
        def show_key(self, session_id: str, key: PublicKeyShown) -> None:
            self._peer.show_key(session_id, replace(key, mask_key=mask_key if key.mask_key else b""))

    def show_and_train(problem: Problem, plan: TrainingPlan) -> None:
        with wired(problem, plan, through=lambda sender, peer: Keyless(sender, peer, {})) as trainings:
            trainings["active"].side.show_public_key()
            trainings["passive-1"].side.show_public_key()
            trainings["passive-2"].run_epoch(0, ignore_step)

    with pytest.raises(InvalidMessage, match=words):
        show_and_train(random_problem(parties=3), PLAN.changed(backward="plain"))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"cipher": "plain"}, "trains under protocol=hu and cipher=paillier with these options, and the plan has ciph"),
        ({"protocol": "shared"}, "protocol=hu and cipher=paillier .* the plan has protocol=shared"),
        ({"hidden": 0}, "Expected hidden to be from 1 to 1024 units, got 0"),
        ({"hidden": 10_000}, "Expected hidden to be from 1 to 1024 units, got 10000"),
        ({"activation": "swish"}, "expected activation to be one of tanh, relu"),
    ],
)
def test_a_plan_that_cannot_work_is_refused_in_words(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidMessage, match=words):
        PLAN.changed(**changes).check()


def test_protocol_and_cipher_follow_the_rung() -> None:
    assert (PLAN.protocol, PLAN.cipher) == ("hu", "paillier")
    plain = PLAN.changed(backward="plain")
    assert (plain.protocol, plain.cipher) == ("hu", "plain")
    assert plain.changed(backward="paillier").cipher == "paillier"
    assert TrainingPlan.from_message(plain.to_message()) == plain
