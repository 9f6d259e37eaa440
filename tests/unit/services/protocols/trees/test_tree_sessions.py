"""Whole sessions of trees: parties grow those of one place, keep them, and refuse what can't be."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from attacks.base import AttackSpec
from attacks.views import PredictionView
from defences.parameter_rotation import ParameterRotation
from services.adversary.knowledge import PriorKnowledge
from services.common.errors import InvalidMessage, OutOfOrder
from services.common.exposure import ToldEquations
from services.common.identity import Identity, Role
from services.common.learner_calls import LearnerFailed
from services.common.run_folder import RunFolder
from services.common.settings import SettingsError
from services.party.party_training import PartyTraining
from services.protocols.trees.served_leaves import LeavesOnShares, ServedTrees
from services.protocols.trees.tree_side import TreeSide
from tests.harness.agreements import agreed
from tests.harness.parties import active_data, data_of, party_data, small_settings, values_of
from tests.harness.restarts import IDS, Town, town
from vfl.data import Table
from vfl.learning import confidence_scores
from vfl.learning.trees import OwnedColumns, TreeModel, train_in_plain
from vfl.learning.trees.trees_part import TreesPart

OPTIONS = {"n_estimators": 2, "max_depth": 3, "max_bin": 6, "min_rows_of_a_node": 4, "gradient_bits": 10}


def of_trees(folder: Path, parties: int = 2, **changes: Any) -> Any:
    options = {**OPTIONS, **changes.pop("options", {})}
    terms = {"epochs": options["n_estimators"], "batch_size": 0, "patience": options.get("early_stopping_rounds", 0)}
    chosen = {"learner": "boosted_trees", "learner_options": options, "cipher": "plain", **terms, **changes}
    return town(folder, parties=parties, **{"validation_fraction": 0.2, **chosen})


def trainings_of(town: Town) -> Iterator[PartyTraining]:
    assert town.active._session is not None
    yield town.active._session.training
    for name in list(town.data)[1:]:
        session = town.passive(name)._session
        assert session is not None
        assert session.joined is not None
        yield session.joined.training


def plain_twin(sides: list[TreeSide], labels: np.ndarray[Any, Any]) -> tuple[TreeModel, list[OwnedColumns]]:
    """The same in one place, with the session's numbering of columns."""
    plan = sides[0].terms.plan
    owned = [OwnedColumns.of(side._table, plan.trained, plan.options, side.half.owned.order) for side in sides]
    return train_in_plain(labels, owned, plan), owned


@pytest.mark.parametrize(
    ("cipher", "parties", "own_trees"), [("plain", 3, 0), ("plain", 3, 2), ("paillier", 2, 0), ("paillier", 3, 3)]
)
def test_parties_grow_the_trees_of_one_place_to_the_bit(
    tmp_path: Path, cipher: str, parties: int, own_trees: int
) -> None:
    with of_trees(tmp_path, parties, cipher=cipher, options={"own_trees": own_trees}) as made:
        made.train()
        trainings = list(trainings_of(made))
        sides = [cast(TreeSide, training.side) for training in trainings]
        labels = trainings[0].models._labels
        assert labels is not None
        twin, owned = plain_twin(sides, labels)
        assert twin.trees[0].splits
        parts = [side.half.part() for side in sides]
        assert parts[0].trees == twin.trees
        assert parts[0].first_margin == twin.first_margin
        assert parts[0].before == twin.before
        assert [len(part.before.trees) for part in parts] == [own_trees, *[0] * (parties - 1)]
        for part, columns in zip(parts, owned, strict=True):
            assert [tree.splits for tree in part.trees] == [tree.splits for tree in twin.trees]
            assert list(part.splits) == columns.splits
        assert trainings[0].side.validated_loss == twin.validation_losses[-1]
        margins = twin.margins([side._table for side in sides], [one.splits for one in owned])
        rows = list(range(len(IDS)))
        scores = made.active._scoring.scores(trainings[0].model_for(rows), rows)
        np.testing.assert_array_equal(scores, confidence_scores(margins[:, None]))


