"""A party that is killed anywhere in a training and started again: weights to the bit, or the record says why not.

``make interruptions`` tries 30 places for each role and each number of parties; a few are tried here.
"""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from defences import NoiseSource, load
from defences.hidden_distortion import HiddenNoise
from services.common.errors import OutOfOrder, PeerVanished
from services.common.run_folder import RunFolder
from services.exchange.opening_ledger import LEDGER
from services.party.equation_count import EQUATIONS, spent_in
from services.party.training_log import STEPS
from services.protocols.hu.forwarding import Forwarding
from services.protocols.hu.gradient_exchange import GradientExchange
from tests.harness.interruptions import Interrupted, interrupted, train_through
from tests.unit.services.protocols.trees.test_interrupted_trees import assert_as_in_one_place, of_trees, train_killing
from vfl.arrays import FloatArray, IntArray
from vfl.crypto.pairwise_masks import PairwiseMasks
from vfl.learning.linear.initialisation import initial_weights
from vfl.learning.linear.reference import GradientDescent, VerticalData, train_centrally
from vfl.learning.network import train_network
from vfl.learning.schedule import BatchSchedule

KILLS = int(os.environ.get("INTERRUPTIONS", "2"))
# Of an undisturbed training of two parties: messages and writes to its state, each before and after.
EVENTS = 90
# On shared weights, before its last step is taken.
SHARED_EVENTS = 70
SHARED: dict[str, Any] = {"cipher": "paillier", "protocol": "shared", "key_bits": 1024, "opening": "always"}
# Of a party of two trees, until the last is whole.
TREE_EVENTS = 75
# Of a party of a network, until its last step is taken.
NETWORK_EVENTS = {"plain": 50, "paillier": 70}
NETWORKS: dict[str, dict[str, Any]] = {
    "plain": {"hidden": 2, "upper": 3, "optimiser": "adam", "learning_rate": 0.01},
    "paillier": {"hidden": 2, "upper": 3, "learning_rate": 0.2},
    "shared": {"hidden": 2, "upper": 3, "learning_rate": 0.2},
}
# Products are rounded to 2^-32; encrypted, the backward signal to the fixed point of residuals.
NEAR = {"plain": 1e-7, "paillier": 1e-4}
# Of scores: weights on shares are served in steps of 2^-16.
SERVED = 1e-3
# An opened word's last bit, and its rounding at both.
OPENED = 2 * 2.0**-16


class WithoutSteps:
    """A schedule in which some steps were passed over."""

    def __init__(self, schedule: BatchSchedule, skipped: tuple[int, ...]) -> None:
        self._schedule, self._skipped = schedule, skipped

    def epoch(self, epoch: int) -> list[IntArray]:
        first = epoch * self._schedule.steps_per_epoch
        batches = enumerate(self._schedule.epoch(epoch), start=first)
        return [batch for step, batch in batches if step not in self._skipped]


def expected(made: Interrupted, skipped: tuple[int, ...]) -> list[FloatArray]:
    """What the same steps give in one place, in float64."""
    trainings = [made.training(name) for name in made.data]
    one = trainings[0]
    blocks = [training.gridded.values for training in trainings]
    total = sum(block.shape[1] for block in blocks)
    start = [
        initial_weights("xavier", block.shape[1], 1, total_features=total, generator=np.random.default_rng(1))
        for block in blocks
    ]
    labels = one.model.labels
    assert labels is not None
    schedule = WithoutSteps(one.agreement.plan.schedule(one.rows.train), skipped)
    return train_centrally(
        VerticalData(blocks, labels),
        start,
        GradientDescent(schedule, one.agreement.plan.epochs, 0.5),  # type: ignore[arg-type]
    )


def at_random(role: str, parties: int, last: int = EVENTS, kills: int = KILLS) -> list[int]:
    events: list[int] = np.random.default_rng(len(role) + parties).integers(2, last, size=kills).tolist()
    return events


