"""What both protocols on shared weights have in common: nothing decrypted is sent, and who decrypts keeps a share."""

from dataclasses import dataclass
from typing import Any, ClassVar

from defences.base import Stage
from services.common.agreement import Agreement, TrainingPlan
from services.common.errors import InvalidMessage
from services.common.opening_options import SHARED, OpeningOptions
from services.common.protocols import TrainingProtocol
from services.party.resumption import Resumption
from services.party.side import Side, SideSetting
from services.protocols.shared.opening import validates_on_shares

# Of a share of a weight, an integer of some 100 bits, and its place.
_SHARE_BYTES = 64


@dataclass(frozen=True)
class KeptShares(OpeningOptions, TrainingProtocol[TrainingPlan, Agreement]):
    """Training on weights of which each party has shares."""

    name: ClassVar[str] = "shared"
    unprotected: ClassVar[frozenset[Stage]] = frozenset({"residuals", "labelled_residuals", "answers", "updates"})
    one_grid: ClassVar[bool] = True
    summary: ClassVar[str] = "Weights are shared while they are trained: who decrypts keeps what it reads."
    only_encrypted: ClassVar[str] = "protocol=shared has no messages in the clear."
    unsimulated: ClassVar[str] = "it trains on shared weights, and their batches aren't drawn here"
    opens: ClassVar[bool] = True

    def check(self, plan: TrainingPlan) -> None:
        """Refuse what training on shared weights can't do, or what it would do without a word."""
        if not plan.is_encrypted:
            raise InvalidMessage(f"{self.only_encrypted[:-1]}: set cipher=paillier, or protocol=hu.")
        if not plan.rerandomise:
            raise InvalidMessage("protocol=shared rerandomises every answer: set rerandomise=on, or protocol=hu.")

    def refusal(self, plan: TrainingPlan, settings: Any) -> str:
        """Refuse where the party's owner has weights stay shared, and the plan has not; and a kernel without shares."""
        if settings.serving == SHARED != self.serving:
            return (
                f"The session is serving={self.serving}, this party runs serving={SHARED}: set "
                f"PLUMBLINE_SERVING={SHARED} at the active party."
            )
        if settings.kernel == "phe":
            return "PLUMBLINE_KERNEL=phe computes no protocol=shared: choose another kernel here."
        return ""

    def conduct_refusal(self, attack: str, conduct: str) -> str:
        """Refuse what replaces messages of Protocol 1."""
        if conduct == "replaces_messages":
            return f"{attack} replaces messages of protocol=hu, and protocol=shared has none of them."
        return ""

    def cipher_of_trials(self, plan: TrainingPlan) -> str:
        """Take the session's: there are no messages in the clear."""
        return plan.cipher

    def validated_epochs(self, agreement: Agreement, allowed: int) -> int:
        """Validate the last one alone, by scores, unless epochs are validated on shares."""
        return allowed if validates_on_shares(agreement) else 1

    def no_slope(self, agreement: Agreement) -> str:
        """Say what is in a slope's way."""
        if not self.served(agreement).tells_owners:
            return "Weights stay shared, so no party could scale its own: no slope is fitted."
        if validates_on_shares(agreement):
            return "Epochs are validated on shares, and no score is told before weights are opened: set patience to 0."
        return ""

    def resumes(self, agreement: Agreement) -> bool:
        """Go on where the learner can, and no word of a loss would be told twice."""
        return agreement.plan.family.spec.resumes and not validates_on_shares(agreement)

    def kept_bytes(self, agreement: Agreement, features: int) -> int:
        """Count shares of all parties' weights."""
        return agreement.total_features * _SHARE_BYTES

    def resumed(self, setting: SideSetting, side: Side, resumption: Resumption) -> Side:
        """Begin another side there, under another key."""
        resumed: Side = self.side(setting, resumption.step)
        return resumed

    def check_defences(self, setting: SideSetting) -> None:
        """Refuse a party's defences of what isn't sent."""
        defences = setting.means.defences
        if defences.changes_residuals:
            names = ", ".join(defences.names)
            raise InvalidMessage(f"{setting.name}: protocol=shared sends no residuals for {names} to protect.")
        if defences.changes_hidden:
            raise InvalidMessage(
                f"{setting.name}: under protocol=shared no party knows what it forwards of a network, so that "
                f"{', '.join(defences.names)} can't protect it: drop it, or train with backward=paillier."
            )