@pytest.mark.parametrize(
    ("column", "options"),
    [
        (np.full(55, 0.5), {}),
        (np.linspace(0, 1, 55), {"max_bin": 2}),
        (np.linspace(0, 1, 55), {"max_bin": 255}),
        (np.linspace(0, 1, 55), {"min_rows_of_a_node": 40}),
    ],
    ids=["constant", "2 bins", "255 bins", "no node that could be divided"],
)
def test_columns_and_bins_at_their_limits_grow_the_plain_trees(
    tmp_path: Path, column: np.ndarray[Any, Any], options: dict[str, Any]
) -> None:
    with of_trees(tmp_path, cipher="paillier", options=options) as made:
        made.kill("passive")
        made.data["passive"] = data_of(column[:, None], ids=IDS)
        made.start("passive")
        made.train()
        trainings = list(trainings_of(made))
        sides, labels = [cast(TreeSide, training.side) for training in trainings], trainings[0].models._labels
        assert labels is not None
        twin, owned = plain_twin(sides, labels)
        for side, columns in zip(sides, owned, strict=True):
            assert [tree.splits for tree in side.half.part().trees] == [tree.splits for tree in twin.trees]
            assert list(side.half.part().splits) == columns.splits
        margins = twin.margins([side._table for side in sides], [one.splits for one in owned])
        rows = list(range(len(IDS)))
        scores = made.active._scoring.scores(trainings[0].model_for(rows), rows)
        np.testing.assert_array_equal(scores, confidence_scores(margins[:, None]))


def test_labels_of_one_class_are_refused_in_words(tmp_path: Path) -> None:
    with (
        of_trees(tmp_path, active=active_data(labels=["no"] * 5 + ["yes"] * 55)) as made,
        pytest.raises(InvalidMessage, match="labels of one class only"),
    ):
        made.train()


@pytest.mark.parametrize("own_trees", [0, 2])
def test_a_model_is_answered_alike_after_every_party_has_started_again(tmp_path: Path, own_trees: int) -> None:
    with of_trees(tmp_path, 3, options={"own_trees": own_trees}) as made:
        made.train()
        before = made.scores()
        made.restart(*made.names)
        np.testing.assert_array_equal(made.scores(), before)


class Spy:
    """An attack that keeps what it is shown."""

    name = "spy"
    spec = AttackSpec("active", "prediction", needs=("received",), source="this page")

    def __init__(self) -> None:
        self.seen: list[PredictionView] = []

    def reconstruct(self, view: PredictionView) -> np.ndarray[Any, Any]:
        self.seen.append(view)
        return np.zeros((view.n, view.d))


def test_an_attack_on_predictions_sees_reached_leaves_and_the_scores_that_follow(tmp_path: Path) -> None:
    passive = party_data(rows=range(59, 4, -1), seed=1)
    known = Table(passive.ids[:12], values_of(passive)[:12], tuple(passive.table.frame.columns))
    spy = Spy()
    with of_trees(tmp_path, attacks={"spy": spy}, beforehand=PriorKnowledge(known), options={"own_trees": 1}) as made:
        made.train()
        model = made.active._serving.newest
        assert model is not None
        rows = RunFolder(tmp_path).estimates(0).rows
        part = cast(ServedTrees, model.model.part)
        reached = made.active._scoring.answers(model.model, rows.tolist())
        (view,) = spy.seen
        assert view.received is not None
        assert view.received.shape == (len(rows), OPTIONS["n_estimators"] + 1)
        np.testing.assert_array_equal(view.scores, part.scores(reached))
        # The same leaf is the same number, in known records as in others.
        assert view.auxiliary is not None
        assert view.auxiliary.received is not None
        known_rows = RunFolder(tmp_path).estimates(0).auxiliary_rows
        assert known_rows is not None
        leaves = made.active._scoring.answers(model.model, known_rows.tolist())
        for numbers, theirs, ours, received in zip(
            leaves.T, reached.T, view.auxiliary.received.T, view.received.T, strict=True
        ):
            both = dict(zip(numbers.tolist(), ours.tolist(), strict=True))
            asked = dict(zip(theirs.tolist(), received.tolist(), strict=True))
            assert both | asked == asked | both
        # Scores of trees are no products of weights.
        assert view.weights_active is None


