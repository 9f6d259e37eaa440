"""Tasks of sweeps that can be watched from outside: each leaves a line in a file when it computes."""

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

TASKS = "tests.harness.sweep_tasks"


def squared(_: Any, *, number: int, log: str) -> Mapping[str, Any]:
    """Square a number, and note it."""
    _note(log, number)
    return {"square": number**2, "third": number / 3, "nothing": float("nan"), "all": [number, float("inf")]}


def slowly(_: Any, *, number: int, log: str, seconds: float) -> Mapping[str, Any]:
    """Square a number after a while, and note it."""
    time.sleep(seconds)
    _note(log, number)
    return {"square": number**2}


def refusing(_: Any, *, number: int, log: str) -> Mapping[str, Any]:
    """Fail for odd numbers."""
    _note(log, number)
    if number % 2:
        raise ArithmeticError(f"{number} is odd.")
    return {"half": number // 2}


def deadly(_: Any, *, number: int, log: str, last: int) -> Mapping[str, Any]:
    """End the process for one number, as a crash in native code does."""
    _note(log, number)
    if number == last:
        os._exit(3)
    return {"number": number}


def talking(_: Any) -> Mapping[str, Any]:
    """Print, as a plugin under development does."""
    sys.stdout.write("a plugin talks\n")
    return {"said": 1}


def described(on: Any) -> Mapping[str, Any]:
    """Say what of a model travels."""
    return {"weights": on.weights, "rows": len(on.features)}


def noted(log: Path) -> list[int]:
    """List the numbers that were computed, in order."""
    return [int(line) for line in log.read_text().split()] if log.exists() else []


def _note(log: str, number: int) -> None:
    # One write of an appended line: processes don't mix theirs.
    with Path(log).open("a") as file:
        file.write(f"{number}\n")
