"""Kernels: the arithmetic modulo n**2 that Paillier's time goes into, in interchangeable implementations."""

from vfl.crypto.kernels.kernel import FixedBase, Kernel, ProductTask
from vfl.crypto.kernels.portable import PortableKernel

__all__ = ["FixedBase", "Kernel", "PortableKernel", "ProductTask", "best_kernel", "kernel_named"]


def best_kernel() -> Kernel:
    """Choose the fastest kernel that this machine can run."""
    return PortableKernel()


def kernel_named(name: str) -> Kernel:
    """Find a kernel by its name; raises ValueError, with what to do, for one that isn't there."""
    if name != PortableKernel.name:
        raise ValueError(f"No kernel is called {name!r} here: use {PortableKernel.name}.")
    return PortableKernel()
