"""The array types that all packages share."""

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

# What reading a damaged .npz file, or a header within, raises: zipfile has a RuntimeError for a flipped flag.
BROKEN_ARRAYS = (ValueError, KeyError, EOFError, OSError, TypeError, RuntimeError, zipfile.BadZipFile)


def write_arrays(file: Path | BinaryIO, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays as an .npz file that ``numpy.load`` reads, to a path or to an open file.

    numpy.savez takes no array called ``file``, and can't be told by numpy before 2.2 not to pickle.

    Raises:
        ValueError: for an array of Python objects, which only a pickle could hold.
    """
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, np.asanyarray(array), allow_pickle=False)
