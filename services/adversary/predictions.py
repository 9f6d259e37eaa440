"""Hosts the attacks that an active party can mount, on live transcripts, with what it owns and received only."""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import attacks
from services.common.run_folder import RunFolder
from services.common.run_records import DONE, FAILED, NOT_APPLICABLE, Estimates, PredictionAttackOutcome
from services.party.party_model import PartyModel
from vfl.arrays import FloatArray, IntArray
from vfl.learning import class_rows
from vfl.learning.networks import DenseNetwork, VerticalNetwork

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Knowledge:
    """What the active party knows of one session besides scores.

    Attributes:
        model: its own part.
        disclosed: each passive party's parameters in the agreement's order. None in black box.
        auxiliary: complete records that this party holds besides, with the scores that it got for them.
    """

    model: PartyModel
    disclosed: tuple[DenseNetwork, ...] | None
    auxiliary: attacks.AuxiliaryRows | None = None

    def own_features(self, rows: IntArray) -> FloatArray:
        """This party's features of these rows, without the bias that training adds."""
        features = self.model.features_of(rows)
        return features if self.model.agreement.plan.installed_model else features[:, :-1]

    def view(self, rows: IntArray, scores: FloatArray) -> attacks.PredictionView:
        """The view of predictions of ``rows``, (n, classes) scores.

        Raises:
            ViewError: when the pieces don't fit.
        """
        own_bias = not self.model.agreement.plan.installed_model
        train_rows = self.model.rows.train
        pieces: dict[str, Any] = {
            "features_active": self.own_features(rows),
            "scores": scores,
            "auxiliary": self.auxiliary,
            "labels": self.model.labels_of(train_rows),
            "features_train": self.own_features(train_rows),
            "passive_features": sum(party.feature_count for party in self.model.agreement.peers_of(self.model.name)),
        }
        own, others = self.model.parameters, self.disclosed
        if own.is_linear and own_bias:
            rows_by_class = class_rows(own.weights[0])
            pieces["weights_active"], pieces["bias"] = rows_by_class[:, :-1], rows_by_class[:, -1]
        elif own.is_linear:
            pieces["weights_active"] = class_rows(own.weights[0])
        else:
            pieces["network_active"] = own
        if others is not None and all(part.is_linear for part in (own, *others)):
            pieces["weights_passive"] = np.hstack([class_rows(part.weights[0]) for part in others])
            pieces.setdefault("bias", sum((part.biases[0] for part in others), own.biases[0]))
        elif others is not None and len(others) == 1:
            pieces["network"] = VerticalNetwork(own, others[0])
        return attacks.PredictionView(**pieces)


class AttackHost:
    """Runs the switched-on attacks on scores as they arrive and writes what they found to the run folder.

    An attack that can't be mounted is reported as not applicable, with the reason. The federation goes on.
    """

    def __init__(self, mounted: Mapping[str, attacks.PredictionAttack], folder: Path | None) -> None:
        self._mounted = dict(mounted)
        self._folder = RunFolder(folder) if folder is not None else None
        self._outcomes: list[PredictionAttackOutcome] = []
        self._batch = 0

    @property
    def is_idle(self) -> bool:
        """Whether no attack is switched on."""
        return not self._mounted

    def begin(self) -> None:
        """Forget what belonged to the session before."""
        self._outcomes = []
        self._batch = 0

    def go_on(self) -> None:
        """Go on after a restart behind the batches that are on disk. Batch 0 is the test records' for good."""
        self._outcomes = list(self._folder.prediction_outcomes()) if self._folder is not None else []
        self._batch = 1 + max((outcome.batch for outcome in self._outcomes), default=0)

    def attack(self, knowledge: Knowledge, rows: Sequence[int], scores: FloatArray) -> None:
        """Mount every attack on one batch of predictions: rows of the common order and their (n, classes) scores."""
        batch = self._batch
        self._batch += 1
        indices = np.asarray(rows, dtype=np.int64)
        estimates: dict[str, FloatArray] = {}
        for name, attack in self._mounted.items():
            start = time.perf_counter()
            status, reason, notes = DONE, None, tuple[str, ...]()
            try:
                found = attacks.reconstruct(attack, knowledge.view(indices, scores))
                estimates[name], notes = found.estimate, found.notes
                _log.info("Attack %s reconstructed %d records.", name, len(indices))
            except ValueError as error:  # a ViewError, or a problem that the attack can't solve: its text says which
                status, reason = NOT_APPLICABLE, str(error)
                _log.warning("Attack %s is not applicable: %s", name, error)
            except Exception as error:  # an attack is a guest: its bugs are reported and the federation goes on
                status, reason = FAILED, f"{name} failed with {type(error).__name__}: {error}"
                _log.exception("Attack %s failed.", name)
            self._outcomes.append(
                PredictionAttackOutcome(
                    attack=name,
                    batch=batch,
                    records=len(indices),
                    status=status,
                    reason=reason,
                    notes=notes or None,
                    seconds=time.perf_counter() - start,
                )
            )
        if self._folder is not None:
            self._folder.write_estimates(batch, Estimates(indices, estimates))
            self._folder.write_prediction_outcomes(self._outcomes)
