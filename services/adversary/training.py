"""Hosts the attacks that a party can mount on training, with what its cipher saw of it only."""

import json
import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attacks.auxiliary_ciphertext import AuxiliaryCiphertext
from attacks.feature_order import RecoveredFeatures
from attacks.label_recovery import RecoveredLabels
from attacks.randomiser_channel import RandomiserChannel
from attacks.training_views import Equations, OwnStep, TrainingAttack, TrainingView
from services.adversary.ciphers import AuxiliaryCipher, ChannelCipher, RecordingCipher, Transcript
from services.common.agreement import Agreement
from services.party.party_training import PartyTraining
from services.protocol1.cipher import Cipher, Protect, make_cipher
from vfl.arrays import IntArray

_log = logging.getLogger(__name__)


class TrainingAdversary:
    """The training attacks that a party mounts in its own service; without any, everything here is the honest code.

    An attack that can't be mounted is reported as not applicable, and the party trains honestly.
    """

    def __init__(self, mounted: Mapping[str, TrainingAttack], name: str, folder: Path | None) -> None:
        replacing = [
            one for one, attack in mounted.items() if isinstance(attack, AuxiliaryCiphertext | RandomiserChannel)
        ]
        if len(replacing) > 1:
            raise ValueError(f"{' and '.join(replacing)} both replace messages: mount one of them.")
        self._mounted = dict(mounted)
        self._name = name
        self._folder = folder / "attacks" if folder is not None else None
        self._transcript = Transcript()
        self._cipher: Cipher | None = None
        self._refused: dict[str, str] = {}

    def cipher(self, agreement: Agreement, name: str, protect: Protect) -> Cipher:
        """The cipher that this party trains with in one session, its own defences included."""
        self._transcript = Transcript()
        self._refused = {}
        self._cipher = self._make_cipher(agreement, name, protect)
        return self._cipher

    def _make_cipher(self, agreement: Agreement, name: str, protect: Protect) -> Cipher:
        for one, attack in self._mounted.items():
            if not isinstance(attack, AuxiliaryCiphertext | RandomiserChannel):
                continue
            if agreement.plan.cipher != "paillier":
                self._refused[one] = f"{one} needs ciphertexts: cipher=paillier."
                continue
            try:
                if isinstance(attack, AuxiliaryCiphertext):
                    return AuxiliaryCipher(agreement, name, protect, attack, self._transcript)
                if agreement.plan.packing:
                    raise ValueError(f"{one} needs ciphertexts of one value each: packing=off.")
                return ChannelCipher(agreement, name, protect, attack, self._transcript)
            except ValueError as error:
                self._refused[one] = str(error)
        honest = make_cipher(agreement, name, protect)
        return RecordingCipher(honest, self._transcript) if self._mounted else honest

    def begin(self, training: PartyTraining) -> None:
        """Called before the first step, when the schedule is known."""
        if isinstance(self._cipher, ChannelCipher):
            self._cipher.rows_of_step = dict(enumerate(_batches(training)))

    def attack(self, training: PartyTraining) -> None:
        """Run every mounted attack on the transcript, once training is over, and write what it found."""
        outcomes = []
        for name, attack in self._mounted.items():
            start = time.perf_counter()
            outcome: dict[str, Any] = {"attack": name, "party": self._name}
            try:
                if name in self._refused:
                    raise ValueError(self._refused[name])
                outcome |= self._run(name, attack, training)
                outcome["status"] = "done"
                _log.info("Attack %s has run on %d steps.", name, len(self._transcript.shares))
            except ValueError as error:
                outcome |= {"status": "not applicable", "reason": str(error)}
                _log.warning("Attack %s is not applicable: %s", name, error)
            except Exception as error:  # an attack is a guest: its bugs are reported and the federation goes on
                outcome |= {"status": "failed", "reason": f"{name} failed with {type(error).__name__}: {error}"}
                _log.exception("Attack %s failed.", name)
            outcomes.append({**outcome, "seconds": time.perf_counter() - start})
        if self._mounted and self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
            (self._folder / f"training-{self._name}.json").write_text(json.dumps(outcomes, indent=1))

    def _run(self, name: str, attack: TrainingAttack, training: PartyTraining) -> dict[str, Any]:
        if isinstance(attack, RandomiserChannel):
            return self._write_readings(name, training)
        result = attack.attack(self._view(training))
        if isinstance(result, RecoveredLabels):
            return self._write_labels(name, result, training)
        if isinstance(result, RecoveredFeatures):
            return self._write_features(name, result)
        raise ValueError(f"{name} gave a {type(result).__name__}, which this service can't write.")

    def _view(self, training: PartyTraining) -> TrainingView:
        agreement, plan = training.agreement, training.agreement.plan
        step_size = 0.0 if plan.cipher == "plain" else 2.0**-plan.residual_fraction_bits
        batches = _batches(training)
        is_active = self._name == agreement.active.name
        rows = np.arange(agreement.active.aligned_rows)
        return TrainingView(
            role="active" if is_active else "passive",
            features=training.features_of(rows),
            steps=tuple(
                OwnStep(step, batches[step], np.rint(share / step_size) * step_size if step_size else share)
                for step, share in self._transcript.shares.items()
            ),
            equations=tuple(
                Equations(step, peer, batches[step], matrix, sums)
                for (step, peer), (matrix, sums) in self._transcript.sums.items()
            ),
            peer_features={peer.name: peer.feature_count for peer in agreement.peers_of(self._name)},
            label_party=None if is_active else agreement.active.name,
            learning_rate=plan.learning_rate,
            classes=agreement.classes,
            batch_size=plan.batch_size,
            initialisation=plan.initialisation,
            labels=training.labels_of(rows) if is_active else None,
            l2=plan.l2,
            share_step=step_size,
        )

    def _write_labels(self, name: str, result: RecoveredLabels, training: PartyTraining) -> dict[str, Any]:
        per_epoch = training.schedule.steps_per_epoch
        self._save(
            name,
            labels=result.labels,
            guaranteed=result.guaranteed,
            step_epoch=np.concatenate([np.full(len(one.rows), one.step // per_epoch) for one in result.steps]),
            step_rows=np.concatenate([one.rows for one in result.steps]),
            step_labels=np.concatenate([one.labels for one in result.steps]),
        )
        return {
            "kind": "labels",
            "guaranteed_steps": result.guaranteed_steps,
            "rank": [one.rank for one in result.steps],
            "condition_number": [one.condition_number for one in result.steps],
            "unresolved": len(result.unresolved),
            "reason": result.reason,
        }

    def _write_features(self, name: str, result: RecoveredFeatures) -> dict[str, Any]:
        self._save(name, **{f"values-{peer}": feature.values for peer, feature in result.features.items()})
        reasons = {peer: feature.reason for peer, feature in result.features.items()}
        return {"kind": "features", "reason": result.reason, "reasons": reasons}

    def _write_readings(self, name: str, training: PartyTraining) -> dict[str, Any]:
        cipher = self._cipher
        assert isinstance(cipher, ChannelCipher)  # noqa: S101 - otherwise the attack was refused
        peers = training.agreement.peers_of(self._name)
        for peer in peers:
            cipher.readings.setdefault(peer.name, {})
        arrays = {}
        for peer in peers:
            known = cipher.readings[peer.name]
            arrays[f"rows-{peer.name}"] = np.array(sorted(known), dtype=np.int64)
            arrays[f"values-{peer.name}"] = np.array([known[row] for row in sorted(known)]).reshape(
                len(known), peer.feature_count
            )
        self._save(name, **arrays)
        return {"kind": "readings", "answers": cipher.answers, "credible_answers": cipher.credible_answers}

    def _save(self, attack: str, **arrays: NDArray[Any]) -> None:
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
            with (self._folder / f"training-{self._name}-{attack}.npz").open("wb") as file:
                np.savez(file, allow_pickle=False, **arrays)


def _batches(training: PartyTraining) -> list[IntArray]:
    """Rows of every planned step, from the public schedule."""
    return [batch for epoch in range(training.agreement.plan.epochs) for batch in training.schedule.epoch(epoch)]
