"""The public numbers of training on shared weights: who holds which shares, blocks, and lengths.

The weights of party K's features are W_K = U_K + V_K. K has U_K, and one other party, the *holder*, has V_K: the label
party for every passive party, and for the label party the first passive one. So every pair of the label party and a
passive party has shares of the z that is theirs. Of a learner that forwards, the label party has its own weights whole.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from services.common.agreement import RESHUFFLED, Agreement
from services.common.errors import InvalidMessage
from services.common.learner_calls import LearnerCalls
from services.common.opening_options import opening_options
from services.party.turned_columns import Turn
from services.protocols.shared.opening import validates_on_shares
from vfl.arrays import FloatArray, IntArray
from vfl.crypto.sharing.frozen_weights import ScoreFormats
from vfl.crypto.sharing.share_formats import ShareFormats
from vfl.crypto.sharing.shared_squares import SquareFormats
from vfl.crypto.sharing.shares import Shares
from vfl.learning import BlockSchedule, OwnData, RowSplit


@dataclass(frozen=True)
class SharedTerms:
    """Derives from an agreement what every party must compute alike.

    Raises PackingImpossible, when formats are asked for, where a key is too short for the agreement's numbers.
    """

    agreement: Agreement

    @cached_property
    def formats(self) -> ShareFormats:
        """The lengths of shares, slots and exponents."""
        agreement, plan, parties = self.agreement, self.agreement.plan, self.agreement.parties
        pairs, outputs = len(parties) - 1, agreement.residual_columns
        return ShareFormats(
            key_bits=plan.key_bits,
            rows=plan.batch_size,
            columns=max(party.feature_count for party in parties),
            outputs=outputs,
            pairs=pairs,
            # A z for every pair, and at most as many steps as records.
            lifts=plan.epochs * agreement.training_rows * outputs * (pairs + agreement.total_features)
            + plan.epochs * self._validation_rows * outputs,
            feature_fraction_bits=plan.feature_fraction_bits,
            feature_integer_bits=self.cell_bits,
            features_signed=self.turned_norm is not None or any(party.features_signed for party in parties),
            fraction_bits=plan.residual_fraction_bits,
            integer_bits=plan.residual_integer_bits,
        )

    @cached_property
    def turned_norm(self) -> float | None:
        """Bound the norm of a trained record in columns that the learner turns; None where features are as they are."""
        agreement = self.agreement
        return agreement.plan.calls.turned_norm(agreement.classes, agreement.training_rows)

    @property
    def cell_bits(self) -> int:
        """Bits before the point of what is encrypted of a record. Turned columns tell nobody their range."""
        if self.turned_norm is not None:
            return max(0, math.ceil(math.log2(self.turned_norm)))
        return max(party.feature_integer_bits for party in self.agreement.parties)

    def check(self) -> None:
        """Raise InvalidMessage for batches on which turned columns can't be trained."""
        batch, rows = self.agreement.plan.batch_size, self.agreement.training_rows
        if self.turned_norm is not None and batch < rows:
            raise InvalidMessage(
                f"These options of the learner {self.agreement.plan.learner} train shared weights on all records at "
                f"once, and batches have {batch} of {rows}: set batch_size to 0 or {rows}, or protocol=hu."
            )

    @cached_property
    def scores(self) -> ScoreFormats:
        """The lengths of scores on shares: of weights as they would be opened."""
        agreement, plan = self.agreement, self.agreement.plan
        return ScoreFormats(
            key_bits=plan.key_bits,
            columns=self.formats.columns,
            parties=len(agreement.parties),
            weight_fraction_bits=opening_options(self.agreement.plan.protocol_options).fraction_bits,
            feature_fraction_bits=self.formats.feature_fraction_bits,
            feature_integer_bits=self.formats.feature_integer_bits,
            features_signed=self.formats.features_signed,
        )

    @cached_property
    def squares(self) -> SquareFormats:
        """The lengths of a validation: of the mean square of residuals."""
        agreement, formats = self.agreement, self.formats
        # At least eight times the square of the classes, which residuals of a model that says nothing stay within.
        mean_bits = 3 + (agreement.classes**2 - 1).bit_length()
        return SquareFormats(
            agreement.plan.key_bits, self._validation_rows, formats.outputs, formats.fraction_bits, mean_bits
        )

    @property
    def _validation_rows(self) -> int:
        return self.agreement.row_counts.validation if validates_on_shares(self.agreement) else 0

    @cached_property
    def schedule(self) -> BlockSchedule:
        """The public blocks of training rows, and their batches."""
        plan, rows = self.agreement.plan, self._rows.train
        anew, size = plan.batches == RESHUFFLED, self.formats.forward.count
        return BlockSchedule(rows, size, plan.batch_size, plan.seed, anew, plan.lasting(len(rows)))

    @cached_property
    def blocks(self) -> list[IntArray]:
        """Row indices of each block: of training rows, and after them of validation rows where z of them is shared."""
        rows, size = self._rows.validation, self.formats.forward.count
        validated = np.array_split(rows, -(-len(rows) // size)) if self._validation_rows else []
        return [*self.schedule.blocks, *validated]

    @property
    def validation(self) -> IntArray:
        """The numbers of blocks of validation rows."""
        return np.arange(len(self.schedule.blocks), len(self.blocks))

    def validated_epoch(self, step: int) -> int | None:
        """Find the epoch that is validated when so many steps are taken; None for none."""
        epoch, further = divmod(step, self.schedule.steps_per_epoch)
        is_one = validates_on_shares(self.agreement) and not further and 1 <= epoch <= self.agreement.plan.epochs
        return epoch - 1 if is_one and self.agreement.validates(epoch - 1) else None

    @cached_property
    def _rows(self) -> RowSplit:
        return self.agreement.plan.split(self.agreement.active.aligned_rows)

    def holder(self, name: str) -> str:
        """Say who holds V of a party's features."""
        active, helper = self.agreement.parties[:2]
        is_helped = name == active.name and not self.agreement.plan.family.spec.forwards
        return helper.name if is_helped else active.name

    def held_by(self, name: str) -> list[str]:
        """Tell of whose features a party holds V, in the agreement's order; its own are its own."""
        return [party.name for party in self.agreement.peers_of(name) if self.holder(party.name) == name]

    def columns(self, name: str) -> int:
        """Count the features that a party has."""
        return self.agreement.party(name).feature_count

    def groups(self, name: str) -> int:
        """Count the groups of columns that a party's backward answers have."""
        return -(-self.columns(name) // self.formats.backward.count)

    def handed_owners(self, sender: str, receiver: str) -> list[str]:
        """Tell of whose gradients a party hands its residues on to another, which holds V of those owners' features."""
        return [owner for owner in self.held_by(receiver) if sender not in (owner, receiver)]

    def turn(self, matrix: FloatArray | None) -> Turn:
        """Turn a party's columns by its matrix of a session."""
        return Turn(matrix, 2.0**self.cell_bits, self.agreement.plan.feature_fraction_bits)

    def made_turn(self, own_data: OwnData, calls: LearnerCalls) -> Turn:
        """Have the learner make a turn of a party's own columns; raises LearnerFailed where it can't."""
        return self.turn(calls.turn(own_data) if self.turned_norm is not None else None)

    def of_half_a_ring(self, share: Shares) -> FloatArray:
        """Read a share of sums as a part of half the ring, from -1 to 1."""
        half_ring = 1 << self.formats.gradient_ring - 1
        centred = (share.integers + half_ring) % (2 * half_ring) - half_ring
        part: FloatArray = (centred / half_ring).astype(np.float64)
        return part

    def places(self, name: str) -> dict[str, slice]:
        """Find, by owner of the features, the rows of all weights that a party has shares of, stacked.

        Its own come first, but at the label party, whose bias is the last row of all; at the holder of its share too.
        """
        owners = self.held_by(name)
        order = [*owners, name] if name == self.agreement.active.name else [name, *owners]
        places, start = {}, 0
        for owner in order:
            places[owner] = slice(start, start := start + self.columns(owner))
        return places
