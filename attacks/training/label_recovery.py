"""Labels from gradients: what a passive party reads off its own sums (Hu, section 4, appendices E.2 and F.2).

Which f is used. With equations from all peers it is the whole f = theta^T x - 2 y, as in the paper. Where only the
label party's share follows, it is that, g^A - 2 y: the same criterion with g^A in the place of theta^T x, and the same
T_eps, because |g^A| obeys Lemma 4.4's recursion too (``vfl.theory.training.guaranteed_steps``).
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from attacks.base import AttackSpec, require
from attacks.training.label_search import (
    LabelAnswer,
    LabelSearch,
    SearchBudget,
    common_offset,
    label_sums,
    label_terms,
)
from attacks.training.recovered_labels import UNRESOLVED, Method, RecoveredLabels, Source, StepLabels
from attacks.training.summed_shares import assumed_squared_norm, first_product_bound, summed_over_epochs
from attacks.training.unmoved_sums import about_the_same_rows, labels_of_unmoved_sums
from attacks.training_views import (
    ORACLE,
    Equations,
    OwnStep,
    StepSolution,
    TrainingView,
    solve_steps,
)
from attacks.views import ViewError
from vfl.arrays import BoolArray, FloatArray, IntArray
from vfl.theory.training import (
    gradient_scale,
    guaranteed_steps,
    residual,
)

# Of a piecewise approximation, residuals beyond this aren't 0.
_CLEAR = 1e-6


@dataclass(frozen=True)
class LabelRecovery:
    """Criterion 4.2, y = -sign(f), for as long as theory lets it (T_eps) and beyond, flagged; Theorem 4.1 for d_A = 0.

    Attributes:
        squared_norm: the largest ||x||^2 of a whole row, which the adversary must assume: 1 as in the paper, 2 with
            unit-norm rows and a bias. It is raised to what its own features and the bias already come to. Only the
            guarantee depends on it, and is as good as this assumption about the others' features.
        free_signs: Theorem 4.1's search takes 2^(free_signs / 2) steps per batch. What needs more is left to lattices.
        lattice_rows: the most rows whose labels lattice reduction looks for together.
        lattice_tours: how often blocks are reduced beyond LLL; each takes some seconds.

    Where it applies:
    - d_A = 0: the label party has no feature but perhaps its bias. Its shares are label terms and one number, the bias.
      Zero initialisation makes that known at the first step and each recovered batch at the next; else the grid of the
      shares does. Labels follow for any weights, and from s > D equations as well.
    - Zero weights: at the first step g^A is 0 whatever features the label party has, so that the labels of the first
      batch follow from fewer equations than it has rows. So they do later, as long as no sum shows a weight that moved.
    - Noise on the label party's shares (``dp_noise``) shows by their size. Nothing is guaranteed then, and a record's
      label is what the sum of its shares over all epochs tells (``attacks.training.summed_shares``).
    - One passive party is enough; with several, all of its peers' sums give f, the label party's alone g^A - 2 y.

    How labels follow from fewer equations: by a search over signs where few are open (Theorem 4.1), which proves that
    nothing else fits; else by lattice reduction (``solving.lattice_labels``), as far as whole numbers hold more bits
    than labels. Where the label party has fewer columns than the adversary, its weights leave some sums of a batch
    unmoved, and these are of labels alone (``training.unmoved_sums``). Steps that don't tell alone are joined: their
    equations add up over the rows that they share. Several solutions are reported, not guessed.
    """

    squared_norm: float = 1.0
    free_signs: int = 32
    lattice_rows: int = 320
    lattice_tours: int = 4

    name: ClassVar[str] = "label_recovery"
    spec: ClassVar[AttackSpec] = AttackSpec(
        adversary="passive",
        phase="training",
        needs=("equations",),
        source="Hu, Theorem 4.1, Criterion 4.2, Corollary 4.5, Theorems 4.6-4.10, E.3, F.2; lattices: ours",
        learners=("linear",),
        summary="reads labels from the signs of residuals, or finds them as short vectors of a lattice",
        cost="seconds",
        seconds=lambda extent: 0.5 + 0.001 * extent.steps,
    )

    def attack(self, view: TrainingView) -> RecoveredLabels:
        """Recover the labels of all rows in the view's batches. Raises ViewError for the active party's view."""
        if view.role != "passive" or view.label_party is None:
            raise ViewError("label_recovery is a passive party's attack: the active party has the labels.")
        require(self, view)
        solutions = solve_steps(view)
        budget = SearchBudget(self.free_signs, self.lattice_rows, self.lattice_tours)
        search = LabelSearch(view.n, view.classes, budget)
        if view.linear and view.label_party_features == 0:
            epsilon, limit = 0.0, None
            steps = self._without_features(view, solutions, search)
        else:
            epsilon, limit = self._guarantee(view)
            steps = self._with_features(view, solutions, search, limit)
        joint_labels = search.joined()
        completed = tuple(
            _with_known(view, step, joint_labels[step.rows]) if step.step in search.open_steps else step
            for step in steps
        )
        overall = _overall(view, completed, limit, epsilon)
        return summed_over_epochs(view, solutions, overall, norm=self.squared_norm)

    def _guarantee(self, view: TrainingView) -> tuple[float, int | None]:
        if view.approximation == "piecewise":
            return float("nan"), None
        squared_norm = assumed_squared_norm(view, self.squared_norm)
        epsilon = first_product_bound(view, squared_norm)
        if view.regression.steps != "plain":
            # How far another party's moments move its products is unknown: of the first step alone they are bounded.
            return epsilon, int(epsilon < 2)
        limit = guaranteed_steps(
            view.regression.learning_rate,
            epsilon,
            approximation=view.approximation,
            classes=view.classes,
            squared_norm=squared_norm,
        )
        return epsilon, limit

    def _with_features(
        self, view: TrainingView, solutions: tuple[StepSolution, ...], search: LabelSearch, limit: int | None
    ) -> list[StepLabels]:
        """Criterion 4.2 where shares are solved for; a search where residuals are labels alone."""
        steps = []
        grouped = view.by_step()
        for solution in solutions:
            estimate = self._by_sign(view, solution, limit)
            equations = grouped[solution.own.step].get(str(view.label_party))
            if estimate.method == "none" and view.linear and equations is not None:
                if _is_labels_alone(view, equations):
                    estimate = _searched(view, solution, search.at_step(equations, np.zeros(view.columns)))
                else:
                    estimate = replace(estimate, reason=f"{estimate.reason} {_what_stops_labels(view)}")
            steps.append(estimate)
        return self._with_unmoved(view, solutions, steps) if view.linear else steps

    def _with_unmoved(
        self, view: TrainingView, solutions: tuple[StepSolution, ...], steps: list[StepLabels]
    ) -> list[StepLabels]:
        """Complete steps that tell nothing alone with what the sums of their batch tell that no weight ever moves."""
        columns = view.label_party_features + view.label_party_bias
        if columns >= view.features.shape[1] or all(step.method != "none" for step in steps):
            return steps
        labels = np.full(view.n, UNRESOLVED, dtype=np.int64)
        for rows, equations in about_the_same_rows(view):
            answer = labels_of_unmoved_sums(equations, columns, view.classes, view.share_step, self.lattice_rows)
            if answer.labels is not None:
                labels[rows] = answer.labels
        return [
            step
            if step.method != "none" or (labels[step.rows] == UNRESOLVED).any()
            else _searched(view, solution, LabelAnswer(labels[step.rows], True, "lattice"))
            for step, solution in zip(steps, solutions, strict=True)
        ]

    def _by_sign(self, view: TrainingView, solution: StepSolution, limit: int | None) -> StepLabels:
        values, source = _observed(view, solution)
        if values is None:
            return _nothing(solution)
        if view.approximation == "piecewise":
            # F.2: f is 0 where the record is beyond doubt, and then says nothing; otherwise its sign always tells.
            size = np.abs(values[:, 0])
            clear = size > max(_CLEAR, 2 * solution.error)
            labels = np.where(clear, (values[:, 0] < 0).astype(np.int64), UNRESOLVED)
            return _step(solution, labels, np.where(clear, size, 0.0), clear, "theorem_F.2", "f")
        labels, margin = _decide(values)
        guaranteed = np.full(len(labels), limit is None or solution.own.step < limit)
        return _step(solution, labels, margin, guaranteed, "criterion_4.2", source)

    # -- Theorem 4.1 -----------------------------------------------------------------------------------------------

    def _without_features(
        self, view: TrainingView, solutions: tuple[StepSolution, ...], search: LabelSearch
    ) -> list[StepLabels]:
        """Labels of each step from label terms and a bias."""
        party = str(view.label_party)
        grouped = view.by_step()
        offset = _initial_offset(view)
        steps = []
        expected = 0
        for solution in solutions:
            step, equations = solution.own, grouped[solution.own.step].get(party)
            if step.step != expected:
                offset = None if view.label_party_bias else offset
            if offset is None and equations is not None:
                offset = common_offset(equations, view.classes, view.share_step)
            if solution.shares[party].values is None and offset is not None and equations is not None:
                estimate = _searched(view, solution, search.at_step(equations, offset))
            else:
                estimate = _by_offset(view, solution, offset)
            offset = _next_offset(view, solution, estimate, offset)
            expected = step.step + 1
            steps.append(estimate)
        return steps


# --- shares ---------------------------------------------------------------------------------------------------


def label_party_products(
    view: TrainingView, solutions: tuple[StepSolution, ...], labels: IntArray
) -> dict[int, FloatArray]:
    """Remark 4.9: with the labels, g^A of each solved step, (s, columns); NaN for rows without a label."""
    products = {}
    for solution in solutions:
        values = solution.shares[str(view.label_party)].values
        if values is None:
            continue
        step_labels = labels[solution.own.rows]
        terms = residual("first_order", np.zeros_like(values), np.maximum(step_labels, 0), view.classes)
        products[solution.own.step] = np.where((step_labels == UNRESOLVED)[:, None], np.nan, values - terms)
    return products


def _observed(view: TrainingView, solution: StepSolution) -> tuple[FloatArray | None, Source]:
    if solution.residual is not None:
        return solution.residual, "f"
    party = ORACLE if not view.linear else str(view.label_party)
    values = solution.shares[party].values
    return values, "none" if values is None else "label_share"


def _decide(values: FloatArray) -> tuple[IntArray, FloatArray]:
    """Labels and margins of (s, columns) residuals: y = -sign(f), or the class with the smallest f."""
    if values.shape[1] == 1:
        return (values[:, 0] < 0).astype(np.int64), np.abs(values[:, 0])
    ordered = np.sort(values, axis=1)
    return values.argmin(axis=1).astype(np.int64), ordered[:, 1] - ordered[:, 0]


def _searched(view: TrainingView, solution: StepSolution, answer: LabelAnswer) -> StepLabels:
    """Take a step's labels as a search found them: as far from others as the two label terms are from their middle."""
    if answer.labels is None:
        return _nothing(solution, answer.reason)
    low, high = label_terms(view.classes)
    margin = np.full(len(answer.labels), (high - low) / 2)
    sure = np.full(len(answer.labels), answer.certain)
    return _step(solution, answer.labels, margin, sure, answer.method, "label_share")


