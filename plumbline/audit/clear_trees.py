"""A session of boosted trees in one place, SIMULATED: its real parties, wired to each other, in the clear.

Each party has its adversary beside it, who writes what it found as in an audit. Trees are those of a session between
processes, but where columns gain exactly alike: each session numbers them anew.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, cast

import numpy as np

from attacks.training_attack import listens
from plumbline.audit.further_sessions import ClearSessions, secrets_of
from services.active.server import known_beforehand
from services.adversary.load import load_attacks
from services.adversary.prior_knowledge import read_moments
from services.adversary.training import TrainingAdversary
from services.common.applied_defences import load_defences
from services.common.identity import Role, role_of
from services.common.limits import PREDICTION_ROWS, SHARE_VALUES
from services.in_process.wired_trainings import train_together, wired_trainings
from services.party.party_defences import PartyDefences
from services.party.party_model import PartyModel
from services.passive.server import known_labels
from vfl.arrays import FloatArray, IntArray
from vfl.data.id_array import IdArray
from vfl.learning import confidence_scores
from vfl.learning.calibration import Calibration
from vfl.learning.trees.boosted_trees import LabelHalf


class ClearTrees(ClearSessions):
    """Grows a session of the same parties, tables and defences as an audited one, and shows what it tells."""

    def audited(self) -> tuple[dict[str, PartyModel], Calibration | None]:
        """Grow all trees, and attack what growing them told; nothing calibrates trees."""
        ids, plan, tables = IdArray.of(self._tables.ids), self.agreement.plan, self._tables
        adversaries = {name: self._adversary(name) for name in self.aligned}
        own = self._settings[Role.ACTIVE]
        defences = PartyDefences(load_defences(own, Role.ACTIVE), secrets_of(own))

        def means(name: str) -> Mapping[str, Any]:
            settings = self._settings[name]
            return {
                "generator": np.random.default_rng(settings.private_seed),
                "timeout": settings.step_timeout,
                "defences": self._defences.get(name, defences),
                "seat": partial(adversaries[name].seat, ids=ids),
            }

        gridded = {name: aligned.gridded for name, aligned in self.aligned.items()}
        replaced = defences.replace_labels(tables.labels, tables.ids, self.agreement.classes)
        losses: list[float] = []
        with wired_trainings(self.agreement, gridded, tables.labels, means, trained_labels=replaced) as trainings:
            half = cast(LabelHalf, trainings[Role.ACTIVE].half)

            def are_enough() -> bool:
                losses.append(half.loss)
                return 0 < plan.patience <= len(losses) - 1 - int(np.argmin(losses))

            train_together(trainings, plan.epochs, are_enough)
            for training in trainings.values():
                training.keep_epoch(int(np.argmin(losses)) if plan.patience else plan.epochs - 1)
            for name, adversary in adversaries.items():
                adversary.attack(trainings[name], ids=ids)
            return {name: training.model for name, training in trainings.items()}, None

    def scores(self, models: Mapping[str, PartyModel], rows: IntArray) -> FloatArray:
        """Answer as the coordinator does: the reached leaf of each tree, (n, trees), or defended scores, (n, 2)."""
        serving, own, answers = self.agreement.serving, models[Role.ACTIVE], list[FloatArray]()
        most = serving.most_records(min(SHARE_VALUES // self.agreement.outputs, PREDICTION_ROWS))
        for start in range(0, len(rows), most):
            part = rows[start : start + most].tolist()
            question = serving.ask(own, part, None)
            shares = [
                serving.answer(models[name], part, question.masked_for(name), None, None, lambda draw: draw())[1]
                for name in self._passive
            ]
            answer = np.asarray(serving.added([question.products(dict), *shares])[0])
            if self.agreement.score_defences:
                answer = self._protection.protected(confidence_scores(answer), None)
            answers.append(question.read(answer))
        return np.vstack(answers)

    def _adversary(self, name: str) -> TrainingAdversary:
        """Mount those of a party's attacks on training that listen: others have a session of their own."""
        settings, role = self._settings[name], role_of(name)
        _, in_training = load_attacks(settings.attacks, settings.attack_options, role)
        listening = {label: one for label, one in in_training.items() if listens(one)}
        if role is Role.PASSIVE:
            return TrainingAdversary(listening, name, settings.run_dir, known=known_labels(settings))
        path = settings.prior_knowledge
        return TrainingAdversary(
            listening,
            name,
            settings.run_dir,
            known=known_beforehand(settings).records,
            moments=read_moments(path, in_training=True) if path else None,
        )
