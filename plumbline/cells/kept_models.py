"""Trained models on disk, beside the finished cells: arrays only, a file each, by the key of what trained them."""

import logging
from pathlib import Path

import numpy as np

from plumbline.cells.parcels import Content, Parcel, unpack
from plumbline.cells.store import unwritable
from services.common.durable import write_durably

_log = logging.getLogger(__name__)
_FOLDER = "models"


def read_model(store: Path, key: str) -> Parcel | None:
    """Read what training found; None where it isn't kept, or the file is damaged."""
    path = _path(store, key)
    try:
        content = np.frombuffer(path.read_bytes(), np.uint8)
        unpack(content)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        _log.warning("%s is no readable model and is trained again. (%s)", path, error)
        return None
    return Parcel(key, content)


def write_model(store: Path, key: str, content: Content) -> None:
    """Keep what training found; raises SweepStopped when the folder can't be written."""
    try:
        write_durably(_path(store, key), content.tobytes(), private=False)
    except OSError as error:
        raise unwritable(store, error) from error


def _path(store: Path, key: str) -> Path:
    return store / _FOLDER / f"{key}.npz"
