"""``--try-defences``: runs the candidate defences over the same tables, split and seeds, and measures what each leaves.

Every trial is a federation of its own, with the same attacks, whose adversaries know of the defence. It trains in the
clear: scores and gradients are those of a training under Paillier to its precision, in a fraction of the time. Only
where labels leaked to who replaces ciphertexts are there ciphertexts again, or else that leak could not be tried.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from defences import DefenceSpec
from defences.registry import candidates
from plumbline.audit.federating import run_federation
from plumbline.audit.folder import AuditFolder
from plumbline.audit.plan import AuditPlan, ClearPlan
from plumbline.audit.request import AuditRequest
from plumbline.audit.tables import JoinedTables
from plumbline.federation import FederationFailed
from plumbline.job_progress import RunProgress
from plumbline.judge.answer import listed
from plumbline.judge.federation_part import at
from plumbline.judge.findings import DefenceTrial, Findings, read_findings
from plumbline.judge.joining import stakes_of
from plumbline.judge.lights import is_open
from plumbline.judge.variant_results import VariantResult
from plumbline.processes import ProcessFailed
from services.common.durable import write_durably
from services.common.run_files import parsed, read_json
from vfl.crypto.ciphers import ENCRYPTED, IN_THE_CLEAR

Planned = TypeVar("Planned", AuditPlan, ClearPlan)

BLACK_BOX = "black box"
# Stages of defences that protect what protocol=hu sends.
_OF_MESSAGES = {"residuals", "labelled_residuals", "hidden", "answers", "updates"}
# Of these the ones that protect labels whatever is attacked.
_OF_LABELS = {"residuals", "labelled_residuals"}


@dataclass(frozen=True)
class Candidate:
    """Defences to try together on top of those that the request names.

    Attributes:
        defences: their names.
        options: by name, where they aren't the defaults.
        black_box: whether passive parties keep their parameters.
        terms: settings of training that aren't the audit's, such as its protocol.
    """

    defences: tuple[str, ...] = ()
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    black_box: bool = False
    terms: Mapping[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """What it is called."""
        terms = [f"{name}={value}" for name, value in self.terms.items()]
        return " + ".join((*terms, *([BLACK_BOX] if self.black_box else []), *self.defences))

    @property
    def chosen(self) -> dict[str, Any]:
        """Its options that aren't the defaults, by their own names."""
        return {name: value for options in self.options.values() for name, value in options.items()}

    def beside(self, other: "Candidate") -> "Candidate":
        """Put both together."""
        return Candidate(
            (*self.defences, *other.defences),
            {**self.options, **other.options},
            self.black_box or other.black_box,
            {**self.terms, **other.terms},
        )


def candidates_for(request: AuditRequest, findings: Findings) -> tuple[Candidate, ...]:
    """Choose what may stop what leaked: nothing where nothing did, and never what is in place already."""
    return _candidates(request, bool(exposed_columns(findings)), bool(exposed_labels(findings)))


def most_trials(request: AuditRequest) -> int:
    """Count the candidates that there can be, whatever will leak."""
    return max(len(_candidates(request, *leaks)) for leaks in ((True, False), (False, True), (True, True)))


def _candidates(request: AuditRequest, columns: bool, labels: bool) -> tuple[Candidate, ...]:
    specs = {
        name: spec
        for name, spec in candidates().items()
        if name not in request.federation.defences and _can_work(spec, request)
    }
    by_name = {
        name: Candidate((name,), {name: spec.tried_with} if spec.tried_with else {}) for name, spec in specs.items()
    }
    on_columns = [by_name[name] for name, spec in specs.items() if spec.stops == ("columns",)]
    on_columns = [*([] if request.adversary.black_box else [Candidate(black_box=True)]), *on_columns]
    on_labels = [name for name, spec in specs.items() if spec.stops == ("labels",)]
    federation = request.federation
    # A network's protocol follows from its way back, and its trials have that one's cipher.
    term = "backward" if federation.forwards else "protocol"
    can_share = federation.hidden is None and (federation.forwards or federation.cipher != IN_THE_CLEAR)
    sharing = [Candidate(terms={term: "shared"})] if can_share and federation.protocol != "shared" else []
    on_both = [by_name[name] for name, spec in specs.items() if len(spec.stops) > 1]
    if columns and labels:  # most defences stop either kind: it takes two
        stronger = [name for name in on_labels if _OF_LABELS & set(specs[name].stages)] or on_labels
        pairs = [one.beside(by_name[other]) for other in stronger for one in on_columns]
        # What it leaves of columns doesn't depend on the protocol: one pair shows that.
        shared = [one.beside(other) for other in sharing for one in on_columns[:1]]
        return (*sharing, *shared, *(pairs or on_columns), *on_both)
    if columns:
        return (*on_columns, *on_both)
    return (*sharing, *(by_name[name] for name in on_labels), *on_both) if labels else ()


