"""A secret orthonormal H between a passive party's features and what the active party is told (Rassouli VII-A).

at="disclosure" (Remark 6): the model is trained on the true features x, and W H^T is disclosed in place of W. Scores
don't change by a bit, and nothing is paid in training. Whoever solves the disclosed equations arrives at H x.

at="training" (Prop. 4): the party trains on H (x - c) + c and discloses what it trained. The optimum of a penalised
(or strictly convex) logistic regression has the same scores. An adversary of training, too, sees H x in place of x.
Gradient descent that stops before the optimum takes another path when the features turn about c = 1/2, so scores
differ. About c = 0 each step turns with the features, and scores are the same after any number of steps.

What it does not stop:
- an adversary that knows H, or guesses it (-I is one guess; for d = 1 H is 1 or -1);
- one that has a few complete records, from which A follows by regression whatever was disclosed;
- one that knows the features' means and covariances, which H turns but can't hide where d < k;
- black-box statistics of scores.

At disclosure, H x usually leaves [0, 1], which tells the adversary that something was done, and which sign of H is
wrong.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from defences.base import DefenceError, DefenceSpec
from defences.noise import NoiseSource
from vfl.arrays import FloatArray
from vfl.channels import Distorted
from vfl.theory.distortion import worst_transform
from vfl.theory.prediction import equations

Kind = Literal["random", "negate", "permutation", "optimal"]
Moment = Literal["training", "disclosure"]

# About which features in [0, 1] turn at training.
_CENTRE = 0.5


@dataclass(frozen=True)
class FeatureTransform:
    """Draws a secret orthonormal H for features or for disclosed parameters.

    H is drawn anew at each call: a session calls once and keeps the answer. The defaults cost nothing in training and
        leave the adversary d (d - 1)/2 angles to guess. At training, dense features with signs make the encrypted
        product slower.

    Attributes:
        kind: "random", uniform over all orthonormal matrices; "negate", -I, where the adversary has one bit to guess;
            "permutation", uniform over the d! orders, the identity included; "optimal", the H* that makes ls worst
            (Theorem 3), which depends on the trained parameters and so exists at disclosure only. It is near -I where
            the equations look, which is easily guessed.
        at: "disclosure" or "training", see the module.

    Raises:
        ValueError: for a combination that doesn't exist.
    """

    name: ClassVar[str] = "feature_transform"
    kind: Kind = "random"
    at: Moment = "disclosure"

    def __post_init__(self) -> None:
        if self.kind == "optimal" and self.at == "training":
            raise ValueError(
                "Expected kind to be random, negate or permutation at training, got 'optimal': it depends on the "
                'trained parameters. Choose at="disclosure" for it.'
            )

    @property
    def spec(self) -> DefenceSpec:
        """What the defence declares. At training it promises no scores: they are kept at the optimum only (Prop. 4)."""
        return DefenceSpec(
            sits=("passive",),
            stages=("features",) if self.at == "training" else ("parameters",),
            keeps="nothing" if self.at == "training" else "scores",
            source="Rassouli VII-A: Prop. 4, Theorem 3, Remark 6",
            summary="turns features by a secret matrix, or the parameters disclosed of them",
            cost="milliseconds",
            replaces="disclosed parameters" if self.at == "disclosure" else "",
            leaves_unit_range=self.at == "training" and self.kind == "random",
            stops=("columns",),
        )

    def transform_features(self, features: FloatArray, noise: NoiseSource) -> FloatArray:
        """Turn features at training: H (x - c) + c of (n, d) features; at disclosure they stay as they are.

        All records of a session go in together: later ones would get another H. c = 1/2 where all features lie in [0,
            1], so that "negate" gives 1 - x as in the paper's experiments and features stay there under it and under
            "permutation"; else c = 0. The active party's bias absorbs (I - H) c, so it must train one, without a
            penalty.
        """
        if self.at == "disclosure":
            return features
        inside = features.min(initial=0.0) >= 0 and features.max(initial=0.0) <= 1
        centre = _CENTRE if inside else 0.0
        if self.kind == "negate":
            return 2 * centre - features
        return (features - centre) @ self._drawn(features.shape[1], noise).T + centre

    def disclose(self, weights: FloatArray, features: FloatArray, noise: NoiseSource) -> FloatArray:
        """Turn class rows at disclosure: W H^T of (k, d) rows; at training they stay as they are.

        Args:
            weights: (k, d) class rows.
            features: the party's own, (n, d); only "optimal" uses them.
            noise: draws H.

        Raises:
            DefenceError: when weights and features don't fit.
        """
        if self.at == "training":
            return weights
        if features.ndim != 2 or len(features) == 0 or features.shape[1:] != weights.shape[1:]:
            raise DefenceError(
                f"Parameters of shape {weights.shape} don't fit features of shape {features.shape}: "
                "feature_transform needs the party's own columns, all of them and no others."
            )
        if self.kind == "optimal":
            transform = worst_transform(equations(weights), features.T @ features / len(features))
        else:
            transform = self._drawn(weights.shape[1], noise)
        return weights @ transform.T

    def disclosure(self) -> Distorted:
        """Say what all parties know of the disclosed rows: that an H turned them, and whether it is, or is near, -I."""
        about = _CENTRE if self.at == "training" else 0.0
        if self.kind == "negate":
            return Distorted("negated", about, sign_is_guess=True)
        return Distorted("orthonormal", about, sign_is_guess=self.kind == "optimal")

    def _drawn(self, d: int, noise: NoiseSource) -> FloatArray:
        """Draw an H of this kind, (d, d)."""
        if self.kind == "negate":
            return -np.eye(d)
        if self.kind == "permutation":
            return np.eye(d)[np.argsort(noise.gaussian((d,)))]
        orthonormal, triangular = np.linalg.qr(noise.gaussian((d, d)))
        # QR alone prefers some signs: with R's diagonal made positive, Q is uniform.
        return orthonormal * np.sign(np.diag(triangular))