@pytest.mark.parametrize("discloses", [True, False])
def test_disclosed_thresholds_bound_the_columns_of_predicted_records(tmp_path: Path, discloses: bool) -> None:
    spy = Spy()
    options = {"own_trees": 1, "n_estimators": 4}
    with of_trees(tmp_path, 3, attacks={"spy": spy}, disclose=discloses, record_features=True, options=options) as made:
        made.train()
    run = RunFolder(tmp_path)
    (view,) = spy.seen
    if not discloses:
        assert view.low is None
        assert view.high is None
        return
    rows = run.estimates(0).rows
    truth = np.hstack([run.features(name).features[rows] for name in ("passive-1", "passive-2")])
    assert view.low is not None
    assert view.high is not None
    assert view.low.shape == truth.shape
    assert ((view.low < truth) & (truth <= view.high)).all()
    assert ((view.low > 0) | (view.high < 1)).any(axis=0).sum() > 3


def test_trees_stop_early_by_validation_rows_that_nobody_scores(tmp_path: Path) -> None:
    options = {"n_estimators": 8, "early_stopping_rounds": 1, "learning_rate": 1.0}
    with of_trees(tmp_path, options=options) as made:
        made.train()
        active, passive = trainings_of(made)
        grown, kept = active.epochs_done, active.models.kept_epoch
        assert kept is not None
        assert kept + 1 < grown <= 8
        assert len(cast(ServedTrees, active.model.part).own.trees) == kept + 1
        assert len(cast(ServedTrees, passive.model.part).own.trees) == kept + 1
        assert np.isfinite(made.scores()).all()


def test_a_part_is_read_from_its_arrays_and_from_nothing_else(tmp_path: Path) -> None:
    with of_trees(tmp_path) as made:
        made.train()
        for training in trainings_of(made):
            part = cast(ServedTrees, training.model.part)
            arrays = dict(part.arrays())
            assert not [name for name in ("order", "secret", "seeds") if name in repr(part)], "what a log may have"
            again = LeavesOnShares(training.agreement).read_part(arrays, TreesPart.of)
            assert (again.own.trees, again.own.splits) == (part.own.trees, part.own.splits)
            for name in arrays:
                with pytest.raises(ValueError, match="a part of"):
                    ServedTrees.of({one: array for one, array in arrays.items() if one != name})
                with pytest.raises(ValueError, match="a part of"):
                    ServedTrees.of({**arrays, name: arrays[name].astype(np.complex128)})


def test_a_question_without_a_name_is_refused(tmp_path: Path) -> None:
    with of_trees(tmp_path) as made:
        kept = made.passive()._models.of_session(made.train())
        assert kept is not None
        with pytest.raises(InvalidMessage, match="16 bytes that name a question"):
            kept.model.agreement.serving.answer(kept.model, [1], b"", None, None, lambda draw: draw())


