"""Kernels: the arithmetic modulo n**2 that Paillier's time goes into, in interchangeable implementations."""

import logging
from functools import cache

from vfl.crypto.kernels.kernel import FixedBases, InvalidCiphertext, Kernel, ProductTask
from vfl.crypto.kernels.native import NativeKernel
from vfl.crypto.kernels.portable import PortableKernel
from vfl.crypto.native.library import LibraryMissing

__all__ = [
    "FixedBases",
    "InvalidCiphertext",
    "Kernel",
    "NativeKernel",
    "PortableKernel",
    "ProductTask",
    "best_kernel",
    "kernel_named",
]

_log = logging.getLogger(__name__)
_NAMES = ("auto", "native", "portable")


@cache
def best_kernel() -> Kernel:
    """Choose the fastest kernel that this machine can run; the log says why it isn't the native one."""
    try:
        return NativeKernel()
    except LibraryMissing as missing:
        _log.info("The portable kernel runs. %s", missing)
        return PortableKernel()


def kernel_named(name: str) -> Kernel:
    """Find a kernel by its name: native, portable, or auto for the best. Raises ValueError, with what to do, else."""
    if name == "auto":
        return best_kernel()
    if name == "portable":
        return PortableKernel()
    if name != "native":
        raise ValueError(f"No kernel is called {name!r}: use one of {', '.join(_NAMES)}.")
    try:
        return NativeKernel()
    except LibraryMissing as missing:
        raise ValueError(f"{missing} PLUMBLINE_KERNEL=auto runs without it.") from None