def _is_labels_alone(view: TrainingView, equations: Equations) -> bool:
    """Tell whether the label party's weights are zero, or have moved by too little for any sum to show it."""
    if view.regression.initialisation != "zero":
        return False
    return equations.step == 0 or label_sums(equations, np.zeros(view.columns), view.classes) is not None


def _what_stops_labels(view: TrainingView) -> str:
    """Say why labels don't follow from fewer equations than rows."""
    party = view.label_party
    if view.regression.initialisation == "zero":
        why = f"{party}'s weights have moved since they were zero, by numbers that depend on features nobody else knows"
    else:
        why = f"{party}'s weights started at private random values (initialisation={view.regression.initialisation})"
    return f"Labels alone can't be searched for: {why}, so its residuals aren't two known values but numbers near them."


def _with_known(view: TrainingView, step: StepLabels, labels: IntArray) -> StepLabels:
    """Complete a step whose sums tell too little with the labels that others, or all together, tell of its rows."""
    resolved = labels != UNRESOLVED
    if not resolved.any():
        return step
    low, high = label_terms(view.classes)
    margin = np.where(resolved, (high - low) / 2, 0.0)
    reason = "" if resolved.all() else step.reason
    return replace(
        step, labels=labels, margin=margin, guaranteed=resolved, method="joined", source="label_share", reason=reason
    )


