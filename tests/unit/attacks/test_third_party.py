"""The attack in docs/adding-an-attack.md, installed as another package would be."""

from pathlib import Path

import numpy as np
import pytest

import attacks
from tests.harness.documented_plugin import install


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install("adding-an-attack.md", "mean_guess", tmp_path, monkeypatch)


@pytest.mark.usefixtures("installed")
def test_documented_attack_is_found_and_reconstructs() -> None:
    assert "mean_guess" in attacks.names()
    known = attacks.AuxiliaryRows(np.zeros((2, 1)), np.array([[0.0, 0.2], [1.0, 0.4]]), np.full((2, 2), 0.5))
    view = attacks.PredictionView(
        features_active=np.zeros((3, 1)), scores=np.full((3, 2), 0.5), passive_features=2, auxiliary=known
    )
    estimate = attacks.load("mean_guess", shrink=0.5).reconstruct(view)
    np.testing.assert_allclose(estimate, [[0.5, 0.4]] * 3)


@pytest.mark.usefixtures("installed")
def test_documented_attack_names_the_piece_it_lacks() -> None:
    view = attacks.PredictionView(features_active=np.zeros((3, 1)), scores=np.full((3, 2), 0.5), passive_features=2)
    with pytest.raises(attacks.ViewError, match="mean_guess needs auxiliary"):
        attacks.load("mean_guess").reconstruct(view)


def test_without_installation_it_is_unknown() -> None:
    with pytest.raises(attacks.UnknownAttack, match="half_star"):
        attacks.load("mean_guess")
