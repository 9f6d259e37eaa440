"""What all tests share: a clean set of PLUMBLINE_ variables, and one profile of Hypothesis."""

import gc
import os

import pytest
from hypothesis import HealthCheck, settings

# No deadline: an example takes as long as a busy machine takes.
settings.register_profile(
    "plumbline", max_examples=60, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("plumbline")

# Settings of the tests themselves, not of a service.
_KEPT = {"PLUMBLINE_TEST_POSTGRES_URL"}


def pytest_collection_finish() -> None:
    """Have the garbage collector pass over all that was imported, as services do: parties look for garbage often."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """A developer's own PLUMBLINE_ variables must not change what is tested."""
    for name in list(os.environ):
        if name.startswith("PLUMBLINE_") and name not in _KEPT:
            monkeypatch.delenv(name)