def _initial_offset(view: TrainingView) -> FloatArray | None:
    """Tell what g^A is at step 0 where the label party has at most a bias: (columns,); None when unknown."""
    if not view.label_party_bias or view.regression.initialisation == "zero":
        return np.zeros(view.columns)
    return None


def _by_offset(view: TrainingView, solution: StepSolution, offset: FloatArray | None) -> StepLabels:
    """Labels from a solved share offset + label term. Its two values lie 4 (or k) apart, whatever the offset is."""
    values = solution.shares[str(view.label_party)].values
    if values is None:
        return _nothing(solution)
    low, high = label_terms(view.classes)
    if offset is None:
        lowest, highest = values.min(axis=0), values.max(axis=0)
        if not (np.abs(highest - lowest - (high - low)) < 1e-3).all():
            return _nothing(solution, "The label party's bias is unknown, and the batch doesn't show both values.")
        offset = lowest - low
    labels, _ = _decide(values - offset)
    nearest = np.minimum(np.abs(values - offset - low), np.abs(values - offset - high))
    sure = nearest.max(axis=1) < 1e-3
    margin = np.full(len(labels), (high - low) / 2)
    return _step(solution, labels, margin, sure, "theorem_4.1", "label_share")


def _next_offset(
    view: TrainingView, solution: StepSolution, estimate: StepLabels, offset: FloatArray | None
) -> FloatArray | None:
    """Find the bias after a plain step: its gradient is the sum of f, which labels tell (Hu eq. 3). L2 spares it."""
    party = str(view.label_party)
    if not view.label_party_bias:
        return np.zeros(view.columns)
    if (estimate.labels == UNRESOLVED).any() or view.regression.steps != "plain":
        return None
    rows = len(estimate.labels)
    terms = residual("first_order", np.zeros((rows, view.columns)), estimate.labels, view.classes)
    values = solution.shares[party].values
    if values is not None:
        offset = np.asarray((values - terms).mean(axis=0))
    shares: FloatArray = solution.own.share.copy()
    for peer, solved in solution.shares.items():
        if peer != party:
            if solved.values is None:
                return None
            shares += solved.values
    if offset is None:
        return None
    total = (shares + terms).sum(axis=0) + rows * offset
    moved: FloatArray = (
        offset - view.regression.learning_rate * gradient_scale("first_order", rows, view.classes) * total
    )
    return moved


