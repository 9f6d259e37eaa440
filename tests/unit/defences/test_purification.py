"""purification: valid scores, a bottleneck that is one, both training sets, and refusals. Training needs torch."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import defences
from defences import DefenceError, NoiseSource, ScoreContext
from defences.purification import Purification, fit_autoencoder, random_scores
from vfl.arrays import FloatArray
from vfl.channels import Purifier
from vfl.learning import confidence_scores
from vfl.learning.networks import DenseNetwork

CONTEXT = ScoreContext(NoiseSource(0))


def purified(scores: FloatArray, /, **options: object) -> FloatArray:
    delivered: FloatArray = defences.load("purification", **options).protect_scores(scores, CONTEXT)
    return delivered


def test_it_is_registered_and_promises_no_decision() -> None:
    spec = defences.load("purification").spec
    assert (spec.sits, spec.stages, spec.keeps, spec.replaces) == (("coordinator",), ("scores",), "nothing", "scores")
    with pytest.raises(ValueError, match="both replace the scores"):
        defences.load_all(["class_label", "purification"], {})


def test_it_loads_without_torch() -> None:
    program = (
        "import sys, defences; defences.load('purification'); defences.load('score_scheme2'); "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_without_torch_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(DefenceError, match=r"needs torch: pip install 'plumbline\[lab\]'"):
        fit_autoencoder(np.eye(3), None, 1, 0)


@pytest.mark.parametrize("classes", [2, 10, 100])
def test_a_records_scores_are_the_same_to_the_last_bit_whatever_is_purified_beside_it(classes: int) -> None:
    draw = np.random.default_rng(classes)
    hidden = classes // 2
    weights = draw.normal(size=(classes, hidden)), draw.normal(size=(hidden, classes))
    purifier = Purifier(DenseNetwork(weights, (np.zeros(hidden), np.zeros(classes))))
    scores = confidence_scores(draw.normal(size=(300, classes)))
    together = purifier.purify(scores)
    for count in (1, 2, 3, 5, 17):
        rows = draw.integers(len(scores), size=count)
        np.testing.assert_array_equal(purifier.purify(scores[rows]), together[rows])


class TestTrained:
    """Everything below trains."""

    @pytest.fixture(autouse=True)
    def torch_is_there(self) -> None:
        pytest.importorskip("torch")

    @given(seed=st.integers(0, 10**6), k=st.sampled_from([2, 3, 6, 12]), spread=st.sampled_from([0.01, 3.0, 900.0]))
    def test_purified_scores_are_scores(self, seed: int, k: int, spread: float) -> None:
        scores = confidence_scores(spread * np.random.default_rng(seed).standard_normal((5, k)))
        delivered = purified(np.vstack([scores, np.zeros((1, k))]), epochs=2)
        assert delivered.min() >= 0
        np.testing.assert_allclose(delivered.sum(axis=1), 1, atol=1e-12)

    def test_forward_pass_known_answer(self) -> None:
        """A tanh layer, then a softmax, on the trained weights."""
        encoder = fit_autoencoder(random_scores(500, 4, 0), None, 1, 0)
        scores = random_scores(7, 4, 1)
        (first, second), (bias, last) = encoder.network.weights, encoder.network.biases
        logits = np.tanh(scores @ first + bias) @ second + last
        expected = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        np.testing.assert_allclose(encoder.purify(scores), expected, atol=1e-12)

    @pytest.mark.parametrize(
        ("k", "hidden", "width"), [(2, None, 1), (3, None, 1), (6, None, 3), (7, None, 3), (4, 5, 5)]
    )
    def test_half_the_classes_unless_told(self, k: int, hidden: int | None, width: int) -> None:
        network = Purification(hidden=hidden, epochs=1).fit(k).network
        assert [weight.shape for weight in network.weights] == [(k, width), (width, k)]

    def test_it_learns_to_give_back_and_cannot_fully(self) -> None:
        training, fresh = random_scores(4000, 6, 0), random_scores(500, 6, 1)

        def loss(epochs: int, hidden: int | None) -> float:
            delivered = fit_autoencoder(training, hidden, epochs, 0).purify(fresh)
            return float(((delivered - fresh) ** 2).sum(axis=1).mean())

        blind = float(((fresh - 1 / 6) ** 2).sum(axis=1).mean())
        narrow, wide = loss(10, None), loss(10, 12)
        assert narrow < 0.5 * blind
        assert wide < 0.5 * narrow

    def test_records_of_one_class_come_closer_together(self) -> None:
        """The purpose: distances between confident records of a class shrink, most decisions stay."""
        generator = np.random.default_rng(0)
        labels = generator.integers(6, size=400)
        scores = confidence_scores(4 * np.eye(6)[labels] + 0.7 * generator.standard_normal((400, 6)))
        delivered = purified(scores)
        for label in range(6):
            own = labels == label
            assert delivered[own].std(axis=0).mean() < scores[own].std(axis=0).mean()
        assert (delivered.argmax(axis=1) == scores.argmax(axis=1)).mean() > 0.85

    def test_the_seed_decides_and_repeats(self) -> None:
        scores = random_scores(5, 4, 9)
        first = fit_autoencoder(random_scores(600, 4, 0), None, 1, 3).purify(scores)
        np.testing.assert_array_equal(fit_autoencoder(random_scores(600, 4, 0), None, 1, 3).purify(scores), first)
        assert np.abs(fit_autoencoder(random_scores(600, 4, 0), None, 1, 4).purify(scores) - first).max() > 1e-3

    def test_it_trains_once(self) -> None:
        assert Purification(epochs=1).fit(5) is Purification(epochs=1).fit(5)
        assert Purification(epochs=1).fit(5) is not Purification(epochs=1, seed=1).fit(5)

    def test_a_history_is_used(self, tmp_path: Path) -> None:
        """A short one is enough; what it shows often comes back better than with random scores."""
        generator = np.random.default_rng(1)
        history = confidence_scores(
            6 * np.eye(5)[generator.integers(5, size=150)] + generator.standard_normal((150, 5))
        )
        path = tmp_path / "history.npy"
        np.save(path, history)
        fresh = history[:40]

        def loss(delivered: FloatArray) -> float:
            return float(((delivered - fresh) ** 2).sum(axis=1).mean())

        assert loss(purified(fresh, scores=str(path), epochs=20)) < 0.5 * loss(purified(fresh, epochs=20))

    def test_a_history_of_another_model_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "history.npy"
        np.save(path, random_scores(10, 4, 0))
        with pytest.raises(DefenceError, match="holds scores of 4 classes, and this model has 3"):
            purified(random_scores(2, 3, 0), scores=str(path))

    def test_bad_arguments_are_refused(self) -> None:
        with pytest.raises(DefenceError, match="at least 2 classes"):
            Purification().fit(1)
        for scores in (np.ones(3), np.ones((0, 3)), np.ones((3, 1))):
            with pytest.raises(ValueError, match="Expected training scores"):
                fit_autoencoder(scores, None, 1, 0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (np.ones(3), "doesn't hold a matrix"),
        (np.ones((3, 1)), "doesn't hold a matrix"),
        (np.ones((0, 3)), "doesn't hold a matrix"),
        (np.array([["a", "b"]]), r"not numbers in \[0, 1\]"),
        (np.array([[0.5, np.nan]]), r"not numbers in \[0, 1\]"),
        (np.array([[0.5, 1.5]]), r"not numbers in \[0, 1\]"),
        (np.array([[0.5, -0.5]]), r"not numbers in \[0, 1\]"),
        (np.array([[{}, {}]], dtype=object), "can't be read"),
    ],
)
def test_files_that_hold_no_scores_are_refused(tmp_path: Path, content: NDArray[np.generic], message: str) -> None:
    path = tmp_path / "history.npy"
    np.save(path, content, allow_pickle=True)
    with pytest.raises(ValueError, match=message) as refusal:
        Purification(scores=str(path))
    assert "leave scores empty" in str(refusal.value)


def test_files_that_are_missing_or_something_else_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text.npy").write_text("no scores")
    (tmp_path / "empty.npy").write_text("")
    np.savez(tmp_path / "archive.npz", scores=np.full((2, 2), 0.5))
    for name in ("missing.npy", "text.npy", "empty.npy", "archive.npz"):
        with pytest.raises(ValueError, match=r"Give a \.npy file"):
            Purification(scores=str(tmp_path / name))


def test_options_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match="Expected hidden to be from 1 to 100,"):
        Purification(hidden=0)
    with pytest.raises(ValueError, match="Expected epochs to be from 1 to 200,"):
        Purification(epochs=0)
    for seed in (-1, 2**64):
        with pytest.raises(ValueError, match="Expected seed to be from 0 to"):
            Purification(seed=seed)
