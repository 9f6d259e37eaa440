"""Trees whose training is interrupted end as undisturbed ones do, and nothing is said otherwise the second time."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from services.common.errors import OutOfOrder, PeerVanished
from services.common.run_folder import RunFolder
from services.exchange.mailbox import Mailbox
from services.exchange.vectors import WireVector
from services.party.training_log import TrainingLog
from services.protocols.trees.said_once import SaidOnce
from services.protocols.trees.served_leaves import ServedTrees
from services.protocols.trees.tree_side import TreeSide
from tests.harness.interruptions import SECONDS, Interrupted, interrupted, train_through
from tests.unit.services.protocols.trees.test_tree_sessions import OPTIONS, plain_twin
from vfl.crypto import keygen

# In the midst of the first tree, and of the second: events of a party that two parties' training has.
FIRST_TREE, SECOND_TREE = 17, 56
# Agreed on anew where all go back to the first tree.
KEYS_OF_MASKS = {"mask_key", "order"}


@contextmanager
def of_trees(folder: Path, parties: int = 2, **changes: Any) -> Iterator[Interrupted]:
    options = {**OPTIONS, **changes.pop("options", {})}
    terms = {"epochs": options["n_estimators"], "batch_size": 0, "patience": options.get("early_stopping_rounds", 0)}
    chosen = {"learner": "boosted_trees", "learner_options": options, "cipher": "plain", **terms, **changes}
    with interrupted(folder, parties=parties, **{"validation_fraction": 0.2, **chosen}) as made:
        yield made


def train_killing(made: Interrupted, victim: str, event: int) -> None:
    def strike(town: Interrupted) -> None:
        town.lives[victim].dies_at = event

    train_through(made, victim, strike)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, str, str, int], set[bytes]]:
    """What came of each kind in each tree, in all tries: from whom, to whom."""
    heard: dict[tuple[str, str, str, int], set[bytes]] = {}
    receive = Mailbox.receive

    def listening(self: Mailbox, peer: str, kind: str, step: int, vector: WireVector) -> None:
        heard.setdefault((peer, self._name, kind, step), set()).add(vector.data)
        receive(self, peer, kind, step, vector)

    monkeypatch.setattr(Mailbox, "receive", listening)
    return heard


def assert_as_in_one_place(made: Interrupted) -> None:
    trainings = [made.training(name) for name in made.data]
    sides = [cast(TreeSide, training.side) for training in trainings]
    labels = trainings[0].models._labels
    assert labels is not None
    twin, owned = plain_twin(sides, labels)
    assert twin.trees[1].splits
    for side, columns in zip(sides, owned, strict=True):
        part = side.half.part()
        assert [tree.splits for tree in part.trees] == [tree.splits for tree in twin.trees]
        assert list(part.splits) == columns.splits
    assert sides[0].half.part().trees == twin.trees
    assert sides[0].validated_loss == twin.validation_losses[-1]
    margins = twin.margins([side._table for side in sides], [one.splits for one in owned])
    rows = list(range(len(margins)))
    ones = made.active._scoring.scores(trainings[0].model_for(rows), rows)[:, 1]
    np.testing.assert_allclose(ones, 1 / (1 + np.exp(-margins)), rtol=1e-12)


@pytest.mark.parametrize(
    ("victim", "parties", "cipher", "event"),
    [
        ("passive", 2, "paillier", FIRST_TREE),
        ("passive", 2, "paillier", SECOND_TREE),
        ("active", 2, "paillier", SECOND_TREE),
        ("active", 2, "plain", FIRST_TREE),
        ("passive-1", 3, "plain", SECOND_TREE),
    ],
)
def test_trees_are_those_of_one_place_and_each_message_is_of_one_value(
    tmp_path: Path,
    sent: Mapping[tuple[str, str, str, int], set[bytes]],
    victim: str,
    parties: int,
    cipher: str,
    event: int,
) -> None:
    with of_trees(tmp_path, parties, cipher=cipher, options={"own_trees": 1}) as made:
        train_killing(made, victim, event)
        assert {made.training(name).back.log.attempt for name in made.data} == {1}
        assert RunFolder(tmp_path).record("active").skipped_steps is None
        assert_as_in_one_place(made)
        assert {step for _, _, _, step in sent} == {0, 1}
        assert all(len(contents) == 1 for at, contents in sent.items() if at[2] not in KEYS_OF_MASKS)
        assert not list((tmp_path / "state").rglob("message_*"))


@pytest.mark.parametrize("kind", ["derivatives 0 1", "sums 1 1", "splits 1 1", "divided 2 1", "routes 2 1"])
def test_a_line_that_is_cut_in_any_message_changes_no_tree(
    tmp_path: Path,
    sent: Mapping[tuple[str, str, str, int], set[bytes]],
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    """No process ends: each goes on with what it has in memory. The message has come, and its sender hears nothing."""
    cut = threading.Event()
    receive = Mailbox.receive

    def cut_off(self: Mailbox, peer: str, name: str, step: int, vector: WireVector) -> None:
        receive(self, peer, name, step, vector)
        if (name, step) == (kind, 1) and not cut.is_set():
            cut.set()
            raise PeerVanished(f"{self._name} does not answer: the line is cut.")

    monkeypatch.setattr(Mailbox, "receive", cut_off)
    with of_trees(tmp_path, cipher="paillier") as made:
        train_through(made, "passive", lambda _: None)
        assert cut.is_set()
        assert {made.training(name).back.log.attempt for name in made.data} == {1}
        assert_as_in_one_place(made)
        assert all(len(contents) == 1 for at, contents in sent.items() if at[2] not in KEYS_OF_MASKS)


@pytest.mark.parametrize("victim", ["passive", "active"])
def test_who_is_a_tree_ahead_grows_it_again_with_who_died_before_it_was_whole(
    tmp_path: Path,
    sent: Mapping[tuple[str, str, str, int], set[bytes]],
    monkeypatch: pytest.MonkeyPatch,
    victim: str,
) -> None:
    complete = TrainingLog.complete
    with of_trees(tmp_path, cipher="paillier") as made:
        (other,) = {*made.data} - {victim}
        ahead = threading.Event()

        def strike(town: Interrupted) -> None:
            life = town.lives[victim]

            def completed(log: TrainingLog, step: int, *arguments: Any, **named: Any) -> None:
                if vars(log._state)["_life"] is not life:
                    complete(log, step, *arguments, **named)
                    ahead.set()
                    return
                if not life.is_dead.is_set():
                    assert ahead.wait(SECONDS)
                    life.is_dead.set()
                complete(log, step, *arguments, **named)

            monkeypatch.setattr(TrainingLog, "complete", completed)

        train_through(made, victim, strike)
        # The tree that it had whole, and the one that it had begun.
        assert made.training(other).back.log.redone == 2
        assert_as_in_one_place(made)
        assert all(len(contents) == 1 for at, contents in sent.items() if at[2] not in KEYS_OF_MASKS)


@pytest.mark.parametrize(("victim", "behind"), [("passive", 2), ("active", 2), ("passive", 0), ("active", 0)])
def test_trees_that_stop_early_are_answered_with_after_a_kill_behind_the_best_one(
    tmp_path: Path, victim: str, behind: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The best tree's part is taken from the state of who was started again, or made again where it wasn't there."""
    options = {"n_estimators": 8, "early_stopping_rounds": 2, "learning_rate": 1.0}
    with of_trees(tmp_path, options=options) as made:

        def strike(town: Interrupted) -> None:
            keep_part, life = TrainingLog.keep_part, town.lives[victim]

            def last(log: TrainingLog, epoch: int, arrays: Mapping[str, Any]) -> None:
                if epoch and epoch == behind:
                    keep_part(log, epoch, arrays)
                if epoch == behind and vars(log._state)["_life"] is life:
                    life.is_dead.set()
                keep_part(log, epoch, arrays)

            monkeypatch.setattr(TrainingLog, "keep_part", last)

        train_through(made, victim, strike)
        trainings = [made.training(name) for name in made.data]
        kept = trainings[0].models.kept_epoch
        assert kept is not None
        assert kept == 0
        assert {training.back.log.attempt for training in trainings} == {1}
        sides = [cast(TreeSide, training.side) for training in trainings]
        labels = trainings[0].models._labels
        assert labels is not None
        twin, owned = plain_twin(sides, labels)
        assert [tree.splits for tree in cast(ServedTrees, trainings[0].model.part).own.trees] == [
            tree.splits for tree in twin.trees
        ]
        margins = twin.margins([side._table for side in sides], [one.splits for one in owned])
        rows = list(range(len(margins)))
        ones = made.active._scoring.scores(trainings[0].model_for(rows), rows)[:, 1]
        np.testing.assert_allclose(ones, 1 / (1 + np.exp(-margins)), rtol=1e-12)


