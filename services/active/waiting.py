"""Waiting for what several parties do at once."""

from collections.abc import Iterable
from concurrent.futures import FIRST_EXCEPTION, Future, wait


def first_failure(futures: Iterable[Future[None]]) -> None:
    """Wait for all, or for the first that fails: its error is raised, and nobody waits for the others."""
    futures = list(futures)
    wait(futures, return_when=FIRST_EXCEPTION)
    for future in futures:
        if future.done():
            future.result()
