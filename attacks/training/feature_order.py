"""A peer's single feature from gradients: its ratios by batch, joined over epochs, then its scale (Hu, section 3).

With d_B = 1 every solved share of a batch is v_i = theta_t x_i: the ratios x_i / x_j within the batch (Lemma 3.3).
Batches that share a row with x != 0 join into one sortable set (Lemma 3.4), until one holds every row: x = a r.
The scale a follows from how theta moves, which the update rule tells (eq. 12-13, with the learning rate that (14)-(15)
lose): in units of 1/a, q_t = theta_t a obeys q_(t+1) = (1 - eta lambda) q_t + a^2 G_t, G_t = -eta/(4 s) sum_i f_i r_i.
Only a^2 appears, hence "up to sign". Eq. 13 uses two batches; here all of them, by least squares.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import breadth_first_order, connected_components, minimum_spanning_tree

from attacks.base import AttackSpec, Json, require
from attacks.training.label_recovery import LabelRecovery, label_party_products
from attacks.training.recovered_values import value_arrays
from attacks.training_views import StepSolution, TrainingView, solve_steps
from vfl.arrays import BoolArray, FloatArray, IntArray
from vfl.theory.training import SATURATION, TURNING_POINT, gradient_scale, minimax_polynomial, minimax_product

NO_SET = -1
# A share must stand this far above its rounding error to link two batches: a weaker link would pass on a wrong ratio.
_SIGNAL = 1e4
_REFINEMENTS = 30
# A scale of larger relative standard error is not reported.
_SCALE_ERROR = 1e-2


@dataclass(frozen=True, eq=False)
class StepProducts:
    """Products of a peer's feature and weight at one step.

    Attributes:
        step: from 0.
        rows: (s,).
        values: (s, columns), NaN where they don't follow.
        noise: absolute error of the values.
        residual: f, (s, columns), or None where it doesn't follow; then theta's next move is unknown.
    """

    step: int
    rows: IntArray
    values: FloatArray
    noise: float
    residual: FloatArray | None


@dataclass(frozen=True, eq=False)
class _Edges:
    """One entry per product that follows.

    Attributes:
        batches: index of the observation.
        rows: of the record.
        values: of the product.
        noise: its absolute error.
        strong: whether it stands out from its error.
    """

    batches: IntArray
    rows: IntArray
    values: FloatArray
    noise: FloatArray
    strong: BoolArray


def edges_of(observations: list[StepProducts]) -> _Edges:
    """List the products that follow from the observations, one entry each."""
    batches, rows, values, noise = [], [], [], []
    for index, observation in enumerate(observations):
        finite = np.isfinite(observation.values).all(axis=1)
        products = observation.values[finite]
        if products.shape[1] > 1 and len(products):
            # x_i w^T has one direction w, which moves from step to step: take the coordinate along it.
            left_vectors, singular, _ = np.linalg.svd(products, full_matrices=False)
            products = left_vectors[:, :1] * singular[0]
        batches.append(np.full(len(products), index))
        rows.append(observation.rows[finite])
        values.append(products[:, 0])
        noise.append(np.full(len(products), observation.noise))
    arrays = [np.concatenate(part) for part in (batches, rows, values, noise)]
    strong = np.abs(arrays[2]) > _SIGNAL * arrays[3]
    return _Edges(arrays[0], arrays[1], arrays[2], arrays[3], strong)


def join_batches(n: int, batch_count: int, edges: _Edges) -> tuple[IntArray, FloatArray]:
    """Sort n rows into sets of known ratio: the sets and the ratios, both (n,).

    The largest set comes first; NO_SET and NaN stand where nothing is known. Batches and rows are the nodes of a graph,
    joined by v = theta x. Along the tree of the relatively most exact products every node gets its value. A few rounds
    of alternating least squares then use all products.
    """
    batches, rows = edges.batches[edges.strong], edges.rows[edges.strong]
    cost = edges.noise[edges.strong] / np.abs(edges.values[edges.strong])
    nodes = batch_count + n
    # Costs are shifted by 1 because a sparse graph takes 0 for "no edge"; ranks keep their order exactly.
    ranks = 1.0 + np.argsort(np.argsort(cost, kind="stable"))
    # Before 1.17.1, the graph functions of scipy take 32-bit nodes only.
    ends = batches.astype(np.intc), (batch_count + rows).astype(np.intc)
    tree = minimum_spanning_tree(coo_array((ranks, ends), shape=(nodes, nodes)).tocsr())
    products = coo_array((edges.values[edges.strong], ends), shape=(nodes, nodes)).tocsr()
    _, component = connected_components(tree, directed=False)
    node_values = np.full(nodes, np.nan)
    for root in np.unique(component[batches], return_index=True)[1]:
        start = int(batches[root])
        order, previous = breadth_first_order(tree, start, directed=False)
        node_values[start] = 1.0
        for node in order[1:].tolist():
            parent = int(previous[node])
            product = products[min(node, parent), max(node, parent)]
            node_values[node] = product / node_values[parent]
    theta, x = node_values[:batch_count], node_values[batch_count:]
    batch_component, row_component = component[:batch_count].copy(), component[batch_count:].copy()
    linked = np.isfinite(theta)
    # A record without a product that stands out, in a batch whose weight isn't 0, has the feature 0 to rounding.
    weak = linked[edges.batches] & np.isnan(x[edges.rows])
    row_component[edges.rows[weak]] = batch_component[edges.batches[weak]]
    x[edges.rows[weak]] = 0.0
    inner = linked[edges.batches] & (row_component[edges.rows] == batch_component[edges.batches])
    theta, x = _refine(theta, x, edges, inner)
    finite = np.isfinite(x)
    sets = np.full(n, NO_SET)
    names, sizes = np.unique(row_component[finite], return_counts=True)
    for number, name in enumerate(names[np.argsort(-sizes, kind="stable")]):
        inside = finite & (row_component == name)
        sets[inside] = number
        largest = x[inside][np.abs(x[inside]).argmax()]
        x[inside] /= largest
    return sets, x


def _refine(theta: FloatArray, x: FloatArray, edges: _Edges, inner: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Alternating least squares for v = theta x over the products within sets."""
    batches, rows, values = edges.batches[inner], edges.rows[inner], edges.values[inner]
    weights = 1.0 / np.maximum(edges.noise[inner], 1e-300) ** 2
    weights /= weights.max()
    for _ in range(_REFINEMENTS):
        theta = _least_squares(theta, batches, x[rows], values, weights)
        x = _least_squares(x, rows, theta[batches], values, weights)
    return theta, x