@pytest.mark.parametrize(
    ("victim", "parties", "event"),
    [
        (victim, parties, event)
        for victim, parties in (("active", 2), ("passive", 2), ("active", 3), ("passive-1", 3))
        for event in at_random(victim, parties)
    ],
)
def test_a_training_goes_on_wherever_a_party_is_killed(tmp_path: Path, victim: str, parties: int, event: int) -> None:
    with interrupted(tmp_path, parties=parties, cipher="paillier", steps="plain") as made:

        def strike(town: Interrupted) -> None:
            town.lives[victim].dies_at = event

        train_through(made, victim, strike)
        records = [RunFolder(tmp_path).record(name) for name in made.data]
        assert len({record.skipped_steps for record in records}) == 1
        skipped = records[0].skipped_steps or ()
        # At most what one interruption can leave open.
        assert len(skipped) <= 2
        for training, block in zip(map(made.training, made.data), expected(made, skipped), strict=True):
            np.testing.assert_allclose(training.half.weights, block, atol=1e-6)


# Killed after residuals, the first or later ones: nothing was answered in that step. Momentum is among what goes on.
@pytest.mark.parametrize(
    ("plan", "last"),
    [({}, 2), ({"steps": "own_moments", "batch_size": 38, "epochs": 6}, 38)],
    ids=["plain", "own_moments"],
)
def test_undisturbed_and_interrupted_weights_are_the_same_to_the_bit(
    tmp_path: Path, plan: dict[str, Any], last: int
) -> None:
    found = {}
    for name, event in (("undisturbed", None), ("interrupted", last)):
        with interrupted(tmp_path / name, cipher="paillier", **plan) as made:

            def strike(town: Interrupted, event: int | None = event) -> None:
                town.lives["active"].dies_at = event

            train_through(made, "active", strike)
            assert RunFolder(tmp_path / name).record("active").skipped_steps is None
            found[name] = [made.training(party).half.weights for party in made.data]
    for before, after in zip(found["undisturbed"], found["interrupted"], strict=True):
        np.testing.assert_array_equal(before, after)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[int, list[FloatArray]]:
    """Opened weights of each party, by the number of parties."""
    found = {}
    for parties in (2, 3):
        with interrupted(tmp_path_factory.mktemp("undisturbed"), parties=parties, **SHARED) as made:
            train_through(made, "active", lambda _: None)
            found[parties] = [made.training(name).half.weights for name in made.data]
    return found


