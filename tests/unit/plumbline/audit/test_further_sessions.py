"""Further sessions in the clear: the same for the same seed, other equations for each, and what bounds their cost."""

from pathlib import Path

import numpy as np
import pytest

from plumbline.audit import further_sessions
from plumbline.audit.further_sessions import ClearSessions
from plumbline.audit.plan import expected_agreement, labels_of, session_limit
from plumbline.audit.request import AuditRequest
from plumbline.audit.tables import JoinedTables
from services.common.agreement import Agreement, PartyDescription, TrainingPlan
from services.common.run_files import parsed
from services.common.session_limit import AskedParty
from vfl.arrays import FloatArray

REQUEST = AuditRequest.of(data="breast_cancer", attacks=("half_star",), cipher="plain")


@pytest.fixture(scope="module")
def sessions() -> ClearSessions:
    recipe = REQUEST.recipe(REQUEST.tables.party_settings).checked()
    tables = JoinedTables(recipe.parties)
    return ClearSessions(tables, recipe.parties, expected_agreement(recipe, tables, is_trained=True))


def equation(sessions: ClearSessions, seed: int) -> FloatArray:
    models = sessions.trained(["passive"], np.random.default_rng(seed))
    column: FloatArray = models["passive"].part.arrays()["weights"][:, 0]
    return column


def test_sessions_repeat_by_their_seed_and_each_is_another_equation(sessions: ClearSessions) -> None:
    np.testing.assert_array_equal(equation(sessions, 3), equation(sessions, 3))
    equations = np.stack([equation(sessions, seed) for seed in range(7)])
    # Far beyond what rounding of scores hides.
    assert np.linalg.svd(equations, compute_uv=False)[-1] > 1e-3


def test_training_records_are_bounded(sessions: ClearSessions, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(sessions.training_rows) == len(sessions._tables.split.train)
    monkeypatch.setattr(further_sessions, "MOST_RECORDS", 50)
    few = ClearSessions(sessions._tables, sessions._settings, sessions.agreement)
    assert len(few.training_rows) == 50
    assert set(few.training_rows) <= set(sessions.training_rows)


def test_a_session_sees_what_a_black_box_shows(sessions: ClearSessions) -> None:
    models, rows = sessions.trained(["passive"], np.random.default_rng(0)), np.arange(9)
    seen = sessions.seen(models, rows, np.arange(20, 30))
    assert seen.weights_passive is not None
    assert seen.auxiliary is not None
    assert (seen.n, seen.d, len(seen.auxiliary.scores)) == (9, 15, 10)
    hidden = {name: one.model_copy(update={"disclose": False}) for name, one in sessions._settings.items()}
    assert ClearSessions(sessions._tables, hidden, sessions.agreement).seen(models, rows, None).weights_passive is None


def terms(classes: int, *features: int, **plan: object) -> Agreement:
    names = ["active", *(f"passive-{number}" for number in range(1, len(features)))]
    parties = tuple(PartyDescription(name, count, 0, False, 50) for name, count in zip(names, features, strict=True))
    return Agreement("0" * 32, TrainingPlan().changed(**plan), classes, parties)


@pytest.mark.parametrize(
    ("classes", "features", "share", "equations", "sessions"),
    [
        (2, 15, 0.5, 7, 7),
        (3, 6, 0.5, 3, 1),
        (3, 8, 0.5, 4, 2),
        (10, 4, 0.5, 2, 1),
        (2, 1, 0.1, 1, 1),
        (2, 15, 1, 15, 15),
    ],
)
def test_the_limit_in_sessions(classes: int, features: int, share: float, equations: int, sessions: int) -> None:
    limit = session_limit(terms(classes, 3, features), share)
    assert [(one.equations, one.sessions) for one in limit.parties] == [(equations, sessions)]
    found = labels_of((), ("nothing", "marginals"), limit)
    assert [options["prior"] for _, options in found.values()] == (["half", "mean"] if sessions > 1 else [])


def test_a_limit_that_an_earlier_run_recorded_is_read() -> None:
    recorded = {"name": "clinic", "features": 15, "forms": 7, "sessions": 7}
    assert parsed(AskedParty, recorded, Path("sessions.json")) == AskedParty("clinic", 15, 7, 7)


def test_an_installed_model_is_the_same_in_every_session() -> None:
    limit = session_limit(terms(2, 3, 15, learner="installed"), 0.5)
    assert limit.reason is not None
    assert labels_of((), ("nothing",), limit) == {}


def test_each_passive_party_has_a_limit_of_its_own() -> None:
    limit = session_limit(terms(2, 3, 4, 10), 0.5)
    assert [one.sessions for one in limit.parties] == [2, 5]
    assert limit.sessions == 5
