"""The file of prior knowledge reads back as written, for its owner alone; a broken one is refused in a sentence."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attacks import PassiveMoments
from attacks.prediction.known_moments import known_moments
from services.active.server import known_beforehand
from services.adversary.prior_knowledge import read_moments, write_moments
from services.common import limits
from services.common.settings import SettingsError, load_settings

GENERATOR = np.random.default_rng(0)
FEATURES = np.hstack([np.eye(3)[GENERATOR.integers(0, 3, 60)], GENERATOR.random((60, 2))])
WRITTEN: dict[str, Any] = {"mean": [0.5, 0.25], "variance": [0.1, 0.0]}


def written(folder: Path, content: Any) -> Path:
    file = folder / "known.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return file


def same(one: Any, other: Any) -> bool:
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(np.array_equal(one, other)) if isinstance(one, np.ndarray) else one is other


def test_what_is_written_reads_back_bit_for_bit(tmp_path: Path) -> None:
    moments = known_moments(FEATURES)
    assert moments.groups
    write_moments(tmp_path / "known.json", moments)
    found = read_moments(tmp_path / "known.json")
    assert all(same(getattr(found, one.name), getattr(moments, one.name)) for one in fields(PassiveMoments))
    assert (tmp_path / "known.json").stat().st_mode & 0o777 == 0o600


def test_a_person_may_leave_out_all_but_mean_and_variance(tmp_path: Path) -> None:
    found = read_moments(written(tmp_path, WRITTEN))
    assert found.covariance is None
    assert (found.supports, found.groups) == ((), ())
    np.testing.assert_array_equal(found.mean, [0.5, 0.25])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[1]", "expected an object"),
        ("{", "JSON"),
        ("[" * 100_000, "JSON"),
        ({}, "mean"),
        ({"mean": []}, "variance"),
        ({"mean": [], "variance": []}, "one number per column"),
        ('{"mean": [NaN], "variance": [0]}', "finite"),
        (WRITTEN | {"deviation": [1, 1]}, "deviation"),
        (WRITTEN | {"variance": [0.1]}, "one number per column"),
        (WRITTEN | {"variance": [0.1, -0.1]}, "no variance is negative"),
        (WRITTEN | {"covariance": [[1, 0]]}, "a row and a column per column"),
        (WRITTEN | {"covariance": [[1, 0], [0]]}, "tells no prior knowledge"),
        (WRITTEN | {"covariance": [[1, 0], [0.5, 1]]}, "symmetric"),
        (WRITTEN | {"supports": [None]}, "an entry per column"),
        (WRITTEN | {"supports": [[0, 1], None]}, "an entry per support"),
        (WRITTEN | {"supports": [[0, 1], None], "frequencies": [None, None]}, "each support has its frequencies"),
        (WRITTEN | {"supports": [[0, 1], None], "frequencies": [[1], None]}, "each value of a support"),
        (WRITTEN | {"supports": [[1, 0], None], "frequencies": [[0.5, 0.5], None]}, "rise"),
        (WRITTEN | {"supports": [[0, 1], None], "frequencies": [[0.5, 0.6], None]}, "sum to 1"),
        (WRITTEN | {"groups": [[0, 2]]}, "by number"),
        (WRITTEN | {"groups": [[0, 1], [1]]}, "one group at most"),
        (WRITTEN | {"groups": [[10**30]]}, "tells no prior knowledge"),
        (WRITTEN | {"mean": [1e300, 0]}, "no mean is beyond"),
        (WRITTEN | {"variance": [1e300, 0]}, "no variance is beyond"),
        (WRITTEN | {"covariance": [[-1, 0], [0, 1]]}, "no variance of covariance is negative"),
        (WRITTEN | {"covariance": [[1, 1e300], [1e300, 1]]}, "no covariance is beyond"),
    ],
    ids=lambda value: str(value)[:50],
)
def test_what_tells_nothing_is_refused_in_one_sentence(tmp_path: Path, content: Any, words: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read_moments(written(tmp_path, content))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_numbers_as_large_as_features_may_be_are_taken(tmp_path: Path) -> None:
    most = 2.0**limits.FEATURE_INTEGER_BITS
    content = {"mean": [most, -most], "variance": [most**2, 0], "covariance": [[most**2, -(most**2)], [-(most**2), 0]]}
    found = read_moments(written(tmp_path, content))
    np.testing.assert_array_equal(found.variance, [most**2, 0])


def test_the_active_party_reads_it_where_its_settings_name_it(tmp_path: Path) -> None:
    known = known_beforehand(load_settings(prior_knowledge=written(tmp_path, WRITTEN)))
    assert known.moments is not None
    assert known.records is None
    assert known_beforehand(load_settings()).moments is None
    with pytest.raises(SettingsError, match="No such file"):
        known_beforehand(load_settings(prior_knowledge=tmp_path / "nowhere.json"))
