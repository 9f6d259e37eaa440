"""An audited session, and further ones about its records, SIMULATED: they are trained in one place.

An active party that wants many answers about the same records opens sessions that are over soon: one epoch of small
batches, over few records. It chooses its own start weights, and large ones move the passive party's in a new direction
each time. That party keeps its start weights for the same active party.
"""

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np

import attacks
from attacks import AuxiliaryRows, PassiveMoments, PredictionView
from defences import NoiseSource, ScoreDefence
from plumbline.audit.folder import AuditFolder
from plumbline.audit.plan import SHARED_SCORES, AuditPlan, ClearPlan, labels_of
from plumbline.audit.tables import JoinedTables
from plumbline.job_progress import RunProgress
from services.adversary.knowledge import Knowledge
from services.adversary.predictions import AttackedBatch, Mounted, spread
from services.adversary.prior_knowledge import read_moments
from services.common.agreement import Agreement
from services.common.applied_defences import load_defences
from services.common.identity import Role
from services.common.run_folder import RunFolder
from services.common.run_records import Estimates
from services.common.session_limit import SessionLimit
from services.common.settings import Settings
from services.coordinator.protection import Protection, total_gram
from services.party.calibrating import calibrates
from services.party.features import AlignedFeatures
from services.party.party_defences import PartyDefences
from services.party.party_model import PartyModel
from vfl.arrays import FloatArray, IntArray
from vfl.data.faults import counted
from vfl.learning import (
    BatchSchedule,
    GradientDescent,
    LinearPart,
    OwnData,
    Part,
    ResidualScheme,
    TrainingColumns,
    VerticalData,
    confidence_scores,
    log_loss,
    train_by_epoch,
    train_centrally,
)
from vfl.learning.calibration import Calibration, fitted
from vfl.learning.learner import Learner
from vfl.learning.linear.regression import LinearRegression

# More records would change the weights no further than these do.
MOST_RECORDS, _BATCH_SIZE = 2_000, 32
# Of the active party's start weights, beside those that a plan's initialisation draws.
_LARGE = 10.0


