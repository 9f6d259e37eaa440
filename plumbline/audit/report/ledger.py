"""What each party saw: how many equations it holds about how many unknowns, and since when an attack is possible."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from plumbline.judge.summary import RunSummary
from services.common.agreement import Agreement
from services.party.guard import channels_of, steps_until_told
from services.protocol1.channels import Channel
from vfl.crypto import PackingImpossible


@dataclass(frozen=True)
class LedgerRow:
    """What one party received of one kind, counted.

    Attributes:
        party: who received it.
        received: what, in words.
        about: whose secret it is about.
        equations: how many numbers it holds about each lot of unknowns.
        unknowns: how many there are to find.
        since: since when an attack is possible, in a sentence.
        possible: whether it is within this session.
    """

    party: str
    received: str
    about: str
    equations: int
    unknowns: int
    since: str
    possible: bool


def ledger(summary: RunSummary, facts: Mapping[str, Any]) -> list[LedgerRow]:
    """Count what every party received, in training and with each prediction.

    Sessions in the clear are counted as they would be under Paillier: what the wire shows besides is a warning's.

    Args:
        summary: the run's terms and results.
        facts: the run's; ``request`` tells whether parameters were disclosed.
    """
    disclosed = not facts.get("request", {}).get("black_box", False)
    return [*_of_training(summary.agreement), *_of_predictions(summary, disclosed=disclosed)]


def _of_training(agreement: Agreement) -> Iterator[LedgerRow]:
    encrypted = replace(agreement, plan=replace(agreement.plan, cipher="paillier"))
    for holder in encrypted.parties:
        try:
            channels = channels_of(encrypted, holder.name)
        except PackingImpossible:
            continue
        for channel in channels:
            yield _of_channel(encrypted, channel)


def _of_channel(agreement: Agreement, channel: Channel) -> LedgerRow:
    capacity = channel.capacity
    is_active = channel.key_holder == agreement.active.name
    secret = "residuals, and so the labels," if is_active else "part of the scores"
    answers = len(capacity.answer_bits)
    since, possible = _since(agreement, channel)
    return LedgerRow(
        party=channel.peer,
        received=f"{answers} decrypted answer{'s' if answers > 1 else ''} in each training step: {capacity.sums} sums",
        about=f"{channel.key_holder}'s {secret} of one batch",
        equations=capacity.equations,
        unknowns=channel.rows,
        since=since,
        possible=possible,
    )


def _since(agreement: Agreement, channel: Channel) -> tuple[str, bool]:
    """From which step on the answers hold enough, and whether the session has so many."""
    if channel.is_solvable:
        return "From the first step: there are no more unknowns than equations.", True
    if channel.key_holder == agreement.active.name and agreement.plan.family.tells().labels_alone:
        return "From the first step: with zero weights the first answers are about labels alone.", True
    if channel.is_telling:
        return "From the first step, by search: while weights are near their start, few equations tell labels.", True
    needed, planned = steps_until_told(agreement, channel), _planned_steps(agreement)
    if needed <= planned:
        return f"From step {needed:,}, if weights hardly move until then: {planned:,} steps were planned.", True
    return f"Not within this session: {planned:,} steps, where {needed:,} are needed if weights stand still.", False


def _planned_steps(agreement: Agreement) -> int:
    plan = agreement.plan
    return plan.epochs * -(-agreement.training_rows // plan.batch_size)


def _of_predictions(summary: RunSummary, *, disclosed: bool) -> Iterator[LedgerRow]:
    agreement = summary.agreement
    active, *passive = agreement.parties
    unknowns, equations = sum(party.feature_count for party in passive), max(1, agreement.classes - 1)
    names = " and ".join(party.name for party in passive)
    scores = f"{agreement.classes} confidence scores for each record{_after(agreement)}"
    known = "parameters as disclosed" if disclosed else "no parameters"
    yield LedgerRow(
        party=active.name,
        received=f"{scores}; {known}",
        about=f"{names}'s features of one record",
        equations=equations,
        unknowns=unknowns,
        since=_since_prediction(equations, unknowns, disclosed=disclosed),
        possible=disclosed,
    )
    yield LedgerRow(
        party="coordinator",
        received="each party's part of the scores, in the clear; no parameters",
        about=f"all parties' features of one record ({active.name} included)",
        equations=equations * len(agreement.parties),
        unknowns=sum(party.feature_count for party in agreement.parties) - 1,
        since="Never by equations alone: it doesn't know what they weigh features with.",
        possible=False,
    )


def _after(agreement: Agreement) -> str:
    return f", after {', '.join(agreement.score_defences)}" if agreement.score_defences else ""


def _since_prediction(equations: int, unknowns: int, *, disclosed: bool) -> str:
    if not disclosed:
        return "Not by solving: without parameters the equations are unknown. Estimates need other knowledge."
    if unknowns <= equations:
        return "From the first prediction, exactly: there are no more unknowns than equations."
    return "From the first prediction, as an estimate: many records fit the same scores."
