"""What is said in a tree is on disk before it is said, and said in one way in all tries."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from services.common.agreement import TrainingPlan
from services.common.errors import OutOfOrder
from services.common.identity import Identity, Role
from services.common.state_folder import StateFolder, StateNotKept
from services.exchange.mailbox import Mailbox
from services.exchange.message_kinds import MessageKind
from services.exchange.vectors import WireVector
from services.party.training_log import KeptTerms, TrainingLog, kept_training
from services.protocols.trees.said_once import SaidOnce
from tests.harness.agreements import agreed

AGREEMENT = agreed(TrainingPlan(epochs=3, batch_size=8))
SUMS, SPLITS = np.arange(3, dtype=np.uint8), np.arange(4, dtype=np.uint8)
KINDS = [
    MessageKind("sums", frozenset({"passive"}), frozenset({"active"}), lambda _: (3,), "uint8"),
    MessageKind("splits", frozenset({"active"}), frozenset({"passive"}), lambda _: (4,), "uint8"),
]


class Heard:
    """The other end, which is asked before anything is taken."""

    def __init__(self, before: Callable[[], object] = lambda: None) -> None:
        self.contents: list[tuple[str, int, bytes]] = []
        self._before = before

    def send(self, session_id: str, kind: str, step: int, vector: WireVector) -> None:
        self._before()
        self.contents.append((kind, step, vector.data))


def opened(folder: Path) -> tuple[TrainingLog, StateFolder]:
    state = StateFolder(folder, Identity(Role.PASSIVE, "passive"))
    log = TrainingLog(state)
    log.start(np.zeros((2, 1)))
    log.begin(KeptTerms(AGREEMENT, "passive", np.arange(4), "table", "features"))
    return log, state


def said(log: TrainingLog, peer: Any, anchor: Callable[[], object] = lambda: None) -> tuple[SaidOnce, Mailbox]:
    """A try of the training."""
    mailbox = Mailbox(AGREEMENT, "passive", {"active": peer}, KINDS, steps=3, timeout=1.0)
    return SaidOnce(mailbox, log, anchor), mailbox


def splits(content: np.ndarray[Any, Any]) -> WireVector:
    return KINDS[1].packed(0, content)


def test_an_answer_is_on_disk_and_anchored_before_it_leaves_and_is_given_again(tmp_path: Path) -> None:
    log, state = opened(tmp_path)
    order: list[str] = []

    def before() -> None:
        kept = kept_training(state, "passive")
        assert kept is not None
        assert kept.log.notes.of(0, "sums") == SUMS.tobytes()
        order.append("sent")

    first, _ = said(log, Heard(before), lambda: order.append("anchored"))
    assert first.answer("sums", 0) is None
    first.send_answer("sums", SUMS, 0)
    assert order == ["anchored", "sent"]
    state.close()
    again = kept_training(StateFolder(tmp_path, Identity(Role.PASSIVE, "passive")), "passive")
    assert again is not None
    heard = Heard()
    second, _ = said(again.log, heard)
    kept_answer = second.answer("sums", 0)
    assert kept_answer is not None
    second.send_answer("sums", kept_answer, 0)
    assert heard.contents == [("sums", 0, SUMS.tobytes())]
    assert second.answer("sums", 1) is None


def test_what_cannot_be_kept_is_not_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, state = opened(tmp_path)
    heard = Heard()
    saying, _ = said(log, heard)

    def full(*_: object) -> None:
        raise StateNotKept("no room")

    monkeypatch.setattr(state, "write", full)
    with pytest.raises(StateNotKept):
        saying.send_answer("sums", SUMS, 0)
    assert not heard.contents


def test_an_older_copy_that_is_noticed_says_nothing(tmp_path: Path) -> None:
    log, _ = opened(tmp_path)
    heard = Heard()

    def behind() -> None:
        raise OutOfOrder("steps.sqlite3 is of an older copy")

    saying, _ = said(log, heard, behind)
    with pytest.raises(OutOfOrder, match="older copy"):
        saying.send_answer("sums", SUMS, 0)
    assert not heard.contents


def test_another_message_in_the_next_try_is_refused_and_another_trees_is_not(tmp_path: Path) -> None:
    log, _ = opened(tmp_path)
    first, mailbox = said(log, Heard())
    mailbox.receive("active", "splits", 0, splits(SPLITS))
    np.testing.assert_array_equal(first.take("splits", 0, "active"), SPLITS)
    second, mailbox = said(log, Heard())
    mailbox.receive("active", "splits", 0, splits(SPLITS[::-1]))
    with pytest.raises(OutOfOrder, match="active says something else in tree 0 than before the interruption"):
        second.take("splits", 0, "active")
    mailbox.receive("active", "splits", 1, splits(SPLITS[::-1]))
    np.testing.assert_array_equal(second.take("splits", 1, "active"), SPLITS[::-1])


@pytest.mark.parametrize("way", ["send", "pass_on"])
def test_a_party_says_nothing_else_than_before_itself(tmp_path: Path, way: str) -> None:
    log, _ = opened(tmp_path)
    getattr(said(log, Heard())[0], way)("sums", SUMS, 0)
    heard = Heard()
    second, _ = said(log, heard)
    with pytest.raises(OutOfOrder, match="This party would say something else in a tree than before"):
        getattr(second, way)("sums", SUMS[::-1].copy(), 0)
    assert not heard.contents
    getattr(second, way)("sums", SUMS, 0)
    assert heard.contents


def test_where_a_training_waits_for_nobody_nothing_is_noted() -> None:
    heard, log = Heard(), TrainingLog()
    for content in (SUMS, SUMS[::-1].copy()):
        saying, _ = said(log, heard)
        saying.send_answer("sums", content, 0)
        assert saying.answer("sums", 0) is None
    assert [content for _, _, content in heard.contents] == [SUMS.tobytes(), SUMS[::-1].tobytes()]
