"""The native kernel on every kind of lanes that this processor has."""

import pytest

from vfl.crypto.kernels.native import NativeKernel
from vfl.crypto.native.build import CompilationFailed, build
from vfl.crypto.native.library import LibraryMissing, load


@pytest.fixture(scope="session")
def native_library() -> None:
    """Build the library where it is missing or older than its sources; skip where there is no compiler."""
    try:
        load()
    except LibraryMissing:
        try:
            build()
        except CompilationFailed as failed:
            pytest.skip(f"The native kernel can't be built here: {failed}")


@pytest.fixture(scope="session", params=[1, 8], ids=["limbs", "lanes"])
def native_kernel(request: pytest.FixtureRequest, native_library: None) -> NativeKernel:
    try:
        return NativeKernel(request.param)
    except ValueError as refused:
        pytest.skip(str(refused))
