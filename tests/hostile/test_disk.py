"""A disk that fills, or turns read-only, in the middle of a job: nothing old is lost, and the model is served."""

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from plumbline.federation import Federation, FederationFailed
from protos.v1 import active_pb2
from services.common.run_folder import RunFolder
from tests.harness.disks import Disk, NoFileSystem, full, limited, read_only
from tests.harness.hostile import SEEDED, parties_folder, scores_of
from tests.harness.processes import local_processes
from vfl.arrays import FloatArray


@pytest.mark.parametrize("disk_of", [limited, full, read_only])
def test_nothing_old_is_lost_and_the_new_model_is_served(
    tmp_path: Path, disk_of: Callable[[Path], AbstractContextManager[Disk]]
) -> None:
    """Once the last good ``passive.json`` became 8 kB of broken JSON, and the trained model was lost with it."""
    processes = local_processes(tmp_path, **{**SEEDED, "record_features": True})
    folder = parties_folder(processes)
    with ExitStack() as stack:
        try:
            disk = stack.enter_context(disk_of(folder))
        except NoFileSystem as error:
            pytest.skip(str(error))
        federation = stack.enter_context(Federation.start(processes))
        federation.train()
        before = {path.name: path.read_bytes() for path in folder.iterdir()}
        old_scores = scores_of(federation)

        def strike(event: active_pb2.JobEvent) -> None:
            if event.WhichOneof("event") == "epoch" and event.epoch.epoch == 0:
                disk.break_(processes)

        try:
            federation.train(watch=strike, epochs=2)
        except FederationFailed as error:
            # A model that can't be kept isn't served in place of one that is.
            if not disk.is_whole or f"can't write its state ({disk.says})" not in str(error):
                raise
            pd.testing.assert_frame_equal(scores_of(federation), old_scores, check_exact=True)
        else:
            status = federation.status()
            assert status.stage == "serving"
            lost = [words for words in status.warnings if "could not be written" in words]
            assert len(lost) == 3
            assert all(disk.says in words for words in lost)
            assert not np.array_equal(_numbers(scores_of(federation)), _numbers(old_scores), equal_nan=True)
        assert {name: (folder / name).read_bytes() for name in before} == before
        assert RunFolder(folder).record("passive").agreement is not None
        processes.check()

        disk.mend(processes)
        federation.train(epochs=2)
        assert not [words for words in federation.status().warnings if "could not be written" in words]
        assert not np.array_equal(_numbers(scores_of(federation)), _numbers(old_scores), equal_nan=True)
        assert not list(folder.glob("*.unfinished"))
        assert (folder / "passive-weights.npz").read_bytes() != before["passive-weights.npz"]


def _numbers(scores: pd.DataFrame) -> FloatArray:
    return scores.drop(columns="error").to_numpy()