def _least_squares(
    unknown: FloatArray, index: IntArray, factors: FloatArray, values: FloatArray, weights: FloatArray
) -> FloatArray:
    length = len(unknown)
    above = np.bincount(index, weights * factors * values, minlength=length)
    below = np.bincount(index, weights * factors**2, minlength=length)
    updated = unknown.copy()
    determined = below > 0
    updated[determined] = above[determined] / below[determined]
    return updated


@dataclass(frozen=True, eq=False)
class OrderedFeature:
    """What followed about one peer's feature. A row of NaN and NO_SET is one that no usable share touches.

    Attributes:
        peer_features: d_B.
        sets: (n,) which sortable set a row is in, 0 the largest.
        ratios: (n,) x_i / x_j within a set, largest 1.
        values: (n,) x_i up to one common sign per set, NaN where the scale doesn't follow. The sign is the one with
            which the entry of the largest magnitude is positive.
        sortable: whether one set holds every row of the batches seen.
        exact: whether it does, and its scale is known.
        reason: why it isn't exact; empty when it is.
    """

    peer_features: int
    sets: IntArray
    ratios: FloatArray
    values: FloatArray
    sortable: bool
    exact: bool
    reason: str = ""


@dataclass(frozen=True, eq=False)
class RecoveredFeatures:
    """What followed about every peer's feature.

    Attributes:
        solutions: f and shares by step, with rank and condition number.
        features: one entry per attacked peer.
        reason: why no step could be solved; empty when one could.
    """

    kind: ClassVar[str] = "features"
    solutions: tuple[StepSolution, ...]
    features: Mapping[str, OrderedFeature]
    reason: str = ""

    def facts(self) -> Mapping[str, Json]:
        """Say why features didn't follow, in all and by peer."""
        return {"reason": self.reason, "reasons": {peer: feature.reason for peer, feature in self.features.items()}}

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """Give the values of each peer's feature, NaN where they didn't follow."""
        return value_arrays({peer: feature.values for peer, feature in self.features.items()})


