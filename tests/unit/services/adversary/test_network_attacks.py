"""Attacks on networks where they are hosted: what parties of a session record is what the attacks read."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import attacks
from attacks import LEVELS
from attacks.prediction.known_moments import known_moments
from plumbline.judge.lights import light_of_training
from plumbline.judge.training import read_training_findings
from services.common.run_folder import RunFolder
from services.common.run_records import TrainingAttackOutcome
from tests.harness.parties import data_of, house, small_settings
from vfl.arrays import FloatArray, IntArray
from vfl.data import Table

# The label party trains with it.
pytest.importorskip("torch")

RECORDS, KNOWN = 120, 40
ON_LINEAR = ("label_recovery", "feature_order")


def attacked(
    folder: Path, backward: str, **plan: Any
) -> tuple[dict[str, TrainingAttackOutcome], IntArray, FloatArray, RunFolder]:
    """A session in which both sides attack; outcomes, labels in the common order, and the passive table in it."""
    generator = np.random.default_rng(3)
    own, other = (np.rint(generator.random((RECORDS, columns)) * 2**16) / 2**16 for columns in (3, 5))
    is_rare = generator.random(RECORDS) < 0.3
    table = data_of(other)
    known = Table(tuple(table.ids[:KNOWN]), other[:KNOWN], tuple("abcde"))
    known_labels = Table(tuple(table.ids[:KNOWN]), is_rare[:KNOWN, None].astype(np.float64), ("class",))
    settings = small_settings(
        learner="network",
        learner_options={"hidden": 6, "backward": backward},
        batches="reshuffled",
        validation_fraction=0.0,
        record_features=True,
        **{"epochs": 3, "batch_size": 20, **plan},
    )
    with house(
        folder,
        settings=settings,
        active=data_of(own, labels=np.where(is_rare, "yes", "no").tolist(), has_bias=True),
        passive=[table],
        passive_adversary={
            name: attacks.load(name) for name in ("gradient_direction", "batch_inversion", "own_part", *ON_LINEAR)
        },
        active_adversary={"hidden_space": attacks.load("hidden_space"), "chosen_share": attacks.load("chosen_share")},
        known=known,
        known_labels=known_labels,
    ) as home:
        home.train()
    run = RunFolder(folder)
    assert not [one for one in run.training_outcomes() if one.status == "failed"]
    return {one.attack: one for one in run.training_outcomes()}, run.labels(), run.features("passive").features, run


def test_signals_in_the_clear_tell_labels_and_known_records_tell_columns(tmp_path: Path) -> None:
    outcomes, labels, features, run = attacked(tmp_path, "plain", cipher="plain")
    found = run.found_labels("passive", "gradient_direction")
    rows = np.unique(found.step_rows)
    assert (found.labels[rows] == labels[rows]).mean() >= 0.95
    values = run.found_values("active", "hidden_space")["passive"]
    assert values.rows is not None
    assert np.abs(values.values - features[values.rows]).max() < 1e-4
    assert len(values.rows) >= 40
    # A party isn't judged by labels that it knew.
    own = run.found_labels("passive", "own_part")
    assert own.known is not None
    assert (outcomes["own_part"].facts["known_labels"], len(own.known)) == (KNOWN, KNOWN)
    np.testing.assert_array_equal(own.judged_rows, np.setdiff1d(own.step_rows, own.known))
    assert len(own.judged_rows) < len(np.unique(own.step_rows))
    for name in ON_LINEAR:
        assert f"{name} is on sessions of linear" in str(outcomes[name].reason)


def test_encrypted_sums_of_small_batches_tell_labels_alike(tmp_path: Path) -> None:
    outcomes, labels, _, run = attacked(tmp_path, "paillier", batch_size=5, epochs=1)
    found = run.found_labels("passive", "gradient_direction")
    rows = np.unique(found.step_rows)
    assert (found.labels[rows] == labels[rows]).mean() >= 0.9
    assert "protocol=hu" in str(outcomes["chosen_share"].reason) or "shared" in str(outcomes["chosen_share"].reason)


def test_where_weights_are_shared_no_attack_names_a_label_and_chosen_shares_read_columns(tmp_path: Path) -> None:
    outcomes, _, features, run = attacked(tmp_path, "shared")
    found = run.found_labels("passive", "gradient_direction")
    assert (found.labels < 0).all()
    values = run.found_values("active", "chosen_share")["passive"]
    assert outcomes["chosen_share"].conduct == "replaces_shares"
    assert values.rows is not None
    assert np.sqrt(((values.values - features[values.rows]) ** 2).mean()) < 0.05


@pytest.mark.parametrize("name", ["gradient_direction", "batch_inversion", "hidden_space"])
def test_they_say_that_a_linear_model_is_none_of_theirs(tmp_path: Path, name: str) -> None:
    side = "active_adversary" if name == "hidden_space" else "passive_adversary"
    mounted: dict[str, Any] = {side: {name: attacks.load(name)}}
    with house(tmp_path, settings=small_settings(epochs=1, cipher="plain"), **mounted) as home:
        home.train()
    (outcome,) = RunFolder(tmp_path).training_outcomes()
    assert outcome.reason == f"{name} is on sessions of network, and this one trains linear."


@pytest.mark.parametrize("backward", ["plain", "paillier", "shared"])
def test_hidden_sums_alone_tell_columns_on_every_rung_of_several_parties(tmp_path: Path, backward: str) -> None:
    generator = np.random.default_rng(3)
    # Statistics are of other records. Columns that vary alike, and about the middle, would be told apart by nothing.
    own = np.rint(generator.random((RECORDS, 3)) * 2**16) / 2**16
    both = generator.random((2 * RECORDS, 5)) ** 3 * np.array([1.0, 0.8, 0.6, 0.4, 0.25])
    other, beside = np.split(np.rint(both * 2**16) / 2**16, 2)
    label = np.where(generator.random(RECORDS) < 0.3, "yes", "no").tolist()
    tables = [data_of(other[:, :2]), data_of(other[:, 2:])]
    known = Table(tuple(tables[0].ids[:30]), other[:30], tuple("abcde"))
    mounted = {f"gram_space(prior={one})": attacks.load("gram_space", prior=one) for one in LEVELS}
    settings = small_settings(
        learner="network",
        learner_options={"hidden": 6, "backward": backward},
        cipher="plain" if backward == "plain" else "paillier",
        validation_fraction=0.0,
        record_features=True,
        epochs=4,
        batch_size=20,
    )
    with house(
        tmp_path,
        settings=settings,
        active=data_of(own, labels=label, has_bias=True),
        passive=tables,
        active_adversary=mounted,
        known=known,
        moments=known_moments(beside),
    ) as home:
        home.train()
    found = {one.attack: one for one in read_training_findings(RunFolder(tmp_path))}
    assert {name: (one.status, one.reason) for name, one in found.items() if one.kind == "estimates"} == dict.fromkeys(
        list(mounted)[1:], ("done", "")
    )
    assert found["gram_space(prior=records)"].success >= 0.99
    assert found["gram_space(prior=covariance)"].success >= 0.5
    assert found["gram_space(prior=covariance)"].peers == ("passive-1", "passive-2")
    assert light_of_training(found["gram_space(prior=covariance)"]) == "red"
    assert found["gram_space(prior=nothing)"].kind == "binary columns"
