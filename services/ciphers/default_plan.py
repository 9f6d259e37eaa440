"""The epochs and the batch size of a plan that leaves them open: they follow the table, so that answers tell little."""

from collections.abc import Iterator
from dataclasses import replace

from services.ciphers.channels import Exposure, exposure
from services.ciphers.formats import CipherFormats, check_vector_sizes
from services.common import limits
from services.common.agreement import Agreement, TrainingPlan
from services.common.errors import FederationError
from vfl.crypto import PackingImpossible
from vfl.learning import FewSteps, TableSize

# Of a learner that doesn't say how few steps train it.
EPOCHS = TrainingPlan.epochs
# Of an epoch. More of them cost more and learn no better, measured: docs/decisions/0009.
_MOST_STEPS = 64


def with_open_terms(agreement: Agreement) -> Agreement:
    """Fix the terms that an agreement's plan leaves open, those that are 0, and hold the batches of earlier sessions.

    A batch that lasts is never cut: the batch size is that of the largest at least. The others follow from the table
    (``_with_own_terms``). All is a pure function of public numbers, so that every party computes the same.

    Raises:
        LearnerFailed: where a learner of another package says something else than how few steps train it.
    """
    sized = _with_own_terms(agreement)
    largest = max(sized.plan.lasting(sized.training_rows), default=0)
    if sized.plan.batch_size >= largest:
        return sized
    return replace(sized, plan=sized.plan.of_size(sized.plan.epochs, largest))


def _with_own_terms(agreement: Agreement) -> Agreement:
    """Fix the terms that an agreement's plan leaves open, those that are 0: its epochs, its batch size.

    A learner that says how few steps train it has as many, and batches as large, as it says; in whole batches as few of
    them as leave the guard silent, where the learner can do with so few. All others have sixty epochs, each of at most
    64 steps of about 64 records or more: as many as leave the guard silent about every channel. Where no number of
    steps does, it is one that leaves as few channels as possible that can be solved, then as few as possible that tell
    labels. The cipher doesn't count: a session without encryption trains with the same batches. On shared weights
    nothing is answered that a size would bound: it has the most steps. So has a learner that forwards a layer, of whose
    backward signal no size hides labels.
    """
    plan = agreement.plan
    if plan.epochs and plan.batch_size:
        return agreement
    table = TableSize(agreement.training_rows, tuple(party.feature_count for party in agreement.parties))
    if few := plan.calls.few_steps(table):
        return _in_few_steps(agreement, few)
    agreement = replace(agreement, plan=plan.of_size(plan.epochs or EPOCHS, plan.batch_size))
    return agreement if plan.batch_size else _with_batch_size(agreement)


def _in_few_steps(agreement: Agreement, few: FewSteps) -> Agreement:
    """Take the batches that a learner says, or more where one would be too large a message, and its epochs."""
    plan, rows = agreement.plan, agreement.training_rows
    if not plan.training.sizes_tell:
        # Shared columns aren't centred, and are learned more slowly; each step is on all training records.
        few = replace(few, batches=1, whole=2 * few.whole)
    batches = -(-rows // plan.batch_size) if plan.batch_size else few.batches
    sized = _sized(agreement, plan.epochs or few.epochs(batches), batches)
    if not plan.training.sizes_tell:
        return sized
    while not plan.batch_size and sized.plan.batch_size > limits.CHOSEN_BATCH and not _fits(sized):
        batches *= 2
        sized = _sized(agreement, plan.epochs or few.epochs(batches), batches)
    if plan.epochs or batches > 1:
        return sized
    fewest = min(few.least, few.whole)
    for epochs in range(few.whole, fewest, -1):
        shorter = _sized(agreement, epochs, batches)
        if not _exposure(shorter).settled:
            return shorter
    shortest = _sized(agreement, fewest, batches)
    return sized if _exposure(shortest).telling else shortest


def _sized(agreement: Agreement, epochs: int, batches: int) -> Agreement:
    size = agreement.plan.batch_size or max(1, -(-agreement.training_rows // batches))
    return replace(agreement, plan=agreement.plan.of_size(epochs, size))


def _fits(agreement: Agreement) -> bool:
    """Tell whether messages of a step may be as large; parties say why not when they make their ciphers."""
    if agreement.plan.batch_size > limits.BATCH_SIZE:
        return False
    try:
        check_vector_sizes(agreement)
    except FederationError:
        return False
    return True


def _with_batch_size(agreement: Agreement) -> Agreement:
    if not agreement.plan.training.sizes_tell:
        return next(_by_size(agreement))
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
    for steps in range(min(_MOST_STEPS, max(1, -(-rows // limits.CHOSEN_BATCH))), 0, -1):
        yield _sized(agreement, agreement.plan.epochs, steps)


def _exposure(agreement: Agreement) -> Exposure:
    try:
        return exposure(agreement, CipherFormats(agreement).layout)
    except PackingImpossible:  # no batch size makes room: the parties say so when they make their ciphers
        return Exposure(0, 0, 0, 0)
