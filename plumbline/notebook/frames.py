"""Findings as data frames: a row per column, per attack on predictions, or per attack on training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from plumbline.judge.answer import HEADLINE, ColumnAnswer
from vfl.suggestions import did_you_mean

if TYPE_CHECKING:
    from plumbline.judge.federation_part import LevelVerdict
    from plumbline.judge.findings import Findings
    from plumbline.judge.measures import Interval

Subject = Literal["columns", "levels", "attacks", "training"]


def frame_of(findings: Findings, of: str) -> pd.DataFrame:
    """Make the frame of one subject; raises ValueError for another than ``Subject``."""
    if of not in _FRAMES:
        raise ValueError(f"There is no table of {of!r}: choose {', '.join(_FRAMES)}.{did_you_mean(of, _FRAMES)}")
    names, rows = _FRAMES[of]
    return pd.DataFrame(rows(findings), columns=pd.Index(names))


_COLUMN = ("party", "column", "kind", "light", "part", "low", "high", "attack", "finding")
_ATTACK = ("attack", "knows", "status", "mse", "low", "high", "records", "seconds", "reason")
_LEVEL = (
    *("party", "column", "kind", "light", "level", "known_as", "known_by_guessing", "known", "part", "part_low"),
    *("part_high", "attack", "guess"),
)
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


def _levels(findings: Findings) -> list[dict[str, Any]]:
    return [
        _at_level(one, verdict, known)
        for one in findings.answer.columns
        for verdict, known in zip(one.levels, one.known, strict=True)
    ]


def _at_level(answer: ColumnAnswer, verdict: LevelVerdict, known: LevelVerdict) -> dict[str, Any]:
    """One column at one level; shares are NaN where no attack of the level ran."""
    part = _interval("part", verdict.part)
    return {
        "party": answer.party,
        "column": answer.column,
        "kind": answer.kind,
        "light": answer.light,
        "level": verdict.level,
        "known_as": answer.known_as,
        "known_by_guessing": 1 - known.e0,
        "known": float("nan") if known.error is None else 1 - known.error,
        "part": part["part"],
        "part_low": part["low"],
        "part_high": part["high"],
        "attack": verdict.attack,
        "guess": verdict.baseline,
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
    "levels": (_LEVEL, _levels),
    "attacks": (_ATTACK, _attacks),
    "training": (_TRAINING, _training),
}
