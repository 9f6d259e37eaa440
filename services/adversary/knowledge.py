"""What an active party's adversary knows of one session: views of predictions are made of this and of nothing else."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

import attacks
from attacks.prediction.adaptive import UndistortedView
from services.adversary.declared import disclosure, score_channels
from services.common.agreement import Agreement
from services.common.errors import InvalidMessage, one_line
from services.party.party_model import PartyModel
from vfl.arrays import FloatArray, IntArray
from vfl.channels import ParameterChannel, ScoreChannel
from vfl.data import Table
from vfl.data.labels import NO_LABEL
from vfl.learning import LinearPart, Part
from vfl.learning.confidence import unit_rows, unit_scores
from vfl.learning.network.part import NetworkPart
from vfl.learning.networks import DenseNetwork, VerticalNetwork
from vfl.learning.trees.leaf_bounds import leaf_bounds
from vfl.learning.trees.trees_part import TreesPart

# Of what no threshold bounds: every value from 0 on is above.
_BELOW = -1e-9


@dataclass(frozen=True, eq=False)
class PriorKnowledge:
    """What the active party's adversary knows before any session. Nothing of it is part of honest training.

    Attributes:
        records: complete records: ids and passive features. None for none.
        moments: published statistics of the passive columns, in the agreement's order. None for none.
    """

    records: Table | None = None
    moments: attacks.PassiveMoments | None = None


@dataclass(frozen=True, eq=False)
class Knowledge:
    """What the active party knows of one session besides scores.

    Attributes:
        model: its own part.
        disclosed: each passive party's parameters in the agreement's order. None in black box.
        auxiliary: complete records that this party holds besides, with the scores that it got for them.
        auxiliary_rows: which records these are, as rows of the common order, (t,); None for none.
        moments: what it knows beforehand of the passive columns.
        order: which rows of its own table the common order's are; None where no other order is ever met.
        own_rows: (k, d + 1) its own class rows up to a constant, the bias last, where training left it a share of them
            and ``own_class_rows`` found them; else None.
    """

    model: PartyModel
    disclosed: tuple[Part, ...] | None
    auxiliary: attacks.AuxiliaryRows | None = None
    auxiliary_rows: IntArray | None = None
    moments: attacks.PassiveMoments | None = None
    order: IntArray | None = None
    own_rows: FloatArray | None = None

    @cached_property
    def channel(self) -> tuple[ScoreChannel, ...]:
        """What the session's defences let pass of scores, as all are told."""
        return score_channels(self.model.agreement)

    @cached_property
    def disclosure(self) -> ParameterChannel | None:
        """How disclosed class rows differ from those that scores follow from, as all are told."""
        return disclosure(self.model.agreement)

    @property
    def is_defended(self) -> bool:
        """Whether anything stands between the model and what this party sees of it."""
        return bool(self.channel) or self.disclosure is not None

    def undone_names(self, undone: UndistortedView) -> list[str]:
        """Name the defences that were taken off a view of this session."""
        agreement = self.model.agreement
        of_scores = agreement.score_defences[len(agreement.score_defences) - undone.channels :]
        of_parties = [one.name for party in agreement.parties[1:] for one in party.disclosure_defences]
        return list(dict.fromkeys([*of_scores, *(of_parties if undone.disclosure else [])]))

    def unknown_of(self, rows: Sequence[int], scores: FloatArray) -> tuple[list[int], FloatArray]:
        """Keep of predicted rows and their (n, classes) scores those that it doesn't hold in full anyway."""
        if self.auxiliary_rows is None:
            return list(rows), scores
        is_unknown = ~np.isin(np.asarray(rows, dtype=np.int64), self.auxiliary_rows)
        return [row for row, kept in zip(rows, is_unknown, strict=True) if kept], scores[is_unknown]

    def own_features(self, rows: IntArray) -> FloatArray:
        """Give this party's features of these rows, without the bias that training adds."""
        features = self.model.features_of(rows)
        return features[:, :-1] if self.model.agreement.plan.family.spec.trains else features

    def holding(self, rows: IntArray, passive_features: FloatArray, scores: FloatArray) -> "Knowledge":
        """Add records that it holds in full: rows of the common order, the others' columns, and scores it got."""
        auxiliary = attacks.AuxiliaryRows(self.own_features(rows), passive_features, scores, self.model.labels_of(rows))
        return replace(self, auxiliary=auxiliary, auxiliary_rows=rows)

    def view(self, rows: IntArray, scores: FloatArray) -> attacks.PredictionView:
        """Make the view of predictions of ``rows``: (n, classes) scores, sums of a layer, (n, units), or leaves.

        Such sums are what is delivered. They stand as logits of a linear model with a class for each unit and one more,
        whose logit is 0: differences of its log scores are the sums. Labels are of other classes, and left out. Leaves,
        (n, trees), are what was received, and scores what the party's own part makes of them.

        Raises:
            ViewError: when the pieces don't fit.
        """
        train_rows = self.model.rows.train
        passive = sum(party.feature_count for party in self.model.agreement.peers_of(self.model.name))
        if self.moments is not None and len(self.moments.mean) != passive:
            raise attacks.ViewError(
                f"PLUMBLINE_PRIOR_KNOWLEDGE tells of {len(self.moments.mean)} columns, and the passive parties have "
                f"{passive}: give those of this session."
            )
        forwards = self.model.agreement.answers == "sums"
        auxiliary, received = self._with_leaves(scores) if self._reaches else (self._auxiliary(), None)
        labels = self.model.labels_of(rows)
        return attacks.PredictionView(
            features_active=self.own_features(rows),
            scores=unit_scores(scores) if forwards else self.model.scores_of(scores, len(rows)),
            auxiliary=auxiliary,
            labels=None if forwards else self.model.labels_of(train_rows),
            features_train=None if forwards else self.own_features(train_rows),
            passive_features=passive,
            moments=self.moments,
            record_labels=None if (labels == NO_LABEL).any() else labels,
            channel=self.channel,
            disclosure=self.disclosure,
            received=received,
            **self._bounds(scores),
            **self._parameters(),
        )

    def _auxiliary(self) -> attacks.AuxiliaryRows | None:
        auxiliary = self.auxiliary
        if auxiliary is None or self.model.agreement.answers == "scores":
            return auxiliary
        return replace(auxiliary, scores=unit_scores(auxiliary.scores))

    @property
    def _reaches(self) -> bool:
        return self.model.agreement.answers == "leaves"

    def _with_leaves(self, leaves: FloatArray) -> tuple[attacks.AuxiliaryRows | None, FloatArray | None]:
        """Bring the leaves of complete records and of others, (n, trees) numbers, to [0, 1] alike."""
        auxiliary = self.auxiliary
        known = np.empty((0, leaves.shape[1])) if auxiliary is None else auxiliary.scores
        together = np.vstack([known, leaves])
        width = np.maximum(np.ptp(together, axis=0), 1.0)
        scaled = (together - together.min(axis=0)) / width
        if auxiliary is None:
            return None, scaled
        scores = self.model.scores_of(known, len(known))
        return replace(auxiliary, scores=scores, received=scaled[: len(known)]), scaled[len(known) :]

    def _bounds(self, leaves: FloatArray) -> dict[str, Any]:
        """Bound passive columns by reached leaves, (n, trees), where all passive parties disclose thresholds of trees.

        What no threshold bounds is between 0 and 1, as all columns are that a view may have.
        """
        own_part, parts = self.model.known_part, [part for part in self.disclosed or () if isinstance(part, TreesPart)]
        if not self._reaches or not isinstance(own_part, TreesPart) or not parts:
            return {}
        columns = [party.feature_count for party in self.model.agreement.peers_of(self.model.name)]
        low, high = leaf_bounds(own_part, parts, leaves.astype(np.int64), columns)
        return {"low": np.clip(low, _BELOW, 1.0), "high": np.clip(high, 0.0, 1.0)}

    def _parameters(self) -> dict[str, Any]:
        """Give the parts of the model that this party knows, as a view has them."""
        pieces: dict[str, Any] = {}
        own_part, passive_parts = self.model.known_part or self.model.part, self.disclosed
        rows = own_part.class_rows
        if isinstance(own_part, LinearPart):
            pieces["weights_active"], pieces["bias"] = own_part.class_rows[:, :-1], own_part.class_rows[:, -1]
        elif self.own_rows is not None:
            pieces["weights_active"], pieces["bias"] = self.own_rows[:, :-1], self.own_rows[:, -1]
        elif rows is not None:
            pieces["weights_active"] = rows
        elif isinstance(own_part, DenseNetwork):
            pieces["network_active"] = own_part
        elif isinstance(own_part, NetworkPart):
            units = unit_rows(own_part.weights)
            pieces["weights_active"], pieces["bias"] = units[:, :-1], units[:, -1]
        if passive_parts is None:
            return pieces
        layers = [unit_rows(part.weights) for part in passive_parts if isinstance(part, NetworkPart)]
        if len(layers) == len(passive_parts):
            pieces["weights_passive"] = np.hstack(layers)
        disclosed = [part.class_rows for part in passive_parts]
        if rows is not None and all(one is not None for one in disclosed):
            pieces["weights_passive"] = np.hstack([one for one in disclosed if one is not None])
            biases = [part.biases[0] for part in (own_part, *passive_parts) if isinstance(part, DenseNetwork)]
            pieces.setdefault("bias", sum(biases[1:], start=biases[0]) if biases else np.zeros(len(rows)))
        elif (
            isinstance(own_part, DenseNetwork)
            and len(passive_parts) == 1
            and isinstance(passive_parts[0], DenseNetwork)
        ):
            pieces["network"] = VerticalNetwork(own_part, passive_parts[0])
        return pieces


