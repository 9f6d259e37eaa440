"""The machine that a benchmark ran on as far as it explains a time, nothing that names it, and the kernels it runs."""

import os
import platform
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

from vfl.cores import Cores, available_cores, cores_for
from vfl.crypto.kernels import Kernel, best_kernel, kernel_named
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


def kernel_settings() -> tuple[str, ...]:
    """Name the settings of ``PLUMBLINE_KERNEL`` that are measured beside each other."""
    return ("portable", "native") if len(kernels_here()) > 1 else ("portable",)


def cores_of(kernel: Kernel, count: int) -> Cores:
    """Start so many workers of the kind that makes a kernel faster: close them at the end."""
    return cores_for(count, releases_gil=kernel.releases_gil, preload=["vfl.crypto.engine"])


# Instructions that the arithmetic of ciphertexts may use.
_FLAGS = ("avx2", "bmi2", "adx", "avx512f", "avx512ifma")
# What may run in a benchmark: this project, what it computes with, and what stands beside it.
_PACKAGES = (
    "plumbline",
    "gmpy2",
    "numpy",
    "scikit-learn",
    "cryptography",
    "grpcio",
    "phe",
    "sf-heu",
    "openmined-psi",
    "xgboost-cpu",
)


@dataclass(frozen=True)
class Machine:
    """A machine.

    Attributes:
        processor: its model, as the system calls it.
        architecture: such as ``x86_64``.
        system: the operating system.
        cores: that this process may use.
        flags: instructions that the arithmetic may use.
        memory_bytes: of the machine; 0 where the system doesn't say.
        kernels: the kernels that run here, the one that is taken by default first.
    """

    processor: str
    architecture: str
    system: str
    cores: int
    flags: tuple[str, ...]
    memory_bytes: int
    kernels: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """The machine in a line."""
        flags = f" with {', '.join(self.flags)}" if self.flags else ""
        memory = f", {self.memory_bytes / 2**30:.0f} GB" if self.memory_bytes else ""
        cores = "1 core" if self.cores == 1 else f"{self.cores} cores"
        return f"{self.processor} ({self.architecture}{flags}), {cores}{memory}, {self.system}"


def this_machine() -> Machine:
    """Describe the machine that this process runs on."""
    told = _told()
    flags = set(told.get("flags", told.get("Features", "")).split())
    memory = 0
    with suppress(ValueError, OSError):
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Machine(
        processor=told.get("model name", platform.processor() or "unknown processor"),
        architecture=platform.machine(),
        system=platform.system(),
        cores=available_cores(),
        flags=tuple(flag for flag in _FLAGS if flag in flags),
        memory_bytes=memory,
        kernels=tuple(dict.fromkeys((best_kernel().name, *kernels_here()))),
    )


def versions() -> dict[str, str]:
    """Versions of what runs in benchmarks, by name; what isn't installed is left out."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def _told() -> dict[str, str]:
    """What Linux says of its first processor."""
    source = Path("/proc/cpuinfo")
    if not source.exists():
        return {}
    first = source.read_text().partition("\n\n")[0]
    pairs = (line.partition(":") for line in first.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}
