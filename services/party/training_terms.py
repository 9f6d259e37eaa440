"""What a party's defences are told of a session: public numbers, and the longest of its own rows."""

import math

import numpy as np

from defences import TrainingTerms
from services.common.agreement import Agreement
from vfl.arrays import FloatArray


def training_terms(agreement: Agreement, name: str, features: FloatArray, records: int) -> TrainingTerms:
    """Gather a party's terms.

    Args:
        agreement: the session's public terms.
        name: the party's.
        features: (aligned rows, d) of its own.
        records: how many are trained on.
    """
    plan = agreement.plan
    return TrainingTerms(
        role="active" if name == agreement.active.name else "passive",
        epochs=plan.epochs,
        steps=plan.schedule(np.arange(records)).steps_per_epoch * plan.epochs,
        rows=plan.smallest_batch(records),
        learning_rate=(plan.leakage.is_gradient_step and plan.leakage.step_size) or math.nan,
        residual_limit=plan.encryption.residual_limit,
        columns=agreement.residual_columns,
        row_norm=float(np.linalg.norm(features, axis=1).max()),
        records=records,
        features=features.shape[1],
        all_features=agreement.total_features,
        parties=len(agreement.parties),
        classes=agreement.classes,
        hidden=plan.training.told_equations(plan, agreement.classes).of_epoch,
        # In the clear as in the encrypted session that it stands for.
        residual_step=plan.encryption.residual_step or 2.0**-plan.residual_fraction_bits,
    )
