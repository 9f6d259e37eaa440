"""The defence in docs/adding-a-defence.md, installed as another package would be."""

from pathlib import Path

import numpy as np
import pytest

import defences
from tests.harness.documented_plugin import install
from vfl.channels import Temperature


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install("adding-a-defence.md", "score_power", tmp_path, monkeypatch)


@pytest.mark.usefixtures("installed")
def test_documented_defence_is_found_and_protects() -> None:
    assert "score_power" in defences.names()
    defence = defences.load("score_power", power=2.0)
    protected = defence.protect_scores(
        np.array([[0.75, 0.25], [0.5, 0.5]]), defences.ScoreContext(defences.NoiseSource())
    )
    np.testing.assert_allclose(protected, [[0.9, 0.1], [0.5, 0.5]])
    assert defences.channel_of(defence, 2) == Temperature(2.0)


@pytest.mark.usefixtures("installed")
def test_documented_defence_refuses_a_power_that_leaves_nothing() -> None:
    context = defences.ScoreContext(defences.NoiseSource())
    with pytest.raises(defences.DefenceError, match="choose a smaller one"):
        defences.load("score_power", power=5e3).protect_scores(np.full((1, 3), 1 / 3), context)
    with pytest.raises(ValueError, match="positive number"):
        defences.load("score_power", power=0.0)


def test_without_installation_it_is_unknown() -> None:
    with pytest.raises(defences.UnknownDefence, match="score_scheme1"):
        defences.load("score_power")
