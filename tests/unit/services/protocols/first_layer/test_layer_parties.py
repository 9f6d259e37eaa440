"""Whole parties that train a network on shared weights: a job from its terms to its scores."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import attacks
from attacks import TrainingView
from services.party.served_models import ServedModels
from services.protocols.shared.shared_serving import SharedPart
from tests.harness.parties import active_data, house, party_data, small_settings
from vfl.crypto import Engine

# The label party trains with it.
pytest.importorskip("torch")

SETTINGS = {
    "learner": "network",
    "batch_size": 12,
    "epochs": 3,
    "patience": 0,
}
OPTIONS = {"hidden": 3, "learning_rate": 0.2}


@pytest.mark.parametrize("parties", [2, 3])
def test_a_job_scores_as_the_rung_that_reads_gradients_does(tmp_path: Path, parties: int) -> None:
    rows, scores = range(60), {}
    passive = [party_data(rows=rows, seed=seed) for seed in range(1, parties)]
    for rung in ("paillier", "shared"):
        settings = small_settings(**SETTINGS, learner_options={**OPTIONS, "backward": rung})
        with house(tmp_path / rung, active=active_data(rows=rows), passive=passive, settings=settings) as one:
            one.train()
            scores[rung] = one.tested().scores
            if rung == "shared":
                assert one.record()["agreement"]["plan"]["protocol"] == "shared"
                part = one.active_training.model.part
                assert isinstance(part, SharedPart)
                assert part.own is not None
                again = SharedPart.of(part.arrays(), type(part.own).of)
                assert np.array_equal(again.scores(np.ones((2, 3))), part.scores(np.ones((2, 3))))
    # Weights are served in steps of 2**-16.
    assert np.abs(scores["paillier"] - scores["shared"]).max() < 1e-3


@dataclass(frozen=True)
class Watching:
    """Keeps the view of its party."""

    seen: list[TrainingView] = field(default_factory=list)
    name: ClassVar[str] = "watching"
    spec: ClassVar[attacks.AttackSpec] = attacks.AttackSpec("either", "training", (), "a test")

    def attack(self, view: TrainingView) -> Any:
        self.seen.append(view)
        raise ValueError("seen")


def test_a_passive_party_is_left_with_uniform_numbers_and_the_label_party_with_sums(tmp_path: Path) -> None:
    label, passive = Watching(), Watching()
    settings = small_settings(**{**SETTINGS, "epochs": 20}, learner_options={**OPTIONS, "backward": "shared"})
    with house(
        tmp_path,
        settings=settings,
        passive=[party_data(rows=range(60))],
        active_adversary={"watching": label},
        passive_adversary={"watching": passive},
    ) as one:
        one.train()
        _settled(one)
    (mine,), (theirs,) = label.seen, passive.seen
    assert mine.steps[0].share.shape == (len(mine.steps[0].rows), 3)
    assert mine.equations == ()
    by_step = {step.step: step for step in mine.steps}
    told, truth = [], []
    for equations in theirs.equations:
        assert equations.peer == "active"
        told.append(equations.sums.ravel() / len(equations.rows))
        truth.append((theirs.features[equations.rows].T @ by_step[equations.step].share).ravel())
    uniform, gradients = np.concatenate(told), np.concatenate(truth)
    # Of a uniform number in [-1, 1): mean, variance, and no correlation; 4.5 standard deviations of each.
    count = len(uniform)
    assert count >= 500
    assert abs(uniform.mean()) < 4.5 / np.sqrt(3 * count)
    assert abs(uniform.var() - 1 / 3) < 4.5 * np.sqrt(4 / 45 / count)
    assert abs(np.corrcoef(uniform, gradients)[0, 1]) < 4.5 / np.sqrt(count)


def _settled(one: Any) -> None:
    """A passive party's attacks run after its answer."""
    for party in one.passive.values():
        party.executor.shutdown(wait=True)


def test_parts_come_back_from_the_disk(tmp_path: Path) -> None:
    settings = small_settings(**SETTINGS, learner_options={**OPTIONS, "backward": "shared"})
    active, passive = active_data(), party_data(rows=range(59, 4, -1))
    with house(tmp_path, settings=settings, active=active, passive=[passive]) as one:
        one.train()
        (other,) = one.passive.values()
        label_party = ServedModels("active", active, one.active._context.state).served
        kept = ServedModels(other.name, passive, other._context.state).served
        assert label_party is not None
        assert kept is not None
        mine, theirs = label_party.model.part, kept.model.part
        assert isinstance(mine, SharedPart)
        assert isinstance(theirs, SharedPart)
        assert mine.own is not None
        assert theirs.own is None
        assert not len(mine.frozen)
        assert kept.model.agreement.serving.ask(kept.model, [3, 1], Engine()).masked_for("active")
