"""``plumbline bench predict``: records a second in bulk, and how long one record takes where requests keep coming."""

import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from plumbline.bench.federations.made_tables import TableShape, started
from plumbline.bench.repetition import WrongResult, timed
from plumbline.bench.result import Cell, Progress, Result, ResultTable, Spread, columns_of, command_of, silent
from plumbline.federation import Federation

_MILLISECONDS = 1e3
# Requests of one record that may be open at once: more than ever are, unless answers take a tenth of a second.
_OPEN_REQUESTS = 32
_WARM_UP = 20
# Sums of one record and of many may differ in their last digit.
_SAME = 1e-12


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
    rate: int = 200
    seconds: float = 5.0


def measure_serving(asked: ServingAsked, progress: Progress = silent) -> Result:
    """Train a federation, then ask for scores.

    Raises WrongResult where a record has another score alone than in bulk, or none, FederationFailed when the
    federation fails.
    """
    # How a model was trained is nothing to who asks it.
    settings = {
        "cipher": "plain",
        "epochs": 1,
        "batch_size": min(4096, asked.records // 2),
        "seed": 1,
        "test_fraction": 0.01,
    }
    settings |= {"validation_fraction": 0.0, "step_timeout": 600}
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
    begin = time.perf_counter() + 0.05
    with ThreadPoolExecutor(_OPEN_REQUESTS) as pool:
        futures = []
        for number, record in enumerate(wanted):
            due = begin + number / asked.rate
            time.sleep(max(0.0, due - time.perf_counter()))
            futures.append(pool.submit(_latency, federation, record, due, known[record]))
        latencies = [future.result() for future in futures]
    return ResultTable(
        "alone",
        f"One record, {asked.rate} requests a second for {asked.seconds:g} s",
        columns_of(requests="requests", p50="p50, ms", p99="p99, ms", longest="longest, ms", ratio="p99 / p50"),
        (_latency_row(latencies),),
        ("From when a request was due to its scores.",),
    )


def _latency(federation: Federation, record: str, due: float, expected: float) -> float:
    score = next(iter(federation.predict_one(record).values()))
    took = time.perf_counter() - due
    if abs(score - expected) > _SAME:
        raise WrongResult(f"A record's score alone isn't that in bulk ({score} and {expected}).")
    return took


def _latency_row(latencies: Sequence[float]) -> dict[str, Cell]:
    p50, p99 = (float(np.quantile(latencies, share)) * _MILLISECONDS for share in (0.5, 0.99))
    return {
        "requests": len(latencies),
        "p50": p50,
        "p99": p99,
        "longest": max(latencies) * _MILLISECONDS,
        "ratio": p99 / p50,
    }
