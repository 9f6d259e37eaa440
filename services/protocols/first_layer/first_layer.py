"""A network whose first layer stays on shares: the label party reads sums of its units, and nobody a gradient."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from services.common.agreement import Agreement, TrainingPlan
from services.common.costs import Cost, Operations
from services.common.exposure import Exposure, Guarded, GuardedParty, ToldEquations
from services.party.side import SideSetting
from services.protocols.first_layer.layer_messages import LayerSizes
from services.protocols.first_layer.layer_steps import LayerSteps
from services.protocols.first_layer.layer_terms import LayerTerms
from services.protocols.forwarded_layer import forwarded_equations, forwarded_sums, signal, told_of_forwarding
from services.protocols.forwarding_guard import guard_forwarding
from services.protocols.planned_batches import planned_batches
from services.protocols.shared.kept_shares import KeptShares
from services.protocols.shared.opening import guard_opening, validates_on_shares
from services.protocols.shared.serving_on_shares import WeightsOnShares
from vfl.arrays import IntArray
from vfl.crypto.kernels.counts import product_cost
from vfl.data.faults import counted
from vfl.learning import RowSplit


@dataclass(frozen=True)
class FirstLayer(KeptShares):
    """Training of a learner that forwards, on shares of its first layer."""

    def deviation(self, agreement: Agreement, parties: Mapping[str, str]) -> str:
        """Say what a label party reads by shares that it chooses."""
        return (
            "A label party that chooses its shares of the first layer reads "
            f"{counted(agreement.outputs, 'column')} of each record in an epoch, which nothing prevents"
        )

    def told_equations(self, plan: TrainingPlan, classes: int) -> ToldEquations:
        """Count a sum for each unit, of every epoch and of the model."""
        return forwarded_equations(plan, classes)

    def told_rows(self, agreement: Agreement, rows: RowSplit) -> IntArray:
        """List those that are trained on, and those by which epochs are validated."""
        row_parts = [rows.train, *([rows.validation] if validates_on_shares(agreement) else [])]
        return np.concatenate(row_parts)

    def batches(self, agreement: Agreement) -> Iterator[IntArray]:
        """List the plan's batches."""
        return planned_batches(agreement)

    def served(self, agreement: Agreement) -> WeightsOnShares:
        """Let weights stay shared: those of a first layer would tell of the labels."""
        return WeightsOnShares(agreement)

    def side(self, setting: SideSetting, first_step: int = 0) -> LayerSteps:
        """Make a party's side."""
        self.check_defences(setting)
        agreement, features = setting.agreement, setting.gridded.values
        return LayerSteps(agreement, setting.name, features, setting.own, setting.means, first_step)

    def guard(self, agreement: Agreement, party: GuardedParty) -> Guarded:
        """Weigh what is forwarded, and what validations tell."""
        return Guarded(
            (
                *guard_forwarding(agreement, party.name, party.mode, tells_labels=False),
                *guard_opening(agreement, party.name, party.labels, party.mode, party.opened),
            ),
            told_of_forwarding(agreement, party.name),
        )

    def cost(self, agreement: Agreement) -> Cost:
        """Count a step's operations: what the label party pads and others answer, which await each other.

        Raises:
            InvalidMessage: where a step's messages are too large.
            PackingImpossible: where numbers don't fit a key.
        """
        terms, rows = LayerTerms(agreement), agreement.plan.batch_size
        LayerSizes(terms).check()
        forward, backward = terms.forward, terms.backward
        pads, of_step = backward.pads(rows), {}
        for name in terms.passive:
            columns = terms.columns(name)
            pads += forward.pads(columns)
            products = product_cost(columns, rows * forward.digits, rows * forward.digits) * len(forward.groups)
            products += product_cost(rows, columns * backward.digits, columns * backward.digits) * len(backward.groups)
            of_step[name] = Operations(0, products, forward.answers(rows) + backward.answers(columns))
        active = agreement.active.name
        return Cost({active: Operations(pads), **of_step}, awaited=active)

    def exposures(self, agreement: Agreement) -> tuple[Exposure, ...]:
        """Count sums of the first layer; what comes back stays shared."""
        never = "Never: what comes back stays shared."
        passive = agreement.parties[1:]
        return (
            forwarded_sums(agreement),
            *(signal(agreement, party.name, "uniform numbers", 0, never) for party in passive),
        )
