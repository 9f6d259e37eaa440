"""Ratios of a single feature's values, batch by batch, joined over batches that share rows (Hu, Lemmas 3.3 and 3.4)."""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import breadth_first_order, connected_components, minimum_spanning_tree

from vfl.arrays import BoolArray, FloatArray, IntArray

NO_SET = -1
# A share must stand this far above its rounding error to link two batches: a weaker link would pass on a wrong ratio.
_SIGNAL = 1e4
_REFINEMENTS = 30


@dataclass(frozen=True, eq=False)
class Observation:
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


def edges_of(observations: list[Observation]) -> _Edges:
    """List the products that follow from the observations, one entry each."""
    batches, rows, values, noise = [], [], [], []
    for index, observation in enumerate(observations):
        known = np.isfinite(observation.values).all(axis=1)
        products = observation.values[known]
        if products.shape[1] > 1 and len(products):
            # x_i w^T has one direction w, which moves from step to step: take the coordinate along it.
            left, singular, _ = np.linalg.svd(products, full_matrices=False)
            products = left[:, :1] * singular[0]
        batches.append(np.full(len(products), index))
        rows.append(observation.rows[known])
        values.append(products[:, 0])
        noise.append(np.full(len(products), observation.noise))
    joined = [np.concatenate(part) for part in (batches, rows, values, noise)]
    strong = np.abs(joined[2]) > _SIGNAL * joined[3]
    return _Edges(joined[0], joined[1], joined[2], joined[3], strong)


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
    known = np.isfinite(x)
    sets = np.full(n, NO_SET)
    names, sizes = np.unique(row_component[known], return_counts=True)
    for number, name in enumerate(names[np.argsort(-sizes, kind="stable")]):
        inside = known & (row_component == name)
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
    unknown: FloatArray, index: IntArray, known: FloatArray, values: FloatArray, weights: FloatArray
) -> FloatArray:
    length = len(unknown)
    above = np.bincount(index, weights * known * values, minlength=length)
    below = np.bincount(index, weights * known**2, minlength=length)
    updated = unknown.copy()
    found = below > 0
    updated[found] = above[found] / below[found]
    return updated