def _step(
    solution: StepSolution,
    labels: IntArray,
    margin: FloatArray,
    guaranteed: BoolArray,
    method: Method,
    source: Source,
    reason: str = "",
) -> StepLabels:
    step: OwnStep = solution.own
    return StepLabels(
        step.step,
        step.rows,
        labels,
        margin,
        guaranteed,
        solution.rank,
        solution.condition_number,
        method,
        source,
        reason,
    )


def _nothing(solution: StepSolution, reason: str = "") -> StepLabels:
    rows = len(solution.own.rows)
    return _step(
        solution,
        np.full(rows, UNRESOLVED, dtype=np.int64),
        np.zeros(rows),
        np.zeros(rows, dtype=np.bool_),
        "none",
        "none",
        reason or solution.reason,
    )


def _overall(view: TrainingView, steps: tuple[StepLabels, ...], limit: int | None, epsilon: float) -> RecoveredLabels:
    """Choose a row's first guaranteed label; without one, its first.

    What theta^T x adds to a label's term grows with every step (Lemma 4.4), so that later answers only outvote better
    ones. Where noise makes all of them poor, ``summed_over_epochs`` adds them up instead.
    """
    labels = np.full(view.n, UNRESOLVED, dtype=np.int64)
    guaranteed = np.zeros(view.n, dtype=np.bool_)
    for step in steps:
        resolved = step.labels != UNRESOLVED
        first = resolved & (labels[step.rows] == UNRESOLVED)
        sure = resolved & step.guaranteed & ~guaranteed[step.rows]
        labels[step.rows[first | sure]] = step.labels[first | sure]
        guaranteed[step.rows[sure]] = True
    rows = np.unique(np.concatenate([step.rows for step in steps]))
    unresolved = rows[labels[rows] == UNRESOLVED]
    reason = ""
    if len(unresolved) == len(rows):
        reason = next((step.reason for step in steps if step.reason), "No step says anything about a label.")
    return RecoveredLabels(labels, guaranteed, unresolved, steps, limit, epsilon, reason, view.steps_per_epoch)
