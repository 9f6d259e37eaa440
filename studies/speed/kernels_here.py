"""The kernels that this machine can run, and the workers that make them faster."""

from contextlib import suppress
from typing import Literal

from vfl.cores import Cores, cores_for
from vfl.crypto.kernels import Kernel, kernel_named
from vfl.crypto.kernels.native import NativeKernel
from vfl.crypto.native.library import LibraryMissing

_LANES: tuple[Literal[1, 8], ...] = (8, 1)


def kernels_here() -> dict[str, Kernel]:
    """Make every kernel that runs here, the portable one first, by the name that the log has for it."""
    kernels = {"portable": kernel_named("portable")}
    for lanes in _LANES:
        with suppress(LibraryMissing, ValueError):
            native = NativeKernel(lanes)
            kernels[native.name] = native
    return kernels


def kernel_of(setting: str) -> Kernel:
    """The kernel that a setting of ``PLUMBLINE_KERNEL`` names."""
    return kernel_named(setting)


def kernel_settings() -> tuple[str, ...]:
    """Name the settings of ``PLUMBLINE_KERNEL`` that are measured beside each other."""
    return ("portable", "native") if len(kernels_here()) > 1 else ("portable",)


def cores_of(kernel: Kernel, count: int) -> Cores:
    """Start so many workers of the kind that makes a kernel faster: close them at the end."""
    return cores_for(count, releases_gil=kernel.releases_gil, preload=["vfl.crypto.engine"])
