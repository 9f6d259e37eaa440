"""Another party's shares from the sums of all steps, where each record's share moves smoothly with time (ours).

A step's sums are fewer than its rows, so that no step tells its shares. But the share of record i is theta(t)^T x_i
less a label term, and theta(t) moves along few directions: v_i(t) = sum_j c_ij phi_j(t), with a handful of functions of
time phi_j. The sums of all steps are then linear equations in the same c_ij. Batches that are drawn anew in every epoch
make these equations independent.

The functions: one party's weights are driven by the same residuals as another's, so that the movements of the
adversary's own weights, which it knows, span those of the others' nearly. Polynomials of t and of log t stand beside.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attacks.training_views import Equations, TrainingView
from attacks.views import ViewError
from vfl.arrays import FloatArray
from vfl.learning.learner import TrainingColumns
from vfl.theory.training import gradient_scale

# Beyond so many functions of time, own weights move by rounding and by what no other party's do.
_MOST_MOVEMENTS, _DEGREE = 6, 4
# Of conjugate gradients.
_MOST_ROUNDS = 300
# Of label terms about their two values, of shares' movements, of measurements, before any sum was seen (variances).
_FIRST_SPREAD, _FIRST_MOVEMENT, _FIRST_NOISE = 0.2, 0.5, 0.01
# One of so many steps is left out to choose functions of time; where there are fewer, there is no choice.
_FEWEST_STEPS = 10
# Tolerance where functions of time are only compared.
_ROUGH = 5e-2
# Of the largest singular value: what is below tells rounding.
_RANK = 1e-9
_TINY = 1e-300


# --- functions of time --------------------------------------------------------------------------------------------


def own_movement(view: TrainingView) -> FloatArray:
    """Tell how far own weights are from where they began, before every step seen: (steps, d * columns).

    It follows from what moved them: the sums of all peers and its own share. L2, which is small, is left out.
    """
    grouped, moved = view.by_step(), np.zeros((view.features.shape[1], view.columns))
    columns = TrainingColumns(view.features, np.unique(np.concatenate([own.rows for own in view.steps])))
    descent = view.regression.descent(
        columns, np.zeros((len(moved), 1)), classes=view.classes, parties=1 + len(view.peer_features)
    )
    path = []
    for step in view.steps:
        ahead = descent.ahead(moved, step.rows)
        path.append(ahead.ravel())
        total = view.features[step.rows].T @ step.share
        for answer in grouped[step.step].values():
            total = total + answer.sums[: len(total)]
        scale = gradient_scale("first_order", len(step.rows), view.classes)
        moved = descent.moved(moved, ahead, scale * total, step.rows)
    return np.array(path)


def time_bases(view: TrainingView) -> dict[str, FloatArray]:
    """Candidates for functions of time, by name: (steps seen, r), each with the constant 1 first, of mean square 1.

    All others are 0 at the first step, so that the constant's coefficient is the share at the start.
    """
    numbers = np.array([own.step for own in view.steps], dtype=np.float64)
    numbers -= numbers[0]
    directions, sizes, _ = np.linalg.svd(own_movement(view), full_matrices=False)
    moving = int((sizes > _RANK * max(float(sizes[0]), _TINY)).sum())
    bases = {}
    for count in dict.fromkeys(min(count, moving) for count in (_MOST_MOVEMENTS // 2, _MOST_MOVEMENTS)):
        bases[f"{count} own movements"] = directions[:, :count] * sizes[:count]
    for name, clock in (("t", numbers), ("log t", np.log1p(numbers))):
        scaled = clock / max(float(clock[-1]), 1.0)
        bases[f"polynomial of {name}"] = np.polynomial.legendre.legvander(2 * scaled - 1, _DEGREE)[:, 1:]
    return {name: _with_constant(functions) for name, functions in bases.items()}


def _with_constant(functions: FloatArray) -> FloatArray:
    started = functions - functions[0]
    size = np.sqrt((started**2).mean(axis=0))
    return np.column_stack([np.ones(len(started)), started[:, size > 0] / size[size > 0]])


# --- sums as measurements -----------------------------------------------------------------------------------------


class SmoothSums:
    """One peer's sums over some steps, as independent measurements of its shares' coefficients. Holds no matrix.

    Columns are made orthonormal over all records, so that every direction counts alike; steps of s rows are
    divided by sqrt(s). Steps of the same rows are one block: what they tell lies within the span of their functions of
    time, so that an orthonormal turn leaves r measurements of each sum of a whole training.

    Attributes:
        values: (measurements, columns), the measured numbers.
        count: of the measurements before any turn, of one column.
        beyond: the sum of squares of those that no coefficients could give, which the turn left out.
    """

    def __init__(self, view: TrainingView, equations: Sequence[Equations], basis: FloatArray) -> None:
        """Take a peer's equations.

        Args:
            view: of the adversary.
            equations: the peer's, of the steps to use.
            basis: (steps seen, r), the functions of time.
        """
        place = {own.step: at for at, own in enumerate(view.steps)}
        self.records, self.functions = view.n, basis.shape[1]
        blocks: dict[bytes, list[Equations]] = {}
        for step in equations:
            blocks.setdefault(step.rows.tobytes(), []).append(step)
        self._rows = [block[0].rows for block in blocks.values()]
        turn = whitening(view.features[np.unique(np.concatenate(self._rows))])
        if not turn.size:
            raise ViewError("The party's own features are all 0: sums of shares with them tell nothing.")
        self._features = view.features @ turn
        self._times, values, self.count, self.beyond = [], [], len(equations) * turn.shape[1], 0.0
        for block in blocks.values():
            scale = 1 / np.sqrt(len(block[0].rows))
            # Who asked for further sums got those of its own features first.
            measured = np.stack([scale * (turn.T @ one.sums[: len(turn)]) for one in block])
            times = scale * basis[[place[one.step] for one in block]]
            if len(block) > self.functions:
                orthonormal, times = np.linalg.qr(times)
                projected = np.tensordot(orthonormal.T, measured, axes=1)
                self.beyond += max(float((measured**2).sum() - (projected**2).sum()), 0.0)
                measured = projected
            self._times.append(times)
            values.append(measured.reshape(-1, measured.shape[2]))
        self.values = np.concatenate(values)

    def predicted(self, coefficients: FloatArray) -> FloatArray:
        """Predict the measurements (measurements, m) that (n, m, r) coefficients would give."""
        m = coefficients.shape[1]
        flat = coefficients.reshape(self.records, -1)
        sums = []
        for rows, times in zip(self._rows, self._times, strict=True):
            # take copies rows several times as fast as indexing does.
            shares = flat.take(rows, axis=0) @ _at_times(times, m)
            step_sums = self._features.take(rows, axis=0).T @ shares
            sums.append(step_sums.reshape(len(step_sums), len(times), m).transpose(1, 0, 2).reshape(-1, m))
        return np.concatenate(sums)

    def gathered(self, values: FloatArray) -> FloatArray:
        """Transpose ``predicted``: (n, m, r) of (measurements, m)."""
        m, width, start = values.shape[1], self._features.shape[1], 0
        total = np.zeros((self.records, m * self.functions))
        for rows, times in zip(self._rows, self._times, strict=True):
            part = values[start : (start := start + len(times) * width)].reshape(len(times), width, m)
            turned = part.transpose(1, 0, 2).reshape(width, -1) @ _at_times(times, m).T
            total[rows] = total.take(rows, axis=0) + self._features.take(rows, axis=0) @ turned
        return total.reshape(self.records, m, self.functions)

    @cached_property
    def own_blocks(self) -> FloatArray:
        """The part of ``gathered(predicted(.))`` that each record has on itself, (n, r, r)."""
        blocks = np.zeros((self.records, self.functions, self.functions))
        sizes = (self._features**2).sum(axis=1)
        for rows, times in zip(self._rows, self._times, strict=True):
            blocks[rows] += sizes[rows][:, None, None] * (times.T @ times)
        return blocks


def _at_times(functions: FloatArray, m: int) -> FloatArray:
    """Find what (m * r) coefficients are multiplied by to give a row's m shares at each of q times: (m * r, q * m)."""
    turn = np.zeros((m, functions.shape[1], len(functions), m))
    turn[range(m), :, :, range(m)] = functions.T
    return turn.reshape(m * functions.shape[1], -1)