class ClearSessions:
    """Trains sessions of the same parties, tables and defences as an audited one, and shows what it tells of records.

    Attributes:
        agreement: the audited session's terms, with what all are told of defences.
        training_rows: those of its training rows that further sessions are trained on, spread evenly over them.
        aligned: what each party trains on; the active party's last column is its bias.
    """

    def __init__(self, tables: JoinedTables, settings: Mapping[str, Settings], agreement: Agreement) -> None:
        """Take the parties' tables and settings; ``settings``: of every process, by its party's name."""
        train = tables.split.train
        self.training_rows: IntArray = train[spread(len(train), MOST_RECORDS)]
        self._tables, self._settings = tables, settings
        self._scheme = ResidualScheme(agreement.classes)
        self._passive = tuple(party.name for party in agreement.parties[1:])
        self._defences = {
            name: PartyDefences(load_defences(settings[name], Role.PASSIVE), secrets_of(settings[name]))
            for name in self._passive
        }
        coordinator = settings[Role.COORDINATOR]
        defences = cast("tuple[ScoreDefence, ...]", load_defences(coordinator, Role.COORDINATOR))
        self._protection = Protection(defences, secrets_of(coordinator))
        self.agreement = replace(
            agreement,
            parties=tuple(
                replace(one, disclosure_defences=self._defences[one.name].announced)
                if one.name in self._passive
                else one
                for one in agreement.parties
            ),
            score_defences=self._protection.names,
            wants_parameter_gram=self._protection.wants_gram,
            announced=self._protection.announced,
        )
        self.aligned = {name: self._aligned(name) for name in (str(Role.ACTIVE), *self._passive)}
        self._features = {name: one.features for name, one in self.aligned.items()}
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

    def audited(self) -> tuple[dict[str, PartyModel], Calibration | None]:
        """Train the audited session itself: its batches and, of parties that repeat themselves, its start weights.

        Returns:
            The parties' models, and what calibrated their scores; None for nothing.

        Raises:
            ValueError: for a learner that isn't the linear one.
        """
        plan, classes = self.agreement.plan, self.agreement.classes
        learner = plan.family
        if not isinstance(learner, LinearRegression):
            raise ValueError(f"Only linear models are trained in one place, and this session trains {plan.learner}.")
        data = VerticalData(list(self._features.values()), self._tables.labels, classes)
        starts = [
            self._begun(learner, name, np.random.default_rng(self._settings[name].private_seed), data.labels)
            for name in self._features
        ]
        spared = [np.zeros(features.shape[1], dtype=bool) for features in self._features.values()]
        spared[0][-1] = True
        descent = learner.in_one_place(plan.schedule(self._tables.split.train), plan.epochs, len(starts))
        return self._calibrated(self._kept(train_by_epoch(data, starts, descent, l2=learner.l2, unpenalised=spared)))

    def _kept(self, epochs: Iterator[list[FloatArray]]) -> dict[str, PartyModel]:
        """Find the model of the epoch that a session keeps: the last, or with patience the best before that ran out."""
        patience, validation = self.agreement.plan.patience, self._tables.split.validation
        party_models, best, waited = dict[str, PartyModel](), math.inf, 0
        for weights in epochs:
            models = self.models(dict(zip(self._features, weights, strict=True)))
            if not patience:
                party_models = models
                continue
            loss = log_loss(self.scores(models, validation), self._tables.labels[validation])
            party_models, best, waited = (models, loss, 0) if loss < best else (party_models, best, waited + 1)
            if waited >= patience:
                break
        return party_models

    def _calibrated(self, models: dict[str, PartyModel]) -> tuple[dict[str, PartyModel], Calibration | None]:
        """Fit a slope and intercepts to validation records where the session does, and scale every party's part."""
        validation = self._tables.split.validation
        if not calibrates(self.agreement):
            return models, None
        fit = fitted(self.scores(models, validation), self._tables.labels[validation])
        if fit is None:
            return models, None
        slope = Calibration(fit.step)
        return {
            name: replace(model, part=(fit if name == Role.ACTIVE else slope).part_of(model.part), trained=model.part)
            for name, model in models.items()
        }, fit

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
        """Answer as the coordinator does for some rows, under its defences: (n, classes)."""
        row_numbers = rows.tolist()
        logits = sum(model.partial_scores(row_numbers) for model in models.values())
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
        """Collect what the active party sees of a session.

        Args:
            models: the parties' parts of it.
            rows: that are predicted.
            known: rows that it holds in full; None for none.
            scores: (n, classes), as they were delivered; None has them answered here.
            moments: what it knows beforehand of the passive columns.
        """
        knowledge = self.knowledge(models, known, moments)
        return knowledge.view(rows, self.scores(models, rows) if scores is None else scores)

    def knowledge(
        self, models: Mapping[str, PartyModel], known: IntArray | None, moments: PassiveMoments | None
    ) -> Knowledge:
        """Collect what the active party knows of a session besides its scores; arguments as of ``seen``."""
        discloses = all(self._settings[name].disclose for name in self._passive)
        return Knowledge(
            models[Role.ACTIVE],
            tuple(self._disclosed(models[name]) for name in self._passive) if discloses else None,
            self._auxiliary(models, known) if known is not None else None,
            auxiliary_rows=known,
            moments=moments,
        )

    def _aligned(self, name: str) -> AlignedFeatures:
        """Change a passive party's features as its defences do."""
        data, aligned = self._tables.data[name], self._tables.aligned[name]
        if name == Role.ACTIVE:
            return replace(data, has_bias=True).aligned(aligned.rows, self.agreement.plan)
        defences = self._defences[name]
        if not defences.changes_features:
            return aligned
        return data.protected_by(defences).aligned(aligned.rows, self.agreement.plan)

    def _drawn(self, name: str, generator: np.random.Generator) -> FloatArray:
        plan = self.agreement.plan
        # From zeros the active party would get the same model again and again.
        learner = (plan.changed(initialisation="xavier") if name == Role.ACTIVE else plan).family
        return self._begun(learner, name, generator)

    def _begun(
        self, learner: Learner, name: str, generator: np.random.Generator, labels: IntArray | None = None
    ) -> FloatArray:
        """Draw a party's start weights; the active one has the labels."""
        agreement, columns = self.agreement, TrainingColumns(self._features[name], self._tables.split.train)
        own_labels, width = labels if name == Role.ACTIVE else None, columns.table.shape[1]
        own = OwnData(width, own_labels, agreement.classes, agreement.total_features, generator, trained=columns)
        return learner.begin(own).weights

    def _model(self, name: str, weights: FloatArray) -> PartyModel:
        labels = self._tables.labels if name == Role.ACTIVE else None
        return PartyModel(self.agreement, name, self._features[name], LinearPart(weights), 1, b"", labels)

    def _disclosed(self, model: PartyModel) -> Part:
        has_part = any(array.any() for array in model.part.arrays().values())
        return model.disclosed_by(self._defences[model.name]) if has_part else model.part

    def _auxiliary(self, models: Mapping[str, PartyModel], rows: IntArray) -> AuxiliaryRows:
        tables = self._tables
        return AuxiliaryRows(
            features_active=tables.features(Role.ACTIVE, rows),
            features_passive=np.hstack([tables.features(name, rows) for name in self._passive]),
            scores=self.scores(models, rows),
            labels=tables.labels[rows],
        )


def _step_size(features: FloatArray, scheme: ResidualScheme) -> float:
    """Find a large step size with which gradient descent can't diverge on these (n, d) records."""
    return 1 / (scheme.gradient_scale(1) * max(float((features**2).sum(axis=1).max()), 1.0))


def secrets_of(settings: Settings) -> NoiseSource:
    """Draw the secrets that this process draws in every session: an audit's repeat."""
    return NoiseSource(settings.private_seed)


