"""Sessions add up: each one's model is one more linear form of the same records, and d of them tell all d features."""

from dataclasses import dataclass, replace
from typing import ClassVar

from attacks.base import AttackSpec
from attacks.bayes.posterior import BayesianAdversary
from attacks.views import PredictionView


@dataclass(frozen=True)
class ManySessions(BayesianAdversary):
    """Estimates what ``posterior`` does, from the answers of all sessions in which the same records were predicted.

    A session of k classes tells k - 1 equations of each record. After d / (k - 1) sessions with models of their own the
    equations have one solution. With one session this is ``posterior``; options and options' errors are the same.

    Each session is read through its own channel, with its own parameters, or with those that complete records tell by
    their scores in that session.
    """

    name: ClassVar[str] = "many_sessions"
    spec: ClassVar[AttackSpec] = replace(
        BayesianAdversary.spec,
        source="this project",
        summary="puts the answers of all sessions about the same records together",
        cost="that of posterior; with score defences it grows with the number of sessions",
        joins_sessions=True,
    )

    def _sessions(self, view: PredictionView) -> tuple[PredictionView, ...]:
        return (view, *view.earlier)
