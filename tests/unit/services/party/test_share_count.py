"""Single shares that training's answers may have told: by record and peer, kept over sessions, told and refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from typer.testing import CliRunner

from plumbline.cli import app
from services.common.errors import OutOfOrder
from services.party.equation_count import EQUATIONS, shares_in, spent_in
from services.party.share_count import ToldShares
from services.party.share_guard import SingleShares
from tests.harness.restarts import Town, town

KEYS: NDArray[np.uint64] = np.arange(5, 25, dtype=np.uint64) ** 3
# Of three columns. Encrypted, with answers that are counted.
COUNTED: dict[str, Any] = {"cipher": "paillier", "key_bits": 1024, "most_equations": 1.0, "validation_fraction": 0.0}


def told(home: Town) -> dict[str, SingleShares]:
    content = home.states["passive"].read(EQUATIONS)
    return {} if content is None else shares_in(content)


@given(st.lists(st.tuples(st.integers(0, 2**20 - 1), st.integers(1, 9), st.integers(0, 99)), max_size=8))
def test_each_record_has_what_its_sessions_told(sessions: list[tuple[int, int, int]]) -> None:
    count, expected = ToldShares.none(), np.zeros(len(KEYS), dtype=np.int64)
    for members, shares, answers in sessions:
        chosen = [at for at in range(len(KEYS)) if members >> at & 1]
        count = count.after(KEYS[chosen], SingleShares(shares, answers))
        expected[chosen] += shares
    every = sum(answers for _, _, answers in sessions)
    for at, key in enumerate(KEYS):
        assert count.about(np.array([key])) == SingleShares(int(expected[at]), every)
    assert count.about(KEYS) == SingleShares(int(expected.max()), every)


def test_sessions_are_counted_over_restarts_and_beside_the_forms_of_scores(tmp_path: Path) -> None:
    with town(tmp_path, epochs=2, **COUNTED) as home:
        home.train()
        first = told(home)["active"]
        assert first.of_a_record == 2
        assert first.in_answers > 0
        home.restart(*home.names)
        home.train()
        assert told(home)["active"] == first + first
        content = home.states["passive"].read(EQUATIONS)
        assert content is not None
        assert spent_in(content)[0].most == 2
        (measure,) = (one for one in home.passive()._equations.measures() if one.name == "training_forms")
        assert measure.values == {("active",): 4}
    shown = CliRunner().invoke(app, ["state", "show", "--dir", str(tmp_path / "state" / "passive")]).output
    assert "training may have told active 4 sums of a record's columns" in " ".join(shown.split())


def test_a_guard_that_refuses_ends_what_would_tell_a_whole_record(tmp_path: Path) -> None:
    # Noise is none here; batches are whole, so that nothing else is refused.
    terms = {**COUNTED, "guard": "refuse", "truncate_answers": True, "epochs": 2, "batch_size": 44}
    with town(tmp_path, **terms) as home:
        home.train()
        with pytest.raises(OutOfOrder, match="could learn whole records of passive by sending other messages"):
            home.train()
        assert told(home)["active"].of_a_record == 2


def test_nothing_is_counted_where_nothing_is_answered(tmp_path: Path) -> None:
    with town(tmp_path, most_equations=1.0) as home:
        home.train()
        assert told(home) == {}
