"""Waiting for what several parties do at once."""

from collections.abc import Iterable
from concurrent.futures import Future, wait


def first_failure(futures: Iterable[Future[None]]) -> None:
    """Wait for all; raise the first error among them."""
    futures = list(futures)
    wait(futures)
    for future in futures:
        future.result()
