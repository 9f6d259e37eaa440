"""The batch size of a plan that leaves it open: it follows the table's size, so that answers tell nothing."""

from collections.abc import Iterator
from dataclasses import replace

from services.common.agreement import Agreement
from services.common.learner_calls import LearnerCalls
from services.protocol1.channels import Exposure, exposure
from services.protocol1.formats import CipherFormats
from vfl.crypto import PackingImpossible

# Smaller batches make noisy steps.
_FEWEST_ROWS = 64
# Of an epoch. More of them cost more and learn no better, measured: docs/decisions/0009.
_MOST_STEPS = 64


def with_batch_size(agreement: Agreement) -> Agreement:
    """Fix the batch size of an agreement: the plan's own or, where that is 0, one that follows the table's size.

    It is a pure function of public numbers, so that every party computes the same. An epoch has at most 64 steps of
    about 64 records or more: as many as leave the guard silent about every channel. Where no number of steps does, it
    is one that leaves as few channels as possible that can be solved, then as few as possible that tell labels.
    The cipher doesn't count: a session without encryption trains with the same batches. On shared weights nothing is
    answered that a size would bound: it has the most steps, or one where the learner turns columns, whose steps are on
    all records. The most has a learner that forwards a layer, too, of whose backward signal no size hides labels.
    """
    if agreement.plan.batch_size:
        return agreement
    plan, rows = agreement.plan, agreement.training_rows
    if plan.shares_weights or plan.family.spec.forwards:
        is_turned = plan.shares_weights and LearnerCalls(plan.family).turned_norm(agreement.classes, rows) is not None
        return replace(agreement, plan=plan.of_size(max(1, rows))) if is_turned else next(_by_size(agreement))
    best, least = None, None
    for sized in _by_size(agreement):
        exposed = _exposure(sized)
        if least is None or exposed < least:
            best, least = sized, exposed
        if exposed.is_none:
            break
    assert best is not None  # noqa: S101 - there is at least one step
    return best


def _by_size(agreement: Agreement) -> Iterator[Agreement]:
    """Take the agreement with every batch size to choose from, the smallest first."""
    rows = agreement.training_rows
    for steps in range(min(_MOST_STEPS, max(1, -(-rows // _FEWEST_ROWS))), 0, -1):
        yield replace(agreement, plan=agreement.plan.of_size(max(1, -(-rows // steps))))


def _exposure(agreement: Agreement) -> Exposure:
    try:
        return exposure(agreement, CipherFormats(agreement).layout)
    except PackingImpossible:  # no batch size makes room: the parties say so when they make their ciphers
        return Exposure(0, 0, 0, 0)
