"""What a party reads of its peers' messages, for who listens: whatever the protocol, on one tape."""

from typing import Protocol

from vfl.arrays import FloatArray


class Tape(Protocol):
    """Is told what peers' messages say, step by step."""

    def sums(self, step: int, peer: str, matrix: FloatArray, sums: FloatArray) -> None:
        """Read what a key holder has decrypted: (D, columns) sums of its residuals times a (rows, D) matrix.

        Raises ValueError for sums that training can't go on with.
        """

    def forwarded(self, step: int, products: FloatArray) -> None:
        """Add up the other parties' products of a step, (rows, h); at the label party of a learner that forwards."""

    def kept(self, step: int, share: FloatArray) -> None:
        """Be left with a share of its own sums, (d, columns), from -1 to 1, where weights are shared."""

    def read(self, step: int, peer: str, residuals: FloatArray) -> None:
        """Read what a peer has sent in the clear, (rows, columns)."""
