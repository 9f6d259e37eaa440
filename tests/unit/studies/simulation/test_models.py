"""Models that are trained in one place, and the tables they are trained on."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from studies.simulation.linear_models import train, train_linear
from studies.simulation.network_models import train_network
from studies.simulation.recipes import TRAINERS, Lbfgs, LinearRecipe, linear_recipe, network_recipe
from studies.simulation.scaled_tables import load_scaled
from vfl.learning import confidence_scores


def test_a_table_is_scaled_over_all_rows() -> None:
    table, raw = load_scaled("wine", None), load_wine().data
    np.testing.assert_allclose(table.features, (raw - raw.min(axis=0)) / np.ptp(raw, axis=0))
    assert len(table.feature_names) == 13
    assert len(table.class_names) == 3


def test_rows_are_drawn_by_the_seed_and_said() -> None:
    whole, few, again, other = (
        load_scaled("wine", None, rows=rows, seed=seed) for rows, seed in ((None, 0), (40, 0), (40, 0), (40, 1))
    )
    assert len(few.features) == 40
    np.testing.assert_array_equal(few.features, again.features)
    assert not np.array_equal(few.features, other.features)
    assert {row.tobytes() for row in few.features} <= {row.tobytes() for row in whole.features}
    assert "40 of 178 rows" in few.notes[-1]
    assert load_scaled("wine", None, rows=1000).notes == whole.notes


def test_synthetic_data_is_made_to_order_and_no_other_is() -> None:
    table = load_scaled("synthetic", None, options={"n_samples": 60, "n_features": 7})
    assert table.features.shape == (60, 7)
    with pytest.raises(ValueError, match="wine takes no options"):
        load_scaled("wine", None, options={"n_samples": 60})


def test_lbfgs_is_scikit_learns_with_and_without_a_penalty() -> None:
    table = load_scaled("breast_cancer", None)
    kept, _, labels, _ = train_test_split(table.features, table.labels, test_size=0.2, random_state=3)
    model = train_linear(table, LinearRecipe(Lbfgs(C=0.5), 3), 3, held_out=0.2)
    fitted = LogisticRegression(C=0.5, max_iter=200).fit(kept, labels)
    np.testing.assert_allclose(model.weights, np.vstack([-fitted.coef_ / 2, fitted.coef_ / 2]))
    plain = train("breast_cancer", None, "lbfgs", 3)
    assert np.abs(plain.weights).max() > 10 * np.abs(model.weights).max()


def test_a_class_that_no_training_row_has_is_refused() -> None:
    table = load_scaled("wine", None)
    lacking = replace(table, features=table.features[:100], labels=np.minimum(table.labels[:100], 1))
    with pytest.raises(ValueError, match="hold 2 of 3 classes"):
        train_linear(lacking, LinearRecipe(), 0, held_out=0.2)


@pytest.mark.parametrize(
    ("trainer", "options", "words"),
    [
        ("lbfgs", {"epochs": 3}, "lbfgs can't take epochs"),
        ("lbfgs", {"C": "much"}, "expected C to be a finite number or none"),
        ("lbfgs", {"C": -1.0}, "C > 0"),
        ("adan", {}, "Did you mean 'adam'"),
    ],
)
def test_options_of_trainers_are_checked(trainer: str, options: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        linear_recipe(trainer, options, 0)


def test_only_the_trainers_named_in_the_docs_are_there() -> None:
    # Attacks and defences of other packages are looked up; a trainer of another package would be in no cell's key.
    assert TRAINERS.names() == ("adam", "lbfgs")
    assert TRAINERS.entry_point_group is None


def test_networks_are_trained_by_adam_and_have_layers() -> None:
    with pytest.raises(ValueError, match="networks take adam"):
        network_recipe("lbfgs", {}, 0)
    pytest.importorskip("torch")
    with pytest.raises(ValueError, match="Expected hidden to be a list"):
        network_recipe("adam", {"hidden": 8}, 0)
    with pytest.raises(ValueError, match="Unknown activation"):
        network_recipe("adam", {"activation": "step"}, 0)


def test_a_network_shows_its_own_split_only_and_scores_as_its_parts_do() -> None:
    pytest.importorskip("torch")
    recipe = network_recipe("adam", {"hidden": [4], "activation": "tanh", "epochs": 5}, 1)
    model = train_network(load_scaled("wine", None), (2, 7), recipe, 1, held_out=0.2)
    view, truth = model.view((2, 7), 10)
    np.testing.assert_array_equal(truth, model.features[:10, [2, 7]])
    assert view.network is not None
    parts = view.network.active.partial_scores(view.features_active) + view.network.passive.partial_scores(truth)
    np.testing.assert_allclose(confidence_scores(parts), np.asarray(view.scores))
    assert view.network.active.activation == "tanh"
    with pytest.raises(ValueError, match="train one for each split"):
        model.view((7, 2), 10)
    # The same split of rows as a linear model's of the same seed.
    np.testing.assert_array_equal(model.features, train("wine", None, "lbfgs", 1).features)
    again = model.retrained(model.features_train, model.features)
    np.testing.assert_array_equal(again.network.passive.weights[0], model.network.passive.weights[0])


def test_a_table_as_loaded_keeps_its_units_and_its_published_split() -> None:
    loaded, scaled = (load_scaled("breast_cancer", None, scaled=one) for one in (False, True))
    assert loaded.features.max() > 1000
    assert (scaled.features.min(), scaled.features.max()) == (0, 1)
    np.testing.assert_array_equal(loaded.labels, scaled.labels)
    published = replace(loaded, train_rows=100)
    assert published.drawn(600, 0).train_rows == 100
    assert published.drawn(50, 0).train_rows is None
