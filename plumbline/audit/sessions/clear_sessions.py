"""Further sessions about the records of an audited one, SIMULATED: they are trained in one place.

An active party that wants many answers about the same records opens sessions that are over soon: one epoch of small
batches, over few records. It chooses its own start weights, and large ones move the passive party's in a new direction
each time. That party keeps its start weights for the same active party.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from attacks import AuxiliaryRows, PassiveMoments, PredictionView
from defences import NoiseSource, ScoreDefence
from plumbline.audit.joined_tables import JoinedTables
from services.adversary.knowledge import Knowledge
from services.adversary.predictions import spread
from services.common.agreement import Agreement
from services.common.applied_defences import load_defences
from services.common.identity import Role
from services.common.settings import Settings
from services.coordinator.gram import total_gram
from services.coordinator.protection import Protection
from services.party.features import load_party_data
from services.party.party_defences import PartyDefences
from services.party.party_model import PartyModel
from vfl.arrays import FloatArray, IntArray
from vfl.learning import (
    BatchSchedule,
    GradientDescent,
    LinearPart,
    OwnData,
    Part,
    ResidualScheme,
    VerticalData,
    confidence_scores,
    train_centrally,
)

# More records would change the weights no further than these do.
MOST_RECORDS, _BATCH_SIZE = 2_000, 32
# Of the active party's start weights, beside those that a plan's initialisation draws.
_LARGE = 10.0


class ClearSessions:
    """Trains sessions of the same parties, tables and defences as an audited one, and shows what it tells of records.

    Attributes:
        agreement: the audited session's terms.
        training_rows: those of its training rows that further sessions are trained on, spread evenly over them.
    """

    def __init__(self, tables: JoinedTables, settings: Mapping[str, Settings], agreement: Agreement) -> None:
        """Take the parties' tables and settings; ``settings``: of every process, by its party's name."""
        self.agreement = agreement
        train = tables.split.train
        self.training_rows: IntArray = train[spread(len(train), MOST_RECORDS)]
        self._tables, self._settings = tables, settings
        self._scheme = ResidualScheme(agreement.classes)
        self._passive = tuple(party.name for party in agreement.parties[1:])
        self._defences = {
            name: PartyDefences(load_defences(settings[name], Role.PASSIVE), _secrets_of(settings[name]))
            for name in self._passive
        }
        coordinator = settings[Role.COORDINATOR]
        chosen = cast("tuple[ScoreDefence, ...]", load_defences(coordinator, Role.COORDINATOR))
        self._protection = Protection(chosen, _secrets_of(coordinator))
        own = tables.aligned[Role.ACTIVE].features
        # The active party's last column is its bias.
        self._features = {str(Role.ACTIVE): np.column_stack([own, np.ones(len(own))])}
        self._features |= {name: self._trained_on(name) for name in self._passive}
        self._starts = {
            name: self._drawn(name, np.random.default_rng(settings[name].private_seed)) for name in self._passive
        }

    def models(self, weights: Mapping[str, FloatArray]) -> dict[str, PartyModel]:
        """Give every party its (d, columns) weights of a session; a passive party without any had no part in it."""
        columns = self._scheme.columns
        return {
            name: self._model(name, weights.get(name, np.zeros((features.shape[1], columns))))
            for name, features in self._features.items()
        }

    def trained(self, passive: Sequence[str], generator: np.random.Generator) -> dict[str, PartyModel]:
        """Train a further session with some of the passive parties; ``generator`` draws the active party's start."""
        names, rows = [str(Role.ACTIVE), *passive], self.training_rows
        features = [self._features[name][rows] for name in names]
        starts = [_LARGE * self._drawn(Role.ACTIVE, generator), *(self._starts[name] for name in passive)]
        descent = GradientDescent(
            BatchSchedule(np.arange(len(rows)), min(_BATCH_SIZE, len(rows)), self.agreement.plan.seed),
            epochs=1,
            learning_rate=_step_size(np.hstack(features), self._scheme),
        )
        data = VerticalData(features, self._tables.labels[rows], self.agreement.classes)
        return self.models(dict(zip(names, train_centrally(data, starts, descent), strict=True)))

    def scores(self, models: Mapping[str, PartyModel], rows: IntArray) -> FloatArray:
        """The coordinator's answer for some rows, under its defences: (n, classes)."""
        asked = rows.tolist()
        logits = sum(model.partial_scores(asked) for model in models.values())
        grams = [models[name].parameter_gram() for name in self._passive]
        return self._protection.protected(confidence_scores(cast(FloatArray, logits)), total_gram(grams))

    def seen(
        self,
        models: Mapping[str, PartyModel],
        rows: IntArray,
        known: IntArray | None,
        *,
        scores: FloatArray | None = None,
        moments: PassiveMoments | None = None,
    ) -> PredictionView:
        """What the active party sees of a session.

        Args:
            models: the parties' parts of it.
            rows: that are predicted.
            known: rows that it holds in full; None for none.
            scores: (n, classes), as they were delivered; None has them answered here.
            moments: what it knows beforehand of the passive columns.
        """
        discloses = all(self._settings[name].disclose for name in self._passive)
        knowledge = Knowledge(
            models[Role.ACTIVE],
            tuple(self._disclosed(models[name]) for name in self._passive) if discloses else None,
            self._auxiliary(models, known) if known is not None else None,
            moments=moments,
        )
        return knowledge.view(rows, self.scores(models, rows) if scores is None else scores)

    def _trained_on(self, name: str) -> FloatArray:
        """A passive party's features as its defences leave them."""
        defences, aligned = self._defences[name], self._tables.aligned[name]
        if not defences.changes_features:
            return aligned.features
        data = load_party_data(self._settings[name], with_bias=False).protected_by(defences)
        return data.aligned(aligned.rows, self.agreement.plan).features

    def _drawn(self, name: str, generator: np.random.Generator) -> FloatArray:
        plan, agreement = self.agreement.plan, self.agreement
        # From zeros the active party would get the same model again and again.
        learner = (plan.changed(initialisation="xavier") if name == Role.ACTIVE else plan).family
        features = self._features[name].shape[1]
        return learner.begin(OwnData(features, None, agreement.classes, agreement.total_features, generator)).weights

    def _model(self, name: str, weights: FloatArray) -> PartyModel:
        labels = self._tables.labels if name == Role.ACTIVE else None
        return PartyModel(self.agreement, name, self._features[name], LinearPart(weights), 1, b"", labels)

    def _disclosed(self, model: PartyModel) -> Part:
        has_part = bool(model.part.arrays()["weights"].any())
        return model.disclosed_by(self._defences[model.name]) if has_part else model.part

    def _auxiliary(self, models: Mapping[str, PartyModel], known: IntArray) -> AuxiliaryRows:
        tables = self._tables
        return AuxiliaryRows(
            features_active=tables.features(Role.ACTIVE, known),
            features_passive=np.hstack([tables.features(name, known) for name in self._passive]),
            scores=self.scores(models, known),
            labels=tables.labels[known],
        )


def _step_size(features: FloatArray, scheme: ResidualScheme) -> float:
    """A large step size with which gradient descent can't diverge on these (n, d) records."""
    return 1 / (scheme.gradient_scale(1) * max(float((features**2).sum(axis=1).max()), 1.0))


def _secrets_of(settings: Settings) -> NoiseSource:
    """The secrets that this process draws in every session: an audit's repeat."""
    return NoiseSource(settings.private_seed)


def without_training(view: PredictionView) -> PredictionView:
    """The view without what is the same in every session: many of them are held at once."""
    return replace(view, labels=None, features_train=None, moments=None)
