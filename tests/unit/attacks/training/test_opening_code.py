"""What a code in place of a passive party's columns reads of labels at the opening: up to the bound, never above."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import attacks
from attacks.training.opening_code import CodedColumns, OpenedLabels
from attacks.training.recovered_labels import UNRESOLVED
from plumbline.judge.training import read_training_findings
from services.adversary.training import TrainingAdversary, sharing_terms
from services.common.agreement import TrainingPlan
from services.common.run_folder import RunFolder
from tests.harness.parties import house, small_settings
from tests.harness.seated import encrypted_in_place
from tests.harness.shared_sessions import SharedProblem
from tests.harness.shared_wiring import open_all, run_all, wired_shares
from vfl.arrays import FloatArray, IntArray

# All records in one step from zero weights: where the code is as dense as it can be.
DENSE = TrainingPlan(
    epochs=1,
    batch_size=60,
    key_bits=512,
    validation_fraction=0.0,
    test_fraction=0.0,
    protocol="shared",
    learner_options={"initialisation": "zero"},
)


def session(
    problem: SharedProblem, plan: TrainingPlan, attack: Any = None
) -> tuple[OpenedLabels, dict[str, FloatArray]]:
    """Real ciphertexts, a thread for each party: what the attack read, and the weights that each goes on with."""
    adversary = TrainingAdversary({"opening_code": attack or attacks.load("opening_code")}, "passive-1", None)
    with wired_shares(problem, plan, others={"passive-1": partial(encrypted_in_place, adversary)}) as parties:
        run_all(parties, problem.terms(plan))
        weights = open_all(parties)
        (code,) = adversary._others.values()
        assert not isinstance(code, BaseException)
        found = code.result()
    assert isinstance(found, OpenedLabels)
    return found, weights


def right(found: OpenedLabels, labels: IntArray) -> tuple[int, int]:
    """How many labels are right, of those that were read."""
    read = found.labels != UNRESOLVED
    return int((found.labels[read] == labels[read]).sum()), int(read.sum())


@pytest.mark.parametrize(("bits", "classes"), [(24, 2), (18, 2), (20, 3)])
def test_it_reads_all_bits_but_one_of_each_word(bits: int, classes: int) -> None:
    """Labels are drawn apart from all columns: nothing else tells them."""
    problem = SharedProblem.random(rows=60, columns=(2, 2), classes=classes)
    found, weights = session(problem, DENSE.changed(opening_bits=bits))
    assert right(found, problem.labels) == (2 * (bits - 1), 2 * (bits - 1))
    outputs = 1 if classes == 2 else classes
    assert (found.bits, found.bound) == (2 * outputs * (bits - 1), 2 * outputs * bits)
    # The model goes on without its columns, and with the other party's.
    assert not weights["passive-1"].any()
    assert weights["active"].any()


def test_where_z_is_unknown_a_column_tells_one_record() -> None:
    problem = SharedProblem.random(rows=60, columns=(2, 12))
    plan = DENSE.changed(epochs=3, batch_size=30, initialisation="xavier")
    found, _ = session(problem, plan)
    correct, read = right(found, problem.labels)
    assert read == 12
    assert correct >= 11


@pytest.mark.parametrize(("epochs", "initialisation", "read"), [(1, "zero", 46), (30, "xavier", 12)])
def test_steps_by_own_moments_are_read_in_turned_columns(epochs: int, initialisation: str, read: int) -> None:
    """Momentum moves a word further, and not around its end."""
    problem = SharedProblem.random(rows=60, columns=(2, 2 if read == 46 else 12))
    plan = DENSE.changed(steps="own_moments", epochs=epochs, initialisation=initialisation)
    found, weights = session(problem, plan)
    correct, resolved = right(found, problem.labels)
    assert resolved == read
    assert correct >= read - 1
    assert not weights["passive-1"].any()
    assert weights["active"].any()


def test_a_single_column_leaves_the_others_to_the_model() -> None:
    problem = SharedProblem.random(rows=60, columns=(2, 3))
    found, weights = session(problem, DENSE, attacks.load("opening_code", columns=1))
    assert right(found, problem.labels) == (23, 23)
    assert (weights["passive-1"].ravel() != 0).tolist() == [True, True, False]


def test_nothing_is_read_of_another_training() -> None:
    """A code read off weights that other labels have made says nothing of these: about half are right."""
    problem = SharedProblem.random(rows=230, columns=(2, 10))
    terms = sharing_terms(problem.agreement(DENSE.changed(batch_size=230)), problem.blocks["passive-1"], "passive-1")
    code, other = CodedColumns(terms, 0), np.random.default_rng(1).permutation(problem.labels)
    assert code.result().facts() == {"bits": 0, "bound": 240, "reason": "Not possible: no weight was opened."}
    code.read(_trained(code, terms, other))
    correct, read = right(code.result(), problem.labels)
    assert read == 230
    assert abs(correct / read - 0.5) < 0.13
    code.read(_trained(code, terms, problem.labels))
    assert right(code.result(), problem.labels) == (230, 230)


def _trained(code: CodedColumns, terms: Any, labels: IntArray) -> FloatArray:
    """The opened weights of one step from zero, in float64."""
    (rows,) = terms.batches
    step = terms.learner.learning_rate / (4 * len(rows)) * code.backward[rows].T @ (2.0 - 4.0 * labels[rows, None])
    unit = 2.0**-terms.opening_fraction_bits
    half = 1 << terms.opening_bits - 1
    weights: FloatArray = ((np.rint(-step / unit) + half) % (2 * half) - half) * unit
    return weights


def test_it_is_for_weights_that_are_shared() -> None:
    spec = attacks.spec_of("opening_code")
    assert spec.obstacle is not None
    assert spec.obstacle(attacks.Scenario(3)) == "reads what protocol=shared opens"
    assert spec.obstacle(attacks.Scenario(3, protocol="shared")) == ""
    with pytest.raises(ValueError, match="columns >= 0"):
        attacks.load("opening_code", columns=-1)


def test_a_party_mounts_it_in_its_own_service(tmp_path: Path) -> None:
    """What it found is judged over all training records, and the job goes on with the other party's model."""
    terms: dict[str, Any] = {"epochs": 1, "batch_size": 38, "initialisation": "zero", "record_features": True}
    settings = small_settings(protocol="shared", opening="always", **terms)
    mounted = {"opening_code": attacks.load("opening_code"), "own_part": attacks.load("own_part")}
    with house(tmp_path, settings=settings, passive_adversary=mounted) as home:
        home.train()
        assert np.isfinite(home.tested().scores).all()
    found, other = read_training_findings(RunFolder(tmp_path))
    assert found.reason == ""
    # Its own columns are in no product: the party goes on with zeros in place of the code.
    assert "own part of the score is the same" in other.reason
    # 3 columns of 23 labels are more than there are training records.
    assert (found.success, found.resolved, found.conduct) == (1.0, 1.0, "replaces_features")
    with house(tmp_path / "hu", settings=small_settings(), passive_adversary=mounted) as home:
        home.train()
    assert "protocol=hu opens nothing" in read_training_findings(RunFolder(tmp_path / "hu"))[0].reason


def test_two_codes_are_one_too_many() -> None:
    with pytest.raises(ValueError, match="both replace features"):
        TrainingAdversary({name: attacks.load("opening_code") for name in ("a", "b")}, "passive", None)
