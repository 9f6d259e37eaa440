"""The defence in docs/adding-a-defence.md, installed as another package would be."""

from pathlib import Path

import numpy as np
import pytest

import defences
from tests.harness.documented_plugin import install


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install("adding-a-defence.md", "score_floor", tmp_path, monkeypatch)


@pytest.mark.usefixtures("installed")
def test_documented_defence_is_found_and_protects() -> None:
    assert "score_floor" in defences.names()
    defence = defences.load("score_floor", floor=0.1)
    protected = defence.protect_scores(
        np.array([[1.0, 0.0], [0.5, 0.5]]), defences.ScoreContext(defences.NoiseSource())
    )
    np.testing.assert_allclose(protected, [[0.9, 0.1], [0.5, 0.5]])


@pytest.mark.usefixtures("installed")
def test_documented_defence_refuses_a_floor_that_leaves_no_room() -> None:
    context = defences.ScoreContext(defences.NoiseSource())
    with pytest.raises(defences.DefenceError, match="below 1/3"):
        defences.load("score_floor", floor=0.4).protect_scores(np.full((1, 3), 1 / 3), context)


def test_without_installation_it_is_unknown() -> None:
    with pytest.raises(defences.UnknownDefence, match="score_scheme1"):
        defences.load("score_floor")
