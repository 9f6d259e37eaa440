"""What holds secrets can't leave its process, except packed for a worker of its own."""

import copy
import pickle
from dataclasses import dataclass

import pytest

from vfl.cores import OwnChildrenOnly
from vfl.cores.own_children import Rebuilt, packed_for_child


@dataclass(frozen=True)
class Secret(OwnChildrenOnly):
    number: int

    def rebuilt_in_child(self) -> Rebuilt:
        return Secret, (self.number,)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_secret_refuses_to_be_pickled_wherever_it_hides(protocol: int) -> None:
    for thing in (Secret(5), [Secret(5)], {"deep": (1, Secret(5))}):
        with pytest.raises(TypeError, match="A Secret is secret: it reaches this process's own workers only"):
            pickle.dumps(thing, protocol)


@pytest.mark.parametrize("leave", [copy.copy, copy.deepcopy])
def test_a_secret_refuses_to_be_copied(leave: object) -> None:
    with pytest.raises(TypeError, match="own workers only"):
        leave(Secret(5))  # type: ignore[operator]


def test_packed_for_a_child_it_arrives_wherever_it_hides() -> None:
    task = (len, {"deep": [Secret(5), Secret(7)]}, "public")
    assert pickle.loads(packed_for_child(task)) == task  # noqa: S301
