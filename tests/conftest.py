"""What all tests share: a clean set of PLUMBLINE_ variables."""

import os

import pytest

# Settings of the tests themselves, not of a service.
_KEPT = {"PLUMBLINE_TEST_POSTGRES_URL"}


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """A developer's own PLUMBLINE_ variables must not change what is tested."""
    for name in list(os.environ):
        if name.startswith("PLUMBLINE_") and name not in _KEPT:
            monkeypatch.delenv(name)
