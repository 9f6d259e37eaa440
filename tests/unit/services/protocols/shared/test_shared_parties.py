"""Whole parties under protocol=shared: a job from its terms to its scores, and what is refused in words."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import defences
from services.common.agreement import TrainingPlan
from services.common.errors import FederationError, InvalidMessage, NotAllowed, OutOfOrder
from services.common.identity import Role
from services.common.settings import SettingsError
from services.exchange.opening_ledger import OpeningLedger
from services.exchange.vectors import VectorHeader
from services.party.consent import check_plan
from services.party.party_defences import PartyDefences
from services.protocols.shared.opening import guard_opening, stays_shared
from tests.harness.agreements import letting_all_open
from tests.harness.parties import House, active_data, house, party_data, small_settings
from tests.harness.shared_sessions import SharedProblem
from tests.harness.shared_wiring import wired_shares

# One batch of all rows: then both protocols take the same steps.
WHOLE = {"steps": "plain", "calibrated": False, "batch_size": 1000, "epochs": 3, "key_bits": 512}


def trained_weights(found: House) -> list[Any]:
    trainings = [found.active_training]
    for party in found.passive.values():
        session = party._session
        assert session is not None
        assert session.joined is not None
        trainings.append(session.joined.training)
    return [training.model.part.arrays()["weights"] for training in trainings]


@pytest.mark.parametrize("parties", [2, 3])
def test_a_job_gives_the_model_that_protocol_1_gives(tmp_path: Path, parties: int) -> None:
    rows = range(60)
    found = {}
    for protocol in ("hu", "shared"):
        passive = [party_data(rows=rows, seed=seed) for seed in range(1, parties)]
        settings = small_settings(**{**WHOLE, "batch_size": 42}, protocol=protocol, opening="always", patience=0)
        with house(tmp_path / protocol, active=active_data(rows=rows), passive=passive, settings=settings) as one:
            watcher = one.train()
            found[protocol] = trained_weights(one)
            record = one.record()
            assert record["agreement"]["plan"]["protocol"] == protocol
            scores = one.tested().scores
            assert np.isfinite(scores).all()
            # On shared weights there is no model to validate before the last epoch.
            validated = [not np.isnan(epoch.validation_loss) for epoch in watcher.epochs]
            assert validated == ([True] * 3 if protocol == "hu" else [False, False, True])
            assert record["channels"] == [] or protocol == "hu"
            # Of what was shared in earlier epochs nothing is left.
            parts = one.active_training.models._parts
            assert all(part is not None and isinstance(part.arrays()["weights"], np.ndarray) for part in parts)
    for hu, shared in zip(found["hu"], found["shared"], strict=True):
        assert np.abs(hu - shared).max() <= 2.0**-16


@pytest.mark.parametrize(("protocol", "apart"), [("hu", 0.0), ("shared", 2.0**-16)])
def test_a_private_seed_repeats_a_training_to_what_masks_round(tmp_path: Path, protocol: str, apart: float) -> None:
    """Noise per record is a function of scores to 2^-24: it is another one where they differ by more."""
    rows, weights, delivered = range(60), [], []
    for number in range(3):
        settings = small_settings(**{**WHOLE, "batch_size": 42}, protocol=protocol, opening="always")
        passive = [party_data(rows=rows)]
        with house(tmp_path / str(number), active=active_data(rows=rows), passive=passive, settings=settings) as one:
            one.train()
            weights.append(np.vstack(trained_weights(one)))
            delivered.append(one.tested().scores)
    assert np.ptp(weights, axis=0).max() <= apart
    assert np.ptp(delivered, axis=0).max() <= apart
    moved = delivered[0] + np.array([2.0**-23, -(2.0**-23)])
    noise = [
        defences.load("score_noise").protect_scores(one, defences.ScoreContext(defences.NoiseSource(1)))
        for one in (delivered[0], delivered[0], moved)
    ]
    np.testing.assert_array_equal(noise[0], noise[1])
    assert np.abs(noise[0] - noise[2]).max() > 0.01


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"cipher": "plain"}, "cipher=paillier"),
        ({"rerandomise": False}, "rerandomise=on"),
        ({"learner": "installed"}, "protocol=hu"),
        ({"protocol": "other"}, "Known: hu, shared"),
    ],
)
def test_plans_that_cannot_work_are_refused_in_words(changes: dict[str, Any], words: str) -> None:
    plan = TrainingPlan(protocol="shared")
    plan.check()
    with pytest.raises(InvalidMessage, match=words):
        plan.changed(**changes).check()


def test_a_party_takes_part_in_its_own_protocol_only() -> None:
    shared, hu = small_settings(protocol="shared"), small_settings()
    check_plan(shared.plan(), shared)
    with pytest.raises(OutOfOrder, match="PLUMBLINE_PROTOCOL alike"):
        check_plan(shared.plan(), hu)
    with pytest.raises(OutOfOrder, match="PLUMBLINE_PROTOCOL alike"):
        check_plan(hu.plan(), shared)
    reference = small_settings(protocol="shared", kernel="phe", packing=False)
    with pytest.raises(OutOfOrder, match="KERNEL=phe"):
        check_plan(reference.plan(), reference)


@pytest.mark.parametrize("defence", ["dp_noise", "response_truncation"])
def test_defences_of_what_nobody_sends_are_refused_at_the_start(defence: str) -> None:
    with pytest.raises(SettingsError, match=f"{defence} protects what protocol=shared doesn't send"):
        PartyDefences.of(small_settings(protocol="shared", defences=[defence]), Role.ACTIVE)


def test_the_guard_counts_what_is_opened(tmp_path: Path) -> None:
    """3 columns x 24 bits against the labels' entropy at the label party, against a record at the passive one."""
    agreement = letting_all_open(
        SharedProblem.random(rows=1000, columns=(2, 3)).agreement(TrainingPlan(protocol="shared"))
    )
    even = np.arange(1000) % 2
    assert not stays_shared(agreement)
    (warning,) = guard_opening(agreement, "active", even, "warn", OpeningLedger.in_memory())
    assert "up to 72 bits of the 700 that 700 records have" in warning
    assert "train on 1440 records or more" in warning
    (warning,) = guard_opening(agreement, "passive-1", None, "warn", OpeningLedger.in_memory())
    assert "up to 72 bits, where a record has 51" in warning
    with pytest.raises(OutOfOrder, match="PLUMBLINE_GUARD=refuse") as refused:
        guard_opening(agreement, "active", even, "refuse", OpeningLedger.in_memory())
    # Peers are told it: nothing in it follows from labels.
    with pytest.raises(OutOfOrder) as of_others:
        guard_opening(agreement, "active", np.arange(1000) % 7 == 0, "refuse", OpeningLedger.in_memory())
    assert str(of_others.value) == str(refused.value)
    assert guard_opening(agreement, "active", even, "off", OpeningLedger.in_memory()) == []
    many = letting_all_open(SharedProblem.random(rows=2100, columns=(2, 3)).agreement(TrainingPlan(protocol="shared")))
    assert guard_opening(many, "active", np.arange(2100) % 2, "warn", OpeningLedger.in_memory()) == []
    refusing = small_settings(protocol="shared", guard="refuse", opening="always")
    with house(tmp_path, settings=refusing) as one, pytest.raises(FederationError, match="could read"):
        one.train()


