"""The parameters that scores follow from, when those disclosed are others or none were: regressed, or guessed.

From complete records with their scores all differences of the class rows follow by weighted least squares, whatever was
disclosed. What the regression can't tell is carried along as an error of the attacked records' logits. Without records
the choice is between what was disclosed, its negative, and nothing at all: whichever makes the scores likeliest.
"""

from dataclasses import dataclass, replace

import numpy as np

from attacks.bayes.logit_estimate import LogitEstimate, estimated_logits
from attacks.bayes.observation import likelihood_of
from attacks.bayes.prior import GaussianPrior
from attacks.prediction.adaptive import negated
from attacks.views import AuxiliaryRows, PredictionView, ViewError
from vfl.arrays import FloatArray
from vfl.channels import Distorted

# A regression whose error of logits stays below this is as good as exact.
_EXACT = 1e-9
_FLAT = 1e-9
# v_1 follows from the parameters that are sought: so many rounds of one from the other.
_ROUNDS = 3
_RELATIVE_RIDGE = 1e-6


@dataclass(frozen=True, eq=False)
class ModelParameters:
    """A view with parameters to go by.

    Attributes:
        view: with the parameters that scores follow from, as far as is known; None where there are none to go by.
        error: (k, k) covariance of what they get wrong of a record's logits; None for nothing.
        notes: sentences about how they were found.
    """

    view: PredictionView | None
    error: FloatArray | None = None
    notes: tuple[str, ...] = ()


def find_parameters(
    view: PredictionView, prior: GaussianPrior, records: AuxiliaryRows | None, *, own_bias: bool = False
) -> ModelParameters:
    """Find parameters to go by.

    Args:
        view: of the attacked records.
        prior: about them.
        records: complete ones with their scores that the adversary holds; None at levels of knowledge without any.
        own_bias: whether a regression takes the view's bias, where there is one and nothing is distorted, for all that
            there is, as it is on the wire: only the active party has one. As many records as columns are enough then.

    Raises:
        ViewError: where there are no parameters and no records to find them from.
    """
    if view.network is not None:
        return ModelParameters(view)
    disclosed = view.weights_passive is not None and view.bias is not None and view.weights_active is not None
    if disclosed and view.disclosure is None:
        return ModelParameters(view)
    distortion = view.disclosure
    if disclosed and isinstance(distortion, Distorted) and distortion.kind == "negated":
        note = "The disclosed parameters are those of -x: the adversary turned them back."
        return ModelParameters(replace(negated(view, distortion.about), disclosure=None), notes=(note,))
    if records is not None:
        parameters = _regressed(
            view, prior, records, has_bias=own_bias and view.bias is not None and distortion is None
        )
        if parameters is not None:
            return parameters
    if not disclosed:
        raise ViewError(
            "posterior needs the model's parameters, which this view lacks: disclose them, or give complete records "
            "with their scores and take prior=imputation, which regresses them."
        )
    return _likeliest(view, prior)


# --- from complete records ----------------------------------------------------------------------------------------


def _regressed(
    view: PredictionView, prior: GaussianPrior, records: AuxiliaryRows, *, has_bias: bool
) -> ModelParameters | None:
    """Class rows by regression; None where scores are only decisions, or come from a purifier."""
    channel, gram = view.channel, None
    if view.weights_passive is not None:
        gram = view.weights_passive @ view.weights_passive.T
    else:
        channel = tuple(stage for stage in channel if not stage.needs_parameter_gram)
    fitted, error = view, np.zeros((0, 0))
    for _ in range(_ROUNDS if any(stage.needs_parameter_gram for stage in view.channel) else 1):
        estimate = estimated_logits(*likelihood_of(records.scores, channel, gram))
        if estimate is None:
            return None
        fitted, error = _with_class_rows(view, prior, records, estimate, None if not has_bias else view.bias)
        weights = np.asarray(fitted.weights_passive)
        gram, channel = weights @ weights.T, view.channel
    note = f"The class rows were regressed from {len(records.scores)} complete records with their scores."
    return ModelParameters(fitted, error if np.trace(error) > _EXACT else None, (note,))


def _with_class_rows(
    view: PredictionView, prior: GaussianPrior, records: AuxiliaryRows, estimate: LogitEstimate, bias: FloatArray | None
) -> tuple[PredictionView, FloatArray]:
    """Make a view with class rows that fit the records, the first one 0, and the covariance of logits' errors, (k, k).

    Where no bias is given it is a column of ones' weight; else that column is 0.
    """
    constant, offset = (1.0, np.zeros(estimate.middle.shape[1])) if bias is None else (0.0, bias)
    ones, sides = np.full((len(records.scores), 1), constant), np.diff(estimate.middle - offset, axis=1)
    columns, attacked = [records.features_passive], [prior.mean]
    if view.weights_active is None:  # black box: its own class rows are unknown to it as well
        columns, attacked = [*columns, records.features_active], [*attacked, view.features_active]
    else:
        sides = sides - records.features_active @ np.diff(view.weights_active, axis=0).T
    variances = estimate.variance[:, 1:] + estimate.variance[:, :-1]
    design = np.hstack([*columns, ones])
    fits = [_weighted_fit(design, side, variance) for side, variance in zip(sides.T, variances.T, strict=True)]
    moment = _second_moment(np.hstack([*attacked, np.full((view.n, 1), constant)]), prior.covariance)
    errors = np.array([np.sum(covariance * moment) for _, covariance in fits])
    slopes = np.array([slope for slope, _ in fits])
    rows, summed = _summed(slopes), _summed(np.eye(len(errors)))
    d = prior.mean.shape[1]
    weights_active = rows[:, d:-1] if view.weights_active is None else view.weights_active
    fitted = replace(
        view, weights_active=weights_active, weights_passive=rows[:, :d], bias=rows[:, -1] + offset, disclosure=None
    )
    return fitted, (summed * errors) @ summed.T


