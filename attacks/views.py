"""What an adversary has: exactly the pieces that its party owns or received, never the truth."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import numpy as np

from vfl.arrays import FloatArray, IntArray
from vfl.channels import ParameterChannel, ScoreChannel
from vfl.learning.networks import DenseNetwork, VerticalNetwork


class ViewError(ValueError):
    """A view lacks a piece that an attack needs, or its pieces don't fit; the message names both and the remedy.

    Examples:
        >>> PredictionView(features_active=np.array([[1.5]]))
        Traceback (most recent call last):
            ...
        attacks.views.ViewError: features_active must be a matrix of values in [0, 1]: scale it ...
    """


def _own_arrays(view: "AuxiliaryRows | PassiveMoments | PredictionView") -> None:
    """Replace a view's arrays by copies of its own, and refuse NaN and infinity (ViewError).

    An array cut out of a larger table keeps that table within reach (``.base``); a copy doesn't.
    """
    for field in fields(view):
        value = getattr(view, field.name)
        if isinstance(value, np.ndarray):
            if not np.isfinite(value).all():
                raise ViewError(f"{field.name} holds NaN or infinity: remove those records before the attack.")
            object.__setattr__(view, field.name, np.array(value))


@dataclass(frozen=True, eq=False)
class AuxiliaryRows:
    """Complete records that the adversary holds beside the ones it attacks (Jiang, section 4.2).

    Attributes:
        features_active: (t, d_a), its own part of them.
        features_passive: (t, d), the passive parties' part.
        scores: (t, k) as the federation answered for them.
        labels: (t,) class indices, which an active party has of its own records; None where unknown.
        received: (t, m) as ``PredictionView.received``, of them; None where nothing was.

    Examples:
        >>> known = AuxiliaryRows(np.array([[0.2], [0.9]]), np.array([[0.3], [0.8]]), scores=np.full((2, 2), 0.5))
        >>> view = PredictionView(features_active=np.array([[0.9]]), auxiliary=known, passive_features=1)
        >>> load("imputation").reconstruct(view).shape
        (1, 1)
    """

    features_active: FloatArray
    features_passive: FloatArray
    scores: FloatArray
    labels: IntArray | None = None
    received: FloatArray | None = None

    def __post_init__(self) -> None:
        _own_arrays(self)


@dataclass(frozen=True, eq=False)
class PassiveMoments:
    """What an adversary knows beforehand of the passive columns without having a record: published statistics, say.

    Attributes:
        mean: (d,).
        variance: (d,).
        covariance: (d, d) of the passive columns among themselves; None where only marginals are known.
        supports: for each column, the values that it takes in rising order where they are few, else None; empty where
            nothing is known.
        frequencies: for each column, how often it takes these values, summing to 1; as ``supports``.
        groups: indices of the columns of each one-hot encoded feature, exactly one of which is 1.

    Examples:
        >>> published = PassiveMoments(mean=np.array([0.3]), variance=np.array([0.04]))
        >>> PredictionView(features_active=np.array([[0.9]]), moments=published, passive_features=1).d
        1
    """

    mean: FloatArray
    variance: FloatArray
    covariance: FloatArray | None = None
    supports: tuple[FloatArray | None, ...] = ()
    frequencies: tuple[FloatArray | None, ...] = ()
    groups: tuple[IntArray, ...] = ()

    def __post_init__(self) -> None:
        _own_arrays(self)


@dataclass(frozen=True, eq=False, kw_only=True)
class PredictionView:
    """An active party's view of n predictions by a model of k classes over its d_a and the passive parties' d features.

    Attributes:
        features_active: (n, d_a), its own features of the attacked records, in [0, 1].
        scores: (n, k) confidence scores as delivered; None for an agnostic adversary.
        weights_active: (k, d_a) class rows; a binary model has k = 2.
        weights_passive: (k, d) class rows as disclosed; None in black box.
        bias: (k,); None in black box.
        network: the model where it is a network, as disclosed; None for a linear model and in black box.
        network_active: the adversary's own part of a network, which it knows in black box as well.
        labels: (m,) class indices of the training records, which an active party owns anyway.
        features_train: (m, d_a), its own features of them.
        passive_features: d, public since the session's agreement; needed where no weights tell it.
        auxiliary: complete records that it holds besides.
        moments: what it knows beforehand of the passive columns without having a record.
        record_labels: (n,) class indices of the attacked records, where the active party has them.
        channel: what defences let pass of the scores, in their order; empty for scores as they are.
        disclosure: how the disclosed parameters differ from those that scores follow from; None when they don't.
        own_shift: (n, k), what the adversary added to its own share of the attacked records' logits; None for nothing.
        earlier: the same records in the same order, as the same active party saw them in earlier sessions, each with
            its own model; the oldest first.
        received: (n, m) columns that its party was handed about the attacked records, whoever made them, in [0, 1]:
            scores, indicators of leaves, embeddings, explanations. None for nothing.
        low: (n, d), what disclosed thresholds say that the passive columns are above; None where none tells.
        high: (n, d), what they are at most.

    Raises ViewError when the pieces don't fit each other, hold NaN or infinity, or features leave [0, 1].

    Examples:
        >>> PredictionView(features_active=np.array([[0.25], [0.5]]), passive_features=3).n
        2
    """

    features_active: FloatArray
    scores: FloatArray | None = None
    weights_active: FloatArray | None = None
    weights_passive: FloatArray | None = None
    bias: FloatArray | None = None
    network: VerticalNetwork | None = None
    network_active: DenseNetwork | None = None
    labels: IntArray | None = None
    features_train: FloatArray | None = None
    passive_features: int | None = None
    auxiliary: AuxiliaryRows | None = None
    moments: PassiveMoments | None = None
    record_labels: IntArray | None = None
    channel: tuple[ScoreChannel, ...] = ()
    disclosure: ParameterChannel | None = None
    own_shift: FloatArray | None = None
    earlier: "tuple[PredictionView, ...]" = ()
    received: FloatArray | None = None
    low: FloatArray | None = None
    high: FloatArray | None = None

    def __post_init__(self) -> None:
        _own_arrays(self)
        for name in ("features_active", "features_train", "received"):
            value = getattr(self, name)
            if value is not None and (value.ndim != 2 or value.min(initial=0) < 0 or value.max(initial=1) > 1):
                raise ViewError(
                    f"{name} must be a matrix of values in [0, 1]: scale it with the min-max encoder first."
                )
        for name, dimensions in {
            "scores": 2,
            "weights_active": 2,
            "weights_passive": 2,
            "bias": 1,
            "labels": 1,
            "record_labels": 1,
            "own_shift": 2,
        }.items():
            value = getattr(self, name)
            if value is not None and value.ndim != dimensions:
                raise ViewError(f"{name} has shape {value.shape}; it must be an array of {dimensions} dimensions.")
        self._check_shapes()

    def _check_shapes(self) -> None:
        """Raise ViewError unless each piece has the shape that the others make it have."""
        n, d_active = self.features_active.shape
        # Called for the pieces that are there only: an agnostic view can't tell the classes and needn't.
        expected: dict[str, Callable[[], tuple[int, ...]]] = {
            "scores": lambda: (n, self.classes),
            "weights_active": lambda: (self.classes, d_active),
            "weights_passive": lambda: (self.classes, self.d),
            "bias": lambda: (self.classes,),
            "record_labels": lambda: (n,),
            "own_shift": lambda: (n, self.classes),
            "low": lambda: (n, self.d),
            "high": lambda: (n, self.d),
        }
        for name, shape in expected.items():
            value = getattr(self, name)
            if value is not None and value.shape != shape():
                raise ViewError(
                    f"{name} has shape {value.shape}; with the other pieces of the view it must be {shape()}."
                )
        if (self.labels is None) != (self.features_train is None):
            raise ViewError("labels and features_train belong together: give both or neither.")
        if (
            self.labels is not None
            and self.features_train is not None
            and (self.labels.shape != (len(self.features_train),) or self.features_train.shape[1] != d_active)
        ):
            raise ViewError("labels must be (m,) and features_train (m, d_a), with the d_a of features_active.")
        if self.received is not None and len(self.received) != n:
            raise ViewError(f"received has {len(self.received)} rows; each of the {n} attacked records has one.")
        if any((one.n, one.d) != (n, self.d) for one in self.earlier):
            raise ViewError(
                f"Each earlier session must be of the same {n} records and {self.d} passive features: give those that "
                "all sessions have in common, in one order."
            )

    def with_received_as_own(self) -> "PredictionView":
        """Count what was received among the own columns, so that whoever learns from these learns from both.

        Raises ViewError where nothing was received, or not of the complete records.
        """
        auxiliary, received = self.auxiliary, self.received
        if received is None or (auxiliary is not None and auxiliary.received is None):
            raise ViewError("What was received isn't there: give received, of the complete records as well.")
        if auxiliary is not None:
            features_active = np.hstack([auxiliary.features_active, np.asarray(auxiliary.received)])
            auxiliary = replace(auxiliary, features_active=features_active, received=None)
        return replace(
            self, features_active=np.hstack([self.features_active, received]), received=None, auxiliary=auxiliary
        )

    @property
    def n(self) -> int:
        """Number of attacked records."""
        return len(self.features_active)

    @property
    def d(self) -> int:
        """Number of features to reconstruct."""
        if self.weights_passive is not None:
            return int(self.weights_passive.shape[1])
        if self.network is not None:
            return self.network.passive.inputs
        if self.passive_features is None:
            raise ViewError("The number of passive features is unknown: give weights_passive or passive_features.")
        return self.passive_features

    @property
    def classes(self) -> int:
        """Number of classes k, from whichever piece tells it."""
        for piece in (self.scores, self.weights_active, self.weights_passive, self.bias):
            if piece is not None:
                return int(piece.shape[-1] if piece is self.scores else piece.shape[0])
        if self.network is not None:
            return self.network.active.outputs
        if self.labels is not None:
            return int(self.labels.max()) + 1
        raise ViewError("The number of classes is unknown: give scores, weights or labels.")
