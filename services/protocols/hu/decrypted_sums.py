"""What both of Hu's protocols have in common: who decrypts sends back, and each party knows its weights."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from services.ciphers.formats import CipherFormats
from services.common.agreement import Agreement, TrainingPlan
from services.common.costs import Cost, Operations
from services.common.protocols import TrainingProtocol
from services.party.resumption import Resumption
from services.party.side import SideSetting
from services.protocols.hu.gradient_side import GradientSide
from services.protocols.known_weights import KnownWeights
from services.protocols.planned_batches import planned_batches
from vfl.arrays import IntArray
from vfl.crypto.kernels.counts import product_cost
from vfl.crypto.messages import MessageFormats
from vfl.crypto.widths import ColumnFormats


@dataclass(frozen=True)
class DecryptedSums(TrainingProtocol[TrainingPlan, Agreement]):
    """Training by sums that key holders decrypt, and send back under a mask (Hu, Protocol 1)."""

    name: ClassVar[str] = "hu"
    summary: ClassVar[str] = "Protocol 1 of Hu: who decrypts sends masked sums back."
    remedy: ClassVar[str] = "Train on shared weights, so that nothing decrypted is sent back (--protocol shared)."
    sends_sums: ClassVar[bool] = True
    sizes_tell: ClassVar[bool] = True

    def check(self, plan: TrainingPlan) -> None:
        """Refuse nothing: any learner's step can be answered."""

    def warnings(self, agreement: Agreement) -> list[str]:
        """Warn of answers that leave room, and of epochs that are judged by defended scores."""
        plan, warnings = agreement.plan, list[str]()
        if plan.is_encrypted and plan.family.spec.trains:
            warnings += [
                f"INSECURE: truncate_answers=false at {party.name}, answers leave room for sums that nobody agreed to "
                "(Hu, Algorithm 2)."
                for party in agreement.parties
                if not party.truncates_answers
            ]
        if plan.patience and agreement.score_defences:
            warnings.append(
                f"Early stopping judges epochs by scores as {', '.join(agreement.score_defences)} leaves them and may "
                "keep another one than the best. To keep the last one, set patience to 0."
            )
        return warnings

    def conduct_refusal(self, attack: str, conduct: str) -> str:
        """Refuse what replaces messages of shared weights."""
        return {
            "replaces_features": f"{attack} reads what protocol=shared opens: protocol=hu opens nothing.",
            "replaces_requests": f"{attack} replaces a learner's own requests: under protocol=hu none has any.",
            "replaces_shares": f"{attack} adds to shares of weights: only backward=shared has them.",
        }.get(conduct, "")

    def resumes(self, agreement: Agreement) -> bool:
        """Go on after an interruption where the learner can."""
        return agreement.plan.family.spec.resumes

    def batches(self, agreement: Agreement) -> Iterator[IntArray]:
        """List the plan's batches."""
        return planned_batches(agreement)

    def cost(self, agreement: Agreement) -> Cost:
        """Count a step's operations, under Paillier whatever the session's cipher is."""
        encrypted = replace(agreement, plan=agreement.plan.encrypted())
        formats, rows, senders = CipherFormats(encrypted), agreement.plan.batch_size, agreement.senders
        encryptions = formats.residual_ciphertexts(rows)
        of_step = {}
        for party in agreement.parties:
            peer_count = len(senders - {party.name})
            of_step[party.name] = Operations(
                encryptions if party.name in senders else 0,
                peer_count * products_of(formats.messages_of(party.name), rows, formats.columns_of(party.name)),
                peer_count * formats.sum_ciphertexts(party.name),
            )
        return Cost(of_step)

    def served(self, agreement: Agreement) -> KnownWeights:
        """Let each party answer by its own weights."""
        return KnownWeights()

    def side(self, setting: SideSetting, first_step: int = 0) -> GradientSide:
        """Make a party's side."""
        return GradientSide(setting)

    def resumed(self, setting: SideSetting, side: GradientSide, resumption: Resumption) -> GradientSide:
        """Make the side that goes on: with the same half, and the answers that it was given."""
        return side.resumed(setting, resumption)


def products_of(formats: MessageFormats, rows: int, columns: ColumnFormats) -> int:
    """Count the modular products of encrypted residuals of so many rows and columns of these formats."""
    layout = formats.layout
    if layout is None:
        return formats.columns * product_cost(rows, columns.digits, columns.digits)
    horner_bits = sum(bits * count for bits, count in layout.fillings(columns))
    return product_cost(layout.ciphertexts_for(rows), columns.digits * layout.rows_per_ciphertext, horner_bits)
