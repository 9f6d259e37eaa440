"""Files that are there whole or not at all: written beside their name, forced to disk, then renamed over it.

Guarantee: whoever reads ``path``, at any moment and after any kill, power cut or full disk, finds what was there before
or all that was written, never a part. What a killed process leaves beside it has a name that no reader looks for, and
the next writer of the same file takes it away.
"""

import errno
import os
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

_PRIVATE_FOLDER, _PUBLIC_FOLDER, _PUBLIC_FILE = 0o700, 0o755, 0o644
# Readers look for ``*.json``, ``*.npz`` and the like: a name with this end is none of them.
_UNFINISHED = ".unfinished"
# One process writes a file, but perhaps on several threads: none takes another's unfinished one for left behind.
_writing = threading.Lock()


def write_durably(path: Path, content: Callable[[BinaryIO], object] | bytes, private: bool = True) -> None:
    """Write a file whole or not at all, and make its folder when it isn't there.

    Args:
        path: the file. One that is there is replaced.
        content: the bytes, or what writes them to the open file.
        private: whether only this user may read the file, and enter folders that had to be made.

    Raises:
        OSError: when the folder can't be made or written, or the disk is full. What was there before is untouched.
    """
    make_folder(path.parent, private)
    with _writing:
        _remove_unfinished(path)
        descriptor, name = tempfile.mkstemp(prefix=_prefix(path), suffix=_UNFINISHED, dir=path.parent)
        unfinished = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as file:
                if isinstance(content, bytes):
                    file.write(content)
                else:
                    content(file)
                file.flush()
                os.fsync(file.fileno())
            # Until here it is 0600, as mkstemp makes it.
            if not private:
                unfinished.chmod(_PUBLIC_FILE)
            unfinished.replace(path)
        except BaseException as error:
            unfinished.unlink(missing_ok=True)
            if isinstance(error, OSError) and error.errno is not None and error.filename is None:
                # The system says what is wrong, of a full disk, and not of which.
                raise OSError(error.errno, error.strerror, str(path)) from error
            raise
        # A name is on disk when its folder is.
        # Not every file system can, and the file itself is safe already.
        with suppress(OSError):
            sync_folder(path.parent)


def make_folder(folder: Path, private: bool = True) -> None:
    """Make a folder and those above it that aren't there, for this user alone when ``private``. Raises OSError."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    for missing_folder in reversed(missing):
        missing_folder.mkdir(mode=_PRIVATE_FOLDER if private else _PUBLIC_FOLDER, exist_ok=True)
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))


def sync_folder(folder: Path) -> None:
    """Write a folder to disk, and with it a file's new name, or its end."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _prefix(path: Path) -> str:
    return f".{path.name}."


def _remove_unfinished(path: Path) -> None:
    """Take away what a killed process left of this very file."""
    for leftover in path.parent.iterdir():
        middle = leftover.name.removeprefix(_prefix(path)).removesuffix(_UNFINISHED)
        if leftover.name == f"{_prefix(path)}{middle}{_UNFINISHED}" and "." not in middle:
            leftover.unlink(missing_ok=True)
