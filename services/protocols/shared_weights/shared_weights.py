"""Linear learners on shared weights: weights are opened to their owners at the end, or stay shared."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from services.common.agreement import Agreement, TrainingPlan
from services.common.costs import Cost, Operations
from services.common.errors import InvalidMessage
from services.common.exposure import Exposure, Guarded, GuardedParty
from services.party.side import SideSetting
from services.protocols.first_layer.first_layer import FirstLayer
from services.protocols.known_weights import KnownWeights
from services.protocols.shared.kept_shares import KeptShares
from services.protocols.shared.opening import guard_opening, opened_bits, stays_shared, validation_bits
from services.protocols.shared.serving_on_shares import WeightsOnShares
from services.protocols.shared.share_messages import Kind, MessageSizes
from services.protocols.shared.shared_serving import check_is_served_shared
from services.protocols.shared.shared_steps import SharedSteps
from services.protocols.shared.shared_terms import SharedTerms
from vfl.arrays import IntArray
from vfl.crypto.kernels.counts import product_cost
from vfl.learning import Learner


@dataclass(frozen=True)
class SharedWeights(KeptShares):
    """Training on shared weights of learners whose parties all send residuals."""

    def of(self, learner: Learner) -> KeptShares:
        """Share the first layer of a learner that forwards one, all weights of others."""
        return FirstLayer(self.serving, self.opening_bits) if learner.spec.forwards else self

    def check(self, plan: TrainingPlan) -> None:
        """Refuse, besides, learners that don't train on shares, or have no loss to stop by."""
        super().check(plan)
        if plan.family.spec.senders != "all":
            raise InvalidMessage(f"The learner {plan.learner} doesn't train on shared weights: set protocol=hu.")
        if plan.patience and plan.calls.quadratic_loss(0.0, 2) is None:
            raise InvalidMessage(
                f"The learner {plan.learner} has no loss that protocol=shared could validate: set patience to 0."
            )

    def check_parties(self, plan: TrainingPlan, parties: int) -> None:
        """Refuse early stopping among more than two parties."""
        if plan.patience and parties > 2:
            raise InvalidMessage(
                f"protocol=shared validates between two parties, and these are {parties}: set patience to 0, or "
                "protocol=hu."
            )

    def conduct_refusal(self, attack: str, conduct: str) -> str:
        """Refuse, besides, what adds to shares of a first layer."""
        if conduct == "replaces_shares":
            return f"{attack} adds to shares of weights: only backward=shared has them."
        return super().conduct_refusal(attack, conduct)

    def deviation(self, agreement: Agreement, parties: Mapping[str, str]) -> str:
        """Say how many bits they are opened, and shown by validations."""
        shown_bits = validation_bits(agreement)
        validated = f". Validation losses have {shown_bits:,} more at most" if shown_bits else ""
        if stays_shared(agreement):
            return f"It is no more than scores tell of weights that it chose, for none are opened{validated}"
        opened = (f"{title} {opened_bits(agreement, name):,}" for name, title in parties.items())
        return f"It is no more than fits into opened weights, in bits: {', '.join(opened)}{validated}"

    def batches(self, agreement: Agreement) -> Iterator[IntArray]:
        """List batches of blocks, whose rows share ciphertexts."""
        schedule = SharedTerms(agreement).schedule
        numbers = (batch for epoch in range(agreement.plan.epochs) for batch in schedule.epoch(epoch))
        return (schedule.rows_of(batch) for batch in numbers)

    def served(self, agreement: Agreement) -> KnownWeights | WeightsOnShares:
        """Open weights, unless the plan or a party lets none be opened."""
        return WeightsOnShares(agreement) if stays_shared(agreement) else KnownWeights()

    def side(self, setting: SideSetting, first_step: int = 0) -> SharedSteps:
        """Make a party's side, with its columns turned where the learner turns them."""
        agreement = setting.agreement
        if stays_shared(agreement):
            check_is_served_shared(agreement.plan.family)
        turn = SharedTerms(agreement).made_turn(setting.own, setting.calls)
        self.check_defences(setting)
        cells = turn.cells(setting.gridded.values)
        return SharedSteps(agreement, setting.name, cells, setting.own, setting.means, turn, first_step)

    def guard(self, agreement: Agreement, party: GuardedParty) -> Guarded:
        """Weigh what is opened, and what validations tell."""
        return Guarded(guard_opening(agreement, party.name, party.labels, party.mode, party.opened))

    def cost(self, agreement: Agreement) -> Cost:
        """Count a training's operations: a party answers about its V of others, and about others' gradients.

        Each party encrypts its features before, and others keep them.

        Raises:
            InvalidMessage: where what is kept would fill a memory.
            PackingImpossible: where numbers don't fit a key.
        """
        terms, rows, outputs = SharedTerms(agreement), agreement.plan.batch_size, agreement.residual_columns
        sizes, names = MessageSizes(terms), [party.name for party in agreement.parties]
        sizes.check()
        forward, backward = outputs * terms.formats.ring, outputs * terms.formats.residual_bits
        blocks = terms.schedule.blocks_of_step(0)
        of_step = {}
        for name in names:
            owners, groups = terms.held_by(name), sum(terms.groups(peer.name) for peer in agreement.peers_of(name))
            products = sum(blocks * product_cost(terms.columns(owner), forward, forward) for owner in owners)
            products += groups * product_cost(rows, backward, backward)
            of_step[name] = Operations(0, products, outputs * (blocks * len(owners) + groups))
        return Cost(
            of_step,
            {name: Operations(sum(sizes.features(kind, name) for kind in (Kind.ROWS, Kind.BLOCKS))) for name in names},
            {name: sizes.kept_bytes(name) for name in names},
        )

    def exposures(self, agreement: Agreement) -> tuple[Exposure, ...]:
        """Count nothing in a step: what is opened, once."""
        active, *passive = agreement.parties
        shown_bits = validation_bits(agreement)
        other_features = sum(party.feature_count for party in passive)
        if stays_shared(agreement):
            return tuple(
                self._unopened(agreement, party.name, shown_bits, other_features) for party in agreement.parties
            )
        return tuple(
            Exposure(
                party=party.name,
                owner="" if party is active else active.name,
                received=(
                    f"{shown_bits:,} bits of validation losses at most, and " if party is active and shown_bits else ""
                )
                + f"its own weights, once, when training is over: {opened_bits(agreement, party.name):,} bits; before, "
                "uniform numbers",
                about="the other parties' features of one record" if party is active else f"{active.name}'s labels",
                equations=party.feature_count * agreement.residual_columns,
                unknowns=other_features if party is active else agreement.training_rows,
                since="When weights are opened: they say what a model of these columns says, and to who has sent other "
                "messages than the protocol's as many bits as they have.",
                possible=True,
                bits=opened_bits(agreement, party.name) + (shown_bits if party is active else 0),
            )
            for party in agreement.parties
        )

    @staticmethod
    def _unopened(agreement: Agreement, party: str, shown_bits: int, other_features: int) -> Exposure:
        """Count what a party is shown of weights that stay shared: losses of validations, at the label party."""
        is_active = party == agreement.active.name
        losses = shown_bits if is_active else 0
        return Exposure(
            party=party,
            owner="" if is_active else agreement.active.name,
            received=f"{losses:,} bits of validation losses at most, and uniform numbers"
            if losses
            else "uniform numbers",
            about="the other parties' features of one record" if is_active else f"{agreement.active.name}'s labels",
            equations=0,
            unknowns=other_features if is_active else agreement.training_rows,
            since="From the first validation, to who has sent other messages than the protocol's: so many bits."
            if losses
            else "Never: weights stay shared, and none are opened.",
            possible=losses > 0,
            bits=losses,
        )
