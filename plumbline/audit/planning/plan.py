"""What an audit will do, decided before it does anything: which attacks, under which cipher, and for how long."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from attacks import Extent, Scenario, spec_of
from plumbline.audit.planning.applicable import (
    ALL,
    LeftOut,
    applicable,
    attack_seconds,
    attacked_records,
    installed,
    labels_of,
    not_measured,
    reads_scores,
    session_limit,
    share_of_forms,
)
from plumbline.audit.planning.forecast import Calibration, Forecast, Workload, calibrate, forecast, training_seconds
from plumbline.audit.request import AuditRequest
from plumbline.audit.tables import JoinedTables
from plumbline.job_progress import duration_words
from plumbline.recipe import CheckedRecipe
from services.adversary.load import load_attacks
from services.common.agreement import Agreement, PartyDescription
from services.common.identity import Role, role_of
from services.common.session_limit import SessionLimit
from services.common.settings import environment_values
from services.protocol1.default_batch import with_batch_size
from vfl.crypto import ciphers
from vfl.crypto.ciphers import ENCRYPTED, IN_THE_CLEAR
from vfl.learning import LinearPart
from vfl.learning.networks import DenseNetwork

# What Paillier may take of a person's time, unasked.
PATIENCE_SECONDS = 180.0
# Settings that only mean something where there are ciphertexts.
OF_CIPHERTEXTS = ("key_bits", "packing", "rerandomise")


@dataclass(frozen=True)
class CipherChoice:
    """The cipher of an audit.

    Attributes:
        cipher: its name.
        why: a sentence; in the clear it begins with INSECURE and says what ``--cipher paillier`` would take.
        is_asked: whether the request says it, rather than the forecast.
    """

    cipher: str
    why: str
    is_asked: bool

    @property
    def is_encrypted(self) -> bool:
        """Whether there are ciphertexts."""
        return ciphers.spec_of(self.cipher).is_encrypted


def asked_cipher(cipher: str, given: Collection[str]) -> CipherChoice | None:
    """What the request itself decides; None where it leaves the choice open.

    Args:
        cipher: of the settings.
        given: names of the settings that were given, on the command line or in the environment.
    """
    if "cipher" in given:
        why = "as asked for." if ciphers.spec_of(cipher).is_encrypted else "INSECURE: in the clear, as asked for."
        return CipherChoice(cipher, why, is_asked=True)
    if about := [name for name in OF_CIPHERTEXTS if name in given]:
        return CipherChoice(ENCRYPTED, f"{about[0]} asks for ciphertexts.", is_asked=True)
    return None


def chosen_cipher(encrypted_seconds: float, plain_seconds: float) -> CipherChoice:
    """Choose by how long training is thought to take under Paillier and in the clear."""
    encrypted = duration_words(encrypted_seconds)
    if encrypted_seconds < PATIENCE_SECONDS:
        return CipherChoice(ENCRYPTED, f"training takes about {encrypted} under it.", is_asked=False)
    why = (
        f"INSECURE: it trains in the clear, over the same services and messages, in about "
        f"{duration_words(plain_seconds)}. Scores and gradients are those of encrypted training to 1e-6. "
        f"--cipher paillier would train for about {encrypted}."
    )
    return CipherChoice(IN_THE_CLEAR, why, is_asked=False)


# Nobody opens this session: its terms are only counted.
_NO_SESSION = "0" * 32


@dataclass(frozen=True)
class AuditPlan:
    """What will be run.

    Attributes:
        request: what was asked for, with every open choice made: a request that repeats the run.
        recipe: the federation of that request, checked.
        cipher: the cipher, and why.
        left_out: attacks that are not mounted; empty where attacks were named.
        not_measured: sentences about what this run says nothing of.
        attacked: how many of the test records attacks reconstruct.
        workload: how much there is to do.
        forecast: how long it will take.
        limit: after how many sessions the verdict holds; None where no attack reads the scores of predictions.
    """

    request: AuditRequest
    recipe: CheckedRecipe
    cipher: CipherChoice
    left_out: tuple[LeftOut, ...]
    not_measured: tuple[str, ...]
    attacked: int
    workload: Workload
    forecast: Forecast
    limit: SessionLimit | None

    @property
    def test_records(self) -> int:
        """Records of the test."""
        return self.workload.agreement.row_counts.test


def wants_all(request: AuditRequest) -> bool:
    """Whether every attack that can apply is asked for."""
    return request.attacks == (ALL,)


def candidates(request: AuditRequest) -> AuditRequest:
    """The request with every attack that could apply, where it asks for all: what its tables decide is open yet."""
    return replace(request, attacks=installed(_with_options(request))) if wants_all(request) else request


def _with_options(request: AuditRequest) -> frozenset[str]:
    """Names of the attacks that options were given for, here or in the environment."""
    given = {**environment_values(), **request.settings}.get("attack_options", {})
    options = json.loads(given) if isinstance(given, str) else given
    return frozenset(options)


def plan_audit(
    request: AuditRequest,
    recipe: CheckedRecipe,
    tables: JoinedTables,
    own_data: Mapping[str, Mapping[str, Any]] | None = None,
) -> AuditPlan:
    """Decide what to run; times this machine for about a second.

    Args:
        request: what was asked for.
        recipe: of its ``candidates``.
        tables: of all parties.
        own_data: settings of each party's own data, as examined before; None for a registered data set.

    Raises:
        ValueError: for what can't work once the open choices are made.
    """
    agreement = expected_agreement(recipe, tables, is_trained=request.hidden is None)
    given = recipe.parties[Role.ACTIVE].model_fields_set
    asked = asked_cipher(recipe.parties[Role.ACTIVE].cipher, given)
    would_encrypt = agreement.plan.family.spec.trains and (asked is None or asked.is_encrypted)
    calibration = calibrate(agreement, with_cipher=would_encrypt)
    work = Workload(agreement, tables.table_sizes, {}, 0, 0)
    choice = asked or _by_forecast(work, calibration)
    scenario = _scenario(request, agreement, choice)
    chosen, left_out = applicable(scenario) if wants_all(request) else (request.attacks, ())
    attacked = _attacked(request, recipe, agreement, scenario)
    settings = {**request.settings, "attacked_records": attacked} if attacked else request.settings
    decided = replace(request, attacks=chosen, cipher=choice.cipher, settings=settings)
    final = decided.recipe(own_data).checked()
    records = attacked or agreement.row_counts.test
    limit = session_limit(agreement, share_of_forms(final.asked)) if reads_scores(chosen) else None
    together = labels_of(chosen, decided.levels, limit) if limit is not None else {}
    extent = Extent(records, scenario.passive_features, work.steps)
    work = replace(
        work,
        attacks=_seconds_of_attacks(final, extent),
        attacked_records=records,
        passive_features=scenario.passive_features,
        sessions=1 if limit is None else limit.sessions,
        at_the_limit={label: attack_seconds(label, extent) for label in together},
    )
    unmeasured = not_measured(scenario, left_out or _without_ciphertexts(chosen, choice))
    return AuditPlan(
        decided, final, choice, left_out, unmeasured, records, work, forecast(work, calibration, choice.cipher), limit
    )


def expected_agreement(recipe: CheckedRecipe, tables: JoinedTables, *, is_trained: bool) -> Agreement:
    """The terms that the parties of these tables will agree on, as far as they decide how much there is to do."""
    parties = tuple(
        _expected_party(tables, name, has_bias=name == Role.ACTIVE and is_trained) for name in tables.settings
    )
    plan = recipe.parties[Role.ACTIVE].plan().encrypted()
    if not is_trained:
        plan = plan.changed(learner="installed")
    return with_batch_size(Agreement(_NO_SESSION, plan, len(tables.class_names), parties))


def _expected_party(tables: JoinedTables, name: str, *, has_bias: bool) -> PartyDescription:
    settings = tables.settings[name]
    described = tables.aligned[name].describe(name, truncates_answers=settings.truncate_answers)
    return replace(
        described,
        feature_count=described.feature_count + has_bias,
        binary_features=described.binary_features + (has_bias and not settings.pad_widths),
    )


def _by_forecast(work: Workload, calibration: Calibration) -> CipherChoice:
    if calibration.cipher is None:  # an installed model: nothing is trained
        return CipherChoice(ENCRYPTED, "nothing is trained.", is_asked=False)
    encrypted, plain = (training_seconds(work, calibration, cipher) for cipher in (ENCRYPTED, IN_THE_CLEAR))
    return chosen_cipher(encrypted, plain)


def _attacked(request: AuditRequest, recipe: CheckedRecipe, agreement: Agreement, scenario: Scenario) -> int:
    """How many of the test records are attacked, 0 for all: as the settings say, or few enough for every attack."""
    asked, tests = recipe.parties[Role.ACTIVE].attacked_records, agreement.row_counts.test
    if asked or not wants_all(request):
        return asked
    chosen = attacked_records(tests, scenario.passive_features)
    return chosen if chosen < tests else 0


def _model_of(request: AuditRequest, agreement: Agreement) -> str:
    """What attacks on predictions call the model: whatever has class rows is linear."""
    if request.hidden:
        return "network"
    plan = agreement.plan
    return "linear" if plan.family.spec.part in (LinearPart, DenseNetwork) else plan.learner


def _scenario(request: AuditRequest, agreement: Agreement, choice: CipherChoice) -> Scenario:
    return Scenario(
        passive_features=sum(party.feature_count for party in agreement.parties[1:]),
        is_white_box=not request.black_box,
        has_records=request.auxiliary > 0,
        model=_model_of(request, agreement),
        learner=agreement.plan.learner,
        is_trained=request.hidden is None,
        is_encrypted=choice.is_encrypted,
        packing=agreement.plan.packing,
        rerandomise=agreement.plan.rerandomise,
        options=_with_options(request),
    )


def _seconds_of_attacks(recipe: CheckedRecipe, extent: Extent) -> Mapping[str, float]:
    """How long each mounted attack is thought to take, by its label, over all parties."""
    seconds: dict[str, float] = {}
    for name, settings in recipe.parties.items():
        role = role_of(name)
        if role is Role.COORDINATOR:
            continue
        for mounted in load_attacks(settings.attacks, settings.attack_options, role):
            seconds |= {label: attack_seconds(label, extent) for label in mounted}
    return seconds


def _without_ciphertexts(chosen: tuple[str, ...], choice: CipherChoice) -> tuple[LeftOut, ...]:
    """Named attacks on ciphertexts, in a run that has none: they say that they don't apply, not that all is safe."""
    if choice.is_encrypted:
        return ()
    named = [name for name in chosen if spec_of(name).conduct == "replaces_messages"]
    return tuple(LeftOut(name, "is on ciphertexts, and there are none in the clear", is_safe=False) for name in named)


def plan_facts(plan: AuditPlan) -> dict[str, Any]:
    """What a run's folder keeps of its plan."""
    return {
        "cipher": plan.cipher.cipher,
        "why": plan.cipher.why,
        "attacks": list(plan.request.attacks),
        "left_out": {one.attack: one.reason for one in plan.left_out},
        "not_measured": list(plan.not_measured),
        "attacked_records": plan.attacked,
        "forecast_seconds": {stage.name: round(stage.seconds, 1) for stage in plan.forecast.stages},
    }
