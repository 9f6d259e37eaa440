"""What came of one measurement, as it is kept and as it travels."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Status = Literal["done", "not applicable", "failed"]
# Of two results of a measurement, the one that says more.
RANKED: tuple[Status, ...] = ("failed", "not applicable", "done")


@dataclass(frozen=True)
class Outcome:
    """What came of one measurement.

    Attributes:
        status: failed ones are tried again by the next sweep.
        reason: a sentence, empty for done.
        measures: JSON, numbers exact, with NaN and Infinity.
        seconds: of CPU that it took. No part of the result.
        elapsed: seconds by the clock, which are more where others work for it.
    """

    status: Status
    reason: str = ""
    measures: str = "{}"
    seconds: float = 0.0
    elapsed: float = 0.0

    @property
    def columns(self) -> dict[str, Any]:
        """Status, reason and measures as columns of a table of results."""
        measures: dict[str, Any] = json.loads(self.measures)
        return {"status": self.status, "reason": self.reason} | measures

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """Measures as arrays, to the last bit: what a training found."""
        return {name: np.asarray(values) for name, values in json.loads(self.measures).items()}


def done(measures: Mapping[str, Any]) -> Outcome:
    """Keep measures: numbers, texts, lists and arrays of them. Raises TypeError for anything else."""
    return Outcome("done", "", json.dumps(measures, default=_from_numpy))


def _from_numpy(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"A measure is a {type(value).__name__}: expected numbers, texts, or lists of them.")
