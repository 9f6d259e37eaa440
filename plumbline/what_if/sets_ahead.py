"""How far a search among sets of columns is, over all that it measures, so that a forecast holds."""

from collections.abc import Callable

from plumbline.job_progress import RunProgress


class SetsAhead:
    """Counts the sets that were measured, and those still to come at most.

    What was promised only shrinks, as a search finds that it needs fewer steps: a bar of it never goes back. Where more
    are measured than were promised, all that is behind and at work is.
    """

    def __init__(self, progress: RunProgress) -> None:
        self._progress = progress
        self._done = 0
        self._planned = 0

    def expect(self, sets: int) -> None:
        """So many sets are still to come, at most."""
        planned = self._done + sets
        self._planned = min(self._planned, planned) if self._planned else planned
        self._tell()

    def measuring(self, sets: int) -> Callable[[float], None]:
        """Take so many sets as at work; returns what is told which share of them is done."""
        begin = self._done
        self._planned = max(self._planned, begin + sets)

        def done(share: float) -> None:
            self._done = max(self._done, begin + round(share * sets))
            self._tell()

        return done

    def _tell(self) -> None:
        if self._planned:
            self._progress.at(self._done, self._planned)
