"""Bins of boosted trees' passive columns, exactly, by a label party that encrypts powers of two for derivatives.

Whoever owns columns adds up what it is sent. Of rows whose pair of numbers is a power of two, each another one, a sum
over a bin is a list of names: as many rows a tree as a sum has bits, in every column at once. All others are sent as 0.
Nothing in the protocol prevents it, for what the label party encrypts is its own. Here every tree names other rows,
and none is grown: its model is the classes' frequencies.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, get_args

import numpy as np

from attacks.base import AttackSpec
from attacks.training.bin_values import PlacedColumn
from attacks.training.named_bins import NamedBins, Prior, check_prior, estimated
from attacks.training.recovered_values import EstimatedFeatures
from attacks.training_attack import RequestTerms
from attacks.training_views import TrainingView
from attacks.views import ViewError
from vfl.adversary_words import Level
from vfl.arrays import IntArray
from vfl.crypto.bin_sums import SumLayout
from vfl.learning.learner import OwnRequest
from vfl.learning.trees import BeginTree, Histograms, TreePlan
from vfl.learning.trees.growing import ROOT
from vfl.learning.trees.tree_requests import AskPlan

# In the clear a sum of either number is exact up to so many bits.
_CLEAR_BITS = 52
_UNNAMED = -1


@dataclass(frozen=True)
class ChosenGradients:
    """Sends powers of two in place of derivatives, and reads which bin each of the rows is in that it chose.

    Attributes:
        prior: What makes values of bins, as of ``named_bins``.
    """

    prior: Prior = "covariance"

    name: ClassVar[str] = "chosen_gradients"
    spec: ClassVar[AttackSpec] = AttackSpec(
        adversary="active",
        phase="training",
        needs=(),
        source="ours",
        learners=("boosted_trees",),
        summary="names the bins of chosen records exactly, by other numbers than the derivatives of boosted trees",
        cost="seconds, and a session of its own",
        conduct="replaces_requests",
        level="covariance",
    )

    def __post_init__(self) -> None:
        if self.prior not in get_args(Prior):
            raise ValueError(f"Expected prior to be one of {', '.join(get_args(Prior))}; got {self.prior!r}.")

    @property
    def level(self) -> Level:
        """What its adversary knows beforehand."""
        return self.prior

    def ask(self, terms: RequestTerms) -> "PowersOfTwo":
        """Begin a session."""
        return PowersOfTwo(self.prior, terms)


class PowersOfTwo:
    """What is asked in one session, and what it tells."""

    def __init__(self, prior: Prior, terms: RequestTerms) -> None:
        self._prior, self._terms = prior, terms
        self._plan: TreePlan | None = None
        self._low_bits = self._bits = _CLEAR_BITS
        self._tree, self._rows, self._named = -1, np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        self._bins: dict[tuple[str, int], dict[int, int]] = {}

    def asked(self, step: int, request: OwnRequest) -> OwnRequest:
        """Have powers of two sent in place of derivatives."""
        plan = self._plan
        if not isinstance(request, BeginTree) or plan is None:
            return request
        values = np.zeros_like(request.gradients.values)
        summed = plan.root(request.number).summed
        # Rows that no tree has named yet, as far as this one sums them.
        self._tree, self._rows = request.number, np.setdiff1d(summed, self._named)[: self._bits]
        exponents = np.arange(len(self._rows))
        is_low = exponents < self._low_bits
        values[self._rows[is_low], 1] = 1 << exponents[is_low]
        values[self._rows[~is_low], 0] = 1 << exponents[~is_low] - self._low_bits
        return replace(request, gradients=replace(request.gradients, values=values))

    def answered(self, step: int, request: OwnRequest, answer: Any) -> Any:
        """Read sums, and have the learner find no division in them."""
        if isinstance(request, AskPlan):
            self._begin(answer)
        if not isinstance(request, Histograms):
            return answer
        if [node.number for node in request.nodes] == [ROOT]:
            for party, sums in list(enumerate(answer))[1:]:
                self._read(party, sums[0])
            self._named = np.union1d(self._named, self._rows)
        return [np.zeros_like(sums) for sums in answer]

    def _begin(self, plan: TreePlan) -> None:
        self._plan, key_bits = plan, self._terms.key_bits
        if key_bits:
            layout = SumLayout(key_bits, len(plan.root(0).summed), plan.options.unit)
            self._low_bits, self._bits = layout.second_bits, layout.slot_bits - 2
        else:
            self._low_bits, self._bits = _CLEAR_BITS, 2 * _CLEAR_BITS

    def _read(self, party: int, prefixes: IntArray) -> None:
        """Read a root's (columns, max_bin, 2) prefix sums: a row's bin is the first whose sum has its bit."""
        assert self._plan is not None  # noqa: S101 - trees come behind the plan
        columns = self._plan.sampled_columns(self._tree, party)
        for column, sums in zip(columns.tolist(), prefixes.tolist(), strict=True):
            numbers = [(first << self._low_bits) + second for first, second in sums]
            bins = self._bins.setdefault((self._terms.parties[party], column), {})
            for bit, row in enumerate(self._rows.tolist()):
                holding = (bin_ for bin_, number in enumerate(numbers) if number >> bit & 1)
                bins[row] = next(holding, len(numbers))

    def result(self, view: TrainingView) -> NamedBins | EstimatedFeatures:
        """Say which bins were named, or what values follow.

        Raises:
            ViewError: where none was, and without what the prior says is known.
        """
        check_prior(ChosenGradients.name, self._prior, view)
        if not self._bins or self._plan is None:
            raise ViewError("No root was summed, so that no row could be named: there are too few training rows.")
        rows, places = self._named, self._plan.options.max_bin + 1
        columns: dict[str, list[PlacedColumn]] = {}
        named: dict[str, list[IntArray]] = {}
        for (peer, _), bin_of in sorted(self._bins.items()):
            bins = np.array([bin_of.get(row, _UNNAMED) for row in rows.tolist()])
            possible = (bins[:, None] == np.arange(places)) | (bins == _UNNAMED)[:, None]
            shares = np.bincount(bins[bins >= 0], minlength=places) / max(1, int((bins >= 0).sum()))
            columns.setdefault(peer, []).append(PlacedColumn.placed(shares, possible))
            named.setdefault(peer, []).append(bins)
        if self._prior == "nothing":
            return NamedBins({peer: np.column_stack(some) for peer, some in named.items()}, 1.0, self._tree + 1)
        numbers = {"records_named": len(rows), "a_tree": self._bits, "trees": self._tree + 1}
        return estimated(view, rows, columns, self._prior, numbers)
