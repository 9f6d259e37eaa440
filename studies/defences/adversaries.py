"""Who attacks a situation: guesses without scores, published attacks that know of no defence or undo it, and posterior.

What an adversary knows beforehand is its level, and no two adversaries of a level see different things: they differ in
what they make of it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

import attacks
from attacks import Level, PredictionAttack
from attacks.bayes.posterior import BayesianAdversary
from attacks.prediction.adaptive import UndistortedView, highest, undo
from studies.defences.steering import STEERED_QUERIES, steered
from studies.measurements import Choice
from studies.simulation.situations import Ask
from vfl.arrays import FloatArray
from vfl.channels import Decision, Noise, Purifier, Rounding

# What the adversary makes of the defence. "guesses": it sees no scores at all.
Awareness = Literal[
    "guesses",
    "knows nothing of it",
    "undoes it",
    "undoes it by records",
    "expects it",
    "balances its share",
    "asks again and again",
]

PUBLISHED: tuple[tuple[str, str, Mapping[str, Any]], ...] = (
    ("half_star", "half_star", {}),
    ("ls", "ls", {}),
    ("clamped_ls", "clamped_ls", {}),
    ("cls", "cls", {}),
    ("rcc1", "rcc1", {}),
    ("rcc2", "rcc2", {}),
    # Few rounds at a higher rate, since some hundred situations are attacked: 500 at 0.02 err as 1,000 at 0.01 do.
    ("gia", "gia", {"learning_rate": 0.02}),
    ("gia from 1/2", "gia", {"learning_rate": 0.02, "init": "half"}),
    ("grn", "grn", {}),
    ("shadow", "shadow", {"learning_rate": 0.02, "shadow_learning_rate": 0.02}),
    ("agnostic", "agnostic", {}),
    ("one_feature", "one_feature", {}),
)
# What is repeated with the channel undone: the best of those that solve equations, and a search.
_UNDOING = ("half_star", "clamped_ls", "rcc2", "gia from 1/2")
GUESSES = ("zero", "half", "imputation")
PRIORS: tuple[Literal["half", "mean", "covariance", "imputation"], ...] = ("half", "mean", "covariance", "imputation")
# Where scores are exact, one share tells as much as another.
_LOSSY = (Rounding, Noise, Decision, Purifier)


@dataclass(frozen=True, eq=False)
class Estimate:
    """What one adversary arrives at.

    Attributes:
        attack: its name.
        level: what the adversary knows beforehand.
        awareness: what it makes of the defence.
        features: (n, d), or None where the attack can't be mounted.
        status: measured; not applicable; or refused, when no federation answers it.
        reason: of the last two; else empty.
    """

    attack: str
    level: Level
    awareness: Awareness
    features: FloatArray | None
    status: Literal["measured", "not applicable", "refused"] = "measured"
    reason: str = ""


class Adversaries:
    """All adversaries, ready to attack one situation after the other."""

    def __init__(self, *, rounds: int, draws: int, brought: Sequence[Choice] = ()) -> None:
        """Load the attacks.

        Args:
            rounds: of those that search step by step.
            draws: of posteriors.
            brought: attacks of a user, which know nothing of defences, as the published ones.
        """
        steps: dict[str, dict[str, Any]] = {
            "gia": {"steps": rounds},
            "shadow": {"steps": rounds, "shadow_steps": rounds},
            "grn": {"epochs": max(1, rounds // 50)},
        }
        self._published = {
            label: attacks.load(name, **{**options, **steps.get(name, {})}) for label, name, options in PUBLISHED
        }
        self._published |= {one.words: attacks.load_prediction(one.name, **dict(one.options)) for one in brought}
        self._posteriors = {prior: BayesianAdversary(prior=prior, draws=draws) for prior in PRIORS}

    def expected(self, view: attacks.PredictionView) -> dict[str, FloatArray]:
        """What each prior expects of the attacked records before any score, (n, d): no defence changes that."""
        return {prior: posterior.without_scores(view) for prior, posterior in self._posteriors.items()}

    def guesses(self, view: attacks.PredictionView, expected: Mapping[str, FloatArray]) -> Iterator[Estimate]:
        """Guess without scores: what no federation can be blamed for."""
        for name in GUESSES:
            attack = attacks.load(name)
            yield Estimate(name, attacks.level_of(attack), "guesses", attack.reconstruct(view))
        for prior, posterior in self._posteriors.items():
            yield Estimate(f"prior {prior}", attacks.level_of(posterior), "guesses", expected[prior])

    def attack(self, view: attacks.PredictionView, ask: Ask, expected: Mapping[str, FloatArray]) -> Iterator[Estimate]:
        """Attack a defended view, by those who know nothing of the defence and those who do."""
        unaware = replace(view, channel=(), disclosure=None)
        for label in self._published:
            yield _estimate(label, self._published[label], unaware, "knows nothing of it")
        for undone in _undone(view):
            yield from self._undoing(undone)
        for prior, posterior in self._posteriors.items():
            yield _estimate(f"posterior, {prior}", posterior, view, "expects it")
            if any(isinstance(channel, _LOSSY) for channel in view.channel):
                asked = balanced(view, expected[prior], ask)
                yield _estimate(f"posterior, {prior}", posterior, asked, "balances its share")

    def _undoing(self, undone: UndistortedView) -> Iterator[Estimate]:
        """Attack what is left once a defence was taken off, by those who know as much as that takes."""
        awareness: Awareness = "undoes it by records" if undone.level == "records" else "undoes it"
        for label in _UNDOING:
            found = _estimate(label, self._published[label], undone.view, awareness)
            yield replace(found, level=highest(found.level, undone.level))

    def refused(self, view: attacks.PredictionView, ask: Ask) -> Iterator[Estimate]:
        """Attack as nobody can: the coordinator answers once per record."""
        if any(isinstance(channel, _LOSSY) for channel in view.channel):
            asked = steered(view, ask)
            estimate = _estimate("half_star", self._published["half_star"], asked, "asks again and again")
            reason = f"The coordinator answers once per record; this takes {STEERED_QUERIES} answers."
            yield replace(estimate, status="refused", reason=reason)


def _estimate(label: str, attack: PredictionAttack, view: attacks.PredictionView, awareness: Awareness) -> Estimate:
    level = attacks.level_of(attack)
    try:
        return Estimate(label, level, awareness, attack.reconstruct(view))
    except attacks.ViewError as error:
        return Estimate(label, level, awareness, None, "not applicable", str(error))


def _undone(view: attacks.PredictionView) -> Iterator[UndistortedView]:
    """Without what the defence did, as far as it comes off: without complete records, and where they help with them."""
    informed = undo(view)
    if informed.is_changed:
        yield informed
    if informed.level == "records" and (blind := undo(replace(view, auxiliary=None))).is_changed:
        yield blind


def balanced(view: attacks.PredictionView, expected: FloatArray, ask: Ask) -> attacks.PredictionView:
    """The view of who asks its one question with another share than its own: the least certain scores tell most.

    Args:
        view: of the same question with the true share.
        expected: (n, d), the passive features that it would guess.
        ask: the coordinator.
    """
    own, passive = np.asarray(view.weights_active), np.asarray(view.weights_passive)
    shift = -(view.features_active @ own.T + np.asarray(view.bias) + expected @ passive.T)
    return replace(view, scores=ask(shift), own_shift=shift)
