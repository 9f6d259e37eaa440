"""What all tests share: a clean set of PLUMBLINE_ variables, and one profile of Hypothesis."""

import gc
import os
import sys
from collections.abc import Iterator
from functools import cache

import pytest
from hypothesis import HealthCheck, settings

from tests.harness.warm import Forker

# No deadline: an example takes as long as a busy machine takes.
settings.register_profile(
    "plumbline", max_examples=60, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("plumbline")

# One for all tests of a worker; it ends with them.
_forker = cache(Forker)

# Settings of the tests themselves, not of a service.
_KEPT = {"PLUMBLINE_TEST_POSTGRES_URL"}


def pytest_collection_finish() -> None:
    _freeze()


@pytest.fixture(scope="module", autouse=True)
def _heap_stays_small() -> Iterator[None]:
    """What a module imported and keeps slows down no later one."""
    yield
    _freeze()


def _freeze() -> None:
    """Have the garbage collector pass over all that is there, as services do: parties look for garbage often."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """A developer's own PLUMBLINE_ variables must not change what is tested."""
    for name in list(os.environ):
        if name.startswith("PLUMBLINE_") and name not in _KEPT:
            monkeypatch.delenv(name)


@pytest.fixture(scope="module", autouse=True)
def _warm_services(request: pytest.FixtureRequest) -> Iterator[None]:
    """Have federations of processes start in no time, but where a module is ``COLD``: it looks at how they start."""
    # Imported where processes are started, if at all.
    processes = sys.modules.get("plumbline.processes")
    if processes is None or sys.platform != "linux" or getattr(request.module, "COLD", False):
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes, "launch", lambda *args, **named: _forker()(*args, **named))
        yield
