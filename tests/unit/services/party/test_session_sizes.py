"""What a session may ask of a party's memory, and records that the guard counts."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from defences.response_truncation import ResponseTruncation
from services.adversary.training import _batches
from services.common import limits
from services.common.agreement import Agreement, ProposedTerms
from services.common.errors import InvalidMessage
from services.party.party_defences import PartyDefences
from services.party.session import Joined, PartySession, join
from services.party.training_means import check_kept_weights
from tests.harness.agreements import agreed
from tests.harness.exchanges import SMALL_PLAN, random_problem, wired
from tests.harness.parties import house, small_settings
from tests.harness.shared_sessions import SHARED_PLAN, SharedProblem


def test_weights_of_more_epochs_than_a_memory_holds_are_refused() -> None:
    problem = random_problem(rows=40, columns=4000, classes=3)
    plan = replace(SMALL_PLAN, cipher="plain", epochs=10_000)
    with pytest.raises(InvalidMessage, match=r"10000 epochs take 457 MiB.*choose fewer epochs"), wired(problem, plan):
        pass
    with wired(problem, replace(plan, epochs=5_000)):
        pass


def test_shares_after_each_epoch_are_counted_as_long_as_they_are() -> None:
    """A share is several times a float64, and a party has them of others' weights as well."""
    problem = SharedProblem.random(columns=(430, 2))
    plan = SHARED_PLAN.changed(protocol="shared", patience=2, validation_fraction=0.2, epochs=10_000)
    check_kept_weights(problem.agreement(plan.changed(epochs=9_000)), 2)
    with pytest.raises(InvalidMessage, match=r"10000 epochs take 264 MiB.*choose fewer epochs"):
        check_kept_weights(problem.agreement(plan), 2)


def test_more_steps_than_a_party_records_are_refused_by_the_party_itself() -> None:
    problem = random_problem(rows=300)
    plan = replace(SMALL_PLAN, cipher="plain", epochs=10_000, batch_size=1)
    with pytest.raises(InvalidMessage, match="larger batch_size or fewer epochs"), wired(problem, plan):
        pass


def test_messages_larger_than_may_be_sent_are_refused_as_the_session_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "VECTOR_BYTES", 1_000)
    problem = random_problem(rows=60)
    with pytest.raises(InvalidMessage, match="One message of a step would have"), wired(problem, SMALL_PLAN):
        pass


def test_an_order_that_repeats_a_record_is_refused(tmp_path: Path) -> None:
    """Once: 500 rows of one record looked like 500 unknowns."""
    settings = small_settings(guard="refuse", batch_size=34, packing=False)
    truncating = PartyDefences((ResponseTruncation(),))
    with house(tmp_path, settings=settings, passive_defences=truncating) as home:
        context = home.passive["passive"]._context
        aligned = context.data.aligned(np.arange(50), settings.plan())
        own = aligned.describe("passive", truncates_answers=True)
        agreement = Agreement("0" * 32, settings.plan(), 2, (replace(own, name="active"), own))
        assert PartySession.open(context, Joined(agreement, aligned, own)).guard_warnings == ()
        terms = ProposedTerms("0" * 32, "active", ("passive",), settings.plan(), 2)
        with pytest.raises(InvalidMessage, match="names a record twice"):
            join(context, terms, np.zeros(50, dtype=np.int64))


def test_an_attack_whose_schedule_fills_a_memory_is_not_mounted_and_the_party_trains() -> None:
    """The schedule of all steps is made for attacks only, from numbers that the active party proposes."""
    plan = replace(SMALL_PLAN, epochs=10_000)
    described = agreed(plan)
    parties = tuple(replace(party, aligned_rows=8_000_000) for party in described.parties)
    with pytest.raises(ValueError, match="more than an attack on training can hold"):
        _batches(replace(described, parties=parties))
