"""The kernels that this machine can run, by the names that settings have for them."""

from vfl import cores
from vfl.crypto.kernels import Kernel, kernel_named


def kernels_here() -> dict[str, Kernel]:
    """Make every kernel that runs here, the portable one first, by its name."""
    return {"portable": kernel_named("portable")}


def kernel_settings() -> tuple[str, ...]:
    """Name the settings of ``PLUMBLINE_KERNEL`` that are measured beside each other."""
    return ("portable",)


def cores_for(kernel: Kernel, count: int) -> cores.Cores:
    """Start so many workers of the kind that makes a kernel faster."""
    return cores.cores_for(count, releases_gil=kernel.releases_gil)
