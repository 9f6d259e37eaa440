"""Messages that have nothing to do with whom they are about: a session's own, put to other records, or uniform numbers.

What a passive party is sent in training are sums over records of a carrier: the label party's residuals, or a network's
backward signal. Here one permutation of the training records takes each record's whole trajectory, of all steps, to
another record, and the sums are made again; of trees its leaves in all of them. Own columns, labels, batches and known
labels stay. So does all that isn't about a record: how large sums are, how they move, how they agree from step to step.
Where weights are shared, the protocol's messages are uniform, and drawn as such. Carriers are those of the plan,
trained in the clear from the parties' own tables (SIMULATION); the party's weights follow from what it is sent.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from attacks.training.network_views import network_view
from attacks.training.tree_views import tree_view
from attacks.training_views import Equations, OwnStep, TrainingView, simulated_view
from services.common.agreement import Agreement
from vfl.arrays import FloatArray, IntArray
from vfl.learning import VerticalData, initial_weights
from vfl.learning.learner import Forward, LearnerError, OwnData, Send, TrainingColumns
from vfl.learning.linear.regression import LinearRegression
from vfl.learning.network import Network, train_network
from vfl.learning.trees.boosted_trees import BoostedTrees
from vfl.theory.training import simulate_oracle


@dataclass(frozen=True, eq=False)
class ClearSession:
    """A plan's training in the clear, as one passive party sees it.

    Attributes:
        view: the party's.
        carriers: by peer and step, what the party's sums are sums of, (s, columns); empty where nothing is sent.
        agreement: the session's terms.
        train: (m,) the records that are trained on, in the view's order.
    """

    view: TrainingView
    carriers: Mapping[tuple[str, int], FloatArray]
    agreement: Agreement
    train: IntArray

    def with_known(self, labels: IntArray) -> "ClearSession":
        """Give the party labels that it knows beforehand: (n,) class indices, -1 elsewhere."""
        return replace(self, view=replace(self.view, known_labels=labels))


def clear_session(
    agreement: Agreement,
    blocks: Sequence[FloatArray],
    labels: IntArray,
    party: int,
    train: IntArray,
    generator: np.random.Generator,
) -> ClearSession:
    """Train a plan in the clear, for one passive party to look at.

    Args:
        agreement: the session's terms.
        blocks: per party its features, (n, d_j), the label party's first.
        labels: (n,) class indices.
        party: whose view it is, an index into the blocks.
        train: which records are trained on.
        generator: draws start weights.

    Raises:
        LearnerError: for a learner other than ``linear``, ``network`` and ``boosted_trees``.
    """
    plan, family = agreement.plan, agreement.plan.family
    schedule = plan.of_size(plan.epochs, min(plan.batch_size or len(train), len(train))).schedule(train)
    data = VerticalData(blocks, labels, agreement.classes)
    if isinstance(family, Network):
        trained = train_network(family, data, schedule, epochs=plan.epochs, generators=generator.spawn(len(blocks)))
        view = network_view(trained, family, data, party, schedule)
        carriers = {("party-0", one.step): one.sent for one in trained.seen} if view.equations else {}
        return ClearSession(view, carriers, agreement, train)
    if isinstance(family, BoostedTrees):
        return ClearSession(tree_view(family, data, party, train, plan.seed), {}, agreement, train)
    if not isinstance(family, LinearRegression):
        raise LearnerError("Sessions that train linear, network or boosted_trees are repeated in the clear.")
    columns, total = family.columns(agreement.classes), sum(block.shape[1] for block in blocks)
    weights = [
        initial_weights(family.initialisation, block.shape[1], columns, total_features=total, generator=generator)
        for block in blocks
    ]
    descent = family.in_one_place(schedule, plan.epochs, len(blocks))
    spared = [np.zeros(block.shape[1], dtype=np.bool_) for block in blocks]
    spared[0][-1] = True  # the label party's bias
    run = simulate_oracle(
        data, weights, descent, share_step=plan.encryption.residual_step, l2=family.l2, unpenalised=spared
    )
    view = simulated_view(run, party, initialisation=family.initialisation, label_party_bias=True)
    view = replace(view, learner=family, steps_per_epoch=schedule.steps_per_epoch)
    carriers = {
        (f"party-{peer}", number): step.shares[peer]
        for number, step in enumerate(run.steps)
        for peer in range(len(blocks))
        if peer != party
    }
    return ClearSession(view, carriers, agreement, train)


class RedrawnMessages:
    """Draws what a party would have seen, had its messages been about other records."""

    def __init__(self, session: ClearSession) -> None:
        """Take a session, and lay its carriers out by epoch and record, once for all draws."""
        self._session, view = session, session.view
        peers = dict.fromkeys(peer for peer, _ in session.carriers)
        self._epochs = [own.step // (view.steps_per_epoch or len(view.steps)) for own in view.steps]
        self._places = np.empty(view.n, dtype=np.int64)
        self._places[session.train] = np.arange(len(session.train))
        width = next(iter(session.carriers.values())).shape[1] if session.carriers else 0
        self._carried = {peer: np.zeros((self._epochs[-1] + 1, len(session.train), width)) for peer in peers}
        for peer, carried in self._carried.items():
            for step, epoch in zip(view.steps, self._epochs, strict=True):
                carried[epoch, self._places[step.rows]] = session.carriers[peer, step.step]
        first = view.steps[0]
        # Of weights that no column tells of, nothing shows in what follows.
        features = view.features[first.rows]
        if getattr(session.agreement.plan.family, "steps", "plain") == "own_moments":
            features = features - features.mean(axis=0)  # as shares are sent
        self._start = np.asarray(np.linalg.lstsq(features, first.share, rcond=None)[0], np.float64)

    def draw(self, generator: np.random.Generator) -> TrainingView:
        """Make the view of one draw: records whose labels are known, and all others, are permuted among themselves."""
        view, agreement = self._session.view, self._session.agreement
        owner = self._permutation(generator)
        if view.leaves is not None:
            leaves, train = view.leaves.copy(), self._session.train
            leaves[train] = view.leaves[train[owner]]
            return replace(view, leaves=leaves)
        sent = {
            (peer, own.step): carried[epoch, owner[self._places[own.rows]]]
            for peer, carried in self._carried.items()
            for own, epoch in zip(view.steps, self._epochs, strict=True)
        }
        steps, weights = self._replayed(sent)
        if not agreement.plan.training.sends_sums:
            return self._uniform(weights, generator)
        equations = tuple(replace(one, sums=one.matrix.T @ sent[one.peer, one.step]) for one in view.equations)
        return replace(view, steps=tuple(steps), equations=equations)

    def _permutation(self, generator: np.random.Generator) -> IntArray:
        """Draw whose trajectory each training record gets."""
        owner, known_labels = np.arange(len(self._session.train)), self._session.view.known_labels
        is_known = (
            np.zeros(len(owner), dtype=np.bool_) if known_labels is None else known_labels[self._session.train] >= 0
        )
        for group in (np.flatnonzero(is_known), np.flatnonzero(~is_known)):
            owner[group] = generator.permutation(group)
        return owner

    def _replayed(self, sent: Mapping[tuple[str, int], FloatArray]) -> tuple[list[OwnStep], FloatArray]:
        """Train the party's own half on what it is sent: its share of every step, and its weights at the end."""
        view, family = self._session.view, self._session.agreement.plan.family
        if not self._carried:
            return list(view.steps), self._start
        half = family.begin(
            OwnData(
                features=view.features.shape[1],
                labels=None,
                classes=view.classes,
                total_features=view.features.shape[1] + sum(view.peer_features.values()),
                generator=np.random.default_rng(0),
                parties=1 + len(view.peer_features),
                trained=TrainingColumns(view.features, self._session.train),
            )
        )
        half.weights = self._start.copy()
        steps = []
        for step in view.steps:
            features, program = view.features[step.rows], half.step(step.rows)
            request, share = next(program), step.share
            sums: FloatArray = features.T @ np.sum([sent[peer, step.step] for peer in self._carried], axis=0)
            try:
                while True:
                    if isinstance(request, Forward):
                        share = features @ request.weights
                        request = program.send(share)
                    elif isinstance(request, Send):
                        share, sums = request.values, sums + features.T @ request.values
                        request = program.send(None)
                    else:
                        request = program.send(sums)
            except StopIteration:
                steps.append(OwnStep(step.step, step.rows, share))
        last: FloatArray = half.weights
        return steps, last

    def _uniform(self, weights: FloatArray, generator: np.random.Generator) -> TrainingView:
        """Make what shared weights leave a party to try: uniform shares of sums, and the weights that are opened."""
        view, knows_weights = self._session.view, self._session.agreement.serving.tells_owners
        weights = weights if knows_weights else generator.uniform(-1, 1, (view.features.shape[1], view.columns))
        steps = tuple(OwnStep(own.step, own.rows, view.features[own.rows] @ weights) for own in view.steps)
        equations = tuple(
            Equations(own.step, str(peer), own.rows, own_rows, generator.uniform(-1, 1, weights.shape) * len(own.rows))
            for own in view.steps
            for own_rows in (view.features[own.rows],)
            for peer in self._carried or (view.label_party,)
        )
        return replace(view, steps=steps, equations=equations, knows_own_weights=knows_weights)