def _can_work(spec: DefenceSpec, request: AuditRequest) -> bool:
    """Tell whether there is anything for a defence to protect."""
    stages = set(spec.stages)
    if request.federation.protocol == "shared" and stages & _OF_MESSAGES:  # nobody sends it
        return False
    if request.federation.forwards:  # what is forwarded is no score, and parameters are no class rows
        return not stages & {"scores", "parameters"} and "linear_model" not in spec.needs
    return "hidden_layer" not in spec.needs and not (request.adversary.black_box and spec.stages == ("parameters",))


def try_defences(
    plan: AuditPlan, tables: JoinedTables, run: AuditFolder, findings: Findings, progress: RunProgress
) -> tuple[DefenceTrial, ...]:
    """Run every candidate and write ``candidates.json``; nothing is run or written where nothing leaked.

    Args:
        plan: of the audit.
        tables: of all parties.
        run: the audit's folder; what parties write of a trial is deleted when it is judged.
        findings: what the audit found.
        progress: told which candidate is at work.
    """
    request, cipher = plan.request, cipher_of_trials(findings)
    trial_candidates = candidates_for(request, findings)
    trials: list[DefenceTrial] = []
    undefended = {findings.summary.agreement.plan.cipher: findings}
    if trial_candidates:
        progress.stage("trying defences", "trials")
    for number, candidate in enumerate(trial_candidates):
        progress.at(number, len(trial_candidates), candidate.title)
        under = ENCRYPTED if candidate.terms else cipher
        try:
            after = _tried(plan, candidate, tables, run, under)
            if under not in undefended:
                undefended[under] = _tried(plan, Candidate(), tables, run, under)
        except (ValueError, FederationFailed, ProcessFailed) as error:
            trials.append(DefenceTrial(candidate.title, candidate.chosen, cipher=under, reason=_sentence(error)))
        else:
            trials.append(judged_trial(candidate.title, candidate.chosen, findings, after, undefended[under]))
        # Each time: what was measured stays when the run is stopped.
        write_durably(run.trials, json.dumps([asdict(one) for one in trials], indent=1).encode())
    return tuple(trials)


def _sentence(error: Exception) -> str:
    """Say why a trial wasn't run: where a process died, how its log ends, and nothing of its traceback."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if len(lines) < 2:
        return str(error)
    return f"{lines[0].rstrip(':.')}: {lines[-1]}"


def cipher_of_trials(findings: Findings) -> str:
    """Choose the cipher of trials: in the clear, unless labels leaked to an attack that is on ciphertexts."""
    trained = findings.summary.agreement.plan
    if cipher := trained.training.cipher_of_trials(trained):
        return cipher
    conducts = [one.conduct for one in findings.training if one.levels and at(one.levels).is_exposed]
    return ENCRYPTED if set(conducts) - {"listens"} else IN_THE_CLEAR


def exposed_columns(findings: Findings) -> int:
    """Count the columns that tell a tenth or more, beyond chance, at the headline level."""
    return sum(column.is_exposed() for column in findings.answer.columns)


def exposed_labels(findings: Findings) -> int:
    """Count verdicts on labels, by names and by the rarest class, that tell a tenth or more, beyond chance."""
    return sum(at(levels).is_exposed for levels in findings.answer.label_levels) + len(findings.answer.rarest)


def judged_trial(
    defence: str, options: Mapping[str, Any], before: Findings, after: Findings, undefended: Findings
) -> DefenceTrial:
    """Compare a federation with a defence to one without it.

    A leak that no attack could be tried on any more isn't known to be closed.

    Args:
        defence: what was tried.
        options: of it.
        before: what the federation without it gave away.
        after: what the federation with it gave away.
        undefended: the federation without it, under the cipher of the trial.
    """
    exposed = exposed_columns(after) + exposed_labels(after)
    unmet = _unmet(before, after)
    return DefenceTrial(
        defence=defence,
        options=options,
        holds=not exposed and not unmet,
        stakes=stakes_of(after.glance),
        part=after.answer.largest_part,
        exposed=exposed,
        accuracy=after.summary.accuracy,
        accuracy_change=after.summary.accuracy - before.summary.accuracy,
        seconds=max(0.0, training_seconds(after) - training_seconds(undefended)),
        bytes=after.summary.total_bytes - undefended.summary.total_bytes,
        cipher=after.summary.agreement.plan.cipher,
        reason=unmet,
    )


def training_seconds(findings: Findings) -> float:
    """Tell how long all epochs took together."""
    return sum(epoch.seconds for epoch in findings.summary.epochs)


def _unmet(before: Findings, after: Findings) -> str:
    """Say what leaked before and could not be attacked any more."""
    if exposed_columns(before) and not any(one.mse and one.sees_scores for one in after.predictions.attacks):
        return "None of the mounted attacks on predictions can be tried against it: what it stops was not measured."
    if exposed_labels(before) and len(after.answer.label_levels) < len(before.answer.label_levels):
        return "An attack on labels could not be tried against it: what it stops was not measured."
    leaked = {(one.party, one.column) for one in before.answer.columns if one.is_exposed()}
    unknown = [
        one.column
        for one in after.answer.columns
        if (one.party, one.column) in leaked and any(map(is_open, one.measures))
    ]
    if unknown:
        return f"Too few records were attacked to show whether a tenth is left of {listed(unknown)}."
    return ""


def read_trials(run: AuditFolder) -> tuple[DefenceTrial, ...]:
    """Read what was tried; nothing where ``--try-defences`` wasn't asked for. Raises RunFolderError."""
    file = run.trials
    return parsed(tuple[DefenceTrial, ...], read_json(file), file) if os.path.lexists(file) else ()


