"""Schemes on logits, there and back: what defences delivered gives the logits again, or their bounds."""

import numpy as np
import pytest

import defences
from defences import NoiseSource, ScoreContext
from vfl.arrays import FloatArray
from vfl.channels import StrongestDirection, Temperature
from vfl.learning import confidence_scores
from vfl.theory.logit_schemes import logits_of

CASES = pytest.mark.parametrize(("k", "d"), [(2, 3), (4, 2), (4, 9), (6, 5)])
SIGNS = pytest.mark.parametrize("sign", [1, -1])


def made(k: int, d: int) -> tuple[FloatArray, FloatArray]:
    """(40, k) logits of a spread that schemes overtake in some records only, a tie among them; and W W^T."""
    generator = np.random.default_rng(10 * k + d)
    weights, logits = generator.standard_normal((k, d)), 2 * generator.standard_normal((40, k))
    logits[0, :2] = logits[0].max() + 1
    return logits, weights @ weights.T


def centred(logits: FloatArray) -> FloatArray:
    shifted: FloatArray = logits - logits.mean(axis=1, keepdims=True)
    return shifted


def delivered(name: str, logits: FloatArray, gram: FloatArray, **options: float) -> FloatArray:
    context = ScoreContext(NoiseSource(0), gram)
    scores: FloatArray = defences.load(name, **options).protect_scores(confidence_scores(logits), context)
    return logits_of(scores)


@CASES
@SIGNS
def test_scheme_1_comes_off_exactly(k: int, d: int, sign: int) -> None:
    logits, gram = made(k, d)
    sent = delivered("score_scheme1", logits, gram, alpha=3.0, sign=sign)
    assert np.abs(centred(sent) - centred(logits)).max() > 0.5
    cleared = StrongestDirection(1, 3.0, sign).cleared(sent, gram)  # type: ignore[arg-type]
    np.testing.assert_allclose(centred(cleared.logits), centred(logits), atol=1e-9)
    assert not cleared.raised.any()


@CASES
@SIGNS
def test_scheme_2_comes_off_but_for_decisions_that_were_overtaken(k: int, d: int, sign: int) -> None:
    logits, gram = made(k, d)
    sent = delivered("score_scheme2", logits, gram, alpha=3.0, delta=0.2, sign=sign)
    cleared = StrongestDirection(2, 3.0, sign, 0.2).cleared(sent, gram)  # type: ignore[arg-type]
    exact = ~cleared.raised
    assert 0 < exact.sum() < len(logits)
    np.testing.assert_allclose(centred(cleared.logits[exact]), centred(logits[exact]), atol=1e-9)
    # The others: all that isn't the decision's is exact, and the bounds hold that.
    rows = np.flatnonzero(cleared.raised)
    for row in rows:
        decided = cleared.decided[row]
        shift = cleared.logits[row][~decided][0] - logits[row][~decided][0]
        np.testing.assert_allclose(cleared.logits[row][~decided] - shift, logits[row][~decided], atol=1e-9)
        assert cleared.lowest[row] - 1e-9 <= logits[row][decided].max() + shift <= cleared.highest[row] + 1e-9
        assert np.all((cleared.lowest[row] <= cleared.logits[row][decided]) & ~np.isnan(cleared.logits[row][decided]))


def test_scheme_2_where_all_classes_tie_leaves_nothing_open() -> None:
    _, gram = made(4, 9)
    sent = delivered("score_scheme2", np.zeros((1, 4)), gram, alpha=3.0, delta=0.2)
    cleared = StrongestDirection(2, 3.0, delta=0.2).cleared(sent, gram)
    np.testing.assert_allclose(centred(cleared.logits), 0, atol=1e-9)
    assert not cleared.raised.any()


def test_a_temperature_comes_off_exactly() -> None:
    logits, gram = made(5, 3)
    sent = delivered("score_scheme3", logits, gram, alpha=0.75)
    np.testing.assert_allclose(centred(Temperature(0.25).inverse(sent, None)), centred(logits), atol=1e-9)


def test_a_score_of_0_stays_finite_and_below_the_others() -> None:
    logits = logits_of(np.array([[1.0, 0.0, 1e-200]]))
    cleared = StrongestDirection(2, 4.0, delta=0.01).cleared(logits, np.eye(3))
    assert np.isfinite(cleared.logits).all()
    assert cleared.logits[0].argmax() == 0


def test_a_gram_matrix_of_other_classes_is_refused() -> None:
    with pytest.raises(ValueError, match="Gram matrix of 3 classes"):
        StrongestDirection(1, 4.0).cleared(np.zeros((1, 3)), np.eye(2))
