"""What an adversary makes of a party's setting, without the session."""

from typing import Any

import numpy as np

from services.adversary.training import TrainingAdversary
from services.common.agreement import Agreement
from services.party.side import SideSetting
from services.party.training_means import TrainingMeans
from vfl.arrays import FloatArray


def setting_of(agreement: Agreement, name: str) -> Any:
    """An honest party's, of which only the terms and the means are there."""
    nothing: Any = None
    means = TrainingMeans({}, np.random.default_rng(0), 1.0, nothing)
    return SideSetting(agreement, name, nothing, nothing, nothing, means, nothing, nothing, nothing)


def encrypted_in_place(adversary: TrainingAdversary, agreement: Agreement, name: str, cells: FloatArray) -> Any:
    """What a protocol would have the party encrypt in place of its columns; None for these."""
    made: list[Any] = []
    adversary.seat(setting_of(agreement, name), made.append)  # type: ignore[arg-type]
    return made[0].means.others(cells)
