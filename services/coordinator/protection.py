"""What the coordinator applies to scores before it delivers them, and how it tells that this is the same as before."""

import hashlib
from collections.abc import Sequence

import numpy as np

from defences import DefenceError, NoiseSource, ScoreContext, ScoreDefence
from services.common import limits
from services.common.agreement import TrainingPlan
from services.common.announced import AnnouncedDefence
from services.common.errors import InvalidMessage, OutOfOrder
from vfl.arrays import FloatArray

# Scores that are protected to see how it is done.
_PROBES, _PROBE_DECIMALS = 8, 9
# Of the largest entry of a Gram matrix.
_GRAM_TOLERANCE = 1e-9


class Protection:
    """Applies score defences in the order given; without any, scores stay as they are.

    Attributes:
        names: of all of them.
        announced: what parties are told of them.
        is_on: whether anything is applied.
    """

    def __init__(self, defences: Sequence[ScoreDefence], noise: NoiseSource) -> None:
        self.names = tuple(defence.name for defence in defences)
        self.announced = tuple(AnnouncedDefence.of(defence) for defence in defences)
        self._defences, self.is_on = tuple(defences), bool(defences)
        self._noise = noise

    @property
    def wants_gram(self) -> bool:
        """Whether a defence needs W W^T of the passive parties' parameters."""
        return any("parameter_gram" in defence.spec.needs for defence in self._defences)

    def check(self, plan: TrainingPlan, columns: int) -> None:
        """Raise InvalidMessage for a plan whose scores, of shares of so many columns, can't be defended so."""
        answers, names = plan.family.spec.answers, " and ".join(self.names)
        if not self.is_on or answers == "scores":
            return
        if answers == "sums":
            raise InvalidMessage(
                f"The coordinator applies {names} to scores, and of the learner {plan.learner} it has none: the active "
                "party makes them of a hidden layer. Start the coordinator without defences, and let passive parties "
                "defend what they forward; or train another learner."
            )
        if self.wants_gram:
            raise InvalidMessage(
                f"The coordinator applies {names}, for which passive parties tell how their weights relate, and of the "
                f"learner {plan.learner} they have none: start it with other defences, or train a linear learner."
            )
        if 2 * columns > limits.SHARE_VALUES:
            raise InvalidMessage(
                f"The coordinator applies {names}, for which it is told what each leaf weighs: a message has no room "
                "for so many leaves. Choose fewer trees (n_estimators), or a smaller max_depth."
            )

    def protected(self, scores: FloatArray, parameter_gram: FloatArray | None) -> FloatArray:
        """Protect (rows, classes) scores; raises OutOfOrder where a defence can't, or makes no numbers."""
        context = ScoreContext(self._noise, parameter_gram)
        for defence in self._defences:
            try:
                scores = defence.protect_scores(scores, context)
            except DefenceError as error:
                raise OutOfOrder(str(error)) from error
            if not np.isfinite(scores).all():
                raise OutOfOrder(f"Defence {defence.name} makes scores that aren't finite: leave it out, or mend it.")
        return scores

    def fingerprint(self, classes: int) -> str:
        """Tell what the defences are, with their options, and what they and their secrets make of some scores.

        Empty without any. It is a rehearsal as well: what has to be trained for so many classes is trained.

        Raises:
            OutOfOrder: for defences that can't work with so many classes.
        """
        if not self._defences:
            return ""
        probes = np.random.default_rng(0).dirichlet(np.ones(classes), size=_PROBES)
        protected = self.protected(np.vstack([np.full(classes, 1 / classes), probes]), np.eye(classes))
        # Rounded: a library's next release may move last bits, and that is no other secret.
        content = repr(self._defences).encode() + np.round(protected, _PROBE_DECIMALS).tobytes()
        return hashlib.sha256(content).hexdigest()


def total_gram(grams: Sequence[FloatArray | None]) -> FloatArray | None:
    """Add up the Gram matrix of all passive parameters side by side; None unless every party gave its own."""
    present = [gram for gram in grams if gram is not None]
    total: FloatArray = np.sum(present, axis=0)
    return total if len(present) == len(grams) else None


def check_gram(gram: FloatArray, classes: int) -> None:
    """Refuse what can't be W W^T: that is symmetric and, but for rounding, has no negative eigenvalue."""
    if gram.shape != (classes, classes):
        raise InvalidMessage(f"Expected a Gram matrix of {classes} classes, got {gram.shape}.")
    unit = float(np.abs(gram).max()) or 1.0
    if not np.allclose(gram / unit, gram.T / unit) or np.linalg.eigvalsh(gram / unit)[0] < -_GRAM_TOLERANCE:
        raise InvalidMessage("Expected a Gram matrix: symmetric, without negative eigenvalues.")
