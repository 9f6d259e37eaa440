"""An adversary that knows which defences are on, over real processes: its views, and what it takes off them."""

import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from plumbline.audit.request import AuditRequest
from plumbline.audit.run import run_audit
from services.common.run_folder import RunFolder
from tests.harness.documented_plugin import install

SMALL = {"key_bits": 512, "allow_insecure_keys": True, "epochs": 1, "batch_size": 64}
# Another package's attack that says what it was shown.
_WITNESS = """
from dataclasses import dataclass
from typing import ClassVar
import numpy as np
import attacks

@dataclass(frozen=True)
class Witness:
    name: ClassVar[str] = "witness"
    spec: ClassVar[attacks.AttackSpec] = attacks.AttackSpec("active", "prediction", (), "a test")

    def reconstruct(self, view):
        return np.zeros((view.n, view.d))

    def reconstruct_with_notes(self, view):
        known = len(view.auxiliary.labels) if view.auxiliary else 0
        facts = (view.channel, view.disclosure, len(view.record_labels), known, len(view.moments.mean))
        return attacks.Reconstruction(self.reconstruct(view), tuple(map(repr, facts)))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The defence of docs/adding-a-defence.md and the witness, for this process and those that an audit starts."""
    folder = tmp_path_factory.mktemp("packages")
    (folder / "witness.py").write_text(_WITNESS)
    information = folder / "witness-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: witness\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[plumbline.attacks]\nwitness = witness:Witness\n")
    with pytest.MonkeyPatch.context() as patch:
        install("adding-a-defence.md", "score_power", folder, patch)
        patch.setenv("PYTHONPATH", os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]))
        yield


def audit(folder: Path, **request: Any) -> tuple[Path, dict[str, dict[str, Any]]]:
    """Run an audit on wine; returns its folder and its findings on predictions, by label."""
    settings = {**SMALL, **request.pop("settings", {})}
    console = Console(file=io.StringIO(), width=200)
    run = run_audit(AuditRequest.of(data="wine", runs=folder, settings=settings, **request), console)
    results = json.loads((run / "results.json").read_text())
    return run, {finding["attack"]: finding for finding in results["attacks"]}


@pytest.mark.usefixtures("installed")
def test_the_view_has_the_sessions_channel_and_the_bayesian_adversary_is_there_at_each_level(tmp_path: Path) -> None:
    run, found = audit(tmp_path, attacks=("witness",), defences=("score_rounding", "feature_transform"), auxiliary=20)
    parties = RunFolder(run / "parties")
    estimates, agreement = parties.estimates(0), parties.record("active").agreement
    assert agreement is not None
    tested = parties.delivered_scores(agreement)
    assert found["witness"]["notes"] == [
        "(Rounding(decimals=2),)",
        "Distorted(kind='orthonormal', about=0.0, sign_is_guess=False)",
        str(len(estimates.rows)),
        "20",
        "6",
    ]
    outcomes = {one.attack: one.level for one in parties.prediction_outcomes()}
    priors = {"half": "nothing", "mean": "marginals", "covariance": "covariance", "imputation": "records"}
    assert {f"posterior(prior={prior})": level for prior, level in priors.items()}.items() <= outcomes.items()
    # It reads the channel itself, and is not mounted again on what others make of it.
    assert found["posterior(prior=imputation)"]["status"] == "done", found["posterior(prior=imputation)"]["reason"]
    assert "low: posterior(prior=imputation)" in estimates.by_attack
    assert "withheld: posterior(prior=imputation)" in estimates.by_attack
    assert set(outcomes) - {f"posterior(prior={prior})" for prior in priors} == {
        "posterior(prior=imputation, parameters=kept)",
        "witness",
        "witness(knowing=feature_transform)",
    }
    # Records that it was given are neither judged nor trained on.
    assert estimates.auxiliary_rows is not None
    assert len(estimates.auxiliary_rows) == 20
    judged, known = set(estimates.rows.tolist()), set(estimates.auxiliary_rows.tolist())
    assert judged == set(tested.rows.tolist()) - known
    assert {name: (run / name).stat().st_mode & 0o777 for name in ("auxiliary.parquet", "prior-knowledge.json")} == {
        "auxiliary.parquet": 0o600,
        "prior-knowledge.json": 0o600,
    }


@pytest.mark.thorough
@pytest.mark.usefixtures("installed")
def test_a_defence_of_another_package_is_taken_off_without_a_line_for_it(tmp_path: Path) -> None:
    options = {"defence_options": {"score_power": {"power": 0.25}}}
    plain, _ = audit(tmp_path / "plain", attacks=("half_star",))
    run, found = audit(
        tmp_path / "defended", attacks=("half_star", "half"), defences=("score_power",), settings=options
    )
    knowing = "half_star(knowing=score_power)"
    assert knowing in found
    assert "half(knowing=score_power)" not in found
    assert found[knowing]["mse"]["mean"] < found["half_star"]["mse"]["mean"]
    undefended = RunFolder(plain / "parties").estimates(0).by_attack["half_star"]
    taken_off = RunFolder(run / "parties").estimates(0).by_attack[knowing]
    np.testing.assert_allclose(taken_off, undefended, atol=1e-6)