# Of more columns an attack on many sessions may take minutes.
_MOST_SAMPLED = 64


def attack_at_the_limit(
    plan: AuditPlan | ClearPlan, tables: JoinedTables, run: AuditFolder, progress: RunProgress
) -> None:
    """Add to what a federation's attacks on predictions found what the same adversary finds after further sessions.

    Nothing is added where no attack on predictions ran, or further sessions tell no more; the run's folder says which.

    Args:
        plan: of the audit.
        tables: of all parties.
        run: the folder of a run whose federation is over.
        progress: told which session is made.

    Raises:
        RunFolderError: where something of the run is missing or broken.
    """
    folder, limit = run.parties, plan.limit
    outcomes = folder.prediction_outcomes()
    agreement = folder.record(Role.ACTIVE).agreement
    if limit is None or agreement is None or not any(one.batch == 0 for one in outcomes):
        return
    if not agreement.serving.tells_owners:
        limit = replace(limit, reason=SHARED_SCORES)
    elif by_label := labels_of(plan.request.adversary.attacks, plan.levels, limit):
        sessions = ClearSessions(tables, plan.recipe.parties, agreement)
        limit = replace(limit, records=len(sessions.training_rows))
        with logged_to(run.logs / "auditor.log"):
            batch = _attacked(_seen_of_all(sessions, run, limit, progress), by_label, limit)
        estimates = folder.estimates(0)
        folder.write_estimates(
            0, Estimates(estimates.rows, estimates.by_attack | batch.arrays, estimates.auxiliary_rows)
        )
        folder.write_prediction_outcomes([*outcomes, *batch.outcomes])
    folder.write_session_limit(limit)


@contextmanager
def logged_to(path: Path) -> Iterator[None]:
    """Write what services would log of an attack that fails to a file, and not on the console."""
    handler, log = logging.FileHandler(path, delay=True), logging.getLogger("services")
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        handler.close()


def _seen_of_all(
    sessions: ClearSessions, run: AuditFolder, limit: SessionLimit, progress: RunProgress
) -> attacks.PredictionView:
    """Collect what the active party sees of the audited session, the last one, behind all others."""
    folder, estimates = run.parties, run.parties.estimates(0)
    rows, auxiliary_rows = estimates.rows, estimates.auxiliary_rows
    # One passive party at a time, for sums of several parties' equations tell less.
    parties = [party.name for party in limit.parties for _ in range(party.sessions - 1)]
    progress.stage("further sessions", "sessions")
    earlier = []
    for number, name in enumerate(parties):
        progress.at(number, len(parties))
        generator = np.random.default_rng((sessions.agreement.plan.seed, number))
        view = sessions.seen(sessions.trained([name], generator), rows, auxiliary_rows)
        # Many of them are held at once: without what is the same in every session.
        earlier.append(replace(view, labels=None, features_train=None, moments=None))
    names = [party.name for party in sessions.agreement.parties]
    last = sessions.seen(
        sessions.models({name: folder.weights(name).weights for name in names}),
        rows,
        auxiliary_rows,
        scores=_delivered(folder, sessions.agreement, rows),
        moments=read_moments(run.prior_knowledge),
    )
    return replace(last, earlier=tuple(earlier))


def _delivered(folder: RunFolder, agreement: Agreement, rows: IntArray) -> FloatArray:
    """Read the audited session's scores of these rows, as the active party got them."""
    tested = folder.delivered_scores(agreement)
    place = {row: number for number, row in enumerate(tested.rows.tolist())}
    return tested.scores[[place[row] for row in rows.tolist()]]


def _attacked(
    view: attacks.PredictionView, by_label: Mapping[str, tuple[str, Mapping[str, Any]]], limit: SessionLimit
) -> AttackedBatch:
    """Say what each attack finds at each level, in the words of a hosted one."""
    batch = AttackedBatch(0, view.n)
    is_wide, attack_view = view.d > _MOST_SAMPLED, view
    if is_wide and (moments := view.moments) is not None:
        # What it tells of single values of columns takes minutes to weigh where there are many.
        attack_view = replace(view, moments=replace(moments, supports=(), frequencies=(), groups=()))
    for label, (name, options) in by_label.items():
        wide = attacks.spec_of(name).when_wide if is_wide else {}
        attack = attacks.load_prediction(name, **{**options, **wide})
        batch.mount(Mounted(label, attack, lambda: attack_view))
    simulated_count = len(view.earlier)
    simulated = (
        f"SIMULATED: {simulated_count} of the {simulated_count + 1} sessions were trained in the clear by the auditor, "
        f"each in one epoch over {counted(limit.records, 'record')}."
    )
    if is_wide:
        simulated += f" So many columns ({view.d}) were solved for at once, without their bounds and their few values."
    batch.outcomes = [
        replace(one, sessions=limit.sessions, notes=(simulated, *(one.notes or ()))) for one in batch.outcomes
    ]
    return batch