def test_a_passive_party_discloses_its_splits_where_its_owner_says_so_and_no_secret(tmp_path: Path) -> None:
    active = Identity(Role.ACTIVE, "active")
    with of_trees(tmp_path / "disclosing", disclose=True) as made:
        session = made.train()
        part = made.passive().disclose_parameters(active, session)
        arrays = dict(part.arrays())
        *_, passive = trainings_of(made)
        own = cast(ServedTrees, passive.model.part).own
        assert own.splits
        assert (TreesPart.of(arrays).trees, TreesPart.of(arrays).splits) == (own.trees, own.splits)
        assert not len(arrays["leaves"])
        secrets = [array.tobytes() for name, array in passive.model.part.arrays().items() if array.dtype == np.uint8]
        assert len(secrets) == 3
        assert not any(secret in array.tobytes() for secret in secrets for array in arrays.values())
        made.restart("passive")
        again = made.passive().disclose_parameters(active, session)
        assert all((again.arrays()[name] == array).all() for name, array in arrays.items())
    with of_trees(tmp_path / "keeping") as made:
        session = made.train()
        with pytest.raises(OutOfOrder, match=r"discloses no parameters \(black box\)"):
            made.passive().disclose_parameters(active, session)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"batch_size": 8}, "all training rows in each step: leave batch_size out"),
        ({"guard": "refuse", "cipher": "paillier"}, r"could learn .* \(PLUMBLINE_GUARD=refuse\)"),
        ({"cipher": "paillier", "kernel": "phe"}, "PLUMBLINE_KERNEL=phe adds up no bins"),
        ({"validation_fraction": 0.0, "options": {"early_stopping_rounds": 1}}, "patience needs validation rows"),
    ],
    ids=["batches", "a guard that refuses", "a kernel without sums", "nothing to stop by"],
)
def test_what_trees_cannot_do_is_refused_in_words(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    with pytest.raises((InvalidMessage, OutOfOrder, SettingsError), match=words), of_trees(tmp_path, **changes) as made:
        made.train()


def test_no_defence_distorts_what_a_passive_party_discloses(tmp_path: Path) -> None:
    with (
        of_trees(tmp_path, disclose=True, disclosing=[ParameterRotation()]) as made,
        pytest.raises(InvalidMessage, match="parameter_rotation: only a linear model's parameters can be distorted"),
    ):
        made.train()


def test_three_classes_are_refused_in_words(tmp_path: Path) -> None:
    labels = [("a", "b", "c")[row % 3] for row in range(60)]
    with (
        of_trees(tmp_path, active=active_data(labels=labels)) as made,
        pytest.raises(LearnerFailed, match="tell two classes apart, and these labels have 3"),
    ):
        made.train()


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"classes": 3}, "these labels have 3: choose another learner"), ({"batch_size": 8}, "leave batch_size out")],
)
def test_what_is_refused_of_terms_is_refused_before_anything_runs(changes: dict[str, int], words: str) -> None:
    """An audit's forecast counts what a session costs, before a process has started."""
    plan = small_settings(learner="boosted_trees", learner_options=OPTIONS, epochs=2, batch_size=0).plan()
    agreement = agreed(plan.of_size(2, changes.get("batch_size", 1_000)), classes=changes.get("classes", 2))
    with pytest.raises(InvalidMessage, match=words):
        plan.training.cost(agreement)


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        ({"learner": "boosted_trees", "epochs": 7}, "trains under protocol=trees and epochs=100"),
        ({"learner": "boosted_trees", "protocol": "hu"}, "trains under protocol=trees"),
        ({"learner": "linear", "protocol": "trees"}, "set learner=boosted_trees"),
        ({"learner": "boosted_trees", "packing": False}, "packs and rerandomises every sum"),
        ({"learner": "boosted_trees", "learner_options": {"max_depth": 9}}, "max_depth to be from 3 to 6"),
    ],
)
def test_terms_that_fit_no_trees_are_refused_with_what_fits(terms: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        small_settings(**{"epochs": 100, "batch_size": 0, **terms})


def test_each_question_on_a_records_way_counts_as_an_equation() -> None:
    plan = small_settings(
        epochs=4, batch_size=0, learner="boosted_trees", learner_options={**OPTIONS, "n_estimators": 4}
    ).plan()
    assert plan.training.told_equations(plan, 2) == ToldEquations(of_model=4 * 3, of_epoch=3)


def test_more_leaves_than_a_message_holds_are_refused() -> None:
    options = {"n_estimators": 7_000, "max_depth": 6}
    with pytest.raises(SettingsError, match=r"7,000 trees of 64 leaves .* choose fewer \(n_estimators\)"):
        small_settings(epochs=7_000, batch_size=0, learner="boosted_trees", learner_options=options)


def test_the_clear_is_called_insecure(tmp_path: Path) -> None:
    with of_trees(tmp_path) as made:
        made.train()
        session = made.active._session
        assert session is not None
        assert any(
            warning.startswith("INSECURE") and "derivatives of every record" in warning
            for warning in session.terms_warnings
        )