def whitening(features: FloatArray) -> FloatArray:
    """Find what makes the columns of (n, d) features orthonormal, times sqrt(n): (d, rank)."""
    if features.shape[1] > len(features):
        # Of thousands of columns no more than records tell anything: the rest is spared the decomposition.
        directions, triangle = np.linalg.qr(features.T)
        spared: FloatArray = directions @ whitening(triangle.T)
        return spared
    _, sizes, right = np.linalg.svd(features, full_matrices=False)
    large = sizes > _RANK * max(float(sizes[0]), _TINY)
    turn: FloatArray = right[large].T / sizes[large] * np.sqrt(len(features))
    return turn


# --- what the sums tell ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class SmoothPrior:
    """What is believed of coefficients: of each record's label term, which doesn't move, and of the rest of its share.

    Attributes:
        terms: (n, columns), the label terms' means.
        term_variance: of each of them.
        mean: (columns, r), of the rest.
        covariance: (r, r), of the rest of one record and column.
        noise: variance of a measurement about what functions of time can say.
    """

    terms: FloatArray
    term_variance: float
    mean: FloatArray
    covariance: FloatArray
    noise: float

    @cached_property
    def of_sum(self) -> FloatArray:
        """Covariance of a record's coefficients, the label term included, (r, r)."""
        smallest = 1e-9 * float(np.trace(self.covariance))
        total: FloatArray = self.covariance + smallest * np.eye(len(self.covariance))
        total[0, 0] += self.term_variance
        return total

    @cached_property
    def centre(self) -> FloatArray:
        """Mean of a record's coefficients, (n, columns, r)."""
        centre = np.repeat(self.mean[None], len(self.terms), axis=0)
        centre[:, :, 0] += self.terms
        return centre

    @cached_property
    def share_of_term(self) -> FloatArray:
        """How far a record's coefficients, about their centre, tell its label term about its mean: (r,)."""
        share: FloatArray = self.term_variance * np.linalg.inv(self.of_sum)[0]
        return share


