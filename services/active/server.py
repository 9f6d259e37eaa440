"""The active party as a process."""

import logging
from collections.abc import Callable
from functools import partial

import grpc

from protos.v1 import active_pb2_grpc
from services.active import servicer
from services.active.party import ActiveParty
from services.active.passive_link import PassiveLink
from services.active.progress import LogObserver
from services.adversary.knowledge import PriorKnowledge
from services.adversary.load import load_attacks
from services.adversary.predictions import AttackHost
from services.adversary.prior_knowledge import read_moments
from services.adversary.training import TrainingAdversary
from services.common.agreement import TrainingPlan
from services.common.errors import is_expected, log_unexpected
from services.common.identity import Role
from services.common.settings import Settings
from services.network.health import Held
from services.party.server import prepare, serve
from vfl.data import load_table

_log = logging.getLogger(__name__)


def train_unasked(party: ActiveParty, plan: TrainingPlan, await_others: Callable[[], None]) -> None:
    """Train as soon as the others are there. Nobody waits for the outcome: the log tells it."""

    def work() -> None:
        await_others()
        party.train(plan, LogObserver())

    _unasked(work)


def _unasked(work: Callable[[], object]) -> None:
    try:
        work()
    except Exception as error:
        # The party has logged the sentence of an expected one, and keeps it for its operator.
        if not is_expected(error):
            log_unexpected(error)


def known_beforehand(settings: Settings) -> PriorKnowledge:
    """Read what the settings let this party's adversary know beforehand; raises ValueError for a broken file."""
    table, moments = settings.auxiliary, settings.prior_knowledge
    return PriorKnowledge(
        load_table(table, id_column=settings.id_column, label_column=None, limits=settings.table_limits)
        if table
        else None,
        read_moments(moments) if moments else None,
    )


def run(settings: Settings) -> None:
    """Load this party's table, then serve until stopped. Raises ValueError when the table can't be used."""
    on_predictions, in_training = load_attacks(settings.attacks, settings.attack_options, Role.ACTIVE)
    beforehand = known_beforehand(settings)
    moments = read_moments(settings.prior_knowledge, in_training=True) if settings.prior_knowledge else None
    adversary = partial(TrainingAdversary, in_training, known=beforehand.records, moments=moments)
    transport, channels, context = prepare(settings, Role.ACTIVE, adversary)
    party = ActiveParty(
        context,
        {peer: PassiveLink(peer, channels[peer], settings.step_timeout) for peer in settings.passive_peers()},
        AttackHost(on_predictions, settings.run_dir, context.record.lost),
        beforehand,
    )
    handler = servicer.ActiveServicer(party, settings.plan())

    def await_channels() -> None:
        for peer, channel in channels.items():
            _log.info("Waiting for %s.", peer)
            grpc.channel_ready_future(channel).result()

    def on_started() -> None:
        if party.is_interrupted:
            party.executor.submit(_unasked, party.go_on)
        elif settings.autostart and party.has_model:
            _log.info("A model is here from before: nothing is trained (autostart).")
        elif settings.autostart:
            party.executor.submit(train_unasked, party, settings.plan(), await_channels)

    serve(
        transport,
        context,
        party,
        (servicer, lambda server: active_pb2_grpc.add_ActiveServicer_to_server(handler, server)),
        # The last is asked for by operators: it takes a question to every other party.
        Held(party.holds_session, predictions=lambda: not party.obstacle()),
        on_started,
    )
