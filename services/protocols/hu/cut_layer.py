"""Split learning: a first layer's products are forwarded in the clear, and its gradients are sums that keys decrypt."""

from dataclasses import dataclass
from typing import ClassVar

from services.common.agreement import Agreement, TrainingPlan
from services.common.exposure import Exposure, Guarded, GuardedParty, ToldEquations
from services.protocols.forwarded_layer import forwarded_equations, forwarded_sums, signal, told_of_forwarding
from services.protocols.forwarding_guard import guard_forwarding
from services.protocols.hu.decrypted_sums import DecryptedSums
from services.protocols.known_weights import KnownLayers
from vfl.arrays import IntArray
from vfl.learning import RowSplit


@dataclass(frozen=True)
class CutLayer(DecryptedSums):
    """Split learning by Hu's messages, in which passive parties learn gradients of their own layer."""

    sizes_tell: ClassVar[bool] = False

    def discouraged(self, plan: TrainingPlan) -> list[str]:
        """Advise against it, where the wire shows no more than it does."""
        if not plan.is_encrypted:
            return []
        remedy = plan.leakage.remedy or "a learner or a protocol that keeps gradients shared"
        return [
            f"learner={plan.learner} under protocol={plan.protocol}: passive parties read gradients of each batch, "
            f"from which labels follow within some tens of epochs, encrypted or not. Choose {remedy}."
        ]

    def cipher_of_trials(self, plan: TrainingPlan) -> str:
        """Take the session's: the way back is what labels leak by."""
        return plan.cipher

    def told_equations(self, plan: TrainingPlan, classes: int) -> ToldEquations:
        """Count a sum for each unit, of every epoch and of the model."""
        return forwarded_equations(plan, classes)

    def told_rows(self, agreement: Agreement, rows: RowSplit) -> IntArray:
        """List those that are trained on."""
        return rows.train

    def served(self, agreement: Agreement) -> KnownLayers:
        """Let each party answer by its own layer."""
        return KnownLayers()

    def guard(self, agreement: Agreement, party: GuardedParty) -> Guarded:
        """Weigh what is forwarded, and what the backward signal tells."""
        disclosures = told_of_forwarding(agreement, party.name)
        return Guarded(guard_forwarding(agreement, party.name, party.mode, tells_labels=True), disclosures)

    def exposures(self, agreement: Agreement) -> tuple[Exposure, ...]:
        """Count sums of the first layer, and what comes back."""
        plan, units = agreement.plan, agreement.outputs
        return (
            forwarded_sums(agreement),
            *(
                signal(
                    agreement,
                    party.name,
                    "sums of each training step",
                    party.feature_count * units,
                    "From the first step, by search: a record's label decides the direction of what it adds to the "
                    "sums.",
                )
                if plan.is_encrypted
                else signal(
                    agreement,
                    party.name,
                    "numbers of each record of a step, in the clear",
                    plan.batch_size * units,
                    "From the first step: a record's label decides the direction of its numbers.",
                )
                for party in agreement.parties[1:]
            ),
        )
