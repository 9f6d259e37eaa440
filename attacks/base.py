"""What an attack is: a frozen set of options with a declared adversary, phase, knowledge and needs."""

from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

from attacks.views import PredictionView, ViewError
from vfl.arrays import FloatArray


@dataclass(frozen=True)
class AttackSpec:
    """What an attack presupposes. ``needs`` names the fields of its view that must be there.

    knowledge: white_box (the model's parameters), black_box (scores only) or agnostic (neither is needed).
    """

    adversary: Literal["active", "passive", "either"]
    phase: Literal["prediction", "training"]
    knowledge: Literal["white_box", "black_box", "agnostic"]
    needs: tuple[str, ...]
    source: str


class PredictionAttack(Protocol):
    """An attack on predictions: a pure function of its view. Implementations are frozen dataclasses of options."""

    name: ClassVar[str]
    spec: ClassVar[AttackSpec]

    def reconstruct(self, view: PredictionView) -> FloatArray:
        """Estimate the passive features of every record: (n, d). Raises ViewError when a needed piece is missing."""


def require(attack: PredictionAttack, view: PredictionView) -> None:
    """Raises ViewError naming the attack, the missing piece and the remedy."""
    remedies = {
        "scores": "run predictions first",
        "weights_active": "this is a white-box attack: the model's parameters must be disclosed",
        "weights_passive": "this is a white-box attack: the passive party must disclose its parameters",
        "bias": "this is a white-box attack: the model's parameters must be disclosed",
        "network": "this attack needs a disclosed network",
        "labels": "give the active party's labels and training features",
        "features_train": "give the active party's labels and training features",
        "auxiliary": "give complete auxiliary records",
        "passive_features": "say how many features the passive parties have",
    }
    for piece in attack.spec.needs:
        if getattr(view, piece) is None:
            raise ViewError(f"{attack.name} needs {piece}, which this view lacks: {remedies[piece]}.")
