"""What a protocol notes of steps that may be done again, beside weights and answers: bytes by step and name."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

# The step of what is noted for all of them.
ALL_STEPS = -1


class StepNotes:
    """A training's notes, kept as long as their step can be done again."""

    def __init__(self) -> None:
        """Begin with none."""
        self._contents: dict[tuple[int, str], bytes] = {}

    def of(self, step: int, name: str) -> bytes | None:
        """Find what was noted of a step, or of ``ALL_STEPS``, under a name; None for nothing."""
        return self._contents.get((step, name))

    def note(self, step: int, name: str, content: bytes) -> None:
        """Note something in place of what was noted under this name. The log's next write keeps it."""
        self._contents[step, name] = content

    def forget_before(self, step: int) -> None:
        """Forget steps that can't be done again."""
        contents = self._contents.items()
        self._contents = {at: content for at, content in contents if at[0] == ALL_STEPS or at[0] >= step}

    def forget(self) -> None:
        """Forget all."""
        self._contents = {}

    def written(self) -> tuple[Sequence[tuple[int, str]], dict[str, NDArray[np.uint8]]]:
        """Give where each note belongs, and their contents as named arrays."""
        contents = dict(self._contents)
        arrays = {f"note_{index}": np.frombuffer(one, dtype=np.uint8) for index, one in enumerate(contents.values())}
        return list(contents), arrays

    def read(self, places: Sequence[Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Read what ``written`` gave; raises KeyError, ValueError or TypeError for anything else."""
        self._contents = {
            (int(step), str(name)): arrays[f"note_{index}"].tobytes() for index, (step, name) in enumerate(places)
        }
