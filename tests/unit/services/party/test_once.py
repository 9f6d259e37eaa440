"""Once means once: whatever a peer does with interruptions, a step gives it one answer, about one value.

The peer speaks to a real party by messages alone (``tests.harness.once``). What it was told is held against a model of
a few lines, which knows nothing of keys, tries and processes: rights are counted, not keys.
"""

import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.harness.once import Claim, Peer, Shown, Told, besieged

NETWORK: dict[str, Any] = {
    "learner": "network",
    "backward": "paillier",
    "learner_options": {"hidden": 2, "upper": 3, "learning_rate": 0.2},
}


# -- the model ---------------------------------------------------------------------------------------------------------


def broken_promises(shown: Iterable[Shown], told: Iterable[Told]) -> list[str]:
    """What of "once" doesn't hold, over all keys, tries and processes of a session."""
    shown, told = list(shown), list(told)
    real = [one for one in shown if one.is_real]
    values: dict[int, set[bytes]] = {}
    for one in real:
        values.setdefault(one.step, set()).add(one.values.tobytes())
    spent = {one.step: one.behind for one in reversed(told)}
    asked = Counter(one.step for one in told)
    return [
        *([f"{len(told)} questions answered about {len(values)} steps"] if len(told) > len(values) else []),
        *(f"step {step} was answered {count} times" for step, count in asked.items() if count > 1),
        *(f"step {step} had {len(sent)} values" for step, sent in values.items() if len(sent) > 1),
        *(
            f"step {one.step} was sent again, though its right was spent"
            for place, one in enumerate(shown)
            if one.is_real and place >= spent.get(one.step, len(shown))
        ),
    ]


def broken_per_key(shown: Iterable[Shown], told: Iterable[Told]) -> list[str]:
    """The same of a weaker model: answers under a key are no more than the steps that were sent under it."""
    sent = {(one.vector.key_id, one.step) for one in shown}
    steps = Counter(key_id for key_id, _ in sent)
    answers = Counter(one.key_id for one in told)
    return [f"{count} answers under {key}" for key, count in answers.items() if count > steps[key]]


def promises_of(peer: Peer) -> list[str]:
    """What doesn't hold of what this peer was told."""
    with peer.changed:
        broken = broken_promises(peer.shown, peer.told.values())
        products: dict[int, set[bytes]] = {}
        for step, values in peer.forwarded:
            if values.any():
                products.setdefault(step, set()).add(values.tobytes())
    broken += [f"products of step {step} were of {len(of)} weights" for step, of in products.items() if len(of) > 1]
    return broken


# -- the state machine -------------------------------------------------------------------------------------------------

CLAIMS = st.builds(
    Claim,
    # A claim that no interruption explains ends an active party's job: few of them.
    back=st.sampled_from([1, 1, 1, 0, 0, 0, -1, 2]),
    skipped=st.sampled_from([frozenset[int](), frozenset({0}), frozenset({1}), frozenset({0, 1})]),
    has_answered=st.frozensets(st.integers(-1, 1)),
    still_asks=st.booleans(),
)


class OnceModel(RuleBasedStateMachine):
    """Any sequence of steps, stops, claims, restarts and questions: what the peer is told is what the model allows."""

    victim = "active"
    terms: Mapping[str, Any] = {}
    # Whether the victim's own folder may be put back from a copy: something outside it must know better then.
    is_anchored = False

    @initialize()
    def begin(self) -> None:
        self.stack = ExitStack()
        folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory()))
        chosen = {"epochs": 3, "batch_size": 8, **self.terms}
        self.peer = self.stack.enter_context(besieged(folder, self.victim, columns=4, **chosen))
        self.has_copy = False

    def teardown(self) -> None:
        if hasattr(self, "stack"):
            self.stack.close()

    @rule()
    def advance(self) -> None:
        self.peer.advance()

    @rule(
        age=st.sampled_from([0, 0, 0, 1, 2, 4]), offset=st.sampled_from([-1, 0, -1, 0, -2, 1]), others=st.integers(0, 1)
    )
    def ask(self, age: int, offset: int, others: int) -> None:
        """About any vector that was sent lately, or of two under one key, under the name of some step."""
        self.peer.ready()
        if len(self.peer.shown) <= age:
            return
        about = self.peer.shown[-1 - age]
        of_key = [one for one in self.peer.shown if one.vector.key_id == about.vector.key_id and one != about]
        same_size = [one for one in of_key if len(one.values) == len(about.values)]
        self.peer.ask([about, *same_size[:others]], self.peer.completed + offset)

    @rule(claim=CLAIMS)
    def interrupt(self, claim: Claim) -> None:
        self.peer.interrupt(claim)

    @rule(claim=CLAIMS)
    def restart(self, claim: Claim) -> None:
        self.peer.restart(claim)

    @precondition(lambda self: self.is_anchored)
    @rule()
    def copy(self) -> None:
        self.peer.town.copy_state()
        self.has_copy = True

    @precondition(lambda self: self.is_anchored and self.has_copy)
    @rule(claim=CLAIMS)
    def put_back(self, claim: Claim) -> None:
        self.peer.restart(claim, self.peer.town.put_back)

    @invariant()
    def holds(self) -> None:
        if hasattr(self, "peer"):
            assert promises_of(self.peer) == []


class LinearActive(OnceModel):
    """Protocol 1 at the label party."""


class LinearPassive(OnceModel):
    """Protocol 1 at a passive party, which also scores validation records between epochs."""

    victim = "passive"

    @rule()
    def validate(self) -> None:
        self.peer.validate()

    @invariant()
    def forms_are_counted(self) -> None:
        if hasattr(self, "peer"):
            assert self.peer.forms_counted >= self.peer.forms_told


class NetworkActive(OnceModel):
    """A network's label party, which sends its backward signal encrypted."""

    terms = NETWORK


class NetworkPassive(OnceModel):
    """A network's passive party, which forwards its products."""

    victim, terms = "passive", NETWORK


MACHINES = [LinearActive, LinearPassive, NetworkActive, NetworkPassive]


@pytest.mark.parametrize("machine", MACHINES)
def test_whatever_a_peer_does_it_is_told_no_more_than_once(machine: type[OnceModel]) -> None:
    _needs_torch(machine)
    run_state_machine_as_test(
        machine,
        # Without shrinking, which takes minutes: the thorough one does it.
        settings=settings(
            max_examples=10, stateful_step_count=20, deadline=None, derandomize=True, phases=[Phase.generate]
        ),
    )


def _needs_torch(machine: type[OnceModel]) -> None:
    if "learner" in machine.terms:
        pytest.importorskip("torch")
