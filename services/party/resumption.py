"""Where an interrupted training goes on: what each party tells of how far it is, and what follows for all.

A party completes a step only when every other one has sent its residuals of it, and these follow the step before. So no
two are more than a step apart. They go on from the lowest. Who is ahead computes nothing again: it sends the residuals
of that step once more, answers what it was not asked yet, and takes up its own weights behind it.

A step is answered once. Whoever still has its question asks the same again, and gets the same answer. Where it was
answered and the question, with its mask, is lost, all pass over the step with the weights that they had before it. Who
had gone on from it gives up the weights behind it, of which it may have sent the next step: all pass over that as well.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from services.common.errors import OutOfOrder

# That an interruption can leave open: the lowest step, and the one that those ahead are at.
MOST_STEPS = 2
# Far more than any owner allows, and fewer than a message has room for.
MOST_TRIES = 1 << 20


@dataclass(frozen=True)
class Place:
    """How far one party is.

    Attributes:
        completed: steps that it has completed.
        answered: whose sums it has answered, by step, of the last two.
        asked: of whom it still has its own question of the next step.
        skipped: steps of the last two, and of those behind them, that it has passed over or has agreed to.
        attempt: how often it has gone on after an interruption, as the others count.
    """

    completed: int
    answered: Mapping[int, frozenset[str]] = field(default_factory=dict)
    asked: frozenset[str] = frozenset()
    skipped: frozenset[int] = frozenset()
    attempt: int = 0

    def gives_up(self, step: int) -> bool:
        """Tell whether passing over a step takes weights from this party that it has gone on with."""
        return self.completed > step and step not in self.skipped


@dataclass(frozen=True)
class Resumption:
    """Where one party goes on.

    Attributes:
        step: the first step that is done again.
        skipped: of that and the next one, those which nobody does.
        answered_by: who has answered this party's question of the next step that it does.
        attempt: the number of this try, from 1: larger than that of any before.
    """

    step: int
    skipped: frozenset[int] = frozenset()
    answered_by: frozenset[str] = frozenset()
    attempt: int = 1


def resumptions(places: Mapping[str, Place]) -> dict[str, Resumption]:
    """Tell where each party, given where it is, goes on, by name.

    Raises:
        OutOfOrder: for parties that can't all have been in one training: one has an older state, or says so.
    """
    step = min(place.completed for place in places.values())
    ahead = [name for name, place in places.items() if place.completed > step + 1]
    if ahead:
        behind = [name for name, place in places.items() if place.completed == step]
        raise OutOfOrder(
            f"{' and '.join(behind)} has completed {step} steps of this training and {' and '.join(ahead)} more than "
            f"{step + 1}, which no interruption explains: an older state was put back. Train again."
        )
    answered_by = {
        name: frozenset(other for other, its in places.items() if name in its.answered.get(place.completed, ()))
        for name, place in places.items()
    }
    skipped = {at for place in places.values() for at in place.skipped if at >= step}
    skipped |= {place.completed for name, place in places.items() if answered_by[name] - place.asked}
    if step in skipped and any(place.gives_up(step) for place in places.values()):
        skipped.add(step + 1)
    attempt = max(place.attempt for place in places.values()) + 1
    if attempt > MOST_TRIES:
        raise OutOfOrder(f"No training has {attempt} tries: a party says something else than where it is. Train again.")
    return {name: Resumption(step, frozenset(skipped), answered_by[name], attempt) for name in places}


def check_resumption(
    resumption: Resumption, place: Place, *, kept: Collection[int], steps_per_epoch: int, skipped: int
) -> None:
    """Refuse what another party says of where to go on, as far as this one can tell.

    Args:
        resumption: what it says.
        place: where this party is.
        kept: after how many steps it has weights to go on from.
        steps_per_epoch: of the session.
        skipped: steps that this party has passed over so far, in all.

    Raises:
        OutOfOrder: for a try that has been, and a step that this party can't go on from. For more skipped steps than
            may be: where weights stand still for an epoch, its answers and the next one's are about the same
            residuals, and add up. For a step that was passed over and is to be done, and where a step would be sent
            of two weights.
    """
    if resumption.attempt <= place.attempt:
        raise OutOfOrder(
            f"This party is in try {place.attempt} of this training, and is told to begin try {resumption.attempt}: "
            "run one release of Plumbline everywhere, and stop the training before it goes on."
        )
    if not place.completed - 1 <= resumption.step <= place.completed or resumption.step not in kept:
        raise OutOfOrder(
            f"This party has completed {place.completed} steps and can go on from step {' or '.join(map(str, kept))}: "
            f"it can't go on from step {resumption.step}. Train again."
        )
    if not resumption.skipped <= {resumption.step, resumption.step + 1}:
        raise OutOfOrder("Only the step at which a training goes on, and the one behind it, can be passed over.")
    due = {at for at in place.skipped if at >= resumption.step}
    if resumption.step in resumption.skipped and place.gives_up(resumption.step):
        # It may have sent the step behind already, of weights that it gives up.
        due.add(resumption.step + 1)
    if not due <= resumption.skipped:
        raise OutOfOrder("A step that was to be passed over can't be done: train again.")
    new = len(resumption.skipped - place.skipped)
    if new and skipped + new >= steps_per_epoch:
        raise OutOfOrder(
            f"{skipped + new} steps of this training would be passed over, as many as an epoch has: what was answered "
            "about standing weights would add up. Train again."
        )


def check_interruptions(counts: Mapping[str, int], by: str, most: int) -> None:
    """Refuse to go back once more; raises OutOfOrder with the name of who has had this party do so, and how often.

    Args:
        counts: how often it has gone on after an interruption, by who had it go back.
        by: who has it go back now.
        most: how often it may.
    """
    if sum(counts.values()) >= most:
        raise OutOfOrder(
            f"This training was interrupted {sum(counts.values())} times, {counts.get(by, 0)} of them by {by}, and "
            f"goes on after no more than {most} (PLUMBLINE_MOST_INTERRUPTIONS). Find out what cuts {by} off, and train "
            "again."
        )
