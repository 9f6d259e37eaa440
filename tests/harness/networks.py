"""What a network of two parts answers."""

from vfl.arrays import FloatArray
from vfl.learning import confidence_scores
from vfl.learning.networks import VerticalNetwork


def scores_of(network: VerticalNetwork, features_active: FloatArray, features_passive: FloatArray) -> FloatArray:
    """Confidence scores (Jiang eq. 9): (n, k)."""
    active, passive = network.active, network.passive
    return confidence_scores(active.partial_scores(features_active) + passive.partial_scores(features_passive))
