"""What an adversary has after training: the equations that Protocol 1 gave it, never another party's numbers.

Each step and each peer leave the adversary the sums H = Z^T v, where v is the peer's share of the residual f and Z the
adversary's own features of the batch, more of them if it extended them (Hu, section 5.2). With as many independent
columns in Z as there are rows, v follows (Theorem 3.1). ``first_order`` shares add up to f. The other approximations
have no shares: there v is f itself, from a gradient oracle under the name ``ORACLE`` (``cipher=plain`` only).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from attacks.solving.told_bins import ToldColumn
from attacks.views import PassiveMoments, ViewError
from vfl.arrays import FloatArray, IntArray
from vfl.learning import registry as learners
from vfl.learning.hearing import NodeSums
from vfl.learning.learner import Learner
from vfl.learning.linear.regression import LinearRegression
from vfl.theory.training import Approximation, OracleRun, check_approximation

# The peer of equations whose unknown is the whole residual.
ORACLE = "oracle"

_ROUNDING = 2.0**-52
_MOST_GRID_BITS = 32
# Any fixed point's numbers are below the first; a sum no larger than the second is 0 but for rounding.
_MOST_SUMMED, _LEAST_SUM = 2.0**64, 1e-100


@dataclass(frozen=True, eq=False)
class Equations:
    """The equations matrix^T v = sums, from one peer at one step.

    Attributes:
        step: counted from 0.
        peer: who answered.
        rows: (s,) indices in the common order.
        matrix: (s, D), the adversary's own features of the batch, extended or not.
        sums: (D, columns).
        steps: (D,) the grid of each column: entries are whole multiples of it, but for rounding. None where the
            adversary has to find out.
    """

    step: int
    peer: str
    rows: IntArray
    matrix: FloatArray
    sums: FloatArray
    steps: FloatArray | None = None

    def whole_numbers(self) -> tuple[IntArray, FloatArray] | None:
        """Write the matrix as (s, D) whole numbers and the (D,) steps that they count; None where there is no grid."""
        if self.steps is None:
            return _in_powers_of_two(self.matrix)
        integers = np.rint(self.matrix / self.steps)
        fits = np.abs(integers * self.steps - self.matrix) <= 2 * _ROUNDING * np.abs(self.matrix)
        return (integers.astype(np.int64), self.steps) if fits.all() else None


def _in_powers_of_two(matrix: FloatArray) -> tuple[IntArray, FloatArray] | None:
    """Whole numbers times the largest power of two that does, down to 2^-32."""
    for bits in range(_MOST_GRID_BITS + 1):
        scaled = matrix * 2.0**bits
        if (scaled == np.rint(scaled)).all():
            return scaled.astype(np.int64), np.full(matrix.shape[1], 2.0**-bits)
    return None


@dataclass(frozen=True, eq=False)
class OwnStep:
    """What the adversary computed itself at one step.

    Attributes:
        step: counted from 0.
        rows: (s,) indices in the common order.
        share: (s, columns), its share of f before its own defences; for a non-linear approximation its product. Of a
            network its products X W, and at the label party its backward signal.
    """

    step: int
    rows: IntArray
    share: FloatArray


@dataclass(frozen=True, eq=False)
class Forwarded:
    """What the label party of a network has at one step: the others' part of the first layer, and its own way back.

    Attributes:
        step: counted from 0.
        rows: (s,) indices in the common order.
        products: (s, columns), the first layer's products X W, summed over all passive parties.
        backward: (s, columns), the gradient of each record's own loss with respect to the layer's input.
    """

    step: int
    rows: IntArray
    products: FloatArray
    backward: FloatArray


@dataclass(frozen=True, eq=False)
class KnownRecords:
    """Records whose passive columns the label party knows anyway.

    Attributes:
        rows: (m,) indices in the common order, each once.
        features: (m, D), of all peers together, in the order of ``peer_features``.
    """

    rows: IntArray
    features: FloatArray


@dataclass(frozen=True, eq=False, kw_only=True)
class TrainingView:
    """What one party saw of a training, or of some of its steps.

    Attributes:
        role: whether it has the labels.
        features: (n, d), own, in the common order, the bias included.
        steps: own part of each step seen, in order.
        equations: each step's, once per peer; of a network the label party's only, whose v is its ``backward``. Where
            that came in the clear, the matrix is the identity.
        peer_features: features of every peer, the label party's bias included; public since the session's agreement.
        label_party: which peer has the labels; None when the adversary has.
        learner: what is trained, with its options, as the plan says.
        classes: how many the labels have.
        batch_size: the plan's.
        labels: (n,) class indices, the active party's only.
        label_party_bias: whether one of that peer's features is the constant 1, as always in this project's sessions.
        approximation: of the loss.
        share_step: the grid of the shares, 2^-fraction_bits; 0 where they are floating point. Public.
        steps_per_epoch: the plan's; None where steps count as one epoch.
        records: (n,) which record of the adversary's own table each row is; None where only one session is seen.
        earlier: what it saw of earlier sessions, each with its ``records``.
        forwarded: each step's, of the label party of a network only.
        known_labels: (n,) class indices of records whose label a passive party knows anyway, -1 elsewhere.
        known_records: what the label party knows of the others' columns anyway.
        moments: statistics of the others' columns that it knows beforehand, in the order of ``peer_features``.
        leaves: (n, trees) the number of the leaf that each row has reached, of boosted trees; 0 for rows in no tree.
        bin_sums: by peer and number of its column in the session, sums over its bins with their tree, of boosted trees;
            the label party's only.
        told_columns: likewise, what is told of a column whatever the number of records.
        knows_own_weights: whether it was told its weights; otherwise what stands in for its part is a uniform share's.

    Raises ViewError when a piece is missing, doesn't fit the others, or holds NaN or infinity.

    Examples:
        A passive party whose two features tell the residuals of a step of two records:

        >>> from attacks.training_views import Equations, OwnStep
        >>> from vfl.learning import registry
        >>> rows, own = np.array([0, 1]), np.array([[1.0, 0.5], [0.0, 1.0]])
        >>> view = TrainingView(
        ...     role="passive",
        ...     features=own,
        ...     steps=(OwnStep(0, rows, share=np.zeros((2, 1))),),
        ...     equations=(Equations(0, "bank", rows, matrix=own, sums=np.array([[-2.0], [1.0]])),),
        ...     peer_features={"bank": 2},
        ...     label_party="bank",
        ...     learner=registry.load("linear"),
        ...     classes=2,
        ...     batch_size=2,
        ... )
        >>> solve_steps(view)[0].residual
        array([[-2.],
               [ 2.]])
        >>> result: TrainingResult = load_training("label_recovery").attack(view)
        >>> result.kind, result.arrays()["labels"]
        ('labels', array([1, 0]))
    """

    role: Literal["active", "passive"]
    features: FloatArray
    steps: tuple[OwnStep, ...]
    equations: tuple[Equations, ...]
    peer_features: Mapping[str, int]
    label_party: str | None
    learner: Learner
    classes: int
    batch_size: int
    labels: IntArray | None = None
    label_party_bias: bool = True
    approximation: Approximation = "first_order"
    share_step: float = 2.0**-32
    steps_per_epoch: int | None = None
    records: IntArray | None = None
    earlier: "tuple[TrainingView, ...]" = ()
    forwarded: tuple[Forwarded, ...] = ()
    known_labels: IntArray | None = None
    known_records: KnownRecords | None = None
    moments: PassiveMoments | None = None
    leaves: IntArray | None = None
    bin_sums: Mapping[tuple[str, int], Sequence[tuple[int, NodeSums]]] = field(default_factory=dict)
    told_columns: Mapping[tuple[str, int], ToldColumn] = field(default_factory=dict)
    knows_own_weights: bool = True

    def __post_init__(self) -> None:
        self._check_plan()
        self._check_role()
        if self.features.ndim != 2 or not np.isfinite(self.features).all():
            raise ViewError("features must be a (n, d) matrix of finite numbers: give the party's encoded features.")
        if not self.steps:
            raise ViewError("steps is empty: run at least one step of training before the attack.")
        for step in self.steps:
            _check_array("share", step.step, step.share, (len(step.rows), self.columns))
            if step.rows.min(initial=0) < 0 or step.rows.max(initial=0) >= self.n:
                raise ViewError(
                    f"rows of step {step.step} leave the {self.n} records: give indices in the common order."
                )
        by_step = {own.step: own for own in self.steps}
        if len(by_step) != len(self.steps) or list(by_step) != sorted(by_step):
            raise ViewError("steps must be in order, each step once.")
        self._check_equations(by_step)
        self._check_forwarded(by_step)
        self._check_known()
        if any(one.records is None or one.records.shape != (one.n,) for one in (self, *self.earlier) if self.earlier):
            raise ViewError("Sessions are joined by their records: give this view and earlier ones (n,) records each.")

    @property
    def n(self) -> int:
        """Records in the common order."""
        return len(self.features)

    @property
    def columns(self) -> int:
        """Columns of what is sent in a step: of a residual."""
        return self.learner.columns(self.classes)

    @property
    def regression(self) -> LinearRegression:
        """The linear learner; raises ViewError where another one is trained."""
        if not isinstance(self.learner, LinearRegression):
            raise ViewError(f"This view is of the learner {self.learner.name}: give one of linear.")
        return self.learner

    @property
    def label_party_features(self) -> int:
        """d_A: the label party's features without its bias."""
        if self.label_party is None:
            raise ViewError("label_party_features is a question for a passive party's view: this one has the labels.")
        return self.peer_features[self.label_party] - self.label_party_bias

    @property
    def linear(self) -> bool:
        """Whether f is a sum over parties."""
        return self.approximation == "first_order"

    def by_step(self) -> dict[int, dict[str, Equations]]:
        """Group all equations, by step and peer."""
        grouped: dict[int, dict[str, Equations]] = {own.step: {} for own in self.steps}
        for equations in self.equations:
            grouped[equations.step][equations.peer] = equations
        return grouped

    @property
    def why_unreadable(self) -> str:
        """Why its sums say nothing of single records, whatever is made of them; empty where they may."""
        sizes = [float(np.abs(one.sums).max(initial=0.0)) for one in self.equations]
        most = [_MOST_SUMMED * max(1.0, float(np.abs(one.matrix).sum())) for one in self.equations]
        if max(sizes) <= _LEAST_SUM:
            return "they are all zero"
        if any(size > limit for size, limit in zip(sizes, most, strict=True)):
            return "they are too large for any residuals"
        first = self.equations[0].matrix[:1]
        is_alike = all(
            one.matrix.shape[1:] == first.shape[1:] and (one.matrix == first).all() for one in self.equations
        )
        if is_alike and max(len(one.rows) for one in self.equations) > 1:
            return "its own columns are the same in all records"
        return ""

    def _check_plan(self) -> None:
        if self.classes < 2 or self.batch_size < 1:
            raise ViewError(
                f"Expected classes >= 2, batch_size >= 1; got {self.classes}, {self.batch_size}: copy them from the "
                "session's plan."
            )
        try:
            check_approximation(self.approximation, self.classes)
        except ValueError as error:
            raise ViewError(f"approximation: {error}") from error

    def _check_role(self) -> None:
        if self.role == "active" and (self.labels is None or self.label_party is not None):
            raise ViewError("An active party's view needs its labels, and no other label_party: give labels.")
        if self.role == "passive" and (self.labels is not None or self.label_party not in self.peer_features):
            raise ViewError(
                "A passive party's view has no labels and must name the label_party among peer_features: "
                "take labels out and name the active party."
            )
        if self.labels is not None and self.labels.shape != (self.n,):
            raise ViewError(f"labels has shape {self.labels.shape}; with these features it must be ({self.n},).")

    def _check_equations(self, by_step: Mapping[int, OwnStep]) -> None:
        pairs: set[tuple[int, str]] = set()
        senders = set(self.peer_features) if self.linear else {ORACLE}
        for equations in self.equations:
            step, peer = equations.step, equations.peer
            if step not in by_step or not np.array_equal(by_step[step].rows, equations.rows):
                raise ViewError(f"equations of step {step} have no own part with the same rows: give that step too.")
            if peer not in senders or (step, peer) in pairs:
                raise ViewError(
                    f"equations of step {step} with {peer!r}: expected one each with {', '.join(sorted(senders))}."
                )
            pairs.add((step, peer))
            if equations.matrix.ndim != 2 or equations.matrix.shape[1] == 0:
                raise ViewError(f"equations of step {step} with {peer!r}: matrix must be (s, D) with D >= 1.")
            _check_array("matrix", step, equations.matrix, (len(equations.rows), equations.matrix.shape[1]))
            _check_array("sums", step, equations.sums, (equations.matrix.shape[1], self.columns))
            if equations.steps is not None:
                _check_array("steps", step, equations.steps, (equations.matrix.shape[1],))

    def _check_known(self) -> None:
        labels, records = self.known_labels, self.known_records
        if self.leaves is not None and (self.leaves.ndim != 2 or len(self.leaves) != self.n):
            raise ViewError(f"leaves has shape {self.leaves.shape}: give ({self.n}, trees).")
        columns = sum(self.peer_features.values())
        if self.moments is not None and len(self.moments.mean) != columns:
            raise ViewError(f"moments tell of {len(self.moments.mean)} columns, and the other parties have {columns}.")
        if labels is not None and (labels.shape != (self.n,) or labels.min() < -1 or labels.max() >= self.classes):
            raise ViewError(f"known_labels must be ({self.n},) class indices, -1 where a label isn't known.")
        if records is None:
            return
        expected = (len(records.rows), sum(self.peer_features.values()))
        if records.features.shape != expected or not np.isfinite(records.features).all():
            raise ViewError(f"known_records must have {expected} finite features: one row each, all peers' columns.")
        if len(np.unique(records.rows)) != len(records.rows) or not np.isin(records.rows, np.arange(self.n)).all():
            raise ViewError(f"known_records has a row twice, or beyond the {self.n} records: give each once.")

    def _check_forwarded(self, by_step: Mapping[int, OwnStep]) -> None:
        if self.forwarded and (self.role != "active" or self.learner.spec.answers == "scores"):
            raise ViewError("Only the label party of a network is forwarded a layer: take forwarded out.")
        numbers = [one.step for one in self.forwarded]
        if len(set(numbers)) != len(numbers):
            raise ViewError("forwarded has a step twice: give each step once.")
        for step in self.forwarded:
            if step.step not in by_step or not np.array_equal(by_step[step.step].rows, step.rows):
                raise ViewError(
                    f"forwarded of step {step.step} has no own part with the same rows: give that step too."
                )
            _check_array("products", step.step, step.products, (len(step.rows), self.columns))
            _check_array("backward", step.step, step.backward, (len(step.rows), self.columns))


