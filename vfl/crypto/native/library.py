"""The compiled library as Python calls it: loaded once, and only if it was made from these very sources."""

import ctypes
from ctypes import POINTER, Structure, c_char_p, c_int, c_uint64, c_void_p
from functools import cache
from pathlib import Path
from struct import unpack_from

from vfl.crypto.native.build import library_path, source_digest


class LibraryMissing(RuntimeError):
    """There is no library that can be used; the message says what to do."""


class Modulus(Structure):
    """`struct modulus` of ring.h."""

    _fields_ = (
        ("lanes", c_uint64),
        ("parts", c_uint64),
        ("root_bits", c_uint64),
        ("width", c_uint64),
        ("root", c_char_p),
    )


class NativeTask(Structure):
    """`struct task` of product.h."""

    _fields_ = (
        ("blocks", c_uint64),
        ("rows", c_uint64),
        ("columns", c_uint64),
        ("answers", c_uint64),
        ("group_size", c_uint64),
        ("corrections", c_uint64),
        ("entries", c_void_p),
        ("digits", c_void_p),
        ("shifts", c_void_p),
        ("answer", c_void_p),
        ("correction", c_void_p),
        ("correction_bytes", c_char_p),
    )


_FUNCTIONS = {
    "plumbline_total": (POINTER(Modulus), c_char_p, c_uint64, c_char_p),
    "plumbline_product": (POINTER(Modulus), c_char_p, POINTER(NativeTask), c_char_p),
    "plumbline_powers": (POINTER(Modulus), c_char_p, c_uint64, c_char_p, c_uint64, c_int, c_char_p),
    "plumbline_lists": (POINTER(Modulus), c_char_p, c_uint64, c_void_p, c_void_p, c_uint64, c_char_p),
    "plumbline_fixed_open": (POINTER(Modulus), c_char_p, c_uint64, POINTER(c_void_p)),
    "plumbline_fixed_powers": (c_void_p, c_char_p, c_uint64, c_char_p),
}


@cache
def load() -> ctypes.CDLL:
    """Load the library.

    Raises:
        LibraryMissing: where it isn't built, was cut off, was built from other sources, or can't be loaded here.
    """
    path = library_path()
    if not path.is_file():
        raise LibraryMissing(
            "The native kernel isn't built. Install a C compiler, then Plumbline again "
            "(in a checkout: python -m vfl.crypto.native)."
        )
    if not _is_whole(path):
        raise LibraryMissing(f"The native kernel's file {path.name} is cut off. Install Plumbline again.")
    library = open_library(str(path))
    if library.plumbline_sources() != source_digest().encode():
        raise LibraryMissing(
            "The native kernel was built from other sources than these. Install Plumbline again "
            "(in a checkout: python -m vfl.crypto.native)."
        )
    return library


def _is_whole(path: Path) -> bool:
    """Tell whether a file has all that its header promises: the loader of a shorter one ends the process (SIGBUS)."""
    content = path.read_bytes()
    if content[:6] != b"\x7fELF\2\1":
        return True  # of another system: its loader's to judge
    if len(content) < 64:
        return False
    # The table of sections, 64 bits, little-endian: the last thing in a file.
    start, size, count = unpack_from("<40xQ10xHH", content)
    return len(content) >= int(start) + int(size) * int(count)


def open_library(path: str) -> ctypes.CDLL:
    """Open a library and declare its functions, whatever it was made from. Raises LibraryMissing."""
    try:
        library = ctypes.CDLL(path)
        library.plumbline_sources.restype = c_char_p
        library.plumbline_fixed_close.argtypes = (c_void_p,)
        library.plumbline_fixed_close.restype = None
        for name, arguments in _FUNCTIONS.items():
            getattr(library, name).argtypes = arguments
    except (OSError, AttributeError) as error:
        raise LibraryMissing(f"The native kernel can't be loaded: {error}. Install Plumbline again.") from None
    return library
