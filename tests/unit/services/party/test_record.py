"""A party's own record: checked before the work, written whole or not at all, and never worth a model."""

import logging
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from services.active.interfaces import EpochOutcome, JobOutcome
from services.active.job import Job
from services.common.errors import OutOfOrder
from services.common.meters import TrafficMeter
from services.common.run_folder import RunFolder
from services.party.party_training import PartyTraining
from services.party.record import RunRecord
from tests.harness.parties import house, small_settings
from tests.harness.restricted import modes_bind, no_room_for_files, run_restricted
from vfl.learning import LinearPart

PLAIN = small_settings(cipher="plain")
GOOD = np.ones((2, 1))


def record_of(folder: Path) -> RunRecord:
    return RunRecord(folder, "passive", TrafficMeter())


def no_folder(folder: Path) -> None:
    """A file stands in the folder's place from now on."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.write_text("")


# -- before the work --------------------------------------------------------------------------------------------------


def test_a_usable_folder_is_made_for_its_owner_alone_and_keeps_no_trace_of_the_check(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "today"
    record_of(folder).check()
    assert list(folder.iterdir()) == []
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("folder", ["runs", "runs/below"])
def test_a_file_in_the_folders_place_is_found(tmp_path: Path, folder: str, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "runs").write_text("")
    with pytest.raises(OutOfOrder, match=r"^passive can't write its records \(Not a directory\): ") as refused:
        record_of(tmp_path / folder).check()
    # The owner's log names the folder; others have no business to know it.
    assert str(tmp_path) not in str(refused.value)
    assert f"can't be written to {tmp_path / folder} (Not a directory): make room or choose another" in caplog.text


_CHECK = """
import sys
from pathlib import Path
from services.common.errors import OutOfOrder
from services.common.meters import TrafficMeter
from services.party.record import RunRecord
try:
    RunRecord(Path(sys.argv[1]), "passive", TrafficMeter()).check()
except OutOfOrder as error:
    print(error)
"""


def test_a_read_only_folder_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    folder.mkdir()
    folder.chmod(0o500)
    assert "passive can't write its records (Permission denied)" in run_restricted(modes_bind, _CHECK, str(folder))


def test_a_full_disk_is_found_and_nothing_is_left_on_it(tmp_path: Path) -> None:
    words = run_restricted(partial(no_room_for_files, 8192), _CHECK, str(tmp_path / "runs"))
    assert "passive can't write its records (File too large)" in words
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_job_whose_records_cant_be_written_is_refused_before_it_begins(tmp_path: Path) -> None:
    with house(tmp_path / "runs", settings=PLAIN) as home:
        no_folder(tmp_path / "runs")
        with pytest.raises(OutOfOrder, match=r"^active can't write its records"):
            home.train()
        assert home.active.stage == "failed"
        # Nobody was bothered, and a mended folder is enough.
        assert home.passive["passive"]._session is None
        (tmp_path / "runs").unlink()
        home.train()
        assert home.active.warnings == [
            "INSECURE: cipher=plain, residuals and gradients travel unencrypted. Who receives them reads them, labels "
            "included, and the guard counts nothing."
        ]


# -- after it ---------------------------------------------------------------------------------------------------------


def train_and_lose(folder: Path, lose: Callable[[], None]) -> tuple[list[str], list[float]]:
    """Train, lose the folder after the first epoch; the warnings, and scores of a record."""
    original = Job._train_epochs

    def losing(job: Job, training: PartyTraining) -> JobOutcome:
        outcome = original(job, training)
        lose()
        return outcome

    with house(folder, settings=PLAIN) as home, pytest.MonkeyPatch.context() as patch:
        patch.setattr(Job, "_train_epochs", losing)
        watcher = home.train()
        assert watcher.stages[-1] == home.active.stage == "serving"
        assert all(isinstance(outcome, EpochOutcome) for outcome in watcher.epochs)
        scores = home.active.predict_one("id-10")
        return home.active.warnings, scores.tolist()


def test_a_trained_model_is_not_failed_for_a_record(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Once the job failed as INTERNAL after its last epoch, and the model was lost."""
    _, expected = train_and_lose(tmp_path / "good", lambda: None)
    folder = tmp_path / "runs"
    warnings, scores = train_and_lose(folder, lambda: no_folder(folder))
    assert scores == expected
    assert warnings[1:] == [
        f"active's {what} of this run could not be written: Not a directory. Make room, or mend the folder."
        for what in ("test scores", "weights", "record")
    ]
    assert [one.exc_info for one in caplog.records if one.levelno == logging.ERROR] == [None] * 3


def test_a_passive_partys_model_is_not_failed_for_a_record_either(tmp_path: Path) -> None:
    with house(tmp_path / "runs", settings=PLAIN) as home:
        passive = home.passive["passive"]
        original = passive.finish_training

        def losing(*arguments: object) -> None:
            no_folder(tmp_path / "runs")
            original(*arguments)  # type: ignore[arg-type]

        passive.finish_training = losing  # type: ignore[method-assign,assignment]
        home.train()
        assert home.active.predict_one("id-10").sum() == pytest.approx(1.0)
        assert len(passive._context.record.lost.sentences) == 2


def test_another_session_forgets_what_the_one_before_has_lost(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    with house(folder, settings=PLAIN) as home:
        record = home.active._record
        no_folder(folder)
        record.write()
        assert record.lost.sentences
        folder.unlink()
        home.train()
        assert record.lost.sentences == ()
        assert home.record()["schema"] == 1


# Writes a record that is larger than its disk, over a good one.
_FILL = """
import sys
from pathlib import Path
import numpy as np
from services.common.meters import TrafficMeter
from services.party.record import RunRecord
from vfl.learning import LinearPart
record = RunRecord(Path(sys.argv[1]), "passive", TrafficMeter())
record.note(guard=["x" * 1_000_000])
record.finish(LinearPart(np.zeros((100_000, 1))))
print(*record.lost.sentences, sep="\\n")
"""


def test_a_disk_that_fills_in_the_middle_of_a_record_loses_nothing_old(tmp_path: Path) -> None:
    """Once the last good ``passive.json`` became 8 kB of broken JSON."""
    record = record_of(tmp_path)
    record.note(guard=["Look out."])
    record.finish(LinearPart(GOOD))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    words = run_restricted(partial(no_room_for_files, 8192), _FILL, str(tmp_path)).splitlines()
    assert [line.partition(" of this run could not be written: File too large.")[0] for line in words] == [
        "passive's weights",
        "passive's record",
    ]
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert RunFolder(tmp_path).record("passive").guard == ("Look out.",)
    with np.load(tmp_path / "passive-weights.npz") as kept:
        np.testing.assert_array_equal(kept["weights"], GOOD)


def test_what_holds_labels_scores_features_or_weights_is_for_its_owner_alone(tmp_path: Path) -> None:
    with house(tmp_path / "runs", settings=small_settings(cipher="plain", record_features=True)) as home:
        home.train()
    written = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "runs").iterdir()}
    assert written == {
        f"{party}{kind}": 0o600
        for party in ("active", "passive")
        for kind in (".json", "-weights.npz", "-features.npz")
    } | {"active-test-scores.npz": 0o600}
