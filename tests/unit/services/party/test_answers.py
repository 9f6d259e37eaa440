"""What whole parties count of their answers, by protocol: as many decryptions, sums and bits as they gave."""

from pathlib import Path
from typing import Any

import pytest

from services.watching.tally import Tally
from tests.harness.parties import House, house, small_settings

Values = dict[tuple[str, ...], float]


def measured(tally: Tally) -> dict[str, Values]:
    return {one.name: dict(one.values) for one in tally.measures()}


def trained(folder: Path, **settings: Any) -> tuple[House, dict[str, Values], dict[str, Values]]:
    with house(folder, settings=small_settings(**settings)) as found:
        found.train()
        return found, measured(found.active.tally), measured(found.passive["passive"]._tally)


def kinds(found: dict[str, Values]) -> set[str]:
    return {kind for _, kind in found["answers"]}


def test_each_decryption_is_counted_as_the_guard_counts_its_channel(tmp_path: Path) -> None:
    found, active, passive = trained(tmp_path, epochs=2)
    for name, peer, measures in (("active", "passive", active), ("passive", "active", passive)):
        steps = len(found.record(name)["steps"])
        (channel,) = found.record(name)["channels"]
        assert measures["answers"][peer, "decryption"] == steps > 1
        assert measures["answered_items"][peer, "decryption"] == steps * channel["answers"]
        assert measures["equations_answered"] == {(peer,): steps * channel["equations"]}
        assert measures["capacity_bits"] == {(peer,): steps * channel["answer_bits"]}
    assert kinds(passive) == {"blinded ids", "alignment", "decryption", "scores"}
    # Of the label party a channel tells labels as well, more than one from an equation.
    (channel,) = found.record("active")["channels"]
    assert active["guard_ratio"]["passive",] > channel["equations"] / channel["rows"] > 0
    # Validation records after each epoch, then test records: one form of each with every model.
    assert passive["forms_answered"]["active",] >= 2
    assert passive["forms_allowed"][()] <= passive["forms_of_a_record"][()]


def test_what_travels_in_the_clear_is_counted_as_that(tmp_path: Path) -> None:
    _, active, passive = trained(tmp_path, cipher="plain", epochs=1)
    assert "residuals in the clear" in kinds(active) & kinds(passive)
    assert active["equations_answered"] == {}


def test_a_network_forwards_and_the_ratio_says_how_much(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    network: dict[str, Any] = {"learner": "network", "backward": "paillier", "learner_options": {"hidden": 2}}
    found, active, passive = trained(tmp_path, epochs=2, **network)
    agreement = found.active_training.agreement
    steps = len(found.record("passive")["steps"])
    assert passive["answers"]["active", "hidden layer"] == steps
    assert passive["answered_items"]["active", "hidden layer"] == 2 * len(found.active_training.rows.train)
    assert passive["guard_ratio"] == {("active",): 2 * 2 * 2 / agreement.parties[1].feature_count}
    assert active["answers"]["passive", "decryption"] == steps
    assert active["guard_ratio"] == {}


def test_openings_are_counted_with_their_bits(tmp_path: Path) -> None:
    found, active, passive = trained(tmp_path, protocol="shared", opening="always", patience=0, epochs=1)
    agreement = found.active_training.agreement
    columns = [party.feature_count for party in agreement.parties]
    for measures, peer, count in ((active, "passive", columns[1]), (passive, "active", columns[0])):
        assert (
            measures["answered_items"][peer, "opened bits"] == count * agreement.plan.protocol_options["opening_bits"]
        )
        assert "decryption" not in kinds(measures)


def test_scores_are_counted_by_record(tmp_path: Path) -> None:
    with house(tmp_path, settings=small_settings(epochs=1)) as found:
        found.train()
        before = measured(found.passive["passive"]._tally)["answered_items"]["active", "scores"]
        assert len(found.active.predict(["id-7", "id-9", "nobody"]).ids) == 2
        after = measured(found.passive["passive"]._tally)["answered_items"]["active", "scores"]
    assert after - before == 2
