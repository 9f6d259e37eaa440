"""Labels where messages or tables are of no use: a sentence or grey, never green, an alarm or a traceback.

Real attacks read a real training's messages, changed as the case says, and the real judge looks at what they found.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import attacks
from attacks.training_attack import ListeningAttack, listen, listens
from attacks.training_views import TrainingView
from attacks.views import ViewError
from plumbline.judge.findings import Findings, read_findings
from plumbline.judge.redrawn_messages import RedrawnMessages, clear_session
from services.common.agreement import TrainingPlan
from services.common.run_folder import RunFolder
from services.common.run_records import DONE, NOT_APPLICABLE, Estimates, PartyFeatures, PartyRecord
from tests.harness.agreements import agreed
from tests.harness.judged_runs import add_attempts_on_ciphertexts, add_outcome
from vfl.arrays import FloatArray, IntArray

RECORDS = 200
NETWORK = {"learner": "network", "learner_options": {"backward": "paillier", "hidden": 3}}
PLANS = {
    "fixed": TrainingPlan(epochs=4, batch_size=30, validation_fraction=0.0),
    "reshuffled": TrainingPlan(epochs=3, batch_size=30, batches="reshuffled", validation_fraction=0.0),
    "full": TrainingPlan(epochs=6, batch_size=160, learner_options={"steps": "own_moments"}, validation_fraction=0.0),
    "two": TrainingPlan(epochs=2, batch_size=2, validation_fraction=0.0),
    "network": TrainingPlan(epochs=3, batch_size=30, validation_fraction=0.0, **NETWORK),  # type: ignore[arg-type]
}
MOUNTED = {
    "linear": ("trajectory_labels", "own_part", "label_recovery"),
    "network": ("batch_inversion", "own_part"),
}

# Plans whose messages are soon drawn again.
_ONCE = ("fixed", "full", "two", "network")

Changed = Callable[[TrainingView, np.random.Generator], TrainingView]
Tables = Callable[[FloatArray], FloatArray]


def sums_of(size: float) -> Changed:
    """Sums drawn at random, of a size."""

    def changed(view: TrainingView, generator: np.random.Generator) -> TrainingView:
        drawn = (replace(one, sums=size * generator.normal(size=one.sums.shape)) for one in view.equations)
        return replace(view, equations=tuple(drawn))

    return changed


def as_they_are(view: TrainingView, _: np.random.Generator) -> TrainingView:
    return view


def resumed(view: TrainingView, _: np.random.Generator) -> TrainingView:
    """Of a training that went on in another process, its second half."""
    steps = view.steps[len(view.steps) // 2 :]
    return replace(view, steps=steps, equations=tuple(one for one in view.equations if one.step >= steps[0].step))


def copied(own: FloatArray) -> FloatArray:
    return own[:, [0, 0, 1, 2, 3]]


def all_copied(own: FloatArray) -> FloatArray:
    return own[:, [0] * 5]


def alike(own: FloatArray) -> FloatArray:
    return np.full_like(own, 0.5)


def empty(own: FloatArray) -> FloatArray:
    return np.zeros_like(own)


def plain(own: FloatArray) -> FloatArray:
    return own


def judged(
    path: Path, plan: str, changed: Changed, table: Tables = plain, *, of_nobody: bool = False, seed: int = 0
) -> Findings:
    """What is found of labels that no column tells; ``of_nobody``: messages are put to other records before."""
    generator = np.random.default_rng(seed)
    columns = generator.random((RECORDS, 10))
    labels: IntArray = (generator.random(RECORDS) >= 0.7).astype(np.int64)
    blocks = [np.column_stack([columns[:, :5], np.ones(RECORDS)]), table(columns[:, 5:])]
    agreement = agreed(PLANS[plan], features=(6, 5), rows=RECORDS)
    train = agreement.plan.split(RECORDS).train
    session = clear_session(agreement, blocks, labels, 1, train, generator)
    view = changed(RedrawnMessages(session).draw(generator) if of_nobody else session.view, generator)
    run = RunFolder(path)
    run.write_record(
        "active",
        PartyRecord(
            agreement=agreement, class_names=("no", "yes"), transport="mtls", bytes_by_message={}, peak_memory_bytes=1
        ),
    )
    run.write_features("active", PartyFeatures(blocks[0], np.array([*"abcde", "bias"]), labels))
    run.write_features("passive", PartyFeatures(blocks[1], np.array([*"vwxyz"])))
    run.write_estimates(0, Estimates(np.arange(RECORDS), {}))
    for name in MOUNTED[agreement.plan.learner]:
        mounted = attacks.load_training(name)
        assert listens(mounted)
        _mount(run, mounted, view)
    return read_findings(add_attempts_on_ciphertexts(run), ("passive",), "run", titles={})


def _mount(run: RunFolder, mounted: ListeningAttack, view: TrainingView) -> None:
    """Write what a passive party's service would; anything but a refusal in words is raised."""
    try:
        found = listen(mounted, view)
    except ViewError as error:
        add_outcome(run, "passive", mounted.name, NOT_APPLICABLE, reason=str(error))
        return
    run.write_training_arrays("passive", mounted.name, found.arrays())
    reason = str(found.facts().get("reason") or "") or None
    add_outcome(run, "passive", mounted.name, DONE, reason=reason, kind="labels")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("plan", _ONCE)
@pytest.mark.parametrize(
    ("changed", "table"),
    [
        (sums_of(0.0), plain),
        (sums_of(1e12), plain),
        (sums_of(1e300), plain),
        (sums_of(1e-300), plain),
        (as_they_are, alike),
        (as_they_are, empty),
    ],
    ids=["zero", "large", "vast", "tiny", "alike", "empty"],
)
def test_what_says_nothing_is_grey_with_a_sentence(plan: str, changed: Changed, table: Tables, tmp_path: Path) -> None:
    if plan == "network":
        pytest.importorskip("torch")
    active = judged(tmp_path, plan, changed, table).answer.parties[0]
    assert active.light == "grey"
    assert "not measured" in active.words or "not shown either way" in active.words


@pytest.mark.slow("chance is drawn where anything is told")
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("changed", [as_they_are, resumed], ids=["whole", "resumed"])
@pytest.mark.parametrize("table", [plain, copied, all_copied], ids=["plain", "a copy", "copies"])
@pytest.mark.parametrize("plan", [*_ONCE, pytest.param("reshuffled", marks=pytest.mark.thorough)])
def test_messages_about_nobody_raise_no_alarm(plan: str, table: Tables, changed: Changed, tmp_path: Path) -> None:
    if plan == "network":
        pytest.importorskip("torch")
    assert judged(tmp_path, plan, changed, table, of_nobody=True).answer.parties[0].light in ("green", "grey")


@pytest.mark.slow("chance is drawn where anything is told")
@pytest.mark.parametrize(("changed", "table"), [(as_they_are, plain), (resumed, copied)], ids=["whole", "resumed"])
def test_two_records_a_batch_are_told(changed: Changed, table: Tables, tmp_path: Path) -> None:
    assert judged(tmp_path, "two", changed, table).answer.parties[0].light == "red"
