"""Agreements for what is counted before a session."""

from dataclasses import replace

import numpy as np

from services.ciphers.channels import Channel
from services.common.agreement import Agreement, PartyDescription, TrainingPlan
from services.common.exposure import Guarded, GuardedParty, Mode
from services.exchange.opening_ledger import OpeningLedger
from services.protocols.hu.guard import channels_of, guard

UNPACKED = TrainingPlan(packing=False, batch_size=64)


def agreed(
    plan: TrainingPlan = UNPACKED,
    *,
    features: tuple[int, ...] = (16, 15),
    truncating: tuple[str, ...] = (),
    rows: int = 400,
    classes: int = 2,
    signed: bool = False,
) -> Agreement:
    names = ["active", *(["passive"] if len(features) == 2 else [f"passive-{i}" for i in range(1, len(features))])]
    parties = tuple(
        PartyDescription(name, count, 0, signed, rows, name in truncating)
        for name, count in zip(names, features, strict=True)
    )
    return Agreement("5e55104e" * 4, plan, classes, parties)


def channel(agreement: Agreement, key_holder: str = "active", rows: int = 64) -> Channel:
    (found,) = channels_of(trained_on(agreement, rows), key_holder)
    return found


def warnings(agreement: Agreement, key_holder: str = "active", rows: int = 64) -> list[str]:
    """What the guard of one party says of a session with so many training rows."""
    agreement = trained_on(agreement, rows)
    return guard(agreement, channels_of(agreement, key_holder), "warn")


def guarded(agreement: Agreement, name: str, mode: Mode = "warn") -> Guarded:
    """What the guard of a party's protocol counts of a session, with three columns of features."""
    features = np.random.default_rng(0).uniform(size=(agreement.active.aligned_rows, 3))
    labels = np.arange(len(features)) % agreement.classes if name == agreement.active.name else None
    ledger = OpeningLedger.in_memory()
    party = GuardedParty(name, features, labels, mode, noisy=False, opened=ledger, earlier={})
    return agreement.plan.training.guard(agreement, party)


def trained_on(agreement: Agreement, rows: int) -> Agreement:
    """The same session with so many training rows, and no others."""
    plan = replace(agreement.plan, validation_fraction=0.0, test_fraction=0.0)
    parties = tuple(replace(party, aligned_rows=rows) for party in agreement.parties)
    return replace(agreement, plan=plan, parties=parties)


def with_truncation(agreement: Agreement, name: str) -> Agreement:
    parties = tuple(replace(party, truncates_answers=party.name == name) for party in agreement.parties)
    return replace(agreement, parties=parties)


def letting_all_open(agreement: Agreement) -> Agreement:
    return replace(agreement, parties=tuple(replace(one, opens_always=True) for one in agreement.parties))
