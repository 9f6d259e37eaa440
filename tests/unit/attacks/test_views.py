"""Views: what doesn't fit is refused with the piece and the remedy, and the truth can't be reached from one."""

import gc
import types
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import attacks
from vfl.arrays import FloatArray

WHITE_BOX = ("ls", "half_star", "clamped_ls", "cls", "rcc1", "rcc2")


def pieces(n: int = 5, d_active: int = 2, d: int = 4, k: int = 3) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    scores = rng.random((n, k))
    return {
        "features_active": rng.random((n, d_active)),
        "scores": scores / scores.sum(axis=1, keepdims=True),
        "weights_active": rng.standard_normal((k, d_active)),
        "weights_passive": rng.standard_normal((k, d)),
        "bias": rng.standard_normal(k),
    }


def test_a_view_knows_its_sizes() -> None:
    view = attacks.PredictionView(**pieces())
    assert (view.n, view.d, view.classes) == (5, 4, 3)


@pytest.mark.parametrize(
    ("piece", "value"),
    [
        ("scores", np.full((4, 3), 1 / 3)),
        ("scores", np.full((5, 2), 1 / 2)),
        ("weights_active", np.zeros((3, 3))),
        ("weights_active", np.zeros((2, 2))),
        ("weights_passive", np.zeros((2, 4))),
        ("bias", np.zeros(2)),
        ("bias", np.zeros((3, 1))),
    ],
)
def test_shapes_that_do_not_fit_are_named(piece: str, value: FloatArray) -> None:
    with pytest.raises(attacks.ViewError, match=r"has shape .* must be"):
        attacks.PredictionView(**{**pieces(), piece: value})


