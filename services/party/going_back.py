"""What lets a training go on after an interruption at one party: an anchored log, and how often it may."""

import threading
from contextlib import suppress

from services.common.errors import OutOfOrder
from services.common.state_folder import StateNotKept
from services.party.resumption import Resumption, check_interruptions, check_resumption
from services.party.training_means import TrainingMeans

# That any training may have, unless its owner says how many.
_FEWEST_INTERRUPTIONS = 8


class GoingBack:
    """A training's log, and what is checked before it goes back by it.

    Attributes:
        log: where the training is.
        most: interruptions after which it goes on.
    """

    def __init__(self, name: str, means: TrainingMeans, epochs: int) -> None:
        """Take a party's log; by default as many interruptions as a bad line may need, and one an epoch."""
        most = means.most_interruptions
        self.log = means.log
        self.most = max(_FEWEST_INTERRUPTIONS, epochs) if most is None else most
        self._name, self._anchor, self._anchoring = name, means.anchor, threading.Lock()

    def anchor(self) -> None:
        """Have what was answered known outside this party; raises OutOfOrder where an older copy was put back."""
        # In the order of its writes: one that is noted behind a later one would look like an older copy.
        with self._anchoring:
            if (mark := self.log.mark) is not None:
                self._anchor(mark)

    def check_waits(self, *, can_wait: bool) -> None:
        """Raise OutOfOrder, with why, for a training that can't go on after an interruption."""
        if not can_wait:
            why = "its steps are all taken, and weights are about to be opened: train again"
            if not self.log.is_kept:
                why = "it waits for nobody (PLUMBLINE_RESUME_WITHIN)"
            raise OutOfOrder(f"{self._name}'s training can't go on after an interruption: {why}.")

    def check(self, resumption: Resumption, asked_peers: frozenset[str], steps_per_epoch: int) -> None:
        """Refuse a place that this party can't go on from, having asked ``asked_peers``; raises OutOfOrder."""
        check_resumption(
            resumption,
            self.log.place(asked_peers),
            kept=self.log.steps_kept,
            steps_per_epoch=steps_per_epoch,
            skipped=len(self.log.skipped),
        )

    def check_often(self, by: str) -> None:
        """Refuse to go back once more than may be; raises OutOfOrder."""
        check_interruptions(self.log.interruptions, by, self.most)

    def forget(self) -> None:
        """Keep nothing of the training: it is over, or has ended."""
        with suppress(StateNotKept):  # it is in the log, and the next training tries again
            self.log.forget()
