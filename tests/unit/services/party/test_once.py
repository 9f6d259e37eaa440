"""Once means once: whatever a peer does with interruptions, a step gives it one answer, about one value.

The peer speaks to a real party by messages alone (``tests.harness.once``). What it was told is held against a model of
a few lines, which knows nothing of keys, tries and processes: rights are counted, not keys.
"""

import secrets
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
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

from services.exchange.vectors import WireVector
from services.party.resumption import Place
from tests.harness.once import Claim, Peer, Shown, Told
from tests.harness.once_sharing import sharing
from tests.harness.siege import besieged

NETWORK: dict[str, Any] = {
    "learner": "network",
    "backward": "paillier",
    "learner_options": {"hidden": 2, "upper": 3, "learning_rate": 0.2},
}


SHARED_NETWORK: dict[str, Any] = {
    "learner": "network",
    "backward": "shared",
    "learner_options": {"hidden": 1, "upper": 3, "learning_rate": 0.2},
}


# -- the model ---------------------------------------------------------------------------------------------------------


def broken_promises(shown: Iterable[Shown], told: Iterable[Told]) -> list[str]:
    """What of "once" doesn't hold, over all keys, tries and processes of a session.

    A value that a process sent and answered nothing about is known to nobody once it has ended, and its key with it.
    """
    shown, told = list(shown), list(told)
    values: dict[int, set[bytes]] = {}
    of_process: dict[tuple[int, int], set[bytes]] = {}
    for one in shown:
        if one.is_real:
            values.setdefault(one.step, set()).add(one.values.tobytes())
            of_process.setdefault((one.step, one.process), set()).add(one.values.tobytes())
    spent = {one.step: one.behind for one in reversed(told)}
    asked = Counter(one.step for one in told)
    return [
        *([f"{len(told)} questions answered about {len(values)} steps"] if len(told) > len(values) else []),
        *(f"step {step} was answered {count} times" for step, count in asked.items() if count > 1),
        *(f"step {step} had {len(sent)} values" for (step, _), sent in of_process.items() if len(sent) > 1),
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
        drawn: dict[int, set[bytes]] = {}
        for one in peer.shown:
            # What follows from what the peer forwards is another value where it forwards another.
            if one.is_real and not peer.agreement.plan.family.spec.forwards:
                drawn.setdefault(one.step, set()).add(one.values.tobytes())
        broken += [f"step {step} was drawn {len(of)} times" for step, of in drawn.items() if len(of) > 1]
        products: dict[int, set[bytes]] = {}
        for step, values in peer.forwarded:
            if values.any():
                products.setdefault(step, set()).add(values.tobytes())
    broken += [f"products of step {step} were of {len(of)} weights" for step, of in products.items() if len(of) > 1]
    return broken


def test_the_weaker_model_passes_on_the_hole_and_this_one_does_not() -> None:
    """Each try has a key of its own: one answer under it is never more than the step that was sent under it.

    So an interruption that buys an answer a try, about one residual vector, breaks no promise of that model.
    """
    residuals = np.array([[0.25], [-0.5]])
    shown, told = [], []
    for attempt in range(10):
        vector = WireVector(f"key {attempt}", 2, 128, -8, secrets.token_bytes(256))
        shown.append(Shown(5, attempt, 0, vector, residuals))
        told.append(Told(4, attempt, vector.key_id, f"digest {attempt}", residuals, len(shown)))
    assert broken_per_key(shown, told) == []
    assert "10 questions answered about 1 steps" in broken_promises(shown, told)
    assert broken_promises(shown, told[:1]) == []
    # Zeros may be sent, and asked about, as often as it takes.
    zeros = [replace(one, values=residuals * 0) for one in shown]
    assert broken_promises([*shown[:1], *zeros], told[:1]) == []


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
    columns = 4
    # Whether the victim's own folder may be put back from a copy: something outside it must know better then.
    is_anchored = True

    @initialize()
    def begin(self) -> None:
        self.stack = ExitStack()
        folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory()))
        chosen = {"epochs": 3, "batch_size": 8, **self.terms}
        self.peer = self.stack.enter_context(besieged(folder, self.victim, columns=self.columns, **chosen))
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
        self.peer.restart(claim, self.peer.town.put_copy_back)

    @invariant()
    def holds(self) -> None:
        if hasattr(self, "peer"):
            assert promises_of(self.peer) == []


