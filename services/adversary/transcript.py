"""What one party computed and was told in a training: what an attack that listens is given a view of."""

from dataclasses import dataclass, field

from attacks.told_bins import NodeSums
from vfl.arrays import FloatArray, IntArray
from vfl.crypto.sharing.shares import Shares


@dataclass
class Transcript:
    """The tape of a party's messages, and what is heard beside its side (`services.exchange.tape`, `listening_side`).

    Attributes:
        features: how many the party has itself.
        shares: its own share of the residual, by step.
        answers: by step and peer, what the residuals were multiplied by, and the sums that followed.
        products: by step, the other parties' products of a first layer, added up, (s, h).
        residuals: by step and peer, what it has sent in the clear, (s, columns).
        kept: by step, its share of its own sums, (d, columns), where weights are shared.
        leaves: by step, which leaf of a tree each row has reached, (n,).
        bin_sums: by peer and number of its column in the session, sums over its bins with their step.
    """

    features: int = 0
    shares: dict[int, FloatArray] = field(default_factory=dict)
    answers: dict[tuple[int, str], tuple[FloatArray, FloatArray]] = field(default_factory=dict)
    products: dict[int, FloatArray] = field(default_factory=dict)
    residuals: dict[tuple[int, str], FloatArray] = field(default_factory=dict)
    kept: dict[int, Shares] = field(default_factory=dict)
    leaves: dict[int, IntArray] = field(default_factory=dict)
    bin_sums: dict[tuple[str, int], list[tuple[int, NodeSums]]] = field(default_factory=dict)

    @property
    def trees(self) -> list[int]:
        """Steps that grew trees."""
        told = {step for sums in self.bin_sums.values() for step, _ in sums}
        return sorted(told | self.leaves.keys())

    def own_share(self, step: int, share: FloatArray) -> None:
        """Keep the party's own share of a step."""
        self.shares[step] = share

    def kept_sums(self, step: int, share: Shares) -> None:
        """Keep what a step on shared weights left the party with."""
        self.kept[step] = share

    def followed(self, step: int, leaves: IntArray) -> None:
        """Keep which leaf of a tree each row has reached."""
        self.leaves[step] = leaves

    def told_sums(self, step: int, peer: str, column: int, sums: NodeSums) -> None:
        """Keep a node's sums over the bins of a peer's column."""
        self.bin_sums.setdefault((peer, column), []).append((step, sums))

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

    def read(self, step: int, peer: str, residuals: FloatArray) -> None:
        """Keep what a peer has sent in the clear, as equations whose matrix is the identity."""
        self.residuals[step, peer] = residuals