def _check_array(name: str, step: int, value: FloatArray, shape: tuple[int, ...]) -> None:
    if value.shape != shape:
        raise ViewError(f"{name} of step {step} has shape {value.shape}; with the other pieces it must be {shape}.")
    if not np.isfinite(value).all():
        raise ViewError(f"{name} of step {step} holds NaN or infinity: leave that step out.")


# --- solving the equations ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class SolvedShares:
    """What one set of equations tells.

    Attributes:
        values: (s, columns), or None when the equations don't determine it.
        rank: of the matrix.
        condition_number: largest over smallest singular value counted in the rank.
        error: an estimate of the largest absolute error that rounding leaves in a value; infinite without values.
        reason: why there are no values, with the numbers; empty when there are.
    """

    values: FloatArray | None
    rank: int
    condition_number: float
    error: float
    reason: str = ""


def solve_shares(equations: Equations, *, tolerance: float = 1e-6, share_step: float = 0.0) -> SolvedShares:
    """Find the unique v with matrix^T v = sums, by singular value decomposition (Hu Theorem 3.1, Cor. 3.2, eq. 39).

    Not possible, and reported so, when s > D, when the rank is below s (constant or repeated features), when rounding
    alone could move a value by more than ``tolerance``, or when the equations contradict each other by more than it.

    share_step: the grid that v lies on; where the error is below half of it, values are exact after rounding to it.
    """
    rows, columns = equations.matrix.shape
    if rows > columns:
        rank = int(np.linalg.matrix_rank(equations.matrix))
        fewer = f"Not possible: {rows} records in a step and {columns} sums about them, fewer than there are records."
        return SolvedShares(None, rank, float("nan"), np.inf, fewer)
    left_vectors, singular, right = np.linalg.svd(equations.matrix, full_matrices=False)
    significant = singular[singular > max(rows, columns) * _ROUNDING * singular.max(initial=0.0)]
    rank = len(significant)
    condition = float(significant[0] / significant[-1]) if rank else np.inf
    if rank < rows:
        repeating = (
            f"Not possible: {rows} records in a step, and of {columns} sums about them {columns - rank} repeat what "
            "others say: columns are constant, or follow from each other."
        )
        return SolvedShares(None, rank, condition, np.inf, repeating)
    values: FloatArray = left_vectors @ (right @ equations.sums / singular[:, None])
    scale = float(np.abs(equations.sums).max(initial=0.0)) + float(singular[0] * np.abs(values).max(initial=0.0))
    # One rounding of the sums and a few of the decomposition, none of them amplified by more than 1 / sigma_min.
    error = 8 * _ROUNDING * scale / float(singular[-1])
    numbers = f"{rows} records in a step, {columns} sums about them"
    if error > tolerance:
        return SolvedShares(
            None,
            rank,
            condition,
            np.inf,
            f"Not possible: rounding leaves a result off by {error:.2g} ({numbers}).",
        )
    contradiction = float(np.abs(equations.matrix.T @ values - equations.sums).max(initial=0.0))
    if contradiction > tolerance * max(1.0, scale):
        return SolvedShares(
            None,
            rank,
            condition,
            np.inf,
            f"Not possible: the sums contradict each other by {contradiction:.2g} ({numbers}): noise was added.",
        )
    if share_step and error < share_step / 4:
        values = np.rint(values / share_step) * share_step
    return SolvedShares(values, rank, condition, error)