@dataclass(frozen=True, eq=False)
class SmoothPosterior:
    """What sums tell of coefficients.

    Attributes:
        terms: (n, columns), label terms' means.
        term_variance: how far they are off, squared, on average.
        rest: (n, columns, r), means of the rest.
        uncertainty: (r, r), how far these means are off, squared.
        second_moments: (r, r), of the rest about its prior mean, its uncertainty included.
        noise: mean square of what is left of a measurement, uncertainty included.
    """

    terms: FloatArray
    term_variance: float
    rest: FloatArray
    uncertainty: FloatArray
    second_moments: FloatArray
    noise: float


class SumsReader:
    """Conditions priors on all sums of one peer, again and again. Variances are those of draws (perturb and solve).

    The draws stay the same and each solution begins at the last one, so that later looks take a fraction of the first.
    """

    def __init__(self, sums: SmoothSums, columns: int, generator: np.random.Generator, *, draws: int) -> None:
        self._sums, self._columns = sums, columns
        self._terms = generator.standard_normal((sums.records, draws))
        self._rest = generator.standard_normal((sums.records, draws, sums.functions))
        self._noise = generator.standard_normal((len(sums.values), draws))
        self._solved: FloatArray | None = None
        self._centre: FloatArray | float = 0.0

    def condition(self, prior: SmoothPrior, tolerance: float) -> SmoothPosterior:
        """Find what the sums make of a prior; ``tolerance``: of conjugate gradients."""
        sums, columns = self._sums, self._columns
        terms = self._terms * np.sqrt(prior.term_variance)
        rest = self._rest @ _root(prior.covariance).T
        draws = rest.copy()
        draws[:, :, 0] += terms
        noise = self._noise * np.sqrt(prior.noise)
        targets = np.column_stack([sums.values - sums.predicted(prior.centre), sums.predicted(draws) + noise])
        if self._solved is not None:
            self._solved[:, :columns] += self._centre - prior.centre
        self._solved = solved = _solved(sums, prior, targets, tolerance, self._solved)
        self._centre = prior.centre
        means, off = solved[:, :columns].copy(), draws - solved[:, columns:]
        term_means = means @ prior.share_of_term
        term_errors = terms - solved[:, columns:] @ prior.share_of_term
        unexplained = targets[:, :columns] - sums.predicted(means)
        noise_left = (float((unexplained**2).sum()) + sums.beyond) / (columns * sums.count)
        noise_left += float((sums.predicted(off) ** 2).sum()) / (terms.shape[1] * sums.count)
        means[:, :, 0] -= term_means
        off[:, :, 0] -= term_errors
        return SmoothPosterior(
            terms=prior.terms + term_means,
            term_variance=_left_of(terms, term_errors, prior.term_variance),
            rest=prior.mean + means,
            uncertainty=(uncertainty := _moments(off)),
            second_moments=_moments(means) + uncertainty,
            noise=noise_left,
        )


