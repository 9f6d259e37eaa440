"""One party's side of a training protocol: it answers what a learner's half asks for. Knows no session, no network."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from defences import TrainingTerms
from services.common.agreement import Agreement
from services.common.learner_calls import LearnerCalls
from services.common.meters import StageTimer
from services.party.training_means import TrainingMeans
from services.party.turned_columns import Turn
from vfl.arrays import IntArray
from vfl.data import GriddedFeatures
from vfl.learning import Ask, BatchSchedule, BlockSchedule, Half, OwnData, Part
from vfl.learning.learner import Request


class StepAnswers(Protocol):
    """What the requests of one step are answered with."""

    @property
    def rows(self) -> IntArray:
        """Rows of the common order, which the learner's step is of."""

    @property
    def timer(self) -> StageTimer:
        """Where the step's time goes."""

    @property
    def is_passed_over(self) -> bool:
        """Whether sums aren't asked for: nobody does the step, or this party has done it before."""

    def answer(self, request: Request) -> Any:
        """Answer a request; None for what is only sent."""

    def pass_over(self) -> None:
        """Wait for what the others send, and take the weights that were kept."""

    def finish(self) -> None:
        """Wait for what is on its way, once the learner has nothing more to ask."""


class Side(Protocol):
    """One party's side of a session.

    Attributes:
        half: the party's half of the learner.
        exchange: the party's messages.
        goes_back_anew: whether what was sent behind a step that is gone back to is of no use to anybody.
        counts_redone: whether a step that is begun again shows the label party products of weights it has a share in.
        left_range: whether numbers came near what the protocol holds, beyond which they are others.
        turn: how the party's columns are turned before they are shared.
        sent_step: the grid of what this party sends in a step; None where nobody could read it.
        has_ended: whether training has ended here, so that nothing is gone back to.
        validated_loss: of the epoch that was validated last, at the label party; None where scores tell it.
    """

    half: Half
    goes_back_anew: bool
    counts_redone: bool
    left_range: bool
    turn: Turn
    has_ended: bool
    sent_step: float | None
    validated_loss: float | None

    @property
    def exchange(self) -> Any:
        """The party's messages, an `Inbox`."""

    @property
    def schedule(self) -> BatchSchedule | BlockSchedule:
        """The public order of batches."""

    @property
    def weights(self) -> Any:
        """The weights as they stand, or this party's shares of them: what to go on from."""

    @property
    def part(self) -> Part | None:
        """The party's part of the model as it stands; None while no party has one."""

    def show_public_key(self) -> None:
        """Send this party's public key to those who need it."""

    def begin_epoch(self) -> None:
        """Do what comes before the first step, if it wasn't done; keys are shown before."""

    def step(self, step: int, batch: IntArray) -> AbstractContextManager[StepAnswers]:
        """Begin a step, from 0. Leaving by an error leaves nothing that a peer could take for the step's next try."""

    def complete_step(self, step: int) -> None:
        """Let peers go on behind a step. What follows from it is kept before."""

    def end_epoch(self, epoch: int) -> None:
        """Do what an epoch's end takes: a validation without scores, or the end of training."""

    def must_end(self, step: int) -> bool:
        """Tell whether after so many steps only the end is left, which nobody goes back from."""

    def keep(self, epoch: int) -> None:
        """End training by the weights after an epoch, where that wasn't done; raises PeerVanished."""

    def asked(self) -> frozenset[str]:
        """Name the peers of whom this party still has its own question of the next step, when nothing is on its way."""


@dataclass(frozen=True, eq=False)
class SideSetting:
    """What a side is made of.

    Attributes:
        agreement: the session's public terms.
        name: the party's name in it.
        gridded: (aligned rows, d) features on the grids of their columns.
        train_rows: those of them that are trained on, in order.
        own: what the learner's half is begun with.
        means: what the party trains with.
        terms: public numbers that defences are told.
        calls: of the learner.
        anchor: has what was answered known outside this party, before it is given.
    """

    agreement: Agreement
    name: str
    gridded: GriddedFeatures
    train_rows: IntArray
    own: OwnData
    means: TrainingMeans
    terms: TrainingTerms
    calls: LearnerCalls
    anchor: Callable[[], None]


def run_step(side: Side, calls: LearnerCalls, step: int, batch: IntArray) -> StageTimer:
    """Run the learner's program of a step, answering what it asks for, in its order."""
    with side.step(step, batch) as answers:
        program = calls(lambda: side.half.step(answers.rows))
        request = calls.next_request(program)
        while request is not None and not (isinstance(request, Ask) and answers.is_passed_over):
            answer = answers.answer(request)
            with answers.timer.stage("update"):
                request = calls.next_request(program, answer)
        if request is not None:
            program.close()
            answers.pass_over()
        else:
            answers.finish()
    return answers.timer
