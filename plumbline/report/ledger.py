"""What each party of a run received, counted: equations against unknowns, in training and with each prediction."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from plumbline.judge.summary import RunSummary
from services.common.agreement import Agreement
from services.common.session_limit import forms_of_model
from services.protocols.hu.guard import channels_of, epochs_until_heard, steps_until_told
from services.protocol1.channels import Channel
from services.shared_weights.opening import opened_bits, validation_bits
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
    stays_hidden = summary.agreement.plan.shares_weights and summary.agreement.plan.family.spec.forwards
    disclosed = not stays_hidden and not facts.get("request", {}).get("black_box", False)
    plan = summary.agreement.plan
    of_linear = _of_opening if plan.shares_weights else _of_training
    of_training = _of_forwarding if plan.family.spec.forwards else of_linear
    return [*of_training(summary.agreement), *_of_predictions(summary, disclosed=disclosed)]


def _of_training(agreement: Agreement) -> Iterator[LedgerRow]:
    encrypted = replace(agreement, plan=agreement.plan.encrypted())
    for holder in encrypted.parties:
        try:
            channels = channels_of(encrypted, holder.name)
        except PackingImpossible:
            continue
        for channel in channels:
            yield _of_channel(encrypted, channel)


def _of_opening(agreement: Agreement) -> Iterator[LedgerRow]:
    """On shared weights nothing is counted in a step: what is opened, once."""
    others = sum(party.feature_count for party in agreement.parties[1:])
    shown = validation_bits(agreement)
    for party in agreement.parties:
        is_active = party is agreement.active
        validated = f"{shown:,} bits of validation losses at most, and " if is_active and shown else ""
        yield LedgerRow(
            party=party.name,
            received=f"{validated}its own weights, once, when training is over: {opened_bits(agreement, party.name):,} "
            "bits; before, uniform numbers",
            about="the other parties' features of one record" if is_active else f"{agreement.active.name}'s labels",
            equations=party.feature_count * agreement.residual_columns,
            unknowns=others if is_active else agreement.training_rows,
            since="When weights are opened: they say what a model of these columns says, and to who has sent other "
            "messages than the protocol's as many bits as they have.",
            possible=True,
        )


def _of_forwarding(agreement: Agreement) -> Iterator[LedgerRow]:
    """Say, where a first layer is forwarded, what its sums tell the label party, and what comes back to each other."""
    plan, active, units = agreement.plan, agreement.active.name, agreement.outputs
    features = sum(party.feature_count for party in agreement.parties[1:])
    enough = -(-features // units)
    yield LedgerRow(
        party=active,
        received=f"{units} sums of the other parties' first layer for each record, in the clear, in each epoch",
        about="the other parties' features of one record",
        equations=units * plan.epochs,
        unknowns=features,
        since=f"From epoch {enough:,} on, to who can tell the other parties' weights: each epoch has other sums."
        if enough <= plan.epochs
        else f"Not within this session: {plan.epochs:,} epochs, where {enough:,} are needed.",
        possible=enough <= plan.epochs,
    )
    for party in agreement.parties[1:]:
        if plan.shares_weights:
            received, equations = "uniform numbers", 0
            since = "Never: what comes back stays shared."
        elif plan.is_encrypted:
            received, equations = "sums of each training step", party.feature_count * units
            since = (
                "From the first step, by search: a record's label decides the direction of what it adds to the sums."
            )
        else:
            received, equations = "numbers of each record of a step, in the clear", plan.batch_size * units
            since = "From the first step: a record's label decides the direction of its numbers."
        yield LedgerRow(
            party=party.name,
            received=f"{equations:,} {received}" if equations else received,
            about=f"{active}'s labels of one batch",
            equations=equations,
            unknowns=plan.batch_size,
            since=since,
            possible=equations > 0,
        )


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
    if channel.key_holder == agreement.active.name and agreement.plan.leakage.labels_alone:
        return "From the first step: with zero weights the first answers are about labels alone.", True
    if channel.is_telling:
        return "From the first step, by search: while weights are near their start, few equations tell labels.", True
    if channel.is_heard:
        return "From the first steps: few sums move with so few weights, and all others are about labels alone.", True
    plan = agreement.plan
    if (heard := epochs_until_heard(agreement, channel)) and heard <= plan.epochs:
        return (
            f"From epoch {heard:,} on, by listening: batches are reshuffled, and sums of different steps are about the "
            "same records.",
            True,
        )
    needed, planned = steps_until_told(agreement, channel), plan.epochs * -(-agreement.training_rows // plan.batch_size)
    if needed <= planned:
        return f"From step {needed:,}, if weights hardly move until then: {planned:,} steps were planned.", True
    return f"Not within this session: {planned:,} steps, where {needed:,} are needed if weights stand still.", False


def _of_predictions(summary: RunSummary, *, disclosed: bool) -> Iterator[LedgerRow]:
    agreement, forwards = summary.agreement, summary.agreement.plan.family.spec.forwards
    active, *passive = agreement.parties
    unknowns, equations = sum(party.feature_count for party in passive), max(1, forms_of_model(agreement))
    names = " and ".join(party.name for party in passive)
    after = f", after {', '.join(agreement.score_defences)}" if agreement.score_defences else ""
    answer = f"{equations} sums of the first layer" if forwards else f"{agreement.classes} confidence scores"
    scores = f"{answer} for each record{after}"
    known = "parameters as disclosed" if disclosed else "no parameters"
    how = "uniform by itself" if forwards and agreement.plan.shares_weights else "in the clear"
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
        received=f"each party's part of {'these sums' if forwards else 'the scores'}, {how}; no parameters",
        about=f"all parties' features of one record ({active.name} included)",
        equations=equations * len(agreement.parties),
        unknowns=sum(party.feature_count for party in agreement.parties) - 1,
        since="Never by equations alone: it doesn't know what they weigh features with.",
        possible=False,
    )


def _since_prediction(equations: int, unknowns: int, *, disclosed: bool) -> str:
    if not disclosed:
        return "Not by solving: without parameters the equations are unknown. Estimates need other knowledge."
    if unknowns <= equations:
        return "From the first prediction, exactly: there are no more unknowns than equations."
    return "From the first prediction, as an estimate: many records fit the same scores."
