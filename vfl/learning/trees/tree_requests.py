"""What halves of boosted trees ask besides growing: for the training's plan, and to take part in a tree."""

from collections.abc import Mapping
from dataclasses import dataclass

from vfl.arrays import IntArray
from vfl.learning.learner import OwnRequest


class AskPlan(OwnRequest):
    """Asks for what all parties know of the training, a `TreePlan`."""


class FollowTree(OwnRequest):
    """Asks to take part in the next tree, at a party without labels; answered with a `FollowedTree`."""


@dataclass(frozen=True, eq=False)
class FollowedTree:
    """What a passive party knows of a tree.

    Attributes:
        place: the party's among all.
        splits: by node, (party, that party's split number).
        leaves: (n,) the number of each row's leaf; 0 for rows that are in no tree.
    """

    place: int
    splits: Mapping[int, tuple[int, int]]
    leaves: IntArray
