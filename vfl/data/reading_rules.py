"""What an owner says of how its table is read, where the table itself doesn't say it or says it wrongly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from vfl.data.selection import matches

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
        encoding: of text files, as Python calls it; empty to find out.
        sheet: of workbooks, by its name; empty for the first that isn't hidden.
        missing: cells that stand for none besides those that always do: ``-9999``, or ``age=-1`` of some columns alone.
        unlabelled: ``predict`` where rows may have no label: they are predicted, and neither trained on nor judged.
    """

    ignore_in_ids: tuple[str, ...] = ()
    ignore_in_labels: tuple[str, ...] = ()
    unlabelled: Unlabelled = "refuse"
    encoding: str = ""
    sheet: str = ""
    missing: tuple[str, ...] = ()

    def missing_of(self, columns: Sequence[str]) -> dict[str, set[str]]:
        """Say which cells of each column stand for a gap, by its name; nothing of the others.

        A name or a pattern before ``=`` says which columns are meant; without it all are.
        """
        gap_words: dict[str, set[str]] = {}
        for entry in self.missing:
            pattern, _, word = entry.rpartition("=")
            for name in matches(pattern, columns) if pattern else columns:
                gap_words.setdefault(name, set()).add(word.strip())
        return gap_words