@pytest.mark.parametrize(
    ("victim", "parties", "event"),
    [
        (victim, parties, event)
        for victim, parties in (("active", 2), ("passive", 2), ("active", 3), ("passive-1", 3))
        for event in at_random(victim, parties, SHARED_EVENTS, KILLS // 2)
    ],
)
def test_a_training_on_shared_weights_goes_on_wherever_a_party_is_killed(
    tmp_path: Path, undisturbed: dict[int, list[FloatArray]], victim: str, parties: int, event: int
) -> None:
    with interrupted(tmp_path, parties=parties, **SHARED) as made:

        def strike(town: Interrupted) -> None:
            town.lives[victim].dies_at = event

        train_through(made, victim, strike)
        for training, before in zip(map(made.training, made.data), undisturbed[parties], strict=True):
            assert training.back.log.skipped == ()
            np.testing.assert_allclose(training.half.weights, before, atol=OPENED)
        # Nothing of it stays on disk.
        assert not list(tmp_path.rglob(f"{STEPS}*"))


def test_momentum_with_shares_goes_on(tmp_path: Path) -> None:
    """Of steps by own moments: columns are turned again, and what is carried are shares."""
    plan, found = {**SHARED, "steps": "own_moments", "batch_size": 38, "epochs": 6}, {}
    for name, event in (("undisturbed", None), ("interrupted", SHARED_EVENTS // 2)):
        with interrupted(tmp_path / name, **plan) as made:

            def strike(town: Interrupted, event: int | None = event) -> None:
                town.lives["passive"].dies_at = event

            train_through(made, "passive", strike)
            assert made.training("passive").back.log.attempt == (event is not None)
            found[name] = [made.training(party).half.weights for party in made.data]
    for before, after in zip(found["undisturbed"], found["interrupted"], strict=True):
        # An opened word is turned back, by 20 at most of a column whose mean square is 1.
        np.testing.assert_allclose(after, before, atol=50 * OPENED)


def test_shared_weights_that_are_about_to_be_opened_are_opened_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with interrupted(tmp_path, **SHARED) as made:

        def strike(town: Interrupted) -> None:
            # Before its first word of the opening is told it is counted.
            town.lives["passive"].dies_on = f"write {LEDGER}"

        # The active party may be a step behind, and wait for it.
        with pytest.raises((PeerVanished, OutOfOrder), match=r"^passive (does not answer|can't go on)"):
            train_through(made, "passive", strike)
        assert "weights were about to be opened. Train again." in caplog.text
        assert made.train()


def some(*places: Any) -> tuple[Any, ...]:
    """The first half of these, unless many places are tried."""
    return places if KILLS > 2 else places[: len(places) // 2]


def network(rung: str) -> dict[str, Any]:
    cipher = "plain" if rung == "plain" else "paillier"
    return {"learner": "network", "backward": rung, "cipher": cipher, "learner_options": NETWORKS[rung]}


def parts_of(made: Interrupted) -> list[dict[str, Any]]:
    return [dict(made.training(name).model.part.arrays()) for name in made.data]


def network_in_one_place(made: Interrupted, skipped: tuple[int, ...]) -> list[dict[str, Any]]:
    """What the same steps give in one place, in float64."""
    one = made.training("active")
    plan, labels = one.agreement.plan, one.model.labels
    assert labels is not None
    training = train_network(
        plan.family,  # type: ignore[arg-type]
        VerticalData([made.training(name).gridded.values for name in made.data], labels),
        WithoutSteps(plan.schedule(one.rows.train), skipped),  # type: ignore[arg-type]
        epochs=plan.epochs,
        generators=[np.random.default_rng(1) for _ in made.data],
    )
    return [dict(part.arrays()) for part in training.parts]


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, int], list[dict[str, Any]]]:
    """Each party's part of an undisturbed training, by rung and number of parties."""
    found: dict[tuple[str, int], list[dict[str, Any]]] = {}

    def of(rung: str, parties: int) -> list[dict[str, Any]]:
        if (rung, parties) not in found:
            folder = tmp_path_factory.mktemp("undisturbed")
            with interrupted(folder, parties=parties, **network(rung)) as made:
                train_through(made, "active", lambda _: None)
                found[rung, parties] = parts_of(made)
        return found[rung, parties]

    return of


@pytest.mark.parametrize(
    ("rung", "victim", "parties", "event"),
    [
        (rung, victim, parties, event)
        for rung, victim, parties in some(
            ("plain", "active", 2),
            ("plain", "passive-1", 3),
            ("paillier", "active", 3),
            ("paillier", "passive", 2),
            ("plain", "passive", 2),
            ("plain", "active", 3),
            ("paillier", "active", 2),
            ("paillier", "passive-1", 3),
        )
        for event in at_random(victim, parties, NETWORK_EVENTS[rung], KILLS // 2)
    ],
)
def test_a_networks_training_goes_on_wherever_a_party_is_killed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    networks: Callable[[str, int], list[dict[str, Any]]],
    rung: str,
    victim: str,
    parties: int,
    event: int,
) -> None:
    pytest.importorskip("torch")
    undisturbed_parts = networks(rung, parties)
    forwarded: dict[tuple[str, int], set[bytes]] = {}
    masked: dict[tuple[PairwiseMasks, int], int] = {}
    products, mask = Forwarding.products, PairwiseMasks.mask

    def noted_products(self: Forwarding, step: int, own: FloatArray, *rest: Any) -> Any:
        if own.any():
            forwarded.setdefault((self._name, step), set()).add(own.tobytes())
        return products(self, step, own, *rest)

    def noted_mask(self: PairwiseMasks, step: int, shape: tuple[int, ...]) -> Any:
        masked[self, step] = masked.get((self, step), 0) + 1
        return mask(self, step, shape)

    monkeypatch.setattr(Forwarding, "products", noted_products)
    monkeypatch.setattr(PairwiseMasks, "mask", noted_mask)
    with interrupted(tmp_path, parties=parties, **network(rung)) as made:

        def strike(town: Interrupted) -> None:
            town.lives[victim].dies_at = event

        train_through(made, victim, strike)
        # Of each step the label party is told one sum of products at most, and no mask hides two.
        assert {name for name, _ in forwarded} == {*made.data}
        assert all(len(told) == 1 for (name, _), told in forwarded.items() if name != "active")
        assert set(masked.values()) == {1}
        records = [RunFolder(tmp_path).record(name) for name in made.data]
        assert len({record.skipped_steps for record in records}) == 1
        skipped = records[0].skipped_steps or ()
        # The label party's first layers and optimisers are among what is compared.
        pairs = zip(parts_of(made), undisturbed_parts, network_in_one_place(made, skipped), strict=True)
        for found, undisturbed_part, in_one_place in pairs:
            for name in found.keys() - {"top_activation"}:
                if not skipped:
                    np.testing.assert_array_equal(found[name], undisturbed_part[name])
                np.testing.assert_allclose(found[name], in_one_place[name], atol=NEAR[rung])
        assert len(skipped) <= 2 * (rung == "paillier")
        assert not list(tmp_path.rglob(f"{STEPS}*"))


class FreshNoise(HiddenNoise):
    """Noise that isn't a function of the record: drawn twice, it would average."""

    def protect_hidden(self, products: FloatArray, noise: NoiseSource) -> FloatArray:
        return products + noise.gaussian(products.shape)


def all_sent(
    monkeypatch: pytest.MonkeyPatch, sender: str = "", has_come: threading.Event | None = None
) -> dict[tuple[str, str, int], list[bytes]]:
    """What is received from each party in each step, however often, from here on; sets when it was from this sender."""
    seen: dict[tuple[str, str, int], list[bytes]] = {}
    receive = GradientExchange.receive

    def noted(self: Any, peer: str, kind: str, step: int, vector: Any) -> None:
        seen.setdefault((kind, peer, step), []).append(vector.data)
        receive(self, peer, kind, step, vector)
        if has_come is not None and peer == sender:
            has_come.set()

    monkeypatch.setattr(GradientExchange, "receive", noted)
    return seen


@pytest.mark.parametrize("seed", [None, 1])
@pytest.mark.parametrize("victim", ["active", "passive"])
def test_a_step_that_is_done_again_shows_the_same_products_and_the_same_signal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, victim: str, seed: int | None
) -> None:
    pytest.importorskip("torch")
    seen = all_sent(monkeypatch)
    with interrupted(tmp_path, disclosing=[FreshNoise()], private_seed=seed, **network("plain")) as made:

        def strike(town: Interrupted) -> None:
            # Behind its message of a step, which is then to be sent again.
            town.lives[victim].dies_on = f"write {STEPS}"

        train_through(made, victim, strike)
    assert max(map(len, seen.values())) > 1
    assert all(len(set(sent)) == 1 for sent in seen.values())


@pytest.mark.parametrize("seed", [None, 1])
@pytest.mark.parametrize("victim", ["active", "passive"])
def test_a_step_that_is_done_again_has_the_noise_that_it_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, victim: str, seed: int | None
) -> None:
    """Also by a seed: noise is a function of the message, not of how much was drawn before the process ended."""
    has_come = threading.Event()
    seen = all_sent(monkeypatch, victim, has_come)
    with interrupted(tmp_path, disclosing=[load("dp_noise", sigma=0.5)], private_seed=seed) as made:

        def strike(town: Interrupted) -> None:
            # Behind its residuals of a step, and before anybody has answered its question: no mask is lost.
            town.lives[victim].dies_on, town.lives[victim].behind = "ask", has_come

        train_through(made, victim, strike)
        assert not RunFolder(tmp_path).record("active").skipped_steps
    noisy = {step: sent for (_, peer, step), sent in seen.items() if peer == "passive"}
    assert max(map(len, noisy.values())) > 1
    assert all(len(set(sent)) == 1 for sent in noisy.values())
    assert len(set.union(*map(set, noisy.values()))) == len(noisy)


