"""Noise is a function of the message: sent again it is the same draw, and of another message it is another."""

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from defences import Defence, DefenceSpec, NoiseSource, TrainingTerms, load
from services.common.identity import Identity, Role
from services.common.state_folder import StateFolder, secret_of
from services.party.party_defences import Message, PartyDefences
from vfl.arrays import FloatArray, IntArray

TERMS = TrainingTerms("passive", epochs=2, steps=10, rows=8, learning_rate=0.5, residual_limit=128.0)
MESSAGE = Message("residuals", "session", 3, np.array([7, 4]))
SOURCES = pytest.mark.parametrize("noise", [NoiseSource(), NoiseSource(5)], ids=["system", "seeded"])


@dataclass(frozen=True)
class Jitter:
    """Adds what the noise source gives, in units of an option."""

    unit: float = 1.0

    name: ClassVar[str] = "jitter"
    spec: ClassVar[DefenceSpec] = DefenceSpec(
        sits=("active", "passive"), stages=("residuals",), keeps="nothing", source="a test"
    )

    def check(self, terms: TrainingTerms) -> None:
        """It always can."""

    def prediction(self, terms: TrainingTerms) -> None:
        """Nothing is expected of it."""

    def protect_residuals(self, residuals: FloatArray, terms: TrainingTerms, noise: NoiseSource) -> FloatArray:
        return residuals + self.unit * noise.gaussian(residuals.shape)


class Tremor(Jitter):
    """The same under another name."""

    name: ClassVar[str] = "tremor"


@SOURCES
@given(
    values=arrays(np.float64, (4, 1), elements=st.floats(-9, 9)),
    step=st.integers(0, 2**40),
    rows=arrays(np.int64, 4, elements=st.integers(0, 2**40)),
    calls=st.lists(st.booleans(), max_size=4),
)
def test_the_same_message_is_protected_in_the_same_way_whatever_was_drawn_before(
    noise: NoiseSource, values: FloatArray, step: int, rows: IntArray, calls: list[bool]
) -> None:
    message, party = Message("residuals", "session", step, rows), PartyDefences((Jitter(), load("dp_noise")), noise)
    sent = party.protect_residuals(values, TERMS, message)
    for is_same_party in calls:
        noise.gaussian((3,))
        other = party if is_same_party else PartyDefences((Jitter(), load("dp_noise")), noise)
        np.testing.assert_array_equal(other.protect_residuals(values, TERMS, message), sent)


def test_whatever_else_differs_the_noise_is_another() -> None:
    """Of each change, no number of noise is one of before; the session is no part of a run that repeats."""
    values, labels = np.random.default_rng(0).normal(size=(2, 1)), np.array([0, 1])
    secret, drawn = NoiseSource(), list[FloatArray]()

    def draw(
        message: Message = MESSAGE,
        by: FloatArray | float = 0.0,
        terms: TrainingTerms = TERMS,
        noise: NoiseSource = secret,
        defence: Defence = Jitter(),
    ) -> FloatArray:
        party, moved = PartyDefences((defence,), noise), np.rint((values + by) * 2**32) / 2**32
        drawn.append(party.protect_residuals(moved, terms, message, labels) - moved)
        return drawn[-1]

    draw()
    for changed in (
        replace(MESSAGE, purpose="hidden"),
        replace(MESSAGE, session_id="sessions"),
        replace(MESSAGE, step=4),
        replace(MESSAGE, rows=np.array([4, 7])),
    ):
        draw(changed)
    draw(by=2.0**-32)
    draw(terms=replace(TERMS, epochs=3))
    draw(noise=NoiseSource())
    draw(defence=Jitter(unit=np.nextafter(1.0, 2.0)))
    draw(defence=Tremor())
    assert len(np.unique(np.concatenate(drawn))) == 2 * len(drawn)
    # What is one number on the wire has one noise, and is one number.
    np.testing.assert_array_equal(draw(by=2.0**-40), drawn[0])
    np.testing.assert_array_equal(draw(terms=replace(TERMS, row_norm=1.1)), drawn[0])
    seeded = [draw(replace(MESSAGE, session_id=name), noise=NoiseSource(5)) for name in ("one", "two")]
    np.testing.assert_array_equal(seeded[0], seeded[1])


def test_labels_are_part_of_what_noise_is_a_function_of() -> None:
    party = PartyDefences((load("marvell"),))
    terms = replace(TERMS, role="active", hidden=2, columns=2)
    signals = np.random.default_rng(0).normal(size=(6, 2))
    sent = [
        party.protect_residuals(signals, terms, replace(MESSAGE, rows=np.arange(6)), np.array(labels))
        for labels in ([0, 1] * 3, [0, 1] * 3, [1, 0] * 3)
    ]
    np.testing.assert_array_equal(sent[0], sent[1])
    assert not np.isclose(sent[0], sent[2]).any()


@pytest.mark.parametrize("name", ["dp_noise", "marvell", "max_norm", "hidden_noise"])
def test_eighty_interruptions_of_a_step_tell_what_one_answer_tells(tmp_path: Path, name: str) -> None:
    """Other steps lie between, the process is started again, and its folder is put back from a copy."""
    terms = replace(TERMS, role="active", hidden=0 if name == "dp_noise" else 2, columns=1)
    values, labels, rows = np.random.default_rng(0).normal(size=(40, 1)), np.arange(40) % 2, np.arange(40)
    options = {"sigma": 5.0} if name in ("dp_noise", "hidden_noise") else {}
    owner, folder = Identity(Role.ACTIVE, "active"), tmp_path / "state"
    answers = []
    for interruption in range(80):
        if interruption == 40:
            shutil.copytree(folder, tmp_path / "copy")
            folder = tmp_path / "copy"
        state = StateFolder(folder, owner)
        party = PartyDefences([load(name, **options)], NoiseSource(key=secret_of(state)))
        state.close()

        def send(step: int, party: PartyDefences = party) -> FloatArray:
            message = Message("residuals", "session", step, rows)
            if name == "hidden_noise":
                return party.protect_hidden(values, message)
            return party.protect_residuals(values, terms, message, labels)

        for step in range(interruption % 3):
            send(step)
        answers.append(send(3))
    error = np.abs(np.mean(answers, axis=0) - values).mean()
    assert error == pytest.approx(np.abs(answers[0] - values).mean())
    assert error > 0.1


def test_a_key_and_a_message_give_these_numbers_for_ever() -> None:
    """Another version that goes on with this one's training draws as this one did, or has another number of its log.

    Who has to change these numbers raises ``_VERSION`` of services.party.training_log.
    """
    party = PartyDefences((load("dp_noise", sigma=3.0),), NoiseSource(key=bytes(range(32))))
    sent = party.protect_residuals(np.array([[0.5], [-1.25]]), TERMS, MESSAGE)
    assert (sent * 2**32).ravel().tolist() == [24855121973.0, -2436299450.0]
