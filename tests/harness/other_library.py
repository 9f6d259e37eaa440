"""A plugin of pytest: the native kernel's tests run on the library that PLUMBLINE_TEST_LIBRARY names, as in

pytest -p tests.harness.other_library tests/unit/vfl/crypto/kernels/test_native.py
"""

import os

import pytest

from vfl.crypto.native.library import open_library


def pytest_configure(config: pytest.Config) -> None:
    """Put the library where the kernel takes it from; without the variable, stop."""
    library = open_library(os.environ["PLUMBLINE_TEST_LIBRARY"])
    pytest.MonkeyPatch().setattr("vfl.crypto.kernels.native.load", lambda: library)
