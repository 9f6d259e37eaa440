"""One case and one trained model, and what the active party sees of it under each defence."""

from functools import cached_property
from pathlib import Path

import defences
from plumbline.simulation.linear_models import Training, train
from plumbline.simulation.score_measures import mean_divergence
from plumbline.simulation.situations import Setting, Situation, situation_of
from studies.defences.cases import NONE, Case, Plan, Trial
from vfl.arrays import FloatArray

# Small data sets need records that are neither trained on nor judged.
_HELD_OUT = 0.4


class Lab:
    """One case and one trained model: what each defence makes of it.

    Of the held-out records the first are attacked and the next are the auxiliary ones, on which nothing was trained.
    """

    def __init__(self, case: Case, data_dir: Path | None, training: Training, seed: int, plan: Plan) -> None:
        """Train the model. Raises DatasetNotFound."""
        self._seed = seed
        self._model = train(case.dataset, data_dir, training, seed, held_out=_HELD_OUT)
        held_out, width = self._model.features.shape
        known = tuple(range(plan.records, min(plan.records + plan.auxiliary, held_out)))
        self._setting = Setting(tuple(range(width - case.passive, width)), plan.records, known, moments=True)

    @cached_property
    def plain(self) -> Situation:
        """Without a defence."""
        return situation_of(self._model, self._setting)

    @property
    def truth(self) -> FloatArray:
        """The passive columns of the attacked records, (n, d)."""
        return self.plain.truth

    def defended(self, trial: Trial) -> Situation:
        """Under a defence. Raises DefenceError for one that can't work on this model."""
        if trial.defence == NONE:
            return self.plain
        return situation_of(
            self._model, self._setting, [defences.load(trial.defence, **trial.options)], seed=self._seed
        )

    def quality(self, situation: Situation) -> dict[str, float]:
        """Measure what a defence costs the active party: its model's accuracy and its scores, on held-out records."""
        plain = self.plain.scores
        return {
            "model_accuracy": self._accuracy(situation.scores),
            "model_accuracy_undefended": self._accuracy(plain),
            "kl": mean_divergence(plain, situation.scores),
            "interpretability": situation.interpretability,
        }

    def _accuracy(self, scores: FloatArray) -> float:
        return float((scores.argmax(axis=1) == self._model.labels).mean())
