"""The public batches of rows of a plan, for protocols whose steps are of single rows."""

from collections.abc import Iterator

from services.common.agreement import Agreement
from vfl.arrays import IntArray


def planned_batches(agreement: Agreement) -> Iterator[IntArray]:
    """List the rows of the common order of every planned step."""
    plan = agreement.plan
    schedule = plan.schedule(plan.split(agreement.active.aligned_rows).train)
    return (batch for epoch in range(plan.epochs) for batch in schedule.epoch(epoch))
