"""Metrics of a process, as text and as numbers."""

import re
import urllib.request
from pathlib import Path

import prometheus_client
from prometheus_client.parser import text_string_to_metric_families

from services.watching.exposition import Metrics

Labels = tuple[tuple[str, str], ...]


def exposed(metrics: Metrics) -> str:
    """What a scrape would read."""
    return prometheus_client.generate_latest(metrics.registry).decode()


def samples(text: str) -> dict[str, dict[Labels, float]]:
    """The numbers of an exposition by name, then by their labels in order."""
    found: dict[str, dict[Labels, float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return found


def scraped(log: Path) -> str:
    """The metrics of a process that serves them, at the port that its log names last."""
    port = re.findall(r"Metrics are served on port (\d+)", log.read_text())[-1]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text: str = answer.read().decode()
    return text
