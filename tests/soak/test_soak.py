"""What the soak would say of a leak, of a wrong answer and of a count that shrinks; and a round of it."""

import random
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from services.common.state_folder import StateInMemory
from services.exchange.opening_ledger import LEDGER, OpeningLedger
from services.party.served_models import SERVED
from tests.harness.processes import local_processes
from tests.soak.faults import killed
from tests.soak.resources import MEMORY, THREADS, WARM_UP, Samples
from tests.soak.run import Soak, soaking
from tests.soak.served import Broken, Counts

# Its services are started as anywhere: what a process has of its own is looked at.
COLD = True

ROUNDS = 60


def samples_of(a_round: float, *, lives: int, noise: float = 400, seed: int = 0) -> Samples:
    """KiB of a process that is started again from time to time, each time larger than the one before."""
    source, samples = random.Random(seed), Samples()  # noqa: S311 - nothing secret
    for number in range(ROUNDS):
        process, age = divmod(number, ROUNDS // lives)
        held = 90_000 + 3_000 * process + 2_000 * min(age, WARM_UP) + a_round * age + source.gauss(0, noise)
        samples.add(number, "active", process, {MEMORY: round(held), THREADS: 20 + source.randrange(3)})
    return samples


@pytest.mark.parametrize("lives", [1, 3])
def test_a_leak_is_found_whatever_is_killed(lives: int) -> None:
    leaking = samples_of(2 * MEMORY.most, lives=lives).trends()
    assert leaking["active", MEMORY].grows
    assert leaking["active", MEMORY].slope == pytest.approx(2 * MEMORY.most, rel=0.15)
    assert not leaking["active", THREADS].grows


@pytest.mark.parametrize("lives", [1, 3])
def test_what_is_flat_is_not_said_to_grow(lives: int) -> None:
    grown = [one for seed in range(40) for one in samples_of(0, lives=lives, seed=seed).trends().values() if one.grows]
    assert not grown


def test_too_few_rounds_tell_nothing() -> None:
    samples = Samples()
    for number in range(WARM_UP + 7):
        samples.add(number, "active", 1, {MEMORY: 1000 * number})
    assert samples.trends()["active", MEMORY].slope is None


def test_a_count_that_shrinks_is_found(tmp_path: Path) -> None:
    processes, state = local_processes(tmp_path), StateInMemory()
    counts, folder = Counts(processes), processes.state("active")
    folder.mkdir(parents=True)
    for session, bits in (("a", 24), ("b", 24)):
        OpeningLedger(state, np.arange(5, dtype=np.uint64)).count(session, {"passive": bits})
        content = state.read(LEDGER)
        assert content is not None
        (folder / LEDGER).write_bytes(content)
        counts.check()
    assert counts.last == {"bits of passive opened, by active": 48}
    (folder / LEDGER).unlink()
    with pytest.raises(Broken, match="passive opened, by active: 48, now 0"):
        counts.check()


@pytest.fixture(scope="module", params=["shared", pytest.param("hu", marks=pytest.mark.hostile_long)])
def soak(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Soak]:
    with soaking(tmp_path_factory.mktemp("soak"), request.param, 1, lambda _: None) as one:
        one.faults = (killed,)
        # A training and one round.
        one.run(time.monotonic())
        yield one


def test_a_round_keeps_every_promise(soak: Soak) -> None:
    assert soak.tally["rounds"] == 1
    assert soak.tally["killed"] >= 1
    assert soak.answers.checked > 500


def test_a_wrong_score_is_found(soak: Soak) -> None:
    answers, session = soak.answers, soak.answers.served()
    scores = soak.stage.federation.predict(answers.ids)
    answers.check(scores, session, session)
    aligned = scores.index[scores["error"] == ""]
    for change, words in ((1e-9, "expected"), (np.spacing(0.5), "other bits"), (np.nan, "aligned")):
        first = scores.columns[0]
        values = scores[first].to_numpy()
        wrong = scores.assign(**{first: np.where(scores.index == aligned[0], values + change, values)})
        with pytest.raises(Broken, match=words):
            answers.check(wrong, session, session)


def test_a_lost_model_is_found(soak: Soak) -> None:
    answers = soak.answers
    file = soak.stage.processes.state("passive") / SERVED
    content = file.read_bytes()
    answers._expected.clear()
    file.unlink()
    with pytest.raises(Broken, match="passive has lost its model"):
        answers.served()
    file.write_bytes(content)
    assert answers.served()