def test_a_tree_that_grows_again_with_other_derivatives_is_refused(tmp_path: Path) -> None:
    """Its label party has lost the ciphertexts: new ones of the same numbers look as those of others would."""
    with of_trees(tmp_path, cipher="paillier") as made:

        def strike(town: Interrupted) -> None:
            town.lives["active"].dies_at = FIRST_TREE

        start = made.start

        def without_message(*names: str) -> None:
            (tmp_path / "state" / "active" / "message_even.bytes").unlink()
            start(*names)

        made.start = without_message  # type: ignore[method-assign]
        with pytest.raises(OutOfOrder, match="active says something else in tree 0 than before the interruption"):
            train_through(made, "active", strike)


def test_another_key_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def another(side: TreeSide) -> Any:
        return keygen(512, insecure=True)[1]

    with of_trees(tmp_path, cipher="paillier") as made:

        def strike(town: Interrupted) -> None:
            monkeypatch.setattr(TreeSide, "_own_key", another)
            town.lives["active"].dies_at = FIRST_TREE

        with pytest.raises(OutOfOrder, match="active shows another key than before the interruption"):
            train_through(made, "active", strike)


def test_other_sums_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawn anew they hold the same numbers, and nobody could tell: the label party takes the bytes of before."""
    with of_trees(tmp_path, cipher="paillier") as made:

        def strike(town: Interrupted) -> None:
            town.lives["passive"].dies_at = SECOND_TREE

        monkeypatch.setattr(SaidOnce, "answer", lambda *_: None)
        with pytest.raises(OutOfOrder, match="passive says something else in tree 1 than before the interruption"):
            train_through(made, "passive", strike)
