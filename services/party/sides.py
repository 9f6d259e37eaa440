"""Which side a party has of a session: the one place that asks which protocol it is."""

from dataclasses import replace

from services.common.errors import InvalidMessage
from services.party.resumption import Resumption
from services.party.side import Side, SideSetting
from services.protocols.hu.gradient_side import GradientSide
from services.shared_layer.layer_steps import LayerSteps
from services.shared_weights.opening import stays_shared
from services.shared_weights.shared_serving import check_is_served_shared
from services.shared_weights.shared_steps import SharedMeans, SharedSteps
from services.shared_weights.shared_terms import SharedTerms
from services.shared_weights.turned_columns import Turn


def begin_side(setting: SideSetting, first_step: int = 0) -> Side:
    """Make a party's side of a session.

    Args:
        setting: the session.
        first_step: the first that is taken. Those before were taken under other keys, and weights are to be set.

    Raises:
        InvalidMessage: for terms, or defences, that it can't work with.
        LearnerFailed: when the learner can't work with this data.
    """
    if not setting.agreement.plan.shares_weights:
        return GradientSide(setting)
    return _sharing(setting, first_step)


def resumed_side(setting: SideSetting, side: Side, resumption: Resumption) -> Side:
    """Make the side that goes on after an interruption, under new keys; raises as ``begin_side`` does.

    The one before stays as it is.
    """
    if isinstance(side, GradientSide):
        return side.resumed(resumption)
    return begin_side(setting, resumption.step)


def _sharing(setting: SideSetting, first_step: int) -> Side:
    agreement, name, means = setting.agreement, setting.name, setting.means
    if means.defences.changes_residuals:
        names = ", ".join(means.defences.names)
        raise InvalidMessage(f"{name}: protocol=shared sends no residuals for {names} to protect.")
    if means.defences.changes_hidden:
        raise InvalidMessage(
            f"{name}: under protocol=shared no party knows what it forwards of a network, so that "
            f"{', '.join(means.defences.names)} can't protect it: drop it, or train with backward=paillier."
        )
    if stays_shared(agreement):
        check_is_served_shared(agreement.plan.family)
    turn = Turn.made(SharedTerms(agreement), setting.own, setting.calls)
    features = setting.gridded.values
    cells = turn.cells(features)
    shared = SharedMeans(
        means.share_peers,
        means.engine,
        means.timeout,
        means.executor,
        means.ledger,
        means.others(agreement, name, cells),
        means.observer,
        turn=turn,
    )
    if not agreement.plan.family.spec.forwards:
        return SharedSteps.begin(agreement, name, cells, setting.own, shared, first_step)
    shared = replace(shared, chosen=means.chosen(agreement, features))
    return LayerSteps.begin(agreement, name, features, setting.own, shared, means.observer, first_step)