def test_an_interrupted_network_that_stops_early_keeps_the_epoch_that_an_undisturbed_one_keeps(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    found = []
    for victim, event in (("active", None), ("active", 61), ("passive", 61)):
        folder = tmp_path / f"{victim}-{event}"
        options = {"hidden": 2, "learning_rate": 0.3}
        stops = {**network("plain"), "learner_options": options, "epochs": 20, "patience": 2}
        with interrupted(folder, **stops) as made:

            def strike(town: Interrupted, victim: str = victim, event: int | None = event) -> None:
                town.lives[victim].dies_at = event

            train_through(made, victim, strike)
            record = RunFolder(folder).record("active")
            assert record.kept_epoch is not None
            found.append((record.kept_epoch, len(record.epochs or ()), parts_of(made)))
    (kept, run, parts), *others = found
    assert 0 < kept == run - 3 < 17
    for again in others:
        assert again[:2] == (kept, run)
        for before, after in zip(parts, again[2], strict=True):
            for name in before:
                np.testing.assert_array_equal(after[name], before[name])


@pytest.fixture(scope="module")
def undisturbed_scores(tmp_path_factory: pytest.TempPathFactory) -> dict[int, FloatArray]:
    """What a network on shared weights predicts, by the number of parties."""
    pytest.importorskip("torch")
    found = {}
    for parties in (2, 3):
        with interrupted(tmp_path_factory.mktemp("undisturbed"), parties=parties, **network("shared")) as made:
            train_through(made, "active", lambda _: None)
            found[parties] = made.scores()
    return found


@pytest.mark.parametrize(
    ("victim", "parties", "event"),
    [
        (victim, parties, event)
        for victim, parties in some(("active", 2), ("passive-1", 3), ("passive", 2), ("active", 3))
        for event in at_random(victim, parties, SHARED_EVENTS, KILLS // 2)
    ],
)
def test_a_network_on_shared_weights_goes_on_wherever_a_party_is_killed(
    tmp_path: Path, undisturbed_scores: dict[int, FloatArray], victim: str, parties: int, event: int
) -> None:
    with interrupted(tmp_path, parties=parties, **network("shared")) as made:

        def strike(town: Interrupted) -> None:
            town.lives[victim].dies_at = event

        train_through(made, victim, strike)
        assert RunFolder(tmp_path).record("active").skipped_steps is None
        np.testing.assert_allclose(made.scores(), undisturbed_scores[parties], atol=SERVED)
        assert not list(tmp_path.rglob(f"{STEPS}*"))


def test_products_that_are_forwarded_again_on_shared_weights_are_counted_or_refused(tmp_path: Path) -> None:
    """The label party may have chosen its share anew. Of 3 columns: one unit, one epoch, and the model that is kept."""
    pytest.importorskip("torch")
    terms = {**network("shared"), "learner_options": {"backward": "shared", "hidden": 1}, "epochs": 1}
    del terms["backward"]

    def strike(town: Interrupted) -> None:
        town.lives["passive"].dies_at = 8

    with interrupted(tmp_path / "counted", most_equations=1.0, **terms) as made:
        train_through(made, "passive", strike)
        content = made.states["passive"].read(EQUATIONS)
        assert content is not None
        assert spent_in(content)[0].most == 3
    with (
        interrupted(tmp_path / "refused", most_equations=0.3, **terms) as made,
        pytest.raises(OutOfOrder, match="This answer would be sum 2 of the columns of a record"),
    ):
        train_through(made, "passive", strike)


@pytest.mark.parametrize(
    ("victim", "parties", "event"),
    [
        (victim, parties, event)
        for victim, parties in some(("passive", 2), ("active", 3), ("active", 2), ("passive-1", 3))
        # Before, it shows its keys: a death while parties agree ends the job.
        for event in (max(5, event) for event in at_random(victim, parties, TREE_EVENTS, KILLS // 2))
    ],
)
def test_trees_are_those_of_one_place_wherever_a_party_is_killed(
    tmp_path: Path, victim: str, parties: int, event: int
) -> None:
    with of_trees(tmp_path, parties, cipher="paillier") as made:
        train_killing(made, victim, event)
        assert {made.training(name).back.log.attempt for name in made.data} == {1}
        assert_as_in_one_place(made)
