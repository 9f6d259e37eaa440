"""Scores that look clipped or binned are asked about, and every kind says how it is read."""

import numpy as np
import pytest

from plumbline.received.assumptions import ASSUMED, doubts
from plumbline.received.kinds import KINDS, Kind, ReceivedColumn
from vfl.arrays import FloatArray
from vfl.data import Table, typed_table_of

ROWS = 400
RAW = np.random.default_rng(2).random(ROWS)


def asked(values: FloatArray, kind: Kind = "probability") -> list[str]:
    table = typed_table_of(Table(tuple(map(str, range(ROWS))), values[:, None], ("score",)))
    return list(doubts(table, [ReceivedColumn("score", kind, "told")]))


def test_every_kind_says_how_it_is_read() -> None:
    assert set(ASSUMED) == set(KINDS)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (np.minimum(RAW, 0.9), "of 'score' have its largest value: was it clipped?"),
        (np.maximum(RAW, 0.05), "of 'score' have its smallest value"),
        (np.round(RAW, 1), "'score' has 11 values in 400 rows: was it binned?"),
    ],
)
def test_a_score_that_was_changed_is_asked_about(values: FloatArray, words: str) -> None:
    (sentence,) = asked(values)
    assert words in sentence


def test_a_raw_score_isnt_nor_are_groups_or_constants() -> None:
    assert asked(RAW) == asked(np.round(RAW, 1), "category") == asked(np.ones(ROWS)) == []
