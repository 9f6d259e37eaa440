"""Attacks on noisy shares in whole sessions: what each side reads off the other's, judged against the truth."""

from pathlib import Path

import numpy as np
import pytest

from attacks.training.averaged_products import AveragedProducts
from attacks.training.label_recovery import LabelRecovery
from defences import load
from plumbline.judge.training import TrainingFinding, read_training_findings
from services.common.run_folder import RunFolder
from tests.harness.defended import with_defences
from tests.harness.parties import data_of, house, party_data, small_settings, values_of

# Batches of four records can be solved for from five columns of the active party, as well as from six of the other.
SETTINGS = small_settings(
    steps="plain",
    epochs=15,
    batch_size=4,
    learning_rate=0.2,
    initialisation="zero",
    residual_integer_bits=9,
    record_features=True,
)


def findings(folder: Path, cipher: str, sigma_active: float, sigma_passive: float) -> dict[str, TrainingFinding]:
    """Train on labels that follow from two of the passive party's columns, and judge what each side found."""
    passive = party_data(columns=6)
    values = values_of(passive)
    labels = np.where(values[:, 0] + values[:, 1] > 1, "yes", "no").tolist()
    active = data_of(values_of(party_data(columns=5, seed=0))[:, :-1], labels=labels, has_bias=True)
    noise = [[load("dp_noise", sigma=sigma)] if sigma else [] for sigma in (sigma_active, sigma_passive)]
    with house(
        folder,
        settings=SETTINGS.model_copy(update={"cipher": cipher}),
        active=active,
        passive=[passive],
        active_defences=with_defences(*noise[0]),
        passive_defences=with_defences(*noise[1]),
        passive_adversary={"label_recovery": LabelRecovery()},
        active_adversary={"averaged_products": AveragedProducts()},
    ) as home:
        home.train()
    return {found.attack: found for found in read_training_findings(RunFolder(folder))}


@pytest.mark.slow("a whole training is listened to")
@pytest.mark.parametrize("cipher", ["paillier", "plain"])
def test_noise_that_hides_one_step_leaves_what_sums_over_epochs_tell(tmp_path: Path, cipher: str) -> None:
    """A label party's own noise moves the weights whose products it averages, by the draw as far as not at all."""
    labels = findings(tmp_path / "labels", cipher, 3.0, 0.5)["label_recovery"]
    products = findings(tmp_path / "products", cipher, 0.0, 0.5)["averaged_products"]
    assert labels.details["noise"] == pytest.approx(3.0, rel=0.15)
    assert labels.success > 0.1 + float(np.mean(labels.by_epoch))
    # 42 of 60 records were trained on.
    assert products.resolved == 0.7
    assert products.success == pytest.approx(products.details["expected"]["passive"], abs=0.1)
    assert products.success > 0.8


def test_without_noise_every_label_and_product_of_the_trained_records_follows(tmp_path: Path) -> None:
    found = findings(tmp_path, "paillier", 0.0, 0.0)
    assert found["label_recovery"].details["noise"] is None
    assert found["label_recovery"].success == 1.0
    assert found["averaged_products"].success > 0.9