def own_class_rows(model: PartyModel, score: Callable[[PartyModel, Sequence[int]], FloatArray]) -> FloatArray | None:
    """Learn the own class rows of a model whose weights stay shared, from scores of one record with chosen own columns.

    The record's scores with none of them, and with each alone, differ by that column's weights: d + 2 requests.

    Args:
        model: the active party's own.
        score: asks for the (n, classes) scores of some rows by such a model.

    Returns:
        (k, d + 1), the first row 0, the bias last; None where they are known, scores are defended, or one is 0.
    """
    if model.known_part is not None or model.agreement.score_defences:
        return None
    turn, columns = model.agreement.serving.turn(model.part), model.features.shape[1]
    # What is served of them, turned, is nothing or one column alone.
    inputs = np.vstack([np.zeros(columns), turn.sums(np.eye(columns)).T])
    probes = [replace(model, features=np.broadcast_to(row, model.features.shape)) for row in inputs]
    scores = np.vstack([score(one, [0]) for one in probes])
    if not scores.all():
        return None
    logits = np.log(scores / scores[:, :1])
    weights: FloatArray = turn.weights(logits[1:] - logits[0]).T
    return weights


def disclosed_parts(
    shown: Mapping[str, Mapping[str, NDArray[Any]] | None], agreement: Agreement, own: Part | None
) -> tuple[Part, ...] | None:
    """Read what all passive parties disclose, as the session's learner does; None where one discloses nothing.

    Args:
        shown: arrays of each.
        agreement: the session's public terms.
        own: this party's own part, beside which they stand; None where it has none.

    Raises:
        InvalidMessage: for arrays that are no part.
    """
    parts: list[Part] = []
    for party, arrays in shown.items():
        if arrays is None:
            return None
        try:
            part = agreement.plan.calls.read_part(arrays)
            _check_fits(part, agreement, party, own)
        except ValueError as error:
            raise InvalidMessage(f"{party} discloses no model: {one_line(str(error))}") from error
        parts.append(part)
    return tuple(parts)


def _check_fits(part: Part, agreement: Agreement, party: str, own: Part | None) -> None:
    """Raise ValueError for a part of other columns than the party has described, or of other outputs."""
    columns = agreement.party(party).feature_count
    if isinstance(part, TreesPart) and isinstance(own, TreesPart):
        part.check_splits([one.name for one in agreement.parties].index(party), columns, own)
        return

    def shape() -> tuple[int, ...] | None:
        try:
            return part.shares(np.zeros((1, columns))).shape if part.class_rows is None else part.class_rows.shape
        except ValueError:
            return None

    outputs = (1, agreement.outputs) if part.class_rows is None else (agreement.classes, columns)
    if agreement.plan.calls(shape) != outputs:
        raise ValueError(f"it doesn't fit its {columns} columns and this session's outputs")
