"""Sums of labels over sessions: counted by batch at the label party, told, and refused beyond its owner's limit."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from plumbline.cli import app
from services.common.errors import OutOfOrder
from services.party.equation_count import EQUATIONS, shares_in
from services.party.share_guard import SingleShares
from tests.harness.restarts import Town, town

# Encrypted, with answers that are counted. The passive party has three columns; 44 records train.
COUNTED: dict[str, Any] = {"cipher": "paillier", "key_bits": 1024, "most_equations": 1.0, "validation_fraction": 0.0}


def told(home: Town) -> SingleShares:
    content = home.states["active"].read(EQUATIONS)
    assert content is not None
    return shares_in(content)["passive"]


def test_the_same_batches_tell_their_labels_once_and_others_tell_more(tmp_path: Path) -> None:
    with town(tmp_path, epochs=2, batch_size=22, most_sums=1.0, **COUNTED) as home:
        home.train()
        assert told(home) == SingleShares(137, 3 * 2 * 2)
        home.restart(*home.names)
        home.train()
        assert told(home) == SingleShares(137, 2 * 3 * 2 * 2)
        # Batches last, whatever the seed.
        home.train(seed=5)
        assert told(home) == SingleShares(137, 3 * 3 * 2 * 2)
        home.train(batches="reshuffled", epochs=1)
        assert told(home) == SingleShares(274, 3 * 3 * 2 * 2 + 3 * 2)
        limit, measure = sorted(home.active._told.measures_of_labels(), key=lambda one: one.name, reverse=True)
        assert (limit.values, measure.values) == ({(): 1.0}, {("passive",): 0.274})
    shown = CliRunner().invoke(app, ["state", "show", "--dir", str(tmp_path / "state" / "active")]).output
    assert "passive was told up to 0.27 sums of labels to a record" in " ".join(shown.split())


def test_reshuffled_batches_are_counted_over_the_whole_plan(tmp_path: Path) -> None:
    with town(tmp_path, epochs=2, batch_size=22, batches="reshuffled", most_sums=1.0, **COUNTED) as home:
        home.train()
        # Three columns, of one batch and then one further batch an epoch.
        assert told(home).of_a_record == -(-1000 * 3 * 3 // 44)


def test_a_further_session_beyond_the_limit_is_refused_and_the_same_batches_are_not(tmp_path: Path) -> None:
    with town(tmp_path, epochs=1, batch_size=22, most_sums=0.2, **COUNTED) as home:
        home.train()
        home.train()
        before = told(home)
        with pytest.raises(OutOfOrder, match=r"0\.27 sums of active's labels to a record.*PLUMBLINE_MOST_SUMS"):
            home.train(batches="reshuffled")
        assert told(home) == before
        # It serves, and trains in the batches of before.
        home.train()


def test_every_step_of_a_network_tells_further_sums(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    terms = {**COUNTED, "learner": "network", "backward": "paillier", "learner_options": {"hidden": 2}}
    with town(tmp_path, epochs=1, batch_size=22, most_sums=0.5, **terms) as home:
        home.train()
        # Three columns, two units and two steps.
        assert told(home) == SingleShares(-(-1000 * 3 * 2 * 2 // 44), 3 * 2 * 2)
        with pytest.raises(
            OutOfOrder, match=r"0\.55 sums of active's labels.*backward=shared: a network tells further"
        ):
            home.train()


@pytest.mark.parametrize("guard", ["warn", "refuse"])
def test_a_first_session_beyond_the_limit_is_told_and_refused_by_a_guard_that_refuses(
    guard: str, tmp_path: Path
) -> None:
    terms = {**COUNTED, "guard": guard, "epochs": 1, "batch_size": 44, "truncate_answers": True, "most_sums": 0.05}
    with town(tmp_path, **terms) as home:
        if guard == "refuse":
            with pytest.raises(OutOfOrder, match="PLUMBLINE_MOST_SUMS"):
                home.train()
        else:
            home.train()
            assert any("sums of active's labels" in warning for warning in home.active.warnings)


def test_an_older_copy_of_the_count_tells_nothing(tmp_path: Path) -> None:
    with town(tmp_path / "town", epochs=1, most_sums=1.0, **COUNTED) as home:
        copy = home.copied("active", tmp_path / "copy")
        home.train()
        home.put_back("active", copy)
        with pytest.raises(OutOfOrder, match="older copy"):
            home.train()


def test_nothing_is_counted_where_weights_are_shared_or_nothing_is_encrypted(tmp_path: Path) -> None:
    with town(tmp_path, epochs=1, most_equations=1.0) as home:
        home.train()
        content = home.states["active"].read(EQUATIONS)
        assert content is not None
        assert shares_in(content) == {}
