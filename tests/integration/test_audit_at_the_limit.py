"""An audit looks at as many sessions as owners allow, and those that it makes are what a federation would have made."""

import io
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from plumbline.audit import further_sessions
from plumbline.audit.further_sessions import ClearSessions
from plumbline.audit.request import AuditRequest
from plumbline.audit.run import audited
from plumbline.audit.tables import JoinedTables
from plumbline.judge.lights import light_of
from services.common.identity import Role


def test_lights_are_of_the_limit_and_its_sessions_are_a_federations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The plan of a further session, which the audit's own session has for once.
    rate = 0.4
    request = AuditRequest.of(
        data="breast_cancer",
        attacks=("half_star",),
        runs=tmp_path,
        cipher="plain",
        settings={
            "epochs": 1,
            "batch_size": 32,
            "steps": "plain",
            "learning_rate": rate,
            "calibrated": False,
            "most_equations": 0.5,
        },
    )
    run, findings = audited(request, Console(file=io.StringIO()))
    parties = request.recipe(request.tables.party_settings).checked().parties
    agreement = findings.summary.agreement
    tables = JoinedTables(parties)

    monkeypatch.setattr(further_sessions, "_LARGE", 1.0)
    monkeypatch.setattr(further_sessions, "_step_size", lambda *_: rate)
    sessions = ClearSessions(tables, parties, agreement)
    again = sessions.trained(["passive"], np.random.default_rng(parties[Role.ACTIVE].private_seed))
    for models in (again, sessions.audited()[0]):
        for name in ("active", "passive"):
            trained = run.parties.weights(name).weights
            np.testing.assert_allclose(models[name].part.arrays()["weights"], trained, atol=1e-12)
    tested = run.parties.delivered_scores(agreement)
    np.testing.assert_allclose(sessions.scores(again, tested.rows), tested.scores, atol=1e-12)

    limit = findings.predictions.limit
    assert limit is not None
    assert [(one.features, one.equations, one.sessions) for one in limit.parties] == [(15, 7, 7)]
    together = [one for one in findings.predictions.attacks if one.sessions == 7]
    assert [one.level for one in together] == ["nothing", "marginals", "covariance"]
    assert all("SIMULATED: 6 of the 7 sessions" in one.notes[0] for one in together)
    lights = [(light_of(one.one_session), one.light) for one in findings.answer.columns]
    assert any(one != "red" and all_of_them == "red" for one, all_of_them in lights)
    assert sum(light == "red" for _, light in lights) > sum(light == "red" for light, _ in lights)
    assert findings.answer.sentence.startswith("After 7 sessions: if the passive party joins")


def test_a_session_of_steps_by_own_moments_is_trained_in_one_place_as_well(tmp_path: Path) -> None:
    settings = {"epochs": 4, "batch_size": 383, "steps": "own_moments"}
    request = AuditRequest.of(
        data="breast_cancer", attacks=("half_star",), runs=tmp_path, cipher="plain", settings=settings
    )
    run, findings = audited(request, Console(file=io.StringIO()))
    parties = request.recipe(request.tables.party_settings).checked().parties
    models, calibration = ClearSessions(JoinedTables(parties), parties, findings.summary.agreement).audited()
    record = run.parties.record("active").calibration
    assert record is not None
    assert calibration is not None
    assert calibration.slope == record.slope
    assert record.intercepts == pytest.approx(calibration.intercepts)
    for name in ("active", "passive"):
        trained = run.parties.weights(name).weights
        np.testing.assert_allclose(models[name].part.arrays()["weights"], trained, atol=1e-9)
