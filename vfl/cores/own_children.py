"""Secrets that may reach this process's own children and nobody else.

`pickle` is how objects leave a process: into files, to clusters, over sockets. What derives from `OwnChildrenOnly`
refuses it. Only `packed_for_child`, whose bytes go down the pipe to a worker that this process has started, passes it.
"""

import io
import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NoReturn

Rebuilt = tuple[Callable[..., Any], tuple[Any, ...]]


class OwnChildrenOnly(ABC):
    """Holds secrets that a worker of this process needs; raises TypeError when it is pickled in any other way."""

    @abstractmethod
    def rebuilt_in_child(self) -> Rebuilt:
        """Name the function of a module, and its arguments, that make this object again in a worker."""

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"A {type(self).__name__} is secret: it reaches this process's own workers only, and can't be pickled."
        )


class _Packer(pickle.Pickler):
    def reducer_override(self, thing: Any) -> Any:
        return thing.rebuilt_in_child() if isinstance(thing, OwnChildrenOnly) else NotImplemented


def packed_for_child(thing: Any) -> bytes:
    """Pickle something with the secrets in it. The bytes go to a child of this process and nowhere else."""
    buffer = io.BytesIO()
    _Packer(buffer, pickle.HIGHEST_PROTOCOL).dump(thing)
    return buffer.getvalue()
