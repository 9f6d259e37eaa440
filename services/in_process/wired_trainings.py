"""The trainings of one session's parties, wired to each other, with a thread for each."""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

from services.common.agreement import Agreement
from services.common.meters import StageTimer
from services.in_process.direct_peers import DirectPeer
from services.party.party_training import PartyTraining
from services.party.training_means import TrainingMeans
from vfl.arrays import IntArray
from vfl.data import GriddedFeatures

Through = Callable[[str, DirectPeer], Any]


@contextmanager
def wired_trainings(
    agreement: Agreement,
    features: Mapping[str, GriddedFeatures],
    labels: IntArray,
    means: Callable[[str], Mapping[str, Any]],
    *,
    through: Through | None = None,
    trained_labels: IntArray | None = None,
) -> Iterator[dict[str, PartyTraining]]:
    """Begin every party's part of a session; they are made one after the other.

    Args:
        agreement: the session's terms.
        features: each party's, in the common order, the label party's first.
        labels: (aligned rows,) class indices.
        means: of a party's `TrainingMeans` its generator, its timeout and whatever isn't a default.
        through: puts something between a sender and a peer of its; None for nothing.
        trained_labels: what is trained on in place of the labels; None for these.
    """
    trainings: dict[str, PartyTraining] = {}

    def peer(sender: str, receiver: str) -> Any:
        direct = DirectPeer(sender, lambda _: trainings[receiver].exchange)
        return direct if through is None else through(sender, direct)

    with ExitStack() as stack:
        for name, gridded in features.items():
            peers = {other: peer(name, other) for other in features if other != name}
            executor = stack.enter_context(ThreadPoolExecutor(thread_name_prefix=name))
            party_means = TrainingMeans(peers, executor=executor, **means(name))
            own = (labels, trained_labels) if name == agreement.active.name else (None, None)
            trainings[name] = PartyTraining(agreement, name, gridded, own[0], party_means, trained_labels=own[1])
        yield trainings


def train_together(
    trainings: Mapping[str, PartyTraining], epochs: int, are_enough: Callable[[], bool] = lambda: False
) -> None:
    """Show keys, and run so many epochs, or fewer where after one they are enough; raises what any party raises."""
    for training in trainings.values():
        training.side.show_public_key()
    with ThreadPoolExecutor(len(trainings)) as threads:
        for epoch in range(epochs):
            running = [threads.submit(training.run_epoch, epoch, ignore_step) for training in trainings.values()]
            for done in running:
                done.result()
            if are_enough():
                break


def ignore_step(step: int, timer: StageTimer) -> None:
    """Watch nothing of a step."""