@dataclass(frozen=True)
class FeatureOrder:
    """Lemmas 3.3-3.4, Theorem 3.5 and Remark 4.9, for every peer with a single feature, by any party.

    A passive party attacks the label party with the labels it recovers first (Remark 4.9). A bias beside the single
    feature must be known, as zero initialisation makes it.
    Peers of more features are listed with the reason (Theorem 3.6: any rotation of them gives the same shares).
    A non-linear approximation gives f only. There the peer must be the only one, and its product is read off f (E.1,
    F.1) with the labels, so the adversary is the active party.
    """

    name: ClassVar[str] = "feature_order"
    spec: ClassVar[AttackSpec] = AttackSpec(
        adversary="either",
        phase="training",
        needs=("equations",),
        source="Hu, Lemmas 3.3-3.4, Theorem 3.5, Remark 4.9, Theorems E.2, F.1",
        learners=("linear",),
        summary="reads order and ratios of a lone feature from the residuals of training",
        cost="seconds",
        seconds=lambda extent: 0.5 + 0.0005 * extent.steps,
    )

    def attack(self, view: TrainingView) -> RecoveredFeatures:
        """Recover the feature of every peer that has one. Raises ViewError when the view lacks a piece."""
        require(self, view)
        solutions = solve_steps(view)
        reason = "" if any(not solution.reason for solution in solutions) else solutions[0].reason
        features = {peer: self._feature_of(view, solutions, peer) for peer in view.peer_features}
        return RecoveredFeatures(solutions, features, reason)

    def _feature_of(self, view: TrainingView, solutions: tuple[StepSolution, ...], peer: str) -> OrderedFeature:
        count = view.label_party_features if peer == view.label_party else view.peer_features[peer]
        if count != 1:
            return _unknown(view, count, f"{peer} has {count} features: only a single one is determined (Theorem 3.6).")
        if peer == view.label_party:
            observations, reason = self._of_label_party(view, solutions)
        elif view.linear:
            observations, reason = _observed_shares(view, solutions, peer), ""
        else:
            observations, reason = _from_residuals(view, solutions)
        if reason or not observations:
            return _unknown(view, count, reason or solutions[0].reason)
        return order_feature(view, observations, count)

    def _of_label_party(
        self, view: TrainingView, solutions: tuple[StepSolution, ...]
    ) -> tuple[list[StepProducts], str]:
        if not view.linear:
            return [], f"{view.approximation} gives f only, and a passive party can't tell g^A from it without labels."
        recovered = LabelRecovery().attack(view)
        products = label_party_products(view, solutions, recovered.labels)
        bias = _known_bias(view, solutions)
        observations = []
        for solution in solutions:
            step = solution.own.step
            if step in products and step in bias:
                noise = _noise(view, solution.shares[str(view.label_party)].error)
                observations.append(
                    StepProducts(step, solution.own.rows, products[step] - bias[step], noise, solution.residual)
                )
        if observations:
            return observations, ""
        if recovered.reason:
            return [], "No label was recovered: " + recovered.reason
        return [], "The label party's bias is unknown: it follows from zero initialisation and solved steps only."


# --- products -------------------------------------------------------------------------------------------------


def _noise(view: TrainingView, error: float) -> float:
    return error + view.share_step / 2


def _observed_shares(view: TrainingView, solutions: tuple[StepSolution, ...], peer: str) -> list[StepProducts]:
    observations = []
    for solution in solutions:
        solved = solution.shares[peer]
        if solved.values is not None:
            noise = _noise(view, solved.error)
            observations.append(
                StepProducts(solution.own.step, solution.own.rows, solved.values, noise, solution.residual)
            )
    return observations


def _known_bias(view: TrainingView, solutions: tuple[StepSolution, ...]) -> dict[int, FloatArray]:
    """Follow the label party's bias before each step where it is known: from 0 by its update rule, which L2 spares."""
    bias = np.zeros(view.columns)
    if not view.label_party_bias:
        return {solution.own.step: bias for solution in solutions}
    biases: dict[int, FloatArray] = {}
    if view.regression.initialisation != "zero":
        return biases
    for step, solution in enumerate(solutions):
        if solution.own.step != step:
            break
        biases[step] = bias
        if solution.residual is None or view.regression.steps != "plain":
            break
        scale = gradient_scale("first_order", len(solution.own.rows), view.classes)
        bias = bias - view.regression.learning_rate * scale * solution.residual.sum(axis=0)
    return biases


def _from_residuals(view: TrainingView, solutions: tuple[StepSolution, ...]) -> tuple[list[StepProducts], str]:
    """Find the only peer's products from f, the labels and the adversary's own products (Hu E.1, F.1)."""
    if view.labels is None:
        return [], f"{view.approximation}: a passive party can't tell another's product from f without its label."
    if len(view.peer_features) != 1:
        return [], f"{view.approximation} gives f only, which doesn't tell {len(view.peer_features)} peers apart."
    observations = []
    for solution in solutions:
        f = solution.residual
        if f is None:
            continue
        signs = np.where(view.labels[solution.own.rows, None] == 1, 1.0, -1.0)
        if view.approximation == "minimax":
            # The preimage between the turning points, where Theorem E.3 keeps the products. A value that no such point
            # has gives NaN. Near a turning point n is flat and errors grow, so those are left out as well.
            products = minimax_product(f + 0.5 * signs)
            top = 0.99 * float(minimax_polynomial(np.array(TURNING_POINT)))
            products = np.where(np.abs(f + 0.5 * signs) < top, products, np.nan)
        else:
            # F.1's second case. Near |f| = 0 and 1 rounding can't tell a saturated record from one that isn't.
            inner = (np.abs(f) > 1e-6) & (np.abs(f) < 2 * SATURATION - 1e-6)
            products = np.where(inner, f + 0.5 * signs, np.nan)
        noise = 10 * solution.error
        observations.append(StepProducts(solution.own.step, solution.own.rows, products - solution.own.share, noise, f))
    reason = "" if observations else solutions[0].reason
    return observations, reason


