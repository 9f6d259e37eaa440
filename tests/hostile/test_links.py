"""A TCP proxy on each link cuts, delays, truncates, flips and swallows: no hang, no wrong result, the culprit named."""

import re
import time
from collections.abc import Iterator
from itertools import cycle, islice, product
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

from plumbline.federation import Federation, FederationFailed
from protos.v1 import active_pb2
from tests.harness.hostile import PARTIES, SEEDED, HonestJob, assert_sound, parties_folder, scores_of, trained
from tests.harness.processes import local_processes, weights_of
from tests.harness.proxy import Fault, ProxiedProcesses, Proxy

STEP_TIMEOUT = 3
# Retries of a connection, the end of the session at every party, and a machine that is shared.
GRACE = 30
TERMS = {"epochs": 3, "batch_size": 64}
FAULTS = (Fault.CUT, Fault.DELAY, Fault.TRUNCATE, Fault.FLIP, Fault.BLACK_HOLE)
# When each link has something to carry.
MOMENTS = {
    ("active", "coordinator"): ("agreeing", "predicting"),
    ("active", "passive"): ("aligning", "training", "predicting"),
    ("passive", "coordinator"): ("agreeing", "predicting"),
    ("passive", "active"): ("training",),
}


class Case(NamedTuple):
    """One fault on one link from one moment on."""

    caller: str
    callee: str
    fault: Fault
    moment: str


def cases() -> list[Case]:
    """Twenty: each link with each fault, the moments in turn."""
    turns = {link: cycle(moments) for link, moments in MOMENTS.items()}
    return [Case(*link, fault, next(turns[link])) for fault, link in product(FAULTS, MOMENTS)]


# One of each fault, over all links and moments.
QUICK_CASES = [cases()[index] for index in (1, 4, 11, 14, 18)]


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    plain = local_processes(tmp_path_factory.mktemp("federation"), **{**SEEDED, "step_timeout": STEP_TIMEOUT})
    with Federation.start(ProxiedProcesses(plain.folder, plain.settings)) as running:
        yield running
        assert_sound(running.processes)


@pytest.fixture(scope="module")
def undisturbed(federation: Federation) -> tuple[list[np.ndarray], pd.DataFrame]:
    """Weights and scores of a job with which nobody interferes."""
    return trained(federation, **TERMS), scores_of(federation)


def proxy_of(federation: Federation, case: Case) -> Proxy:
    processes = federation.processes
    assert isinstance(processes, ProxiedProcesses)
    return processes.proxies[case.caller, case.callee]


def assert_names_the_culprit(words: str, case: Case) -> None:
    """The link's other end is named as the one that doesn't answer, and nobody else is."""
    assert re.search(rf"\b{case.callee}\b", words), f"{case}: {words}"
    for innocent in {"coordinator", "active", "passive"} - {case.callee}:
        assert not re.search(rf"\b{innocent} (does|did) not answer", words), f"{case}: {words}"


def heal_and_train(federation: Federation, proxy: Proxy) -> list[np.ndarray]:
    """Mend the link, and train until it works again."""
    proxy.heal()
    deadline = time.monotonic() + GRACE
    while True:
        try:
            return trained(federation, **TERMS)
        except FederationFailed:
            assert time.monotonic() < deadline, "the link is mended, and no job succeeds"
            time.sleep(0.2)


def run_case(federation: Federation, case: Case, weights: list[np.ndarray], scores: pd.DataFrame) -> None:
    proxy = proxy_of(federation, case)
    if case.moment == "predicting":
        predict_case(federation, case, proxy, scores)
    else:
        train_case(federation, case, proxy, weights)
    for ours, expected in zip(heal_and_train(federation, proxy), weights, strict=True):
        np.testing.assert_array_equal(ours, expected)


def predict_case(federation: Federation, case: Case, proxy: Proxy, scores: pd.DataFrame) -> None:
    before = proxy.bytes_forwarded
    start = time.monotonic()
    proxy.strike(case.fault)
    try:
        answered = scores_of(federation)
    except FederationFailed as error:
        assert_names_the_culprit(str(error), case)
    else:
        pd.testing.assert_frame_equal(answered, scores, check_exact=True)
        assert proxy.bytes_forwarded > before, "nothing went through the link: it was not tried"
    assert time.monotonic() - start < STEP_TIMEOUT + GRACE


def train_case(federation: Federation, case: Case, proxy: Proxy, weights: list[np.ndarray]) -> None:
    struck: list[float] = []

    def strike(event: active_pb2.JobEvent) -> None:
        reached = event.stage == case.moment if case.moment != "training" else event.progress.steps_planned > 4
        if reached and not struck:
            struck.append(time.monotonic())
            proxy.strike(case.fault)

    job = StruckJob(federation, strike)
    try:
        found = job.result(STEP_TIMEOUT + GRACE + 30)
    except FederationFailed as error:
        assert_names_the_culprit(str(error), case)
    else:
        for ours, expected in zip(found, weights, strict=True):
            np.testing.assert_array_equal(ours, expected)
    assert struck, f"{case}: its moment never came"


class StruckJob(HonestJob):
    """An honest job that somebody watches who strikes at a moment of it."""

    def __init__(self, federation: Federation, strike: object) -> None:
        self._strike = strike
        super().__init__(federation, **TERMS)

    def _watch(self, event: active_pb2.JobEvent) -> None:
        super()._watch(event)
        self._strike(event)  # type: ignore[operator]


@pytest.mark.parametrize("case", QUICK_CASES, ids=lambda case: " ".join(map(str, case)))
def test_a_broken_link_ends_in_a_sentence_or_in_the_same_bits(
    federation: Federation, undisturbed: tuple[list[np.ndarray], pd.DataFrame], case: Case
) -> None:
    run_case(federation, case, *undisturbed)


@pytest.mark.hostile_long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("case", cases(), ids=lambda case: " ".join(map(str, case)))
def test_the_culprit_is_named_in_twenty_of_twenty(
    federation: Federation, undisturbed: tuple[list[np.ndarray], pd.DataFrame], case: Case
) -> None:
    run_case(federation, case, *undisturbed)


def test_the_cases_meet_every_link_fault_and_moment() -> None:
    assert len(set(cases())) == 20
    assert {case.moment for case in QUICK_CASES} == {"aligning", "agreeing", "training", "predicting"}
    assert {case.fault for case in QUICK_CASES} == set(FAULTS)
    assert len({(case.caller, case.callee) for case in QUICK_CASES}) == 4


def test_everything_passes_proxies(federation: Federation) -> None:
    trained(federation)
    scores_of(federation)
    for caller, callee in islice(MOMENTS, 4):
        assert proxy_of(federation, Case(caller, callee, Fault.NONE, "")).bytes_forwarded > 1000, (caller, callee)
    assert weights_of(parties_folder(federation.processes), PARTIES)
