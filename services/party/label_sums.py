"""How many sums of labels a session's honest answers tell each peer, batch by batch.

A batch tells one sum of label terms for every column of a peer. The same batch at another step, or in another session,
has the same label terms under other weights, and tells no sum of them anew: what listens reads as much of labels from
four sessions with one batch as from one (``docs/decisions/0035``). Other batches tell other sums. They are counted to
a record: with as many sums as records, labels follow, whatever batches they are from.

A network's backward signals weigh a record's label by the slope of each unit, which moves: every number of every step
is a further sum, in the same batch as well.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from services.common.agreement import RESHUFFLED, Agreement
from services.party.share_guard import SingleShares
from vfl.arrays import IntArray

# Sums are counted in thousandths of one to a record; so many tell every label.
WHOLE = 1000


@dataclass(frozen=True, eq=False)
class BatchSums:
    """What one batch, or all batches of a session together, tell of the labels in it.

    Attributes:
        rows: (s,) of the common order, in any order.
        told: by peer, thousandths of a sum of labels to a record, and how many sums in all: of every step.
        session: where further sessions tell further sums, whose all of them are; empty for a batch that lasts.
    """

    rows: IntArray
    told: dict[str, SingleShares]
    session: str = ""


def sums_of_plan(agreement: Agreement) -> Iterator[BatchSums]:
    """List what honest answers of the label party tell under Paillier; nothing where nobody is answered with sums."""
    plan = agreement.plan
    if not plan.training.sends_sums or not plan.family.spec.trains:
        return
    rows = plan.split(agreement.active.aligned_rows).train
    schedule = plan.schedule(rows)
    columns = {peer.name: peer.feature_count for peer in agreement.peers_of(agreement.active.name)}
    steps = schedule.steps_per_epoch
    if distinct := _drawn_anew(agreement, steps):
        # Of k classes a record has k - 1 unknowns: a linear learner's columns tell one each.
        answers = steps * plan.epochs * (agreement.residual_columns if _moves(agreement) else 1)
        every = {peer: _told(own * distinct, len(rows), own * answers) for peer, own in columns.items()}
        yield BatchSums(rows, every, agreement.session_id)
        return
    for batch in schedule.epoch(0):
        yield BatchSums(batch, {peer: _told(own, len(batch), own * plan.epochs) for peer, own in columns.items()})


def tells_anew(agreement: Agreement) -> bool:
    """Tell whether a further session on the same records tells sums of labels that this one hasn't told."""
    return any(one.session for one in sums_of_plan(agreement))


def _moves(agreement: Agreement) -> bool:
    """Tell whether what is summed weighs labels otherwise in every step, as a network's backward signals do."""
    return agreement.plan.family.spec.answers == "sums"


def _drawn_anew(agreement: Agreement, steps: int) -> int:
    """Count the sums of labels for each own column that a session tells and no other does; 0 where batches last."""
    plan = agreement.plan
    if _moves(agreement):
        return math.ceil(plan.epochs * steps * agreement.residual_columns / max(1, agreement.classes - 1))
    # Those of an epoch's batches add up to the same total in every epoch.
    return 1 + plan.epochs * (steps - 1) if plan.batches == RESHUFFLED and steps > 1 else 0


def sums_of_session(agreement: Agreement) -> list[BatchSums]:
    """List the same of a session; nothing in the clear, where the guard counts nothing."""
    return list(sums_of_plan(agreement)) if agreement.plan.encryption.spec.counts_equations else []


def remedy_of(agreement: Agreement) -> str:
    """Say what keeps a session from telling further sums: ``choose backward=shared``."""
    if _moves(agreement):
        return f"choose {agreement.plan.leakage.remedy}: a network tells further sums in every step, of whatever batch"
    return (
        "train in the batches of before (the same records and batch_size, batches=fixed), which tell no further sum, "
        "or choose protocol=shared"
    )


def most_to_a_record(batches: Iterable[BatchSums]) -> int:
    """Count the thousandths of a sum to a record that all peers together are told, of the batch that most are of."""
    return max((sum(told.of_a_record for told in one.told.values()) for one in batches), default=0)


def _told(sums: int, records: int, answers: int) -> SingleShares:
    return SingleShares(min(WHOLE, math.ceil(WHOLE * sums / records)), answers)
