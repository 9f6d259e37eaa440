"""What a party saw of a network's training in one place: the view that it would have in a federation (SIMULATION)."""

import numpy as np

from attacks.training_views import Equations, Forwarded, OwnStep, TrainingView
from vfl.learning import BatchSchedule, VerticalData
from vfl.learning.network import Network, ReferenceTraining


def network_view(
    run: ReferenceTraining, learner: Network, data: VerticalData, party: int, schedule: BatchSchedule
) -> TrainingView:
    """Make the view of a party, an index into the data's blocks; peers are named party-0, party-1, and so on.

    Args:
        run: the training.
        learner: what was trained; how its backward signal travels decides what a passive party reads of it.
        data: that it was trained on.
        party: whose view it is; 0 has the labels.
        schedule: its batches.
    """
    peers = [index for index in range(len(data.blocks)) if index != party]
    features, equations = data.blocks[party], list[Equations]()
    # Where weights are shared, a passive party is sent uniform numbers and can't tell its own products.
    is_blind = bool(party) and learner.backward == "shared"
    for step in run.seen if party and not is_blind else ():
        # What is read in the clear are equations as well: each number is one.
        matrix = np.eye(len(step.rows)) if learner.backward == "plain" else features[step.rows]
        equations.append(Equations(step.step, "party-0", step.rows, matrix, matrix.T @ step.sent))
    return TrainingView(
        role="passive" if party else "active",
        features=features,
        steps=tuple(OwnStep(one.step, one.rows, (not is_blind) * one.products[party]) for one in run.seen),
        equations=tuple(equations),
        peer_features={f"party-{index}": data.blocks[index].shape[1] for index in peers},
        label_party="party-0" if party else None,
        learner=learner,
        classes=data.classes,
        batch_size=schedule.batch_size,
        labels=None if party else data.labels,
        label_party_bias=True,
        forwarded=()
        if party
        else tuple(Forwarded(one.step, one.rows, one.forwarded, one.backward) for one in run.seen),
        steps_per_epoch=schedule.steps_per_epoch,
    )
