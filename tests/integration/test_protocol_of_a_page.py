"""A protocol of another package in real processes, built from the text of its page."""

import os
from pathlib import Path

import numpy as np
import pytest

from plumbline.federation import Federation
from services.common.errors import InvalidMessage
from tests.harness.documented_plugin import install
from tests.harness.processes import local_processes


def test_a_protocol_of_another_package_trains_and_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "package"
    package.mkdir()
    install("adding-a-protocol.md", "pairwise_sums", package, monkeypatch)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(package), os.environ.get("PYTHONPATH", "")]))
    chosen = {"protocol": "pairwise_sums", "cipher": "plain", "epochs": 3, "batch_size": 64, "step_timeout": 8}
    with Federation.start(local_processes(tmp_path / "run", data="wine", parties=3, **chosen)) as federation:
        outcome = federation.train()
        assert outcome.epochs_run == 3
        assert outcome.auc is not None
        assert outcome.auc > 0.9
        scores = federation.predict([f"r{row:06d}" for row in range(178)])
        with pytest.raises(InvalidMessage, match="Unknown protocol 'pairwise'") as refused:
            federation.train(protocol="pairwise")
        assert "Known: hu, pairwise_sums, shared" in str(refused.value)
    known = scores[scores["error"] == ""].drop(columns="error").to_numpy(dtype=np.float64)
    np.testing.assert_allclose(known.sum(axis=1), 1)
