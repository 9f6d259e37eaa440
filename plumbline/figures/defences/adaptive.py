"""Adversaries that know the defence and its options, all but what it keeps secret (Kerckhoffs), where that is cheap.

Each undoes as much as it can of what was done to its view; the ordinary attacks then take that view. Those that vary
their own share of the logits are refused by the coordinator, which answers once per record
(``services/coordinator/answered.py``). They show what that refusal is worth.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

import attacks
from attacks.box_projection import project_onto_solutions
from attacks.equation_solving import HalfStar
from attacks.linear_system import linear_system
from defences import Defence
from defences.feature_transform import FeatureTransform
from defences.parameter_rotation import ParameterRotation
from defences.purification import Purification
from defences.score_distortion import ClassLabel, ScoreNoise, ScoreRounding
from defences.score_schemes import ScoreScheme1, ScoreScheme2, ScoreScheme3
from vfl.arrays import BoolArray, FloatArray
from vfl.learning import confidence_scores
from vfl.theory.score_noise import strongest_noise

# Shifts of the active party's own share of the logits in, delivered scores out; both (n + t, k): the attacked records,
# then the auxiliary ones.
Ask = Callable[[FloatArray], FloatArray]

REPEATED_QUERIES = 100
STEERED_QUERIES = 300
_SHIFT = 1e-3
_JITTER = 0.2
_SCORE_FLOOR = 1e-300
# What rounding, noise or a bare label leave of a score below this says only that it is small.
_LEAST_TOLD = 1e-2
_INVERSION_STEPS = 1000


@dataclass(frozen=True, eq=False)
class Adaptive:
    """What one adversary does about a defence.

    Attributes:
        words: for the page.
        view: what it then attacks, or None.
        estimate: what it arrives at, or None.
        refused: whether a federation gives it no second answer.
    """

    words: str
    view: attacks.PredictionView | None = None
    estimate: FloatArray | None = None
    refused: bool = False


def adaptive_adversaries(defence: Defence, view: attacks.PredictionView, ask: Ask, seed: int) -> list[Adaptive]:
    """List the adversaries who know ``defence``; empty where there is nothing cheap to do."""
    match defence:
        case ScoreNoise():
            return [*_averaged(view, ask, seed), _balanced(view, ask), _steered(view, ask, seed)]
        case ScoreRounding() | ClassLabel():
            return [_balanced(view, ask), _steered(view, ask, seed)]
        case ScoreScheme1():
            return [Adaptive("subtracts the noise", _with_logits(view, _without_scheme1(view, defence)))]
        case ScoreScheme2():
            return [Adaptive("subtracts the noise", _with_logits(view, _without_scheme2(view, defence)))]
        case ScoreScheme3():
            return [Adaptive("divides by the temperature", _with_logits(view, _logits(view) / (1 - defence.alpha)))]
        case Purification():
            return [Adaptive("searches through the purifier", estimate=_through_purifier(view, defence))]
        case FeatureTransform() | ParameterRotation():
            regressed = Adaptive(f"regresses A from {_known_records(view)} complete records", _regressed(view))
            return [*_guessed(defence, view), regressed]
    return []


def _scores(view: attacks.PredictionView) -> FloatArray:
    """Of the attacked records, then of the auxiliary ones: (n + t, k)."""
    auxiliary = [] if view.auxiliary is None else [view.auxiliary.scores]
    return np.vstack([np.asarray(view.scores), *auxiliary])


def _with_scores(view: attacks.PredictionView, scores: FloatArray) -> attacks.PredictionView:
    known = None if view.auxiliary is None else replace(view.auxiliary, scores=scores[view.n :])
    return replace(view, scores=scores[: view.n], auxiliary=known)


def _logits(view: attacks.PredictionView) -> FloatArray:
    logits: FloatArray = np.log(np.maximum(_scores(view), _SCORE_FLOOR))
    return logits


def _with_logits(view: attacks.PredictionView, logits: FloatArray) -> attacks.PredictionView:
    return _with_scores(view, confidence_scores(logits))


# --- asking more than once ----------------------------------------------------------------------------------------


def _averaged(view: attacks.PredictionView, ask: Ask, seed: int) -> list[Adaptive]:
    """The same query again and again, and queries whose own share the adversary moves a little each time."""
    generator = np.random.default_rng(seed)
    still = np.zeros_like(_scores(view))
    same = np.mean([ask(still) for _ in range(REPEATED_QUERIES)], axis=0)
    moved = np.mean([ask(_SHIFT * generator.standard_normal(still.shape)) for _ in range(REPEATED_QUERIES)], axis=0)
    return [
        Adaptive(f"asks {REPEATED_QUERIES} times and averages", _with_scores(view, same)),
        Adaptive(f"asks {REPEATED_QUERIES} times, moves its share", _with_scores(view, moved), refused=True),
    ]


def _balanced(view: attacks.PredictionView, ask: Ask) -> Adaptive:
    """Asks once, with minus what the passive share is on average as its own: the least certain scores tell most."""
    known = view.auxiliary
    if known is None:
        raise AssertionError  # every view of the evaluation has auxiliary records; this tells the type checker
    own = np.vstack([view.features_active, known.features_active]) @ np.asarray(view.weights_active).T
    average = known.features_passive.mean(axis=0) @ np.asarray(view.weights_passive).T
    shift = -(own + np.asarray(view.bias) + average)
    logits = np.log(np.maximum(ask(shift), _LEAST_TOLD)) - shift
    return Adaptive("asks once, with a share that balances scores", _with_logits(view, logits))


def _steered(view: attacks.PredictionView, ask: Ask, seed: int) -> Adaptive:
    """Moves its share of the logits until the answers are even on average; what that took is the logits, reversed.

    Where all classes are as likely no answer is saturated, noise and rounding treat all of them alike, and a bare label
    is a fair coin: stochastic approximation (Robbins and Monro), the last half of the steps averaged.
    """
    generator = np.random.default_rng(seed)
    scores = _scores(view)
    classes = scores.shape[1]
    shift = -np.log(np.maximum(scores, 1e-3))
    later = []
    for query in range(STEERED_QUERIES):
        answer = ask(shift + _JITTER * generator.standard_normal(shift.shape))
        total = answer.sum(axis=1, keepdims=True)
        even = np.where(total > 0, answer / np.where(total > 0, total, 1.0), 1 / classes)
        shift = shift - classes * (1 + query) ** -0.7 * (even - 1 / classes)
        if query >= STEERED_QUERIES // 2:
            later.append(shift)
    steered = _with_logits(view, -np.mean(later, axis=0))
    return Adaptive(f"steers its share, {STEERED_QUERIES} queries", steered, refused=True)


# --- purification -------------------------------------------------------------------------------------------------


def _through_purifier(view: attacks.PredictionView, defence: Purification) -> FloatArray:
    """Gradient inversion from one half with the purifier, which anyone can train again, behind the model: (n, d)."""
    import torch

    from attacks.gradient_inversion import disclosed_model, distance_to
    from vfl.learning.torch_training import as_tensor, torch_layers, torch_partial_scores

    purifier = defence.fit(view.classes).network
    network = disclosed_model("gia", view)
    inner, outer = torch_layers(network.passive), torch_layers(purifier)
    known = as_tensor(network.active.partial_scores(view.features_active))
    distances = distance_to(np.asarray(view.scores), "kld")
    estimate = torch.full((view.n, view.d), 0.5, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.Adam([estimate], lr=0.01)
    for _ in range(_INVERSION_STEPS):
        scores = torch.softmax(known + torch_partial_scores(inner, network.passive.activation, estimate), dim=1)
        loss = distances(torch_partial_scores(outer, purifier.activation, scores)).sum()
        (estimate.grad,) = torch.autograd.grad(loss, [estimate])
        optimiser.step()
        with torch.no_grad():
            estimate.clamp_(0.0, 1.0)
    found: FloatArray = estimate.detach().numpy()
    return found


# --- schemes 1 and 2 ----------------------------------------------------------------------------------------------


def _direction(view: attacks.PredictionView) -> FloatArray:
    weights = np.asarray(view.weights_passive)
    return strongest_noise(weights @ weights.T).direction


def _without_scheme1(view: attacks.PredictionView, defence: ScoreScheme1) -> FloatArray:
    """Exact: the noise depends on the decision alone, which is delivered."""
    v = defence.sign * _direction(view)
    decided = _decided(view)
    noise = np.where(decided, v.max(), v)
    noise *= np.sqrt(defence.alpha) / np.linalg.norm(noise, axis=1, keepdims=True)
    logits: FloatArray = _logits(view) - noise
    return logits


def _without_scheme2(view: attacks.PredictionView, defence: ScoreScheme2) -> FloatArray:
    """Exact but for decisions that were raised to a lead of delta: those lie between two known bounds."""
    noise = np.sqrt(defence.alpha) * defence.sign * _direction(view)
    logits, decided = _logits(view), _decided(view)
    others = np.where(decided, -np.inf, logits)
    lead = (logits.max(axis=1) - others.max(axis=1))[:, None]
    plain = logits - noise
    lowest = np.where(decided, -np.inf, plain).max(axis=1, keepdims=True)
    between = (lowest + np.maximum(plain, lowest)) / 2
    raised = decided & (np.abs(lead - defence.delta) < 1e-6)
    cleared: FloatArray = np.where(raised, between, plain)
    return cleared


def _decided(view: attacks.PredictionView) -> BoolArray:
    scores = _scores(view)
    chosen: BoolArray = np.arange(scores.shape[1]) == scores.argmax(axis=1)[:, None]
    return chosen


# --- disclosed parameters -----------------------------------------------------------------------------------------


def _guessed(defence: FeatureTransform | ParameterRotation, view: attacks.PredictionView) -> list[Adaptive]:
    match defence:
        case FeatureTransform(kind="negate", at=at):
            return [Adaptive("undoes -I", _negated(view, about=0.5 if at == "training" else 0.0))]
        case FeatureTransform(at="training"):
            return []
    return [Adaptive("tries -I too", _likelier_sign(view))]


def _negated(view: attacks.PredictionView, *, about: float) -> attacks.PredictionView:
    """The view of who takes features x for 2 about - x: W (2 about - x) = -W x + 2 about W 1."""
    weights, bias = np.asarray(view.weights_passive), np.asarray(view.bias)
    return replace(view, weights_passive=-weights, bias=bias + 2 * about * weights.sum(axis=1))


def _likelier_sign(view: attacks.PredictionView) -> attacks.PredictionView:
    """With -W in place of W where more records then have a solution in [0, 1]: reconstructions that leave it tell."""
    turned = _negated(view, about=0.0)
    return turned if _feasible(turned) > _feasible(view) else view


def _feasible(view: attacks.PredictionView) -> int:
    system = linear_system(HalfStar(), view)
    return int(project_onto_solutions(system.space, system.coordinates, 0.5).feasible.sum())


def _known_records(view: attacks.PredictionView) -> int:
    return 0 if view.auxiliary is None else len(view.auxiliary.scores)


def _regressed(view: attacks.PredictionView) -> attacks.PredictionView:
    """A and the bias by least squares from complete records with their scores: what was disclosed isn't looked at."""
    rows = view.auxiliary
    if rows is None:
        raise AssertionError  # every view of the evaluation has auxiliary records; this tells the type checker
    log_ratios = np.diff(np.log(np.maximum(rows.scores, _SCORE_FLOOR)), axis=1)
    own = rows.features_active @ np.diff(np.asarray(view.weights_active), axis=0).T
    unknown = np.hstack([rows.features_passive, np.ones((len(own), 1))])
    solution = np.linalg.lstsq(unknown, log_ratios - own, rcond=None)[0].T
    rows_of_classes = np.vstack([np.zeros(solution.shape[1]), np.cumsum(solution, axis=0)])
    return replace(view, weights_passive=rows_of_classes[:, :-1], bias=rows_of_classes[:, -1])
