"""Calibrated scores over the wire: the slope that the label party has fitted is the one that passive parties take."""

from pathlib import Path

import numpy as np

from services.common.run_folder import RunFolder
from tests.harness.processes import quick_federation


def test_every_process_scales_its_weights_by_the_slope_that_is_told(tmp_path: Path) -> None:
    with quick_federation(tmp_path, data="wine", epochs=3, validation_fraction=0.3) as federation:
        weights, records = [], []
        for calibrated in (False, True):
            federation.train(calibrated=calibrated)
            folder = RunFolder(tmp_path / "parties")
            weights.append(folder.weights("passive").weights)
            records.append([folder.record(name).calibration for name in ("active", "passive")])
    assert records[0] == [None, None]
    own, told = records[1]
    assert own is not None
    assert told is not None
    assert own.slope == told.slope
    assert told.intercepts is None
    assert own.slope not in (None, 1.0)
    np.testing.assert_allclose(weights[1], weights[0] * own.slope, rtol=1e-12)