@dataclass(frozen=True, eq=False)
class StepSolution:
    """One step's shares of every peer, as far as they follow.

    Attributes:
        own: the adversary's own part.
        shares: what each peer's equations tell, by peer.
        residual: f, (s, columns), or None unless every share follows.
        error: of f, the sum of the shares' errors.
    """

    own: OwnStep
    shares: Mapping[str, SolvedShares]
    residual: FloatArray | None
    error: float

    @property
    def reason(self) -> str:
        """Why f doesn't follow; empty when it does."""
        return next((f"{peer}: {solved.reason}" for peer, solved in self.shares.items() if solved.reason), "")

    @property
    def rank(self) -> int:
        """The smallest rank of the step's equations; 0 without any."""
        return min((solved.rank for solved in self.shares.values()), default=0)

    @property
    def condition_number(self) -> float:
        """The largest condition number of the step's equations."""
        return max((solved.condition_number for solved in self.shares.values()), default=float("nan"))


def solve_steps(view: TrainingView, *, tolerance: float = 1e-6) -> tuple[StepSolution, ...]:
    """Solve all equations of a view. f is the own share plus those of all peers, or the oracle's."""
    solutions = []
    grouped = view.by_step()
    peers = tuple(view.peer_features) if view.linear else (ORACLE,)
    # Values off the grid are not rounded: without Paillier, or for the oracle's f, which lies on no grid.
    grid = view.share_step if view.linear else 0.0
    for step in view.steps:
        equations = grouped[step.step]
        solved = {
            peer: solve_shares(equations[peer], tolerance=tolerance, share_step=grid)
            if peer in equations
            else SolvedShares(None, 0, float("nan"), np.inf, f"Not possible: nothing was received at step {step.step}.")
            for peer in peers
        }
        residual: FloatArray | None = step.share if view.linear else np.zeros_like(step.share)
        for share in solved.values():
            residual = None if residual is None or share.values is None else residual + share.values
        solutions.append(StepSolution(step, solved, residual, sum(share.error for share in solved.values())))
    return tuple(solutions)


