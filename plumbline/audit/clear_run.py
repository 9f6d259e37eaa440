"""An audit's federation in one place, SIMULATED: no process, no message, and the files that its parties would write.

It trains in the clear, on the same records, batches and start weights. Attacks on predictions see what they would see,
and the judge reads what they found as it reads a run.
"""

from collections.abc import Iterator
from dataclasses import replace

from plumbline.audit.federating import auxiliary_rows, write_knowledge
from plumbline.audit.folder import AuditFolder
from plumbline.audit.further_sessions import ClearSessions, attack_at_the_limit, logged_to
from plumbline.audit.plan import ClearPlan, expected_agreement
from plumbline.audit.tables import JoinedTables
from plumbline.job_progress import RunProgress
from services.adversary.load import load_attacks
from services.adversary.predictions import AttackHost, spread
from services.adversary.prior_knowledge import read_moments
from services.common.identity import Role
from services.common.meters import TrafficMeter
from services.common.run_records import DeliveredScores
from services.party.calibrating import calibration_record
from services.party.party_model import PartyModel
from services.party.record import RunRecord
from vfl.crypto.ciphers import IN_THE_CLEAR
from vfl.learning.calibration import Calibration
from vfl.learning.linear.regression import LinearRegression

# Stages of defences that change what is trained, in ways that nothing here draws again.
_IN_TRAINING = {"labels", "residuals", "labelled_residuals", "hidden", "updates", "training"}


def obstacles(plan: ClearPlan) -> Iterator[str]:
    """Say, in sentences, why a federation can't be simulated so that its numbers are those of a real one."""
    federation, terms = plan.request.federation, plan.recipe.parties[Role.ACTIVE].plan()
    if federation.hidden is not None:
        yield "its network was trained in the lab"
    elif reason := terms.training.unsimulated:
        yield reason
    elif not isinstance(terms.family, LinearRegression):
        yield f"it trains {terms.learner}, and only linear models are trained in one place"
    if names := [one.name for one in plan.recipe.defences if _IN_TRAINING & set(one.spec.stages)]:
        yield f"{' and '.join(names)} changes what is trained"
    if not plan.request.adversary.attacks_predictions:
        yield "it has no attack on predictions"


def run_in_one_place(plan: ClearPlan, tables: JoinedTables, run: AuditFolder) -> None:
    """Train, predict and attack; the run's folder has then what parties would have written of it.

    Raises:
        ValueError: where the adversary's knowledge can't be prepared as asked, or terms can't be.
    """
    agreement = expected_agreement(plan.recipe, tables, is_trained=True)
    agreement = replace(agreement, plan=agreement.plan.changed(cipher=IN_THE_CLEAR))
    sessions = ClearSessions(tables, plan.recipe.parties, agreement)
    models, calibration = sessions.audited()
    settings = plan.recipe.parties[Role.ACTIVE]
    rows = tables.split.test
    scores = sessions.scores(models, rows)
    _write(sessions, models, calibration, tables, run, DeliveredScores(rows, scores, tables.labels[rows]))
    auxiliary = auxiliary_rows(tables, plan.request.adversary.auxiliary)
    write_knowledge(tables, run, len(auxiliary))
    knowledge = sessions.knowledge(models, auxiliary if len(auxiliary) else None, read_moments(run.prior_knowledge))
    places = spread(len(rows), settings.attacked_records or len(rows))
    host_attacks, _ = load_attacks(settings.attacks, settings.attack_options, Role.ACTIVE)
    run.logs.mkdir()
    with logged_to(run.logs / "auditor.log"):
        AttackHost(host_attacks, run.parties.path).attack(
            knowledge, *knowledge.unknown_of(rows[places].tolist(), scores[places])
        )
    attack_at_the_limit(plan, tables, run, RunProgress())


def _write(
    sessions: ClearSessions,
    models: dict[str, PartyModel],
    calibration: Calibration | None,
    tables: JoinedTables,
    run: AuditFolder,
    tested: DeliveredScores,
) -> None:
    """Write each party's record, features and part, as its service does."""
    plan = sessions.agreement.plan
    for name, model in models.items():
        is_active = name == Role.ACTIVE
        data = replace(tables.data[name], has_bias=True) if is_active else tables.data[name]
        aligned = data.aligned(tables.aligned[name].rows, plan) if is_active else tables.aligned[name]
        record = RunRecord(run.parties.path, name, TrafficMeter())
        record.begin(sessions.agreement, aligned.columns, data.table)
        if is_active:
            calibrated = calibration_record(sessions.agreement, calibration)
            record.note(class_names=tables.class_names, transport="insecure", calibration=calibrated)
        record.keep_features(aligned.truth, aligned.gridded, tables.labels if is_active else None)
        record.finish(model.part, tested if is_active else None)
