"""Archives of arrays: what numpy reads again, whatever the arrays are called, and no pickle."""

import gc
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vfl.arrays import pack_arrays, unpack_arrays, write_arrays


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


def test_threads_read_at_once() -> None:
    content = pack_arrays({"version": 1}, {str(number): np.arange(number) for number in range(20)})

    class Yielding:
        def __del__(self) -> None:
            sum(range(100))

    def read(_: int) -> tuple[dict[str, Any], int]:
        # Collected amid what numpy reads, its end lets another thread run.
        circle: list[Any] = [Yielding()]
        circle.append(circle)
        header, arrays = unpack_arrays(content)
        return header, len(arrays)

    thresholds, interval = gc.get_threshold(), sys.getswitchinterval()
    gc.set_threshold(50, 5, 5)
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(6) as executor:
            assert all(one == ({"version": 1}, 20) for one in executor.map(read, range(1000)))
    finally:
        sys.setswitchinterval(interval)
        gc.set_threshold(*thresholds)
