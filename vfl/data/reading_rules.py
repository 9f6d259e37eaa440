"""What an owner says of how its table is read, where the table itself doesn't say it or says it wrongly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

# What becomes of rows without a label.
Unlabelled = Literal["refuse", "predict"]
UNLABELLED: tuple[Unlabelled, ...] = get_args(Unlabelled)


@dataclass(frozen=True)
class ReadingRules:
    """How a party's table is read.

    Attributes:
        ignore_in_ids: differences that don't make two ids, of `vfl.data.cell_forms.ID_FORMS`. All parties must say the
            same.
        ignore_in_labels: differences that don't make two classes, of `vfl.data.cell_forms.LABEL_FORMS`.
        unlabelled: ``predict`` where rows may have no label: they are predicted, and neither trained on nor judged.
    """

    ignore_in_ids: tuple[str, ...] = ()
    ignore_in_labels: tuple[str, ...] = ()
    unlabelled: Unlabelled = "refuse"
