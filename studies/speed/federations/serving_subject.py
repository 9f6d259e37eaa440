"""``plumbline bench predict``: records a second in bulk, and how long one record takes where requests keep coming."""

import math
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from plumbline.federation import Federation, FederationFailed
from studies.speed.federations.made_tables import TableShape, started
from studies.speed.repetition import WrongResult, cpu_seconds, timed
from studies.speed.result import Cell, Progress, Result, ResultTable, Spread, columns_of, command_of, silent

_MILLISECONDS = 1e3
# Requests of one record that may be open at once: as many as a connection has streams.
_OPEN_REQUESTS = 64
_WARM_UP = 20


@dataclass(frozen=True)
class ServingAsked:
    """What is measured.

    Attributes:
        records: of one request in bulk, each party's whole table.
        columns: of each party.
        repetitions: of the request in bulk.
        rate: requests of one record a second.
        seconds: for how long these keep coming.
    """

    records: int = 100_000
    columns: int = 10
    repetitions: int = 3
    rate: int = 500
    seconds: float = 5.0


def measure_serving(asked: ServingAsked, progress: Progress = silent) -> Result:
    """Train a federation, then ask for scores.

    Raises WrongResult where a record has another score alone than in bulk, or none, FederationFailed when the
    federation fails.
    """
    # How a model was trained is nothing to who asks it.
    settings = {"cipher": "plain", "epochs": 1, "batch_size": min(4096, asked.records // 2), "seed": 1}
    settings |= {"test_fraction": 0.01, "validation_fraction": 0.0, "step_timeout": 600}
    progress(f"a federation of {asked.records:,} records")
    with (
        tempfile.TemporaryDirectory(prefix="plumbline-bench-") as folder,
        started(TableShape(asked.records, asked.columns), Path(folder), settings) as federation,
    ):
        federation.train()
        progress("records in bulk")
        bulk, known = _bulk(asked, federation)
        progress(f"{asked.rate} requests a second")
        alone = _alone(asked, federation, known)
    command = command_of("predict", asked, ("records", "rate", "repetitions"), ("columns", "seconds"))
    return Result("predict", command, (bulk, alone))


def _ids(count: int) -> list[str]:
    return [f"r{row:07}" for row in range(count)]


def _bulk(asked: ServingAsked, federation: Federation) -> tuple[ResultTable, dict[str, float]]:
    """Scores of all records by one request; one class's score of each record."""
    ids = _ids(asked.records)
    federation.predict(ids[:_WARM_UP])
    seconds = list[float]()
    for _ in range(asked.repetitions):
        took, scores = timed(lambda: federation.predict(ids), time.perf_counter)
        seconds.append(took)
        if (scores["error"] != "").any() or list(scores.index) != ids:
            raise WrongResult("Some records got no score: the time of the others means nothing.")
    row: dict[str, Cell] = {
        "records": asked.records,
        "columns": asked.columns,
        "seconds": Spread.of(seconds),
        "rate": Spread.of([asked.records / one for one in seconds]),
    }
    table = ResultTable(
        "bulk",
        "Records in bulk, asked of three processes",
        columns_of(records="records", columns="columns of each party", seconds="s", rate="records/s"),
        (row,),
        ("From the request to a data frame of all scores, by the clock.",),
    )
    return table, dict(zip(ids, scores.iloc[:, 0].tolist(), strict=True))


def _alone(asked: ServingAsked, federation: Federation, known: dict[str, float]) -> ResultTable:
    """Latencies of single records, counted from when each request was due, so that no delay hides another."""
    draw = np.random.default_rng(3)
    for one in _ids(_WARM_UP):
        federation.predict_one(one)
    count = round(asked.rate * asked.seconds)
    wanted = [f"r{row:07}" for row in draw.integers(asked.records, size=count)]
    cpu = _services_cpu(federation)
    begin = time.perf_counter() + 0.05
    with ThreadPoolExecutor(_OPEN_REQUESTS) as pool:
        futures = []
        for number, record in enumerate(wanted):
            due = begin + number / asked.rate
            time.sleep(max(0.0, due - time.perf_counter()))
            futures.append(pool.submit(_latency, federation, record, due, known[record]))
        answers = [future.result() for future in futures]
    cpu = _services_cpu(federation) - cpu
    latencies = [one for one in answers if one is not None]
    if not latencies:
        raise WrongResult("No single record was answered: there is no time to tell.")
    in_time = sum(number / asked.rate + one <= asked.seconds for number, one in enumerate(answers) if one is not None)
    p50, p99 = (float(np.quantile(latencies, share)) * _MILLISECONDS for share in (0.5, 0.99))
    row: dict[str, Cell] = {
        "requests": count,
        "served": in_time / asked.seconds,
        "refused": count - len(latencies),
        "p50": p50,
        "p99": p99,
        "longest": max(latencies) * _MILLISECONDS,
        "ratio": p99 / p50,
        "cpu": None if math.isnan(cpu) else cpu / len(latencies) * _MILLISECONDS,
    }
    return ResultTable(
        "alone",
        f"One record, {asked.rate} requests a second for {asked.seconds:g} s",
        columns_of(
            requests="requests",
            served="answered, 1/s",
            refused="refused",
            p50="p50, ms",
            p99="p99, ms",
            longest="longest, ms",
            ratio="p99 / p50",
            cpu="CPU of the three services, ms a record",
        ),
        (row,),
        (
            "From when a request was due to its scores. Answered: while requests were coming, a second. "
            f"At most {_OPEN_REQUESTS} requests are open at once, as over one connection.",
        ),
    )


def _latency(federation: Federation, record: str, due: float, expected: float) -> float | None:
    """Seconds from when a record was due to its scores; None where it is refused."""
    try:
        score = next(iter(federation.predict_one(record).values()))
    except FederationFailed:
        return None
    took = time.perf_counter() - due
    if score != expected:
        raise WrongResult(f"A record's score alone isn't that in bulk ({score} and {expected}).")
    return took


def _services_cpu(federation: Federation) -> float:
    """Processor seconds of the three services so far; NaN where the system doesn't say."""
    processes = federation.processes
    try:
        return sum(cpu_seconds(processes.process(name).pid) for name in processes.settings)
    except OSError:
        return math.nan
