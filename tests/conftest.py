"""What all tests share: clean PLUMBLINE_ variables, profiles of Hypothesis, one browser, and what tests cost."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

import plumbline  # noqa: F401 - before any module imports gRPC, whose own lines it silences
from tests.harness.audited import shared_folder
from tests.harness.chromium import chromium_of
from tests.harness.costs import Costs
from tests.harness.pages import CHROMIUM
from tests.harness.skips import skipped_without_torch
from tests.harness.warm import Forker

# No deadline: an example takes as long as a busy machine takes. The same ones in each run: a change fails by itself.
settings.register_profile(
    "plumbline",
    max_examples=20,
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
# `make thorough` asks for it by --hypothesis-profile, and draws others each time.
settings.register_profile("thorough", settings.get_profile("plumbline"), max_examples=200, derandomize=False)
# Whether a property can be tried at all with other libraries: `make platforms`.
settings.register_profile("few", settings.get_profile("plumbline"), max_examples=5)
settings.load_profile("plumbline")

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# One for all tests of a worker; it ends with them.
_forker = cache(Forker)

# Settings of the tests themselves, not of a service.
_KEPT = {"PLUMBLINE_TEST_POSTGRES_URL"}


def pytest_addoption(parser: pytest.Parser) -> None:
    """What `make` asks for besides pytest's own options."""
    parser.addoption("--costs", type=Path, metavar="FILE", help="where to write what each test takes, and print it")


def pytest_configure(config: pytest.Config) -> None:
    if config.option.costs is not None:
        config.pluginmanager.register(Costs(config.option.costs))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for line in skipped_without_torch(terminalreporter.stats.get("skipped", [])):
        terminalreporter.write_line(line)


def pytest_collection_finish() -> None:
    _freeze()


# Not for the session: as long as it runs, tests of this process couldn't start an event loop of their own.
@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """The run's one headless Chromium, which ends with the run."""
    if CHROMIUM is None:
        pytest.skip("no Chromium here: install the package chromium")
    pytest.importorskip("playwright.sync_api", reason="no Playwright here: install the extra dev")
    with chromium_of(shared_folder(tmp_path_factory)) as chromium:
        yield chromium


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
