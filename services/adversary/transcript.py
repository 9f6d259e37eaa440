"""What one party computed and was told in a training: what an attack that listens is given a view of."""

from dataclasses import dataclass, field

from attacks.solving.told_bins import HeardTrees
from vfl.arrays import FloatArray
from vfl.learning.hearing import Told


@dataclass
class Transcript:
    """The tape of a party's messages, and what is heard beside its side (`services.exchange.tape`, `listening_side`).

    Attributes:
        features: how many the party has itself.
        shares: its own share of the residual, by step.
        answers: by step and peer, what the residuals were multiplied by, and the sums that followed.
        products: by step, the other parties' products of a first layer, added up, (s, h).
        residuals: by step and peer, what it has sent in the clear, (s, columns).
        shares_of_sums: by step, its share of its own sums, (d, columns), from -1 to 1, where weights are shared.
        trees: what a learner that grows trees told.
    """

    features: int = 0
    shares: dict[int, FloatArray] = field(default_factory=dict)
    answers: dict[tuple[int, str], tuple[FloatArray, FloatArray]] = field(default_factory=dict)
    products: dict[int, FloatArray] = field(default_factory=dict)
    residuals: dict[tuple[int, str], FloatArray] = field(default_factory=dict)
    shares_of_sums: dict[int, FloatArray] = field(default_factory=dict)
    trees: HeardTrees = field(default_factory=HeardTrees)

    def own_share(self, step: int, share: FloatArray) -> None:
        """Keep the party's own share of a step."""
        self.shares[step] = share

    def told(self, step: int, parties: tuple[str, ...], what: Told) -> None:
        """Keep what a learner's own request told."""
        self.trees.hear(step, parties, what)

    def sums(self, step: int, peer: str, matrix: FloatArray, sums: FloatArray) -> None:
        """Keep sums that an answer told; raises ValueError where there isn't one of each column."""
        if not self.features <= len(sums) == matrix.shape[1]:
            raise ValueError(
                f"An attack's messages read {len(sums)} sums of {matrix.shape[1]} columns: expected one of each, those "
                f"of the party's own {self.features} features first."
            )
        self.answers[step, peer] = matrix, sums

    def forwarded(self, step: int, products: FloatArray) -> None:
        """Keep the others' products of a step, added up."""
        self.products[step] = products

    def kept(self, step: int, share: FloatArray) -> None:
        """Keep what a step on shared weights left the party with."""
        self.shares_of_sums[step] = share

    def read(self, step: int, peer: str, residuals: FloatArray) -> None:
        """Keep what a peer has sent in the clear, as equations whose matrix is the identity."""
        self.residuals[step, peer] = residuals
