"""What a call costs another process: its peak memory and its time."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

MEGABYTE = 1 << 20


@dataclass(frozen=True)
class Cost:
    """Attributes:
    seconds: until the call came back.
    growth: bytes that the process had beyond what it had before, at its peak.
    """

    seconds: float
    growth: int


def cost_of(process: int, call: Callable[[], object]) -> Cost:
    """Run a call and measure what it costs the process of this id. Linux only."""
    status = Path(f"/proc/{process}/status")
    if not status.exists():
        pytest.skip("needs /proc of Linux")
    # 5: the peak is the present size from here on.
    Path(f"/proc/{process}/clear_refs").write_text("5")
    before, start = _bytes(status, "VmRSS"), time.monotonic()
    call()
    return Cost(time.monotonic() - start, _bytes(status, "VmHWM") - before)


def _bytes(status: Path, field: str) -> int:
    line = next(line for line in status.read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) * 1024
