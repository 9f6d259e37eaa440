"""One file of a run as its reader can rely on it, or a sentence that names it: who held the folder may have changed it.

Guarantee: what is read is an ordinary file of bounded size, nesting and numbers, of the types and shapes that its kind
declares; nothing is unpickled, and nothing is allocated that the file doesn't hold.
"""

import zipfile
import zlib
from collections.abc import Hashable, Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast, get_type_hints

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError
from pydantic_core import SchemaValidator, from_json, to_json

import vfl.arrays
from services.common.value_faults import fault_words
from services.common.words import escaped

AGAIN = "Run it again, into a new folder."
# 300,000 steps, or half a million test records: more of either, and what is read doesn't fit a gigabyte.
_MOST_JSON_BYTES, _MOST_JSON_VALUES = 1 << 27, 3_000_000
_MOST_NAMES, _MOST_SAID = 10_000, 200
# Of a file with a few sentences, which a list of runs reads of each.
MOST_SHORT_BYTES = 1 << 16

T = TypeVar("T")


class RunFolderError(ValueError):
    """A file of a run folder is missing or broken, or the folder can't be used; the text names it and what to do."""


@dataclass(frozen=True)
class ArraySpec:
    """What an array of a file may hold.

    Attributes:
        axes: a name each; those of one name are equally long in all arrays of the file. Empty for any number of them.
        kinds: letters of numpy's kinds of types.
        least: smallest number.
        most: largest one, by magnitude.
        gaps: whether NaN stands for what isn't there.
        words: the only ones, of text; empty for any.
    """

    axes: str = ""
    kinds: str = "fiu"
    least: float = -np.inf
    most: float = 1e150
    gaps: bool = False
    words: tuple[str, ...] = ()

    def fault_of(self, array: NDArray[Any], lengths: dict[str, int]) -> str:
        """Say what is wrong with an array; empty for nothing. ``lengths`` of axes are noted, or compared."""
        names = self.axes.split()
        if array.dtype.kind not in self.kinds:
            return f"holds {array.dtype.name} where it should hold {'text' if self.kinds == 'U' else 'numbers'}"
        if names and len(names) != array.ndim:
            return f"has {array.ndim} axes instead of {len(names)}"
        for name, length in zip(names, array.shape, strict=bool(names)):
            if lengths.setdefault(name, length) != length:
                return f"is {length} long where {lengths[name]} were expected"
        if array.dtype.kind == "U":
            return "holds a word that means nothing here" if self.words and not np.isin(array, self.words).all() else ""
        with np.errstate(invalid="ignore"):
            fits = (array >= self.least) & (array <= self.most) & (array >= -self.most)
        if array.dtype.kind == "f" and self.gaps:
            fits |= np.isnan(array)
        return "" if fits.all() else "holds numbers that it can't hold"


def check_file(path: Path, missing: str) -> None:
    """Refuse what is no ordinary file; ``missing`` says what to do where there is none. Raises RunFolderError."""
    try:
        path.stat()
        is_file = path.is_file()
    except FileNotFoundError as error:
        raise RunFolderError(f"{path} is missing: {missing}") from error
    except OSError as error:
        raise RunFolderError(f"{path} can't be read ({error.strerror}): check its rights, or a link to it.") from error
    if not is_file:
        raise RunFolderError(f"{path} is broken: a folder, a pipe or a device stands in its place. {AGAIN}")


def read_json(path: Path, missing: str = AGAIN, again: str = AGAIN, most: int = _MOST_JSON_BYTES) -> Any:
    """Read a JSON file of ``most`` bytes or fewer; ``again``: what to do where it is broken. Raises RunFolderError."""
    check_file(path, missing)
    try:
        if path.stat().st_size > most:
            raise RunFolderError(f"{path} is broken: larger than any run writes. {again}")
        content = path.read_bytes()
        if sum(map(content.count, (b",", b"[", b"{"))) > _MOST_JSON_VALUES:
            raise RunFolderError(f"{path} is broken: more values than any run writes. {again}")
        values = from_json(content)
        if isinstance(values, dict | list) and _most_names(values) > _MOST_NAMES:
            raise RunFolderError(f"{path} is broken: an object of more entries than any run writes. {again}")
        return values
    except RunFolderError:
        raise
    except (OSError, ValueError) as error:
        raise RunFolderError(f"{path} is broken: {escaped(str(error), _MOST_SAID)}. {again}") from error


