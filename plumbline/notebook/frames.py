"""Findings as data frames: a row per column, per attack on predictions, or per attack on training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from plumbline.judge.answer import HEADLINE, ColumnAnswer
from vfl.suggestions import did_you_mean

if TYPE_CHECKING:
    from plumbline.judge.findings import Findings
    from plumbline.judge.measures import Interval

Subject = Literal["columns", "attacks", "training"]


def frame_of(findings: Findings, of: str) -> pd.DataFrame:
    """Make the frame of one subject; raises ValueError for another than ``Subject``."""
    if of not in _FRAMES:
        raise ValueError(f"There is no table of {of!r}: choose {', '.join(_FRAMES)}.{did_you_mean(of, _FRAMES)}")
    names, rows = _FRAMES[of]
    return pd.DataFrame(rows(findings), columns=pd.Index(names))


_COLUMN = ("party", "column", "kind", "light", "part", "low", "high", "attack", "finding")
_ATTACK = ("attack", "knows", "status", "mse", "low", "high", "records", "seconds", "reason")
_TRAINING = ("attack", "party", "of", "right", "answered", "seconds", "reason")


def _columns(findings: Findings) -> list[dict[str, Any]]:
    return [_column(one) for one in findings.answer.columns]


def _column(answer: ColumnAnswer) -> dict[str, Any]:
    verdict = next((one for one in answer.levels if one.level == HEADLINE), None)
    return {
        "party": answer.party,
        "column": answer.column,
        "kind": answer.kind,
        "light": answer.light,
        **_interval("part", verdict.part if verdict else None),
        "attack": verdict.attack if verdict else "",
        "finding": answer.sentence,
    }


def _attacks(findings: Findings) -> list[dict[str, Any]]:
    return [
        {
            "attack": one.attack,
            "knows": one.level,
            "status": one.status,
            **_interval("mse", one.mse),
            "records": one.records,
            "seconds": one.seconds,
            "reason": one.reason,
        }
        for one in findings.predictions.attacks
    ]


def _training(findings: Findings) -> list[dict[str, Any]]:
    return [
        {
            "attack": one.attack,
            "party": one.party,
            "of": one.kind,
            "right": one.success,
            "answered": one.resolved,
            "seconds": one.seconds,
            "reason": one.reason,
        }
        for one in findings.training
    ]


def _interval(name: str, interval: Interval | None) -> dict[str, float]:
    if interval is None:
        return dict.fromkeys((name, "low", "high"), float("nan"))
    return {name: interval.mean, "low": interval.low, "high": interval.high}


_FRAMES: Mapping[str, tuple[tuple[str, ...], Callable[[Findings], list[dict[str, Any]]]]] = {
    "columns": (_COLUMN, _columns),
    "attacks": (_ATTACK, _attacks),
    "training": (_TRAINING, _training),
}
