"""A party that is killed anywhere in a training and started again: weights to the bit, or the record says why not.

``make interruptions`` tries 30 places for each role and each number of parties; a few are tried here.
"""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from services.common.errors import OutOfOrder, PeerVanished
from services.common.run_folder import RunFolder
from services.shared_weights.opening_ledger import LEDGER
from tests.harness.interruptions import Interrupted, interrupted, train_through
from vfl.arrays import FloatArray, IntArray
from vfl.learning.linear.initialisation import initial_weights
from vfl.learning.linear.reference import GradientDescent, VerticalData, train_centrally
from vfl.learning.schedule import BatchSchedule

KILLS = int(os.environ.get("INTERRUPTIONS", "2"))
# Of an undisturbed training of two parties: messages and writes to its state, each before and after.
EVENTS = 90
# On shared weights, before its last step is taken.
SHARED_EVENTS = 70
SHARED: dict[str, Any] = {"cipher": "paillier", "protocol": "shared", "key_bits": 1024, "opening": "always"}
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
    with interrupted(tmp_path, parties=parties, cipher="paillier") as made:

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


def test_undisturbed_and_interrupted_weights_are_the_same_to_the_bit(tmp_path: Path) -> None:
    found = {}
    # The second is killed after its first residuals: nothing was answered in that step.
    for name, event in (("undisturbed", None), ("interrupted", 2)):
        with interrupted(tmp_path / name, cipher="paillier") as made:

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
            assert training.skipped_steps == ()
            np.testing.assert_allclose(training.half.weights, before, atol=OPENED)
        # Nothing of it stays on disk.
        assert not list(tmp_path.rglob("steps.npz"))


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
