"""What every peer could learn from the answers of one step, counted before the first one is given."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from services.common.agreement import Agreement
from services.common.errors import OutOfOrder
from services.party.formats import CipherFormats
from vfl.crypto import AnswerCapacity, PackingImpossible
from vfl.learning import smallest_batch

Mode = Literal["warn", "refuse", "off"]


@dataclass(frozen=True)
class Channel:
    """The decryption channel towards one peer. rows: of the smallest batch, as many unknowns as a column has.

    remedies: what the owner of the key can do about it, in words; none where nothing is needed, or nothing helps.
    """

    key_holder: str
    peer: str
    rows: int
    capacity: AnswerCapacity
    remedies: tuple[str, ...] = ()

    @property
    def is_solvable(self) -> bool:
        """Whether the answers of one step have room for as many equations as there are unknowns (Hu 3.2, 5.2)."""
        return self.rows <= self.capacity.equations

    @property
    def warning(self) -> str:
        """What is possible, and what would prevent it."""
        return (
            f"{self.peer} can put {self.capacity.equations} equations into the answers of one step, a batch has "
            f"{self.rows} rows: it can solve for the residuals of {self.key_holder} (Hu, section 5.2). "
            + (
                f"To prevent it, {', or '.join(self.remedies)}."
                if self.remedies
                else "It takes more records to prevent."
            )
        )

    def facts(self) -> dict[str, Any]:
        """For the run's record."""
        return {
            "key_holder": self.key_holder,
            "peer": self.peer,
            "rows": self.rows,
            "answers": len(self.capacity.answer_bits),
            "answer_bits": sum(self.capacity.answer_bits),
            "sums": self.capacity.sums,
            "sum_bits": self.capacity.sum_bits,
            "residual_bits": self.capacity.residual_bits,
            "equations": self.capacity.equations,
            "spare_bits": self.capacity.spare_bits,
            "spare_equations": self.capacity.spare_equations,
        }


def channels_of(agreement: Agreement, key_holder: str, training_rows: int) -> tuple[Channel, ...]:
    """One channel per peer of the key holder; none where nothing is encrypted or nothing is trained."""
    if agreement.plan.cipher != "paillier" or agreement.plan.installed_model:
        return ()
    return tuple(_channel(agreement, key_holder, peer.name, training_rows) for peer in agreement.peers_of(key_holder))


def guard(agreement: Agreement, channels: Sequence[Channel], mode: Mode) -> list[str]:
    """Warnings about channels with room for too much; raises OutOfOrder instead where the mode is refuse."""
    if mode == "off":
        return []
    warnings = [channel.warning for channel in channels if channel.is_solvable]
    if any(channel.key_holder == agreement.active.name for channel in channels):
        warnings += _first_step_warnings(agreement)
    if warnings and mode == "refuse":
        raise OutOfOrder(f"{warnings[0]} (PLUMBLINE_GUARD=refuse)")
    return warnings


def _first_step_warnings(agreement: Agreement) -> list[str]:
    """From zero weights the label party's first shares are its labels: signs need fewer equations than numbers do."""
    if agreement.plan.initialisation != "zero":
        return []
    return [
        f"initialisation=zero: the first residuals of {agreement.active.name} are its labels alone, and signs follow "
        "from fewer equations than there are rows (Hu, Theorem 4.1). To prevent it, choose initialisation=xavier."
    ]


def _channel(agreement: Agreement, key_holder: str, peer: str, training_rows: int) -> Channel:
    rows = smallest_batch(training_rows, agreement.plan.batch_size)
    found = Channel(key_holder, peer, rows, CipherFormats(agreement).capacity(key_holder, peer))
    if not found.is_solvable:
        return found
    remedies = []
    if larger := _sufficient_batch(agreement, key_holder, peer, training_rows, found.capacity.equations):
        remedies.append(f"choose a batch_size of {larger}")
    if not agreement.party(key_holder).truncates_answers:
        equations = _equations(_truncating(agreement, key_holder), key_holder, peer)
        if equations is not None and equations < rows:
            remedies.append(f"response_truncation at {key_holder} ({equations} equations)")
    return replace(found, remedies=tuple(remedies))


def _sufficient_batch(
    agreement: Agreement, key_holder: str, peer: str, training_rows: int, equations: int
) -> int | None:
    """A batch size whose smallest batch has more rows than its answers have room for; None when there is none.

    The largest number of steps at which rows may suffice is tried first; a larger batch may change widths and layout.
    """
    for steps in range(training_rows // (equations + 1), 0, -1):
        batch_size = -(-training_rows // steps)
        larger = replace(agreement, plan=replace(agreement.plan, batch_size=batch_size))
        needed = _equations(larger, key_holder, peer)
        if needed is not None and smallest_batch(training_rows, batch_size) > needed:
            return batch_size
    return None


def _equations(agreement: Agreement, key_holder: str, peer: str) -> int | None:
    """Under other terms than the session's; None where these don't fit its keys."""
    try:
        return CipherFormats(agreement).capacity(key_holder, peer).equations
    except PackingImpossible:
        return None


def _truncating(agreement: Agreement, name: str) -> Agreement:
    parties = tuple(
        replace(party, truncates_answers=party.truncates_answers or party.name == name) for party in agreement.parties
    )
    return replace(agreement, parties=parties)
