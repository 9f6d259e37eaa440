"""Whole passive records from single shares: real parties, real ciphertexts, honest-looking questions."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import attacks
from defences import load
from plumbline.judge.training import TrainingFinding, read_training_findings
from services.common.run_folder import RunFolder
from tests.harness.defended import with_defences
from tests.harness.parties import data_of, house, small_settings
from tests.harness.processes import weights_of
from vfl.arrays import FloatArray
from vfl.data import Table, load_dataset

RECORDS, COLUMNS, OWN = 60, 4, 12
# Steps that move weights, in few epochs.
TERMS: dict[str, Any] = {
    **{"batch_size": 24, "epochs": 6, "learning_rate": 0.5, "cipher": "paillier", "record_features": True},
    **{"validation_fraction": 0.0, "test_fraction": 0.2, "packing": True},
}
IDS = [f"id-{row}" for row in range(RECORDS)]


def values(columns: int, seed: int) -> FloatArray:
    return np.random.default_rng(seed).uniform(size=(RECORDS, columns))


def attacked(
    folder: Path,
    *,
    passive: tuple[FloatArray, ...] = (values(COLUMNS, 1),),
    known: int = 30,
    classes: int = 2,
    noise: float = 0.0,
    **changes: Any,
) -> TrainingFinding:
    """Train with the attack at the active party; what the judge says of it."""
    labels = np.random.default_rng(8).integers(0, classes, size=RECORDS).tolist()
    columns = np.hstack(passive)[:known]
    names = tuple(f"f{column}" for column in range(columns.shape[1]))
    defences = with_defences(*([load("dp_noise", sigma=noise)] if noise else []))
    with house(
        folder,
        settings=small_settings(**{**TERMS, **changes}),
        active=data_of(values(OWN - 1, 0), ids=IDS, labels=labels, has_bias=True),
        passive=[data_of(one, ids=IDS) for one in passive],
        passive_defences=defences,
        active_adversary={"single_shares": attacks.load_training("single_shares")},
        known=Table(tuple(IDS[:known]), columns, names, None) if known else None,
    ) as home:
        home.train()
    (found,) = read_training_findings(RunFolder(folder))
    return found


def recovered(folder: Path, peer: str = "passive") -> tuple[FloatArray, FloatArray]:
    """Estimated and true cells of the records that were asked about."""
    with np.load(folder / "attacks" / "training-active-single_shares.npz", allow_pickle=False) as content:
        return content[f"values-{peer}"], RunFolder(folder).features(peer).features[content[f"rows-{peer}"]]


@pytest.mark.parametrize(
    "terms",
    [{}, {"packing": False}, {"packing": False, "truncate_answers": False}, {"batches": "reshuffled", "epochs": 8}],
    ids=["packed", "unpacked", "whole answers", "reshuffled"],
)
def test_all_cells_of_the_records_that_are_asked_about_follow(tmp_path: Path, terms: dict[str, Any]) -> None:
    """Of 12 rows that a question has room for, 7 are of known records: 5 others in each of two batches."""
    found = attacked(tmp_path, **terms)
    assert found.kind == "estimates"
    assert found.conduct == "replaces_messages"
    assert found.success >= 0.999
    assert found.details["records"] >= 5
    cells, truth = recovered(tmp_path)
    assert np.abs(cells - truth).max() <= 0.02


def test_each_class_tells_a_form_of_its_own(tmp_path: Path) -> None:
    """Two epochs of three classes, of columns that differ in four directions."""
    assert attacked(tmp_path, classes=3, epochs=2).success >= 0.999


def test_columns_that_make_up_each_other_take_fewer_epochs(tmp_path: Path) -> None:
    kinds = np.eye(3)[np.random.default_rng(3).integers(0, 3, size=RECORDS)]
    found = attacked(tmp_path, passive=(np.hstack([kinds, values(2, 1)]),), epochs=4)
    assert found.success >= 0.99


def test_every_passive_party_is_read(tmp_path: Path) -> None:
    found = attacked(tmp_path, passive=(values(3, 1), values(2, 2)))
    assert found.success >= 0.999
    for peer in ("passive-1", "passive-2"):
        cells, truth = recovered(tmp_path, peer)
        assert np.abs(cells - truth).max() <= 0.02


@pytest.mark.parametrize(
    ("terms", "reason"),
    [
        ({"epochs": 3}, "each record tells 3 sums of its columns in this training, and these have 4 directions"),
        ({"known": 5}, "5 known records don't tell in which directions 12 columns differ"),
        ({"known": 15, "batch_size": 4, "epochs": 4}, "known records at most, and the weights of a step take 5"),
        ({"known": 0}, "no record is known in full"),
        ({"cipher": "plain"}, "single_shares needs ciphertexts: cipher=paillier."),
        ({"protocol": "shared"}, "single_shares replaces messages of protocol=hu"),
    ],
    ids=["fewer epochs", "fewer known records", "small batches", "nothing known", "in the clear", "shared"],
)
def test_it_says_why_nothing_follows(tmp_path: Path, terms: dict[str, Any], reason: str) -> None:
    wide = (values(12, 1),) if terms.get("known") == 5 else (values(COLUMNS, 1),)
    found = attacked(tmp_path, passive=wide, **terms)
    assert reason in found.reason
    assert found.status == "not applicable"


def test_as_many_own_columns_as_known_rows_ask_about_nobody_else(tmp_path: Path) -> None:
    found = attacked(tmp_path, passive=(values(11, 1),), epochs=12)
    assert "own columns ask about 12 rows of a batch, and the weights of a step take 12 known ones" in found.reason


def test_noise_on_what_is_encrypted_ends_it(tmp_path: Path) -> None:
    """And an estimate that noise drowns is no worse than the known records' mean."""
    successes = [attacked(tmp_path / str(sigma), noise=sigma).success for sigma in (0.0, 0.01, 1.0)]
    assert successes == sorted(successes, reverse=True)
    assert successes[0] >= 0.999
    assert successes[2] <= 0.15
    cells, _ = recovered(tmp_path / "1.0")
    assert np.abs(cells).max() <= 3


