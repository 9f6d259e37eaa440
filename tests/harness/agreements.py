"""Agreements for what is counted before a session."""

from dataclasses import replace

from services.common.agreement import Agreement, PartyDescription, TrainingPlan
from services.party.guard import Channel, channels_of

UNPACKED = TrainingPlan(packing=False, batch_size=64)


def agreed(
    plan: TrainingPlan = UNPACKED,
    *,
    features: tuple[int, ...] = (16, 15),
    truncating: tuple[str, ...] = (),
    classes: int = 2,
    signed: bool = False,
) -> Agreement:
    names = ["active", *(["passive"] if len(features) == 2 else [f"passive-{i}" for i in range(1, len(features))])]
    parties = tuple(
        PartyDescription(name, count, 0, signed, 400, name in truncating)
        for name, count in zip(names, features, strict=True)
    )
    return Agreement("session", plan, classes, parties)


def channel(agreement: Agreement, key_holder: str = "active", rows: int = 64) -> Channel:
    (found,) = channels_of(agreement, key_holder, rows)
    return found


def with_truncation(agreement: Agreement, name: str) -> Agreement:
    parties = tuple(replace(party, truncates_answers=party.name == name) for party in agreement.parties)
    return replace(agreement, parties=parties)
