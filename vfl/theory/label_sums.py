"""How many labels sums can determine: the bits of subset sums against those of labels.

A party whose residuals are labels alone answers with sums of features over the rows of one class. Ours: the papers
count equations, and whole numbers hold many bits each.
"""

import math


def log2_other_labels(rows: int, rank: int, log2_volume: float, share: float) -> float:
    """Count log2 of the other 0/1 vectors with the same sums that are to be expected, by volumes.

    Vectors with as many ones number about 2^(s H(share)), H the binary entropy. Their sums spread like a Gaussian of
    ``rank`` dimensions over the sums that integer vectors have. So two of them agree in all sums with probability
    1 / (v (4 pi share (1 - share))^(rank / 2)), where v is the volume of the lattice of vectors without any sums.

    Args:
        rows: s.
        rank: of the sums, at most s.
        log2_volume: of the lattice of integer vectors whose sums vanish, per point.
        share: of ones, in (0, 1).
    """
    variance = share * (1 - share)
    return rows * binary_entropy(share) - rank / 2 * math.log2(4 * math.pi * variance) - log2_volume


def binary_entropy(share: float) -> float:
    """Bits of one draw that is 1 with probability ``share``, in (0, 1)."""
    return -share * math.log2(share) - (1 - share) * math.log2(1 - share)


def most_labels_told(sums: int, feature_bits: float, classes: int = 2) -> int:
    """Bound the rows whose evenly drawn labels so many sums of features over each class determine, whoever computes.

    A sum over s labels that are drawn evenly has a variance of at most s 4^b / 4, and no whole number of variance v has
    more entropy than log2(2 pi e (v + 1/12)) / 2. Together they must hold s log2(k) bits. The sums of one class follow
    from those of the others.

    Rare labels hold fewer bits, s H(share), and sums hold those of more rows: d columns of zeros and ones name the one
    row of 2^d that differs from all others.

    Args:
        sums: of each class, so many as features.
        feature_bits: b, of the largest feature on its grid: 0 where it is 1. Of columns of several widths, their mean.
        classes: k.
    """
    if sums == 0:
        return 0
    rows = float(sums)
    # From below, the fixed point is approached from one side; a whole row is soon too small a step.
    while True:
        entropy = feature_bits + math.log2(2 * math.pi * math.e * (rows / 4 + 1 / 12)) / 2
        determined = sums * (classes - 1) * entropy / math.log2(classes)
        if determined - rows < 0.5:
            return math.floor(determined)
        rows = determined
