"""Labels: what a passive party knows of them without the federation, and what training gave away beyond that."""

import numpy as np

from attacks import LEVELS, Level
from plumbline.judge.federation_part import Comparison, LevelVerdict, Losses
from vfl.arrays import FloatArray, IntArray

# How many labelled records a passive party might have: knowledge that is assumed, not declared.
LABELLED_RECORDS = (30, 100, 1_000)
# In attacks' answers.
_UNANSWERED = -1


def label_verdicts(
    attack: str, found: IntArray, truth: IntArray, rows: IntArray, features: FloatArray
) -> tuple[LevelVerdict, ...]:
    """Judge one attack on labels by the share that it gets wrong, at each level of what is known of labels beforehand.

    Without the federation a party guesses any class (nothing), the most frequent one (marginals), or what a logistic
    regression from its own columns says that learned from 30, 100 or 1,000 labelled records which weren't trained on
    (records). What the attack leaves open is guessed by a party that knows nothing more than the level.

    Args:
        attack: its name.
        found: (n,) class indices, -1 without an answer.
        truth: (n,) the classes.
        rows: (m,) which records are judged: those that training told of.
        features: (n, d) the party's own columns.
    """
    verdicts = []
    for level in LEVELS:
        guesses = _guesses(truth, rows, features) if level == "records" else _priors(truth, rows)
        losses = Losses(attack, level, _filled(found[rows], truth[rows], level))
        comparison = Comparison([losses], guesses, generator=np.random.default_rng(0))
        verdicts.append(comparison.at(level).verdict(attack, 0))
    return tuple(verdicts)


def _filled(found: IntArray, truth: IntArray, level: Level) -> FloatArray:
    """1 for each wrong answer, (m, 1); where there is none, what guessing it costs."""
    guess = _blind(truth) if level == "nothing" else _most_frequent(truth)
    return np.where(found == _UNANSWERED, guess, (found != truth).astype(np.float64))[:, None]


def _priors(truth: IntArray, rows: IntArray) -> list[Losses]:
    judged = truth[rows]
    return [
        Losses("any class", "nothing", _blind(judged)[:, None]),
        Losses("the most frequent class", "marginals", _most_frequent(judged)[:, None]),
    ]


def _guesses(truth: IntArray, rows: IntArray, features: FloatArray) -> list[Losses]:
    """The priors, and classifiers that learned from records which training didn't tell of, as many as there are."""
    others = np.random.default_rng(0).permutation(np.setdiff1d(np.arange(len(truth)), rows))
    learned = [
        Losses(
            f"own classifier from {count:,} labels",
            "records",
            _classified(features, truth, others[:count], rows)[:, None],
        )
        for count in LABELLED_RECORDS
        if count <= len(others) and len(np.unique(truth[others[:count]])) > 1
    ]
    return [*_priors(truth, rows), *learned]


def _classified(features: FloatArray, truth: IntArray, known: IntArray, rows: IntArray) -> FloatArray:
    # Slow to import: no command waits for it that ends with a mistake.
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    classifier.fit(features[known], truth[known])
    wrong: FloatArray = (classifier.predict(features[rows]) != truth[rows]).astype(np.float64)
    return wrong


def _blind(truth: IntArray) -> FloatArray:
    """The expected loss of naming any class at random."""
    return np.full(len(truth), 1 - 1 / max(2, len(np.unique(truth))))


def _most_frequent(truth: IntArray) -> FloatArray:
    wrong: FloatArray = (truth != np.bincount(truth).argmax()).astype(np.float64)
    return wrong
