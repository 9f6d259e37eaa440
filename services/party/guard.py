"""What every peer could learn from the answers of one step, counted before the first one is given."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from services.common.agreement import Agreement
from services.common.errors import OutOfOrder
from services.party.formats import CipherFormats
from vfl.crypto import AnswerCapacity, answer_capacity

Mode = Literal["warn", "refuse", "off"]


@dataclass(frozen=True)
class Channel:
    """The decryption channel towards one peer. rows: of the smallest batch, as many unknowns as a column has.

    if_truncated: the most equations where the key holder answers modulo 2^w.
    """

    key_holder: str
    peer: str
    rows: int
    capacity: AnswerCapacity
    if_truncated: int

    @property
    def is_solvable(self) -> bool:
        """Whether the answers of one step have room for as many equations as there are unknowns (Hu 3.2, 5.2)."""
        return self.rows <= self.capacity.equations

    @property
    def warning(self) -> str:
        """What is possible, and what would prevent it."""
        equations = self.capacity.equations
        remedy = f"choose a batch_size above {equations}"
        if self.if_truncated < self.rows:
            remedy += f", or response_truncation at {self.key_holder} ({self.if_truncated} equations)"
        return (
            f"{self.peer} can put {equations} equations into the answers of one step, a batch has {self.rows} rows: "
            f"it can solve for the residuals of {self.key_holder} (Hu, section 5.2). To prevent it, {remedy}."
        )

    def facts(self) -> dict[str, Any]:
        """For the run's record."""
        capacity = self.capacity
        return {
            "key_holder": self.key_holder,
            "peer": self.peer,
            "rows": self.rows,
            **asdict(capacity),
            "equations": capacity.equations,
            "spare_bits": capacity.spare_bits,
            "spare_equations": capacity.spare_equations,
        }


def channels_of(agreement: Agreement, key_holder: str, smallest_batch: int) -> tuple[Channel, ...]:
    """One channel per peer of the key holder; none where nothing is encrypted or nothing is trained."""
    if agreement.plan.cipher != "paillier" or agreement.plan.installed_model:
        return ()
    return tuple(
        Channel(
            key_holder,
            peer.name,
            smallest_batch,
            _capacity(agreement, peer.feature_count, truncated=agreement.party(key_holder).truncates_answers),
            _capacity(agreement, peer.feature_count, truncated=True).equations,
        )
        for peer in agreement.peers_of(key_holder)
    )


def guard(channels: Sequence[Channel], mode: Mode) -> list[str]:
    """Warnings about channels with room for too much; raises OutOfOrder instead where the mode is refuse."""
    warnings = [channel.warning for channel in channels if channel.is_solvable and mode != "off"]
    if warnings and mode == "refuse":
        raise OutOfOrder(f"{warnings[0]} (PLUMBLINE_GUARD=refuse)")
    return warnings


def _capacity(agreement: Agreement, features: int, *, truncated: bool) -> AnswerCapacity:
    formats = CipherFormats(agreement)
    return answer_capacity(
        rows=agreement.plan.batch_size,
        features=features,
        columns=agreement.residual_columns,
        layout=formats.layout,
        residual_format=formats.residual,
        feature_format=formats.feature,
        key_bits=agreement.plan.key_bits,
        truncated=truncated,
    )