@pytest.mark.slow("whole trainings on real columns")
def test_what_stands_against_it_on_real_columns(tmp_path: Path) -> None:
    """12 correlated columns of breast_cancer and 18 own ones, 150 known records: what docs/defences.md tells."""
    table = load_dataset("breast_cancer", Path("data"))
    features = (table.features - table.features.min(axis=0)) / np.ptp(table.features, axis=0)
    ids = tuple(f"id-{row}" for row in range(len(features)))
    assert table.labels is not None

    def success(name: str, *, noise: float = 0.0, stir: float = 1.0, **changes: Any) -> float:
        terms = {**TERMS, "batch_size": 64, "epochs": 16, "learning_rate": 0.1, **changes}
        with house(
            tmp_path / name,
            settings=small_settings(**terms),
            active=data_of(features[:, 12:], ids=ids, labels=table.labels.tolist(), has_bias=True),
            passive=[data_of(features[:, :12], ids=ids)],
            passive_defences=with_defences(*([load("dp_noise", sigma=noise)] if noise else [])),
            active_adversary={"single_shares": attacks.load_training("single_shares", stir=stir)},
            known=Table(ids[:150], features[:150, :12], tuple(f"f{column}" for column in range(12)), None),
        ) as home:
            home.train()
        (found,) = read_training_findings(RunFolder(tmp_path / name))
        return found.success

    undefended = success("undefended")
    assert undefended >= 0.9
    assert success("unstirred", stir=0.0) <= undefended - 0.3
    assert success("noise", noise=0.01) <= 0.05
    assert np.isnan(success("epochs", epochs=11))


def test_its_own_training_goes_on_as_with_smaller_batches(tmp_path: Path) -> None:
    """Sums are those of own columns and the shares that were read; nothing grows without bounds."""
    attacked(tmp_path)
    (weights,) = weights_of(tmp_path, ["active"])
    assert 0 < np.abs(weights).max() < 10
