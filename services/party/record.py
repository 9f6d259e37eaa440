"""What one party writes of a run, into its own folder: terms, timings, traffic, its own weights; no other's data."""

import json
import sys
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from services.common.agreement import Agreement
from services.common.meters import TrafficMeter
from vfl.arrays import FloatArray, IntArray


class RunRecord:
    """Collects and writes ``<folder>/<name>.json`` and ``<name>-weights.npz``; without a folder it only collects."""

    def __init__(self, folder: Path | None, name: str, meter: TrafficMeter) -> None:
        self._folder = folder
        self._name = name
        self._meter = meter
        self._lock = threading.Lock()
        self._content: dict[str, Any] = {}

    def begin(self, agreement: Agreement) -> None:
        """Start over with a new session's terms."""
        with self._lock:
            self._content = {"agreement": asdict(agreement), "steps": []}

    def add_step(self, step: int, seconds: dict[str, float]) -> None:
        """Add one step's seconds by stage."""
        with self._lock:
            self._content["steps"].append({"step": step, **seconds})

    def note(self, **facts: Any) -> None:
        """Add facts to the record, JSON-able ones."""
        with self._lock:
            self._content.update(facts)

    def finish(self, weights: FloatArray, feature_names: tuple[str, ...]) -> None:
        """Write the record and this party's own weights, one row per feature."""
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
            np.savez(self._folder / f"{self._name}-weights.npz", weights=weights, features=np.array(feature_names))
        self.write()

    def keep_features(
        self, features: FloatArray, feature_names: tuple[str, ...], labels: IntArray | None = None
    ) -> None:
        """Write this party's own encoded table, in the common order, for an auditor who may read its folder."""
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
            own = {"features": features, "names": np.array(feature_names)}
            if labels is not None:
                own["labels"] = labels
            with (self._folder / f"{self._name}-features.npz").open("wb") as file:
                np.savez(file, allow_pickle=False, **own)

    def write(self) -> None:
        """Write the record as it stands, with the traffic and peak memory so far."""
        if self._folder is None:
            return
        with self._lock:
            self._content["bytes_by_message"] = self._meter.snapshot()
            self._content["peak_memory_bytes"] = _peak_memory_bytes()
            text = json.dumps(self._content, indent=1)
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / f"{self._name}.json").write_text(text)


def _peak_memory_bytes() -> int:
    """The largest resident size of this process so far; the system counts it in kilobytes, macOS in bytes."""
    import resource  # Windows has none

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