def parsed(kind: type[T], content: Any, path: Path, again: str = AGAIN) -> T:
    """Read a file as its type, strictly: no text for a number. Raises RunFolderError naming the first fault."""
    try:
        return cast(T, _validator(cast(Hashable, kind)).validate_json(to_json(content), strict=True))
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = escaped(".".join(str(part) for part in first["loc"]), _MOST_SAID)
        location = f" at {place}" if place else ""
        raise RunFolderError(
            f"{path} is broken{location}: {escaped(fault_words(first), _MOST_SAID)}. {again}"
        ) from error
    except (ValueError, RecursionError) as error:
        raise RunFolderError(f"{path} is broken: {escaped(str(error), _MOST_SAID)}. {again}") from error


def _most_names(content: Any) -> int:
    """Entries of the largest object: as many names as values take several times the memory."""
    most, within = 0, [content]
    while within:
        node = within.pop()
        if isinstance(node, dict):
            most = max(most, len(node))
        within += [
            inner for inner in (node.values() if isinstance(node, dict) else node) if isinstance(inner, dict | list)
        ]
    return most


@cache
def _validator(kind: Any) -> SchemaValidator:
    """Make what checks a type: a list ends at its first fault, of which a file may hold millions."""

    def ending(schema: Any) -> Any:
        if isinstance(schema, list):
            return [ending(one) for one in schema]
        if not isinstance(schema, dict):
            return schema
        ends = {"fail_fast": True} if schema.get("type") in ("list", "tuple") else {}
        return {key: ending(one) for key, one in schema.items()} | ends

    return SchemaValidator(ending(TypeAdapter(kind).core_schema))


def read_arrays(path: Path, missing: str = AGAIN) -> dict[str, NDArray[Any]]:
    """Read an .npz file as ``vfl.arrays.write_arrays`` writes it: not compressed. Raises RunFolderError."""
    check_file(path, missing)
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
        # Nothing unpacks to more than the file itself holds.
        is_stored = all(one.compress_type == zipfile.ZIP_STORED for one in members)
        if not is_stored or sum(one.file_size for one in members) > path.stat().st_size:
            raise RunFolderError(f"{path} is broken: its arrays are compressed, and no run compresses them. {AGAIN}")
        arrays = vfl.arrays.read_arrays(path)
    except RunFolderError:
        raise
    except (OSError, ValueError, EOFError, MemoryError, RuntimeError, SyntaxError, TypeError, KeyError) as error:
        raise RunFolderError(f"{path} is broken: {escaped(str(error), _MOST_SAID)}. {AGAIN}") from error
    except (zipfile.BadZipFile, zlib.error, OverflowError) as error:
        raise RunFolderError(f"{path} is broken: {escaped(str(error), _MOST_SAID)}. {AGAIN}") from error
    if other := [name for name, array in arrays.items() if not isinstance(array, np.ndarray)]:
        raise RunFolderError(f"{path} is broken: {escaped(other[0], _MOST_SAID)} is no array. {AGAIN}")
    return arrays


def arrays_as(kind: type[T], path: Path, missing: str = AGAIN) -> T:
    """Read an .npz file as a dataclass whose fields each have an ``ArraySpec``. Raises RunFolderError."""
    return fields_of(kind, read_arrays(path, missing), path)


def fields_of(kind: type[T], arrays: Mapping[str, NDArray[Any]], path: Path) -> T:
    """Read a file's arrays as a dataclass whose fields each have an ``ArraySpec``. Raises RunFolderError."""
    names = {one.name: one.default for one in fields(kind)}  # type: ignore[arg-type]
    if lacking := [name for name, default in names.items() if default is MISSING and name not in arrays]:
        raise RunFolderError(f"{path} is broken: it lacks the array {' and '.join(lacking)}. {AGAIN}")
    values = {name: array for name, array in arrays.items() if name in names}
    hints = get_type_hints(kind, include_extras=True)
    check_arrays(values, {name: _holds(hints[name]) for name in values}, path)
    return kind(**values)


def check_arrays(arrays: Mapping[str, NDArray[Any]], holds: Mapping[str, ArraySpec], path: Path) -> None:
    """Raise RunFolderError for the first array that isn't what it should hold."""
    lengths: dict[str, int] = {}
    for name, array in arrays.items():
        if fault := holds[name].fault_of(array, lengths):
            raise RunFolderError(f"{path} is broken: its array {escaped(name, _MOST_SAID)} {fault}. {AGAIN}")


def _holds(hint: Any) -> ArraySpec:
    """Find the declaration beside a field's type, behind ``| None`` or not."""
    inner = [hint, *getattr(hint, "__args__", ())]
    return next(one for of in inner for one in getattr(of, "__metadata__", ()) if isinstance(one, ArraySpec))