def _tried(plan: AuditPlan, candidate: Candidate, tables: JoinedTables, run: AuditFolder, cipher: str) -> Findings:
    """Run the federation of a candidate, and judge it."""
    return measured_federation(trial_of(plan, candidate, cipher), candidate.title, tables, run)


def measured_federation(trial: AuditPlan, title: str, tables: JoinedTables, run: AuditFolder) -> Findings:
    """Run a federation in a folder of the run, which stays where it fails, and judge it.

    Raises what ``run_federation`` raises.
    """
    folder = AuditFolder(Path(tempfile.mkdtemp(prefix="trial-", dir=run.path)))
    with ExitStack() as leaving:
        leaving.callback(shutil.rmtree, folder.path)
        try:
            run_federation(trial, tables, folder, RunProgress())
        except (FederationFailed, ProcessFailed):
            leaving.pop_all()  # The error names its logs.
            raise
        parties = trial.request.tables
        return read_findings(folder.parties, parties.passive_names, title, titles=parties.titles)


def trial_of(plan: Planned, candidate: Candidate, cipher: str = IN_THE_CLEAR) -> Planned:
    """Make the plan of one trial: the audit's, with the candidate's defences after its own, under this cipher.

    Raises:
        ValueError: for defences that contradict each other, or can't work with these settings.
    """
    request = with_candidate(plan.request, candidate, cipher).changed(try_defences=False, listed={})
    return replace(plan, request=request, recipe=request.recipe(plan.recipe.tables).checked())


def with_candidate(request: AuditRequest, candidate: Candidate, cipher: str) -> AuditRequest:
    """Ask for a candidate's defences after the request's own, under this cipher; raises ValueError as ``trial_of``."""
    federation = request.federation
    options = {**federation.settings.get("defence_options", {}), **candidate.options}
    return request.changed(
        defences=(*federation.defences, *candidate.defences),
        black_box=request.adversary.black_box or candidate.black_box,
        cipher=cipher,
        settings={**federation.settings, "cipher": cipher, "defence_options": options, **candidate.terms},
    )


def train_beside(
    plan: AuditPlan, tables: JoinedTables, run: AuditFolder, findings: Findings, progress: RunProgress
) -> tuple[VariantResult, ...]:
    """Run every further variant of the request, and write what all of them gave away.

    Raises what ``run_federation`` raises.
    """
    results = [findings.in_short(plan.title)]
    for variant in plan.beside:
        progress.stage(f"training {variant.title}")
        results.append(measured_federation(variant, variant.title, tables, run).in_short(variant.title))
        write_durably(run.variants, json.dumps([asdict(one) for one in results], indent=1).encode())
    return tuple(results)


def read_beside(run: AuditFolder, findings: Findings) -> tuple[VariantResult, ...]:
    """Read the run as it is judged now, and the variants beside it; empty without any. Raises RunFolderError."""
    file = run.variants
    if not os.path.lexists(file):
        return ()
    first, *variants = parsed(tuple[VariantResult, ...], read_json(file), file)
    return (findings.in_short(first.variant), *variants)
