"""Sessions that have begun at a coordinator, and partial scores for them."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from defences import NoiseSource, ScoreDefence
from services.common.agreement import Agreement, PartyDescription
from services.common.identity import Identity, Role
from services.coordinator.sessions import Sessions
from tests.harness.exchanges import SMALL_PLAN
from tests.harness.parties import ACTIVE, PASSIVE
from vfl.arrays import FloatArray

SECOND = Identity(Role.PASSIVE, "passive-2")


def begun(
    defences: Sequence[ScoreDefence],
    *,
    classes: int = 2,
    passive: Sequence[Identity] = (PASSIVE,),
    noise: NoiseSource | None = None,
    installed: bool = False,
) -> tuple[Sessions, Agreement]:
    """A session that all have joined."""
    sessions = Sessions(5, defences, noise)
    plan = SMALL_PLAN.changed(learner="installed") if installed else SMALL_PLAN
    session_id = sessions.open(ACTIVE, plan, classes, tuple(party.name for party in passive))
    with ThreadPoolExecutor() as threads:
        joining = [
            threads.submit(sessions.join, caller, session_id, PartyDescription(caller.name, 3, 0, False, 100))
            for caller in (ACTIVE, *passive)
        ]
    return sessions, joining[0].result()


def shares(rows: int = 5, columns: int = 1, seed: int = 0) -> FloatArray:
    return np.random.default_rng(seed).normal(size=(rows, columns))
