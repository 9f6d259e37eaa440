"""The coordinator's process."""

from typing import cast

from defences import ScoreDefence
from protos.v1 import coordinator_pb2_grpc
from services.common.applied_defences import load_defences, noise_source
from services.common.identity import Role
from services.common.settings import Settings
from services.common.state_folder import open_state, secret_of
from services.coordinator import servicer
from services.coordinator.sessions import Sessions
from services.network.bootstrap import make_transport, serve_until_stopped
from services.network.health import Held
from services.watching.audit_log import log_of


def run(settings: Settings) -> None:
    """Serve the coordinator until it is stopped."""
    transport = make_transport(settings, Role.COORDINATOR)
    score_defences = cast(tuple[ScoreDefence, ...], load_defences(settings, Role.COORDINATOR))
    state = open_state(settings.state_dir, transport.identity)
    sessions = Sessions(settings.step_timeout, score_defences, noise_source(settings, secret_of(state)), state)
    transport.tally.write_to(log_of(state))
    handler = servicer.CoordinatorServicer(sessions, transport.tally)
    try:
        serve_until_stopped(
            transport,
            settings,
            [lambda server: coordinator_pb2_grpc.add_CoordinatorServicer_to_server(handler, server)],
            servicer.PERMISSIONS,
            [servicer.SERVICE_NAME],
            held=Held(sessions.holds_session, sessions.holds_model),
        )
    finally:
        sessions.close()
