"""An audit's federation in one place, SIMULATED: no process, no message, and the files that its parties would write.

It trains in the clear, on the same records, batches and start weights. Attacks see what they would see, of a linear
model's session those on predictions alone, and the judge reads what they found as it reads a run.
"""

from collections.abc import Iterator
from dataclasses import replace

from plumbline.audit.clear_trees import ClearTrees
from plumbline.audit.federating import auxiliary_rows, prepared
from plumbline.audit.folder import AuditFolder
from plumbline.audit.further_sessions import ClearSessions, attack_at_the_limit, logged_to
from plumbline.audit.plan import ClearPlan, expected_agreement
from plumbline.audit.tables import JoinedTables
from plumbline.job_progress import RunProgress
from services.active.server import known_beforehand
from services.adversary.load import load_attacks
from services.adversary.predictions import AttackHost, spread
from services.common.identity import Role
from services.common.meters import TrafficMeter
from services.common.run_records import DeliveredScores
from services.party.calibrating import calibration_record
from services.party.party_model import PartyModel
from services.party.record import RunRecord
from vfl.crypto.ciphers import IN_THE_CLEAR
from vfl.learning.calibration import Calibration
from vfl.learning.linear.regression import LinearRegression
from vfl.learning.trees.boosted_trees import BoostedTrees

# Stages of defences that change what is trained, in ways that nothing here draws again.
_IN_TRAINING = {"residuals", "labelled_residuals", "hidden", "updates", "training"}


def obstacles(plan: ClearPlan) -> Iterator[str]:
    """Say, in sentences, why a federation can't be simulated so that its numbers are those of a real one."""
    federation, terms = plan.request.federation, plan.recipe.parties[Role.ACTIVE].plan()
    grows = grows_trees(plan)
    if federation.hidden is not None:
        yield "its network was trained in the lab"
    elif reason := terms.training.unsimulated:
        yield reason
    elif not (grows or isinstance(terms.family, LinearRegression)):
        yield f"it trains {terms.learner}, and only linear models and boosted trees are trained in one place"
    changing = _IN_TRAINING if grows else {"labels", *_IN_TRAINING}
    if names := [one.name for one in plan.recipe.defences if changing & set(one.spec.stages)]:
        yield f"{' and '.join(names)} changes what is trained"
    if not (grows or plan.request.adversary.attacks_predictions):
        yield "it has no attack on predictions"


def grows_trees(plan: ClearPlan) -> bool:
    """Tell whether a federation grows boosted trees."""
    return isinstance(plan.recipe.parties[Role.ACTIVE].plan().family, BoostedTrees)


def run_in_one_place(plan: ClearPlan, tables: JoinedTables, run: AuditFolder) -> None:
    """Train, predict and attack; the run's folder has then what parties would have written of it.

    Raises:
        ValueError: where the adversary's knowledge can't be prepared as asked, or terms can't be.
    """
    agreement = expected_agreement(plan.recipe, tables, is_trained=True)
    agreement = replace(agreement, plan=agreement.plan.changed(cipher=IN_THE_CLEAR))
    parties, grows = prepared(plan, tables, run), grows_trees(plan)
    auxiliary = auxiliary_rows(tables, plan.request.adversary.auxiliary, trained=grows)
    sessions = (ClearTrees if grows else ClearSessions)(tables, parties, agreement)
    run.logs.mkdir()
    with logged_to(run.logs / "auditor.log"):
        models, calibration = sessions.audited()
        rows = tables.split.test
        answers = sessions.scores(models, rows)
        scores = models[Role.ACTIVE].scores_of(answers, len(rows))
        _write(sessions, models, calibration, tables, run, DeliveredScores(rows, scores, tables.labels[rows]))
        settings = parties[Role.ACTIVE]
        moments = known_beforehand(settings).moments
        knowledge = sessions.knowledge(models, auxiliary if len(auxiliary) else None, moments)
        places = spread(len(rows), settings.attacked_records or len(rows))
        host_attacks, _ = load_attacks(settings.attacks, settings.attack_options, Role.ACTIVE)
        AttackHost(host_attacks, run.parties.path).attack(
            knowledge, *knowledge.unknown_of(rows[places].tolist(), answers[places])
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
    for name, model in models.items():
        is_active, data = name == Role.ACTIVE, tables.data[name]
        aligned = sessions.aligned[name] if is_active else tables.aligned[name]
        record = RunRecord(run.parties.path, name, TrafficMeter())
        record.begin(sessions.agreement, aligned.columns, data.table)
        if is_active:
            calibrated = calibration_record(sessions.agreement, calibration)
            record.note(class_names=tables.class_names, transport="insecure", calibration=calibrated)
        record.keep_features(aligned.truth, aligned.gridded, tables.labels if is_active else None)
        record.finish(model.own_part, tested if is_active else None)