# --- simulation ---------------------------------------------------------------------------------------------------


def _steps_of(run: OracleRun) -> dict[str, Any]:
    """Give the options of linear whose steps a run took."""
    if not run.own_moments:
        return {"learning_rate": run.learning_rate}
    return {"learning_rate": run.learning_rate * len(run.blocks) / 2, "steps": "own_moments"}


def simulated_view(
    run: OracleRun,
    party: int,
    *,
    initialisation: str,
    label_party_bias: bool,
    steps: slice = slice(None),
    share_step: float = 0.0,
) -> TrainingView:
    """Make the view of a party (an index; peers are named party-0, party-1, ...) of a simulated training.

    steps: which of the run's steps; matrices are copies, so a long run of wide features is best cut by epoch.
    """
    peers = [index for index in range(len(run.blocks)) if index != party]
    own_steps, equations = [], []
    for number in range(len(run.steps))[steps]:
        step = run.steps[number]
        matrix = run.blocks[party][step.rows]
        own_steps.append(OwnStep(number, step.rows, step.shares[party]))
        if run.approximation == "first_order":
            unknown = {f"party-{index}": step.shares[index] for index in peers}
        else:
            unknown = {ORACLE: step.residual}
        equations += [Equations(number, peer, step.rows, matrix, matrix.T @ share) for peer, share in unknown.items()]
    active = party == run.label_party
    return TrainingView(
        role="active" if active else "passive",
        features=run.blocks[party],
        steps=tuple(own_steps),
        equations=tuple(equations),
        peer_features={f"party-{index}": run.blocks[index].shape[1] for index in peers},
        label_party=None if active else f"party-{run.label_party}",
        learner=learners.load("linear", l2=run.l2, initialisation=initialisation, **_steps_of(run)),
        classes=run.classes,
        batch_size=run.batch_size,
        labels=run.labels if active else None,
        label_party_bias=label_party_bias,
        approximation=run.approximation,
        share_step=share_step,
    )
