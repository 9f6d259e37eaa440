"""Passive columns from the leaves of boosted trees that predictions tell the label party, with some records known.

The label party is told which leaf of every tree a record reaches. Complete records teach what leaves tell, by the
models that guess without them: what another model would add is no part of it.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, get_args

from attacks.base import AttackSpec, Reconstruction, reconstruct, require
from attacks.prediction.received_columns import leaf_neighbours
from attacks.registry import FROM_RECORDS, LEARNED, load
from attacks.views import PredictionView, ViewError
from vfl.arrays import FloatArray

Model = Literal["regression", "imputation", "neighbours"]


@dataclass(frozen=True)
class ReachedLeaves:
    """Learns from complete records what the reached leaf of every tree tells, beside own columns and labels.

    Attributes:
        model: What learns. regression: ridge regressions, kernels and trees, stacked. imputation: ridge regressions and
            kernels. neighbours: the mean of known records in the same leaves, weighted by how many they share.
    """

    model: Model = "regression"

    name: ClassVar[str] = "reached_leaves"
    spec: ClassVar[AttackSpec] = AttackSpec(
        adversary="active",
        phase="prediction",
        knowledge="black_box",
        needs=("received", "auxiliary"),
        source="ours; the models of regression and imputation",
        learners=("boosted_trees",),
        summary="learns from complete records what the reached leaves of boosted trees tell of passive columns",
        cost="seconds for 1,000 complete records",
        level="records",
        seconds=lambda extent: 5.0 + 0.1 * min(extent.features, 40) + 0.05 * min(extent.steps, 100),
    )

    def __post_init__(self) -> None:
        if self.model not in get_args(Model):
            raise ValueError(f"Expected model to be one of {', '.join(get_args(Model))}; got {self.model!r}.")

    def reconstruct(self, view: PredictionView) -> FloatArray:
        """Estimate features, (n, d) in [0, 1]; raises what ``reconstruct_with_notes`` does."""
        return self.reconstruct_with_notes(view).estimate

    def reconstruct_with_notes(self, view: PredictionView) -> Reconstruction:
        """Estimate features, and where columns take few values the likeliest: (n, d) in [0, 1] each.

        Raises:
            ViewError: without leaves of the attacked records and of complete ones.
        """
        require(self, view)
        auxiliary, received = view.auxiliary, view.received
        if auxiliary is None or auxiliary.received is None or received is None:
            raise ViewError("reached_leaves needs the leaves of complete records as well: give received of them.")
        if self.model == "neighbours":
            estimates = [one.found for one in leaf_neighbours(view, auxiliary.received, received)]
            if not estimates:
                raise ViewError("reached_leaves needs a tree and a complete record.")
            return estimates[0]
        # Labels of training records come with own columns alone.
        return self._learned(replace(view, labels=None, features_train=None).with_received_as_own())

    def without_scores(self, view: PredictionView) -> FloatArray:
        """Learn by the same models of own columns and labels alone: (n, d) in [0, 1]. Raises ViewError."""
        auxiliary = None if view.auxiliary is None else replace(view.auxiliary, received=None)
        return self._learned(replace(view, received=None, auxiliary=auxiliary)).estimate

    def _learned(self, view: PredictionView) -> Reconstruction:
        if self.model == "imputation":
            return reconstruct(load(FROM_RECORDS), view)
        guessed: Reconstruction = load(LEARNED).guess(view)
        return guessed