def _left_of(draws: FloatArray, errors: FloatArray, variance: float) -> float:
    """Mean square of errors on draws of known variance: where errors are large, by what was told of the draws."""
    remaining = float((errors**2).mean())
    return (
        remaining
        if remaining < variance / 2
        else max(remaining / 2, variance - float((draws * (draws - errors)).mean()))
    )


def _moments(values: FloatArray) -> FloatArray:
    flat = values.reshape(-1, values.shape[2])
    return flat.T @ flat / len(flat)


def _root(covariance: FloatArray) -> FloatArray:
    values, vectors = np.linalg.eigh(covariance)
    root: FloatArray = vectors * np.sqrt(np.maximum(values, 0))
    return root


def _solved(
    sums: SmoothSums, prior: SmoothPrior, targets: FloatArray, tolerance: float, start: FloatArray | None = None
) -> FloatArray:
    """Find the most likely coefficients about the prior's centre, (n, m, r), by preconditioned conjugate gradients.

    They solve (A^T A / noise + P) x = A^T targets / noise, with the prior's precision P. The preconditioner is each
    record's own block.
    """
    precision = np.linalg.inv(prior.of_sum)
    inverses = np.linalg.inv(sums.own_blocks / prior.noise + precision)
    right = sums.gathered(targets) / prior.noise
    first = np.einsum("nmr,nmr->m", right, right @ inverses)

    def image_of(coefficients: FloatArray) -> FloatArray:
        image = sums.gathered(sums.predicted(coefficients) / prior.noise)
        image += (coefficients.reshape(-1, sums.functions) @ precision).reshape(image.shape)
        return image

    solution = np.zeros_like(right) if start is None else start.copy()
    residual = right if start is None else right - image_of(solution)
    conditioned = residual @ inverses
    direction = conditioned.copy()
    size = np.einsum("nmr,nmr->m", residual, conditioned)
    for _ in range(_MOST_ROUNDS):
        image = image_of(direction)
        length = (size / np.maximum(np.einsum("nmr,nmr->m", direction, image), _TINY))[:, None]
        solution += length * direction
        image *= length
        residual -= image
        np.matmul(residual, inverses, out=conditioned)
        size, before = np.einsum("nmr,nmr->m", residual, conditioned), size
        if (size <= tolerance**2 * first).all():
            break
        direction *= (size / np.maximum(before, _TINY))[:, None]
        direction += conditioned
    return solution


# --- which functions of time ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ChosenBasis:
    """Functions of time that were chosen by the steps left out.

    Attributes:
        name: what they are.
        functions: (steps seen, r).
        missed: which part of the mean square of sums left out they didn't predict.
    """

    name: str
    functions: FloatArray
    missed: float


def first_prior(view: TrainingView, functions: FloatArray, term_variance: float) -> SmoothPrior:
    """Say what is believed before any sum: shares move by about half a unit, less along later functions."""
    later = np.arange(1, functions.shape[1], dtype=np.float64)
    spreads = np.concatenate([[_FIRST_SPREAD], _FIRST_MOVEMENT / later**2])
    nothing = np.zeros((view.columns, functions.shape[1]))
    return SmoothPrior(np.zeros((view.n, view.columns)), term_variance, nothing, np.diag(spreads), _FIRST_NOISE)


def best_basis(view: TrainingView, equations: Sequence[Equations], term_variance: float) -> ChosenBasis:
    """Choose functions of time by how well shares that follow from other steps predict the sums of steps left out."""
    bases = time_bases(view)
    if len(equations) < _FEWEST_STEPS:
        name, functions = next(iter(bases.items()))
        return ChosenBasis(name, functions, 1.0)
    left_out = np.zeros(len(equations), dtype=np.bool_)
    left_out[np.random.default_rng(0).choice(len(equations), len(equations) // _FEWEST_STEPS, replace=False)] = True
    candidates = []
    for name, functions in bases.items():
        used, hidden = (
            SmoothSums(view, [one for one, out in zip(equations, left_out, strict=True) if out == side], functions)
            for side in (False, True)
        )
        prior = first_prior(view, functions, term_variance)
        coefficients = _solved(used, prior, used.values, _ROUGH)
        missed = float(((hidden.values - hidden.predicted(coefficients)) ** 2).sum()) + hidden.beyond
        missed /= max(float((hidden.values**2).sum()) + hidden.beyond, _TINY)
        candidates.append(ChosenBasis(name, functions, missed))
    return min(candidates, key=lambda one: one.missed)
