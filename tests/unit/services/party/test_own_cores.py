"""The cores of a party follow its settings, and its arithmetic follows its cores."""

import logging

import pytest

from services.ciphers.arithmetic import EngineArithmetic, arithmetic_of
from services.common.settings import settings_of
from services.party import own_cores as module
from services.party.own_cores import own_cores
from vfl.cores import OneCore, ProcessCores, ThreadCores
from vfl.crypto.kernels import best_kernel


@pytest.mark.parametrize(("workers", "available", "count"), [(1, 8, 1), (3, 1, 3), (None, 5, 5), (None, 4000, 256)])
def test_settings_come_before_what_the_machine_has(
    monkeypatch: pytest.MonkeyPatch, workers: int | None, available: int, count: int
) -> None:
    monkeypatch.setattr(module, "available_cores", lambda: available)
    cores = own_cores(settings_of({"workers": workers}))
    assert (cores.count, type(cores)) == (count, OneCore if count == 1 else ProcessCores)
    cores.close()


def test_the_log_says_what_computes_and_on_how_many_cores(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        arithmetic_of(settings_of({"kernel": "portable"}), OneCore())
    assert caplog.messages[-1] == "Arithmetic: portable; 1 core."


@pytest.mark.parametrize("kernel", ["portable", "auto"])
def test_a_kernel_gets_the_cores_that_make_it_faster(kernel: str) -> None:
    processes = own_cores(settings_of({"workers": 2}))
    arithmetic = arithmetic_of(settings_of({"kernel": kernel}), processes)
    assert isinstance(arithmetic, EngineArithmetic)
    engine = arithmetic.engine
    assert engine.cores.count == 2
    if engine.kernel.releases_gil:
        assert isinstance(engine.cores, ThreadCores)
    else:
        assert engine.cores is processes
    assert kernel == "portable" or engine.kernel.name == best_kernel().name
    engine.cores.close()
    processes.close()