def _summed(differences: FloatArray) -> FloatArray:
    """Class rows from differences of consecutive ones: (k - 1, p) in, (k, p) out."""
    return np.vstack([np.zeros(differences.shape[1]), np.cumsum(differences, axis=0)])


def _weighted_fit(design: FloatArray, side: FloatArray, variance: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Fit a slope and its covariance by weighted least squares, with a weak ridge on all but the last column.

    The ridge's width is what the sides themselves suggest; it decides where there are fewer records than columns.
    """
    t, p = design.shape
    middle = np.average(side, weights=1.0 / variance)
    spread = np.average((side - middle) ** 2, weights=1.0 / variance)
    usual = max(spread / max(float(design[:, :-1].var(axis=0).sum()), _FLAT), _FLAT)
    flat = np.append(np.full(p - 1, 1.0 / usual), _FLAT)
    # Orthogonal, not normal, equations: exact scores have variances of rounding only.
    roots = 1.0 / np.sqrt(variance)
    stacked = np.vstack([design * roots[:, None], np.diag(np.sqrt(flat * (1.0 if t <= p else _RELATIVE_RIDGE)))])
    slope = np.linalg.lstsq(stacked, np.append(side * roots, np.zeros(p)), rcond=None)[0]
    residual = float((((side - design @ slope) * roots) ** 2).sum()) / max(1, t - p)
    _, values, right = np.linalg.svd(stacked, full_matrices=False)
    covariance = (right.T / np.maximum(values, 1e-12) ** 2) @ right
    return slope, covariance * (max(1.0, residual) if t > p else 1.0)


def _second_moment(columns: FloatArray, covariance: FloatArray) -> FloatArray:
    """Compute the second moment of (n, p) columns, the first d of which have a covariance besides: (p, p)."""
    moment: FloatArray = columns.T @ columns / len(columns)
    moment[: len(covariance), : len(covariance)] += covariance
    return moment


# --- without ------------------------------------------------------------------------------------------------------


def _likeliest(view: PredictionView, prior: GaussianPrior) -> ModelParameters:
    """Choose what was disclosed, its negative where that is worth a try, or nothing."""
    if view.scores is None:
        raise ViewError("posterior needs scores, which this view lacks: run predictions first.")
    weights = np.asarray(view.weights_passive)
    estimate = estimated_logits(*likelihood_of(view.scores, view.channel, weights @ weights.T))
    alone = ModelParameters(
        None, notes=("What was disclosed explains the scores no better than chance: the prior stands.",)
    )
    if estimate is None:
        return alone
    candidates = {"The disclosed parameters explain the scores best as they are.": replace(view, disclosure=None)}
    if isinstance(view.disclosure, Distorted) and view.disclosure.sign_is_guess:
        turned = replace(negated(view, view.disclosure.about), disclosure=None)
        candidates["The disclosed parameters explain the scores best with their sign turned."] = turned
    evidence = {note: _evidence(candidate, prior, estimate) for note, candidate in candidates.items()}
    best = max(evidence, key=lambda note: evidence[note])
    if evidence[best] <= _unrelated(view, prior, estimate):
        return alone
    return ModelParameters(candidates[best], notes=(best,))


def _sides(view: PredictionView, estimate: LogitEstimate) -> FloatArray:
    """b of A x = b, (n, k - 1), as far as scores tell it."""
    own_logits = view.features_active @ np.asarray(view.weights_active).T + np.asarray(view.bias)
    shift = 0.0 if view.own_shift is None else view.own_shift
    return np.diff(estimate.middle - own_logits - shift, axis=1)


def _evidence(view: PredictionView, prior: GaussianPrior, estimate: LogitEstimate) -> float:
    """Log likelihood of all records' sides under the prior and a view's parameters."""
    matrix = np.diff(np.asarray(view.weights_passive), axis=0)
    deviations = _sides(view, estimate) - prior.mean @ matrix.T
    return _log_likelihood(deviations, matrix @ prior.covariance @ matrix.T, estimate)


def _unrelated(view: PredictionView, prior: GaussianPrior, estimate: LogitEstimate) -> float:
    """Take H for any rotation: sides about their own mean, as wide as W W^T and the features' spread say."""
    sides, precision = _sides(view, estimate), 1.0 / (estimate.variance[:, 1:] + estimate.variance[:, :-1])
    matrix = np.diff(np.asarray(view.weights_passive), axis=0)
    spread = prior.covariance.trace() + prior.mean.var(axis=0).sum()
    middle = (sides * precision).sum(axis=0) / precision.sum(axis=0)
    # Each mean that was fitted costs half a log of the records (Schwarz).
    fitted = 0.5 * len(middle) * np.log(max(len(sides), 1))
    return _log_likelihood(sides - middle, matrix @ matrix.T * spread / matrix.shape[1], estimate) - float(fitted)


def _log_likelihood(deviations: FloatArray, covariance: FloatArray, estimate: LogitEstimate) -> float:
    """Compute the log likelihood of Gaussian rows with a covariance and the errors of estimated logits besides."""
    floor = 1e-9 * max(float(covariance.trace()), 1e-9) * np.eye(len(covariance))
    root = np.linalg.cholesky(covariance + floor + estimate.covariance())
    whitened = np.linalg.solve(root, deviations[:, :, None])[:, :, 0]
    logarithms = np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
    return float(-(0.5 * (whitened**2).sum(axis=1) + logarithms).sum())