class LinearActive(OnceModel):
    """Protocol 1 at the label party."""


class LinearPassive(OnceModel):
    """Protocol 1 at a passive party, which also scores validation records between epochs."""

    victim = "passive"
    # More than forms are told.
    columns = 12

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


class SharedModel(RuleBasedStateMachine):
    """On shared weights nothing is decrypted that goes back: what counts is what is forwarded, opened and kept."""

    terms: Mapping[str, Any] = {}

    @initialize()
    def begin(self) -> None:
        self.stack = ExitStack()
        folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory()))
        self.town = self.stack.enter_context(sharing(folder, **self.terms))
        self.copy, self.place = folder / "copy", Place(1)
        self.town.run(20)

    def teardown(self) -> None:
        if hasattr(self, "stack"):
            self.stack.close()

    @rule(events=st.integers(4, 40))
    def train(self, events: int) -> None:
        self.town.run(events)

    @rule(backs=st.lists(st.integers(0, 2), min_size=1, max_size=3), stops=st.booleans(), skips=st.booleans())
    def go_back(self, backs: list[int], stops: bool, skips: bool) -> None:
        """In the label party's name, which is away; without stopping first, where it lies."""
        for back in backs:
            if stops:
                self.place = self.town.stop() or self.place
            step = max(self.place.completed - back, 0)
            self.town.resume(step, frozenset({step} if skips else ()))

    @rule()
    def restart(self) -> None:
        self.town.restart("passive")

    @rule()
    def copy_of_peer(self) -> None:
        shutil.rmtree(self.copy, ignore_errors=True)
        shutil.copytree(self.town.state_of("active"), self.copy)

    @precondition(lambda self: self.copy.exists())
    @rule()
    def put_back_of_peer(self) -> None:
        shutil.rmtree(self.town.state_of("active"))
        shutil.copytree(self.copy, self.town.state_of("active"))

    @invariant()
    def holds(self) -> None:
        if not hasattr(self, "town"):
            return
        self.town.check_folder()
        assert len(self.town.opened) <= 1
        if self.terms and (forwarded := self.town.forwarded):
            # One unit, and fixed batches: so often a record's sum was forwarded, each time perhaps of other weights.
            per_epoch = self.town.steps_per_epoch
            told = [sum(forwarded[at] for at in forwarded if at % per_epoch == batch) for batch in range(per_epoch)]
            assert self.town.forms_counted >= min(max(told), 12)


class SharedNetwork(SharedModel):
    """A network whose first layer is shared: its label party reads sums, step by step."""

    terms = SHARED_NETWORK


MACHINES = [LinearActive, LinearPassive, NetworkActive, NetworkPassive, SharedModel, SharedNetwork]


# Without shrinking, which takes minutes: the thorough one does it.
QUICK = settings(max_examples=10, stateful_step_count=20, deadline=None, derandomize=True, phases=[Phase.generate])
THOROUGH = settings(max_examples=200, stateful_step_count=40, deadline=None)


@pytest.mark.slow("whole trainings, interrupted in every way")
@pytest.mark.parametrize("machine", MACHINES)
def test_whatever_a_peer_does_it_is_told_no_more_than_once(machine: type[RuleBasedStateMachine]) -> None:
    _needs_torch(machine)
    # On shared weights a step takes longer, and there are fewer ways.
    is_shared = issubclass(machine, SharedModel)
    examples, steps = (2, 10) if is_shared else (8, 20)
    run_state_machine_as_test(machine, settings=settings(QUICK, max_examples=examples, stateful_step_count=steps))


@pytest.mark.thorough
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("machine", MACHINES)
def test_whatever_a_peer_does_at_length_it_is_told_no_more_than_once(machine: type[RuleBasedStateMachine]) -> None:
    _needs_torch(machine)
    run_state_machine_as_test(machine, settings=THOROUGH)


def _needs_torch(machine: type[RuleBasedStateMachine]) -> None:
    if "learner" in getattr(machine, "terms", {}):
        pytest.importorskip("torch")
