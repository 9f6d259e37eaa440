"""What a watcher of a real federation is told: ids while aligning, steps while training, each attack by its name."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from plumbline.federation import Federation
from protos.v1 import active_pb2
from services.common.run_folder import RunFolder
from vfl.data.psi import CHUNK_IDS

ROWS, ATTACKED = CHUNK_IDS + 100, 50


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[active_pb2.JobEvent], Path]:
    """All events of one job under attack, and its run folder."""
    folder = tmp_path_factory.mktemp("run")
    draw = np.random.default_rng(7)
    ids, features = [f"r{number}" for number in range(ROWS)], draw.random((ROWS, 4))
    labels = np.where(features.sum(axis=1) > 2, "yes", "no")
    active = pd.DataFrame({"id": ids, "a": features[:, 0], "b": features[:, 1], "y": labels})
    passive = pd.DataFrame({"id": ids, "c": features[:, 2], "d": features[:, 3]})
    settings = {
        "cipher": "plain",
        "epochs": 1,
        "batch_size": 500,
        "run_dir": folder,
        "attacked_records": ATTACKED,
    }
    seen: list[active_pb2.JobEvent] = []
    with Federation.local(
        active=active, passive=[passive], label="y", attacks=["half_star", "ls", "feature_order"], settings=settings
    ) as federation:
        federation.train(watch=seen.append)
    return seen, folder


def told(events: list[active_pb2.JobEvent], stage: str) -> list[active_pb2.JobProgress]:
    """What was told of how far a stage is, in all of its turns."""
    found, at_work = [], ""
    for event in events:
        at_work = event.stage or at_work
        if event.HasField("progress") and at_work == stage:
            found.append(event.progress)
    return found


def test_an_alignment_says_how_many_ids_are_done(events: tuple[list[active_pb2.JobEvent], Path]) -> None:
    done = [(one.steps_done, one.steps_planned) for one in told(events[0], "aligning")]
    assert done[0] == (CHUNK_IDS, 3 * ROWS)
    assert done[-1] == (3 * ROWS, 3 * ROWS)
    assert len(done) == 6, "two chunks of each side, and two of answers"


def test_a_training_says_how_many_steps_are_done(events: tuple[list[active_pb2.JobEvent], Path]) -> None:
    done = [one.steps_done for one in told(events[0], "training")]
    assert done == list(range(1, len(done) + 1))
    assert told(events[0], "training")[-1].steps_planned == len(done)


def test_each_attack_is_named_while_it_works(events: tuple[list[active_pb2.JobEvent], Path]) -> None:
    assert [(one.at_work, one.steps_done, one.steps_planned) for one in told(events[0], "attacking")] == [
        ("feature_order", 0, 1),
        ("", 1, 1),
        ("half_star", 0, 2),
        ("ls", 1, 2),
        ("", 2, 2),
    ]


def test_as_many_records_are_attacked_as_the_settings_say(events: tuple[list[active_pb2.JobEvent], Path]) -> None:
    estimates = RunFolder(events[1]).estimates(0)
    assert estimates.by_attack["half_star"].shape == (ATTACKED, 2)
    assert len(set(estimates.rows.tolist())) == ATTACKED