# --- ratios, then scale ---------------------------------------------------------------------------------------


def order_feature(view: TrainingView, observations: list[StepProducts], peer_features: int) -> OrderedFeature:
    """Join the observations into sortable sets, and give each its scale where theta's moves tell it."""
    rows = np.unique(np.concatenate([observation.rows for observation in observations]))
    edges = edges_of(observations)
    if not edges.strong.any():
        return _unknown(view, peer_features, "Every product of the feature is zero to rounding: it says nothing.")
    sets, ratios = join_batches(view.n, len(observations), edges)
    count = int(sets.max()) + 1
    values = np.full(view.n, np.nan)
    for number in range(count):
        inside = sets == number
        squared, error = _scale(view, observations, np.where(inside, ratios, np.nan))
        if squared > 0 and error <= _SCALE_ERROR:
            values[inside] = np.sqrt(squared) * ratios[inside]
    sortable = bool((sets[rows] == 0).all())
    exact = sortable and bool(np.isfinite(values[rows]).all())
    reason = ""
    if not sortable:
        missing = int((sets[rows] == NO_SET).sum())
        reason = (
            f"The batches don't intertwine: {len(rows)} rows stay in {count} sortable set(s), the largest of "
            f"{int((sets == 0).sum())} rows, and {missing} rows in none. "
            "It takes more epochs, with batches drawn anew in each."
        )
    elif not exact:
        reason = "Ratios only: the weight's moves don't tell the scale (it takes two epochs and solved steps in a row)."
    return OrderedFeature(peer_features, sets, ratios, values, sortable, exact, reason)


def _scale(view: TrainingView, observations: list[StepProducts], ratios: FloatArray) -> tuple[float, float]:
    """a^2 and the relative standard error of a, by least squares on q_t = q_0 + a^2 sum_tau G_tau; NaN and infinity
    where no two batches of the set are joined by known moves.

    Each run of steps with known moves has its own q_0. L2's decay is divided out.
    """
    decay = 1.0 - view.regression.learning_rate * view.regression.l2
    positions: list[FloatArray] = []
    sums: list[FloatArray] = []
    runs: list[int] = []
    noises: list[float] = []
    run, moved, age, previous = 0, np.zeros(view.columns), 0, None
    for observation in observations:
        if previous is None or observation.step != previous + 1:
            run, moved, age = run + 1, np.zeros(view.columns), 0
        r = ratios[observation.rows]
        used = np.isfinite(r) & np.isfinite(observation.values).all(axis=1)
        energy = float((r[used] ** 2).sum())
        if energy > 0:
            positions.append(r[used] @ observation.values[used] / energy / decay**age)
            sums.append(moved)
            runs.append(run)
            noises.append(observation.noise / np.sqrt(energy))
        previous = None
        if observation.residual is not None and np.isfinite(r).all() and view.regression.steps == "plain":
            factor = gradient_scale(view.approximation, len(r), view.classes)
            age, previous = age + 1, observation.step
            moved = moved - view.regression.learning_rate * factor * (r @ observation.residual) / decay**age
    if not positions:
        return np.nan, np.inf
    q, moves, run_of = np.array(positions), np.array(sums), np.array(runs)
    for number in np.unique(run_of):
        inside = run_of == number
        q[inside] -= q[inside].mean(axis=0)
        moves[inside] -= moves[inside].mean(axis=0)
    energy = float((moves**2).sum())
    if energy == 0.0:
        return np.nan, np.inf
    squared = float((moves * q).sum()) / energy
    freedom = max(q.size - view.columns * len(np.unique(run_of)) - 1, 1)
    spread = max(float(((q - squared * moves) ** 2).sum()) / freedom, max(noises) ** 2)
    return squared, float(np.sqrt(spread / energy)) / (2 * abs(squared)) if squared else np.inf


def _unknown(view: TrainingView, peer_features: int, reason: str) -> OrderedFeature:
    nothing = np.full(view.n, np.nan)
    sets = np.full(view.n, NO_SET)
    return OrderedFeature(peer_features, sets, nothing, nothing, False, False, reason)
