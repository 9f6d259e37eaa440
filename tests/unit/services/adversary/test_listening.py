"""Who listens to whole sessions: what it reads, what a control says of it, and what two sessions tell together."""

from pathlib import Path

import numpy as np
import pytest

from attacks.training.own_part import OwnPart
from attacks.training.trajectory_labels import TrajectoryLabels
from attacks.training.trajectory_products import TrajectoryProducts
from defences import load
from plumbline.judge.training import TrainingFinding, read_training_findings
from services.common.run_folder import RunFolder
from tests.harness.defended import with_defences
from tests.harness.parties import data_of, house, party_data, small_settings, values_of

RECORDS = 300
# 210 records are trained on, in batches of 70; seven columns make seven sums.
PLAIN = small_settings(
    steps="plain", batches="reshuffled", epochs=40, batch_size=70, cipher="plain", record_features=True
)


@pytest.fixture(autouse=True)
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lights aren't looked at here, and each of 199 draws takes as long as the attack on these trainings does."""
    monkeypatch.setattr("plumbline.judge.label_chance.DRAWS", 9)


def listened(folder: Path, epochs: int, *seeds: int, sigma: float = 0.0) -> dict[str, TrainingFinding]:
    """Train a session for each seed, on labels that no column tells, and judge what each side found in the last."""
    labels = np.where(np.random.default_rng(8).random(RECORDS) < 0.4, "yes", "no").tolist()
    active = data_of(values_of(party_data(rows=range(RECORDS), columns=5, seed=0)), labels=labels, has_bias=True)
    with house(
        folder,
        settings=PLAIN,
        active=active,
        passive=[party_data(rows=range(RECORDS - 1, -1, -1), columns=7)],
        active_defences=with_defences(*([load("dp_noise", sigma=sigma)] if sigma else [])),
        passive_adversary={"trajectory_labels": TrajectoryLabels(), "own_part": OwnPart()},
        active_adversary={"trajectory_products": TrajectoryProducts()},
    ) as home:
        for seed in seeds:
            home.train(epochs=epochs, seed=seed)
    return {found.attack: found for found in read_training_findings(RunFolder(folder))}


@pytest.mark.slow("a whole training is listened to")
def test_labels_that_no_column_tells_are_read_and_the_control_says_so(tmp_path: Path) -> None:
    found = listened(tmp_path, 40, 1)
    labels = found["trajectory_labels"]
    assert labels.success == labels.resolved == 1.0
    assert labels.conduct == "listens"
    assert labels.rarest is not None
    assert (labels.rarest.auc, labels.rarest.precision) == (1.0, 1.0)
    # None of nine draws tells as much, or one by the other attack.
    assert labels.p_value is not None
    assert labels.p_value <= 0.2
    assert labels.control is not None
    assert labels.control.shuffled_right >= 0.98
    assert labels.control.columns_right <= 0.7
    own = found["own_part"]
    assert own.control is not None
    assert own.control.shuffled_right <= 0.65
    assert found["trajectory_products"].success >= 0.5


@pytest.mark.slow("two trainings are listened to")
def test_a_second_short_session_is_joined_to_the_first(tmp_path: Path) -> None:
    alone = listened(tmp_path / "alone", 6, 1)["trajectory_labels"]
    again = listened(tmp_path / "again", 6, 1, 1)["trajectory_labels"]
    joined = listened(tmp_path / "joined", 6, 2, 1)["trajectory_labels"]
    # The same batches once more tell nothing more.
    assert [one.details["sessions"] for one in (alone, again, joined)] == [1, 1, 2]
    assert joined.details["told"] > alone.details["told"] + 0.05
    assert joined.success > alone.success


def test_noise_on_residuals_takes_away_what_listening_tells(tmp_path: Path) -> None:
    found = listened(tmp_path, 40, 1, sigma=30.0)
    labels = found["trajectory_labels"]
    assert labels.details["told"] < 0.06
    # Who abstains isn't judged.
    assert labels.reason
    assert not labels.is_scored
    assert not labels.levels
    control = found["own_part"].control
    assert control is not None
    assert "active" in control.reason
    assert not control.words


@pytest.mark.parametrize("cipher", ["paillier"])
def test_the_encrypted_wire_tells_the_same(tmp_path: Path, cipher: str) -> None:
    settings = small_settings(
        steps="plain", batches="reshuffled", epochs=12, batch_size=14, cipher=cipher, record_features=True
    )
    labels = np.where(np.random.default_rng(8).random(60) < 0.4, "yes", "no").tolist()
    with house(
        tmp_path,
        settings=settings,
        active=data_of(values_of(party_data(columns=3, seed=0)), labels=labels, has_bias=True),
        passive=[party_data(columns=6)],
        passive_adversary={"trajectory_labels": TrajectoryLabels()},
    ) as home:
        home.train()
    (found,) = read_training_findings(RunFolder(tmp_path))
    assert found.success == 1.0
