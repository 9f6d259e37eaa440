"""Archives of arrays: what numpy reads again, whatever the arrays are called, and no pickle."""

from pathlib import Path

import numpy as np
import pytest

from vfl.arrays import write_arrays


def test_arrays_of_any_name_are_read_back_as_they_were(tmp_path: Path) -> None:
    arrays = {
        "file": np.arange(6.0).reshape(2, 3),
        "allow_pickle": np.array([True, False]),
        "names": np.array(["a", "longer"]),
        "none": np.empty((0, 2)),
    }
    write_arrays(tmp_path / "some.npz", arrays)
    with np.load(tmp_path / "some.npz", allow_pickle=False) as content:
        assert set(content.files) == set(arrays)
        for name, array in arrays.items():
            np.testing.assert_array_equal(content[name], array)
            assert content[name].dtype == array.dtype


def test_objects_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Object arrays"):
        write_arrays(tmp_path / "some.npz", {"objects": np.array([{}, []], dtype=object)})
