"""The public numbers of a first layer on shared weights: who holds what, batches, and lengths.

The weights of passive party P are W = U + V: P has U, the label party V. Its own weights the label party has whole.
"""

from dataclasses import dataclass
from functools import cached_property

from services.protocols.shared.opening import validates_on_shares
from services.protocols.shared.shared_terms import SharedTerms
from vfl.arrays import IntArray
from vfl.crypto.sharing.padded_products import PaddedFormats
from vfl.learning import BatchSchedule

# A carry of a forward product, of which the label party sees both residues, tells with probability 2**-40.
_SPARE_BITS = 40


@dataclass(frozen=True)
class LayerTerms(SharedTerms):
    """Derives from an agreement what every party must compute alike.

    Raises PackingImpossible, when formats are asked for, where a key is too short for the agreement's numbers.
    """

    @cached_property
    def passive(self) -> tuple[str, ...]:
        """The passive parties, in the agreement's order."""
        return tuple(party.name for party in self.agreement.parties[1:])

    @cached_property
    def forward(self) -> PaddedFormats:
        """Of X V: z as it is multiplied out, and its sign."""
        formats, bits = self.formats, self._feature_bits
        return PaddedFormats(
            key_bits=formats.key_bits,
            summands=max(self.columns(name) for name in self.passive),
            outputs=formats.outputs,
            ring=formats.product_fraction_bits + formats.integer_bits + 1,
            feature_bits=bits,
            features_signed=formats.features_signed,
            spare_bits=_SPARE_BITS,
        )

    @cached_property
    def backward(self) -> PaddedFormats:
        """Of X^T times the backward signal: a ring in which it can be lifted."""
        formats = self.formats
        return PaddedFormats(
            key_bits=formats.key_bits,
            summands=formats.rows,
            outputs=formats.outputs,
            ring=formats.gradient_ring,
            feature_bits=self._feature_bits,
            features_signed=formats.features_signed,
        )

    @cached_property
    def batches(self) -> BatchSchedule:
        """The public batches of training rows."""
        return self.agreement.plan.schedule(self._rows.train)

    @property
    def steps(self) -> int:
        """Of the whole training."""
        return self.batches.steps_per_epoch * self.agreement.plan.epochs

    @property
    def validated_rows(self) -> IntArray:
        """Row indices of the records that epochs are validated with."""
        return self._rows.validation

    def validation_after(self, steps: int) -> int:
        """Count up to the validation after so many steps, which stands for a step's: behind those and the end's."""
        return self.steps + steps // self.batches.steps_per_epoch

    def taken_before(self, step: int) -> int:
        """Count the steps that are taken before a step, or before a validation of this number."""
        return step if step <= self.steps else (step - self.steps) * self.batches.steps_per_epoch

    def is_validation(self, step: int) -> bool:
        """Tell whether epochs are validated under this number."""
        epoch, validates = step - self.steps - 1, validates_on_shares(self.agreement)
        return validates and 0 <= epoch < self.agreement.plan.epochs and self.agreement.validates(epoch)

    def rows_of(self, step: int) -> int:
        """Count the records of a step, or of a validation."""
        return len(self.validated_rows) if step > self.steps else self.batches.rows_of_step(step)

    @property
    def _feature_bits(self) -> int:
        return self.formats.feature_fraction_bits + self.formats.feature_integer_bits