@pytest.mark.parametrize(("rows", "refusing"), [(1000, {"active", "passive-1"}), (2060, {"passive-1"})])
def test_weights_stay_shared_where_their_opening_could_tell_too_much(rows: int, refusing: set[str]) -> None:
    """72 bits are 5 % of 1,440 labels, and more than 5 % of any record. All find the same in the agreement alone."""
    problem = replace(SharedProblem.random(rows=rows, columns=(2, 3)), opens_always=False)
    agreement = problem.agreement(TrainingPlan(protocol="shared"))
    assert stays_shared(agreement)
    for name, labels in (("active", np.arange(rows) % 2), ("active", np.zeros(rows, dtype=int)), ("passive-1", None)):
        # Whatever the labels are, and whatever the mode: the session goes on.
        sentences = guard_opening(agreement, name, labels, "refuse", OpeningLedger.in_memory())
        assert {one for one in ("active", "passive-1") if f"PLUMBLINE_OPENING=always at {one}" in " ".join(sentences)}
        assert len(sentences) == len(refusing)
        assert all(any(f"always at {one}" in sentence for sentence in sentences) for one in refusing)
    letting = tuple(replace(one, opens_always=one.name in refusing) for one in agreement.parties)
    assert not stays_shared(replace(agreement, parties=letting))
    chosen = problem.agreement(TrainingPlan(protocol="shared", protocol_options={"serving": "shared"}))
    assert stays_shared(letting_all_open(chosen))
    assert guard_opening(chosen, "active", np.arange(rows) % 2, "warn", OpeningLedger.in_memory()) == []
    assert problem.agreement(TrainingPlan()).serving.tells_owners


def test_shared_serving_is_a_term_of_its_protocol_and_a_partys_last_word() -> None:
    with pytest.raises(SettingsError, match="serving=shared goes on from protocol=shared"):
        small_settings(serving="shared")
    opened, shared = small_settings(protocol="shared"), small_settings(protocol="shared", serving="shared")
    check_plan(shared.plan(), opened)
    with pytest.raises(OutOfOrder, match="PLUMBLINE_SERVING=shared at the active party"):
        check_plan(opened.plan(), shared)


def test_messages_of_the_other_protocol_are_refused(tmp_path: Path) -> None:
    with house(tmp_path, settings=small_settings(protocol="shared")) as one:
        one.train()
        session_id = one.active_training.agreement.session_id
        assert one.active.exchange_of(session_id) is one.active_training.exchange
    with wired_shares(SharedProblem.random(columns=(3, 2))) as parties:
        inbox, peer = parties["active"].exchange, "passive-1"
        with pytest.raises(NotAllowed, match="passive-1 has no residuals to send"):
            inbox.expects(peer, "residuals", 0, VectorHeader("", 1, 8))
        with pytest.raises(NotAllowed, match="passive-1 has no sums to ask"):
            inbox.expects_question(peer, "sums", 0, VectorHeader("", 1, 8))