@pytest.mark.parametrize("piece", ["features_active", "scores", "weights_active", "weights_passive", "bias"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_not_numbers_are_named(piece: str, value: float) -> None:
    given = pieces()
    given[piece].flat[0] = value
    with pytest.raises(attacks.ViewError, match=f"{piece} holds NaN or infinity: remove"):
        attacks.PredictionView(**given)


@pytest.mark.parametrize("value", [-0.01, 1.01])
@pytest.mark.parametrize("piece", ["features_active", "features_train"])
def test_features_outside_the_unit_interval_are_named(piece: str, value: float) -> None:
    given = {**pieces(), "labels": np.zeros(7, dtype=np.int64), "features_train": np.full((7, 2), 0.5)}
    given[piece][0, 0] = value
    with pytest.raises(attacks.ViewError, match=rf"{piece} must be .* \[0, 1\]: scale it"):
        attacks.PredictionView(**given)


def test_features_must_be_a_matrix() -> None:
    with pytest.raises(attacks.ViewError, match="features_active must be a matrix"):
        attacks.PredictionView(**{**pieces(), "features_active": np.zeros(5)})


@pytest.mark.parametrize("given", [{"labels": np.zeros(7, dtype=np.int64)}, {"features_train": np.zeros((7, 2))}])
def test_labels_and_training_features_belong_together(given: dict[str, Any]) -> None:
    with pytest.raises(attacks.ViewError, match="belong together"):
        attacks.PredictionView(**pieces(), **given)


@pytest.mark.parametrize("shapes", [(6, (7, 2)), (7, (7, 3))])
def test_labels_and_training_features_must_fit(shapes: tuple[int, tuple[int, int]]) -> None:
    labels, train = np.zeros(shapes[0], dtype=np.int64), np.zeros(shapes[1])
    with pytest.raises(attacks.ViewError, match="labels must be"):
        attacks.PredictionView(**pieces(), labels=labels, features_train=train)


def test_without_weights_the_number_of_passive_features_is_asked_for() -> None:
    given = pieces()
    del given["weights_passive"]
    with pytest.raises(attacks.ViewError, match="give weights_passive or passive_features"):
        attacks.load("zero").reconstruct(attacks.PredictionView(**given))
    assert attacks.PredictionView(**given, passive_features=6).d == 6


@pytest.mark.parametrize("name", WHITE_BOX)
@pytest.mark.parametrize(
    ("piece", "remedy"),
    [
        ("scores", "run predictions first"),
        ("weights_active", "parameters must be disclosed"),
        ("weights_passive", "the passive party must disclose"),
        ("bias", "parameters must be disclosed"),
    ],
)
def test_missing_piece_is_named_with_attack_and_remedy(name: str, piece: str, remedy: str) -> None:
    view = attacks.PredictionView(**{**pieces(), piece: None}, passive_features=4)
    with pytest.raises(attacks.ViewError, match=rf"{name} needs {piece}, .*{remedy}"):
        attacks.load(name).reconstruct(view)


# --- the truth ----------------------------------------------------------------------------------------------


def reachable_arrays(root: object) -> list[NDArray[Any]]:
    """Every array that can be got at from an object by attributes, items, closures or an array's base."""
    # Modules and classes lead to everything that any program can import anyway.
    closed = (types.ModuleType, type)
    seen: dict[int, object] = {}
    waiting = [root]
    while waiting:
        current = waiting.pop()
        if id(current) in seen or isinstance(current, closed):
            continue
        seen[id(current)] = current
        waiting += gc.get_referents(current)
        waiting += vars(current).values() if hasattr(current, "__dict__") else []
        waiting += [getattr(current, slot, None) for slot in getattr(type(current), "__slots__", ())]
        if isinstance(current, np.ndarray):
            waiting.append(current.base)
            waiting += current.ravel().tolist() if current.dtype == object else []
        if isinstance(current, types.FunctionType):
            # Its globals are its module's: not followed, for the same reason.
            seen[id(current.__globals__)] = current.__globals__
    return [value for value in seen.values() if isinstance(value, np.ndarray)]


def reaches(root: object, truth: FloatArray) -> bool:
    """Whether some reachable array shares memory with the truth or holds the same numbers."""
    return any(
        np.shares_memory(array, truth) or (array.size >= truth.size and np.isin(truth, array.astype(np.float64)).all())
        for array in reachable_arrays(root)
        if array.dtype != object
    )


def live_view(copies: bool) -> tuple[attacks.PredictionView, FloatArray]:
    """A view as a federation would make it from a joined table, and the truth it must not lead to."""
    rng = np.random.default_rng(1)
    joined, weights = rng.random((40, 6)), rng.standard_normal((3, 6))
    logits = np.exp(joined @ weights.T)
    active = joined[:, :2].copy() if copies else joined[:, :2]
    view = attacks.PredictionView(
        features_active=active,
        scores=logits / logits.sum(axis=1, keepdims=True),
        weights_active=weights[:, :2],
        weights_passive=weights[:, 2:],
        bias=np.zeros(3),
        labels=np.zeros(40, dtype=np.int64),
        features_train=active,
        auxiliary=attacks.AuxiliaryRows(rng.random((3, 2)), rng.random((3, 4)), np.full((3, 3), 1 / 3)),
    )
    return view, joined[:, 2:]


def test_the_truth_is_not_reachable_from_a_view() -> None:
    view, truth = live_view(copies=True)
    assert len(reachable_arrays(view)) >= 10  # the walk did arrive at the pieces, those of auxiliary rows included
    assert not reaches(view, truth)


def test_the_truth_is_not_reachable_from_a_view_of_slices() -> None:
    assert not reaches(*live_view(copies=False))


def test_the_truth_is_not_reachable_from_an_attack_that_has_run() -> None:
    view, truth = live_view(copies=True)
    attack = attacks.load("rcc1")
    attack.reconstruct(view)
    assert not reaches([view, attack], truth)


@pytest.mark.parametrize("hide", ["attribute", "slice", "copy", "closure", "nested", "objects"])
def test_the_walk_finds_a_truth_that_is_there(hide: str) -> None:
    truth = np.random.default_rng(2).random((5, 3))
    boxed = np.empty(1, dtype=object)
    boxed[0] = truth
    hidden: dict[str, object] = {
        "attribute": types.SimpleNamespace(piece=truth),
        "slice": types.SimpleNamespace(piece=truth[:1, :1]),
        "copy": types.SimpleNamespace(piece=np.hstack([truth, truth])),
        "closure": lambda: truth,
        "nested": {"a": [({"b": truth},)]},
        "objects": boxed,
    }
    assert reaches(hidden[hide], truth)


def test_what_was_received_counts_among_own_columns() -> None:
    known = attacks.AuxiliaryRows(np.zeros((2, 1)), np.ones((2, 3)), np.empty((2, 0)), received=np.full((2, 2), 0.25))
    view = attacks.PredictionView(
        features_active=np.zeros((4, 1)), passive_features=3, auxiliary=known, received=np.full((4, 2), 0.75)
    )
    joined = view.with_received_as_own()
    assert joined.features_active.tolist() == [[0.0, 0.75, 0.75]] * 4
    assert joined.auxiliary is not None
    assert joined.auxiliary.features_active.tolist() == [[0.0, 0.25, 0.25]] * 2
    assert joined.received is None
    assert joined.auxiliary.received is None


def test_what_was_received_is_of_all_attacked_records_and_of_the_known_ones() -> None:
    own = np.zeros((4, 1))
    with pytest.raises(attacks.ViewError, match="received has 3 rows; each of the 4 attacked records has one"):
        attacks.PredictionView(features_active=own, received=np.zeros((3, 2)), passive_features=1)
    with pytest.raises(attacks.ViewError, match=r"received must be a matrix of values in \[0, 1\]"):
        attacks.PredictionView(features_active=own, received=np.full((4, 2), 2.0), passive_features=1)
    known = attacks.AuxiliaryRows(np.zeros((2, 1)), np.ones((2, 3)), np.empty((2, 0)))
    lacking = attacks.PredictionView(
        features_active=own, passive_features=3, auxiliary=known, received=np.zeros((4, 2))
    )
    for view in (lacking, attacks.PredictionView(features_active=own, passive_features=3)):
        with pytest.raises(attacks.ViewError, match="What was received isn't there"):
            view.with_received_as_own()
