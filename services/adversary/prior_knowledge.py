"""The file of what an adversary knows beforehand of the passive columns: published statistics, as JSON.

No part of a federation makes or reads it but the active party's attacks; an audit writes it.
"""

import json
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from pydantic import ConfigDict, TypeAdapter

from attacks import PassiveMoments
from services.common import limits
from services.common.durable import write_durably
from services.common.settings import SettingsError
from services.common.value_faults import error_words

# No feature is beyond it.
_LARGEST = 2.0**limits.FEATURE_INTEGER_BITS
_Numbers = list[float]
_REMEDY = "Write it as docs/reference/run-folder.md says, or drop PLUMBLINE_PRIOR_KNOWLEDGE."


@dataclass(frozen=True)
class _Content:
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", allow_inf_nan=False)

    mean: _Numbers
    variance: _Numbers
    covariance: list[_Numbers] | None = None
    supports: list[_Numbers | None] = field(default_factory=list)
    frequencies: list[_Numbers | None] = field(default_factory=list)
    groups: list[list[int]] = field(default_factory=list)
    in_training: "_Content | None" = None


def write_moments(path: Path, moments: PassiveMoments, in_training: PassiveMoments | None = None) -> None:
    """Write statistics into a file that only this user may read.

    Args:
        path: of the file.
        moments: what attacks on predictions know; in an audit they are over no record that is predicted.
        in_training: what attacks on training know, over no record that is trained on; None for the same.

    Raises OSError.
    """
    content = _as_json(moments)
    if in_training is not None:
        content["in_training"] = _as_json(in_training)
    write_durably(path, json.dumps(content, indent=1).encode())


def read_moments(path: Path, *, in_training: bool = False) -> PassiveMoments:
    """Read what ``write_moments``, or a person, wrote, for attacks on predictions or on training.

    Raises:
        SettingsError: for a file that can't be read, or whose numbers aren't statistics of the same columns.
    """
    try:
        content = TypeAdapter(_Content).validate_json(path.read_bytes())
        both = [_as_moments(one) for one in (content, content.in_training) if one is not None]
        for moments in both:
            _check(moments)
        _expect(len({len(one.mean) for one in both}) == 1, "in_training tells of as many columns")
    except (OSError, ValueError, OverflowError) as error:
        raise SettingsError(f"{path} tells no prior knowledge ({error_words(error)}). {_REMEDY}") from error
    return both[-1 if in_training else 0]


def _as_json(moments: PassiveMoments) -> dict[str, Any]:
    return {one.name: _as_lists(getattr(moments, one.name)) for one in fields(moments)}


def _as_moments(content: _Content) -> PassiveMoments:
    return PassiveMoments(
        mean=np.array(content.mean, dtype=np.float64),
        variance=np.array(content.variance, dtype=np.float64),
        covariance=None if content.covariance is None else np.array(content.covariance, dtype=np.float64),
        supports=_each(content.supports),
        frequencies=_each(content.frequencies),
        groups=tuple(np.array(group, dtype=np.int64) for group in content.groups),
    )


def _check(moments: PassiveMoments) -> None:
    """Raise ValueError for the first thing that contradicts another."""
    d = len(moments.mean)
    _expect(d > 0 and moments.variance.shape == (d,), "mean and variance are one number per column")
    _expect((moments.variance >= 0).all(), "no variance is negative")
    _expect((np.abs(moments.mean) <= _LARGEST).all(), f"no mean is beyond {_LARGEST:g}")
    _expect((moments.variance <= _LARGEST**2).all(), f"no variance is beyond {_LARGEST**2:g}")
    covariance = moments.covariance
    if covariance is not None:
        _expect(covariance.shape == (d, d), "covariance has a row and a column per column")
        _expect((covariance.diagonal() >= 0).all(), "no variance of covariance is negative")
        _expect((np.abs(covariance) <= _LARGEST**2).all(), f"no covariance is beyond {_LARGEST**2:g}")
        _expect(np.allclose(covariance, covariance.T), "covariance is symmetric")
    _expect(len(moments.supports) in (0, d), "supports has an entry per column")
    _expect(len(moments.frequencies) == len(moments.supports), "frequencies has an entry per support")
    for support, frequencies in zip(moments.supports, moments.frequencies, strict=True):
        _expect((support is None) == (frequencies is None), "each support has its frequencies")
        if support is not None and frequencies is not None:
            _expect(len(support) == len(frequencies) > 0, "each value of a support has its frequency")
            _expect(bool((np.diff(support) > 0).all()), "the values of a support rise")
            is_share = bool((frequencies >= 0).all()) and abs(float(frequencies.sum()) - 1) < 1e-6
            _expect(is_share, "the frequencies of a column sum to 1")
    members = [int(column) for group in moments.groups for column in group]
    _expect(all(0 <= column < d for column in members), "groups name columns by number, from 0")
    _expect(len(set(members)) == len(members), "a column is in one group at most")


def _expect(holds: object, rule: str) -> None:
    if not holds:
        raise ValueError(f"expected that {rule}")


def _each(columns: list[_Numbers | None]) -> tuple[Any, ...]:
    return tuple(None if column is None else np.array(column, dtype=np.float64) for column in columns)


def _as_lists(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_as_lists(one) for one in value]
    return value.tolist() if isinstance(value, np.ndarray) else value
