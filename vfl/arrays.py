"""The array types that all packages share."""

import io
import json
import threading
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

_HEADER = "header"
# numpy parses the header of an array as Python, and two threads that parse at once make CPython 3.11 raise SystemError.
_PARSING = threading.Lock()


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


def read_arrays(file: Path | BinaryIO) -> dict[str, NDArray[Any]]:
    """Read an .npz file, from any thread. Raises BROKEN_ARRAYS for a damaged one, or one that holds objects."""
    with _PARSING, np.load(file, allow_pickle=False) as archive:
        return dict(archive)


def pack_arrays(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Write what JSON says, and arrays of other names than ``header``, as the bytes of one .npz file."""
    file = io.BytesIO()
    write_arrays(file, {_HEADER: np.frombuffer(json.dumps(header).encode(), dtype=np.uint8), **arrays})
    return file.getvalue()


def unpack_arrays(content: bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read the header and arrays that ``pack_arrays`` wrote. Raises BROKEN_ARRAYS for anything else."""
    arrays = read_arrays(io.BytesIO(content))
    return dict(json.loads(arrays.pop(_HEADER).tobytes())), arrays
