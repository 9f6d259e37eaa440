"""What an audit will do, decided before it does anything: which attacks, under which cipher, and for how long."""

import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

import attacks
from attacks import Extent, Level, Scenario, spec_of
from attacks.base import FEW_SECONDS, AttackSpec
from attacks.registry import OF_ALL_SESSIONS, REGISTRY
from plumbline.audit.forecast import Forecast, Span, Workload, forecast, training_seconds, usual_calibration
from plumbline.audit.forewarnings import forewarnings
from plumbline.audit.malicious_attacks import malicious_attacks
from plumbline.audit.request import AuditRequest, FederationOptions
from plumbline.audit.tables import JoinedTables
from plumbline.audit.variants import Variant
from plumbline.recipe import CheckedRecipe
from services.adversary.load import labelled, load_attacks
from services.ciphers.default_plan import with_open_terms
from services.common import protocols
from services.common.agreement import Agreement, PartyDescription
from services.common.identity import Role, role_of
from services.common.learner_calls import LearnerCalls
from services.common.session_limit import AskedParty, SessionLimit
from services.common.settings import environment_values, settings_of
from vfl.crypto import ciphers
from vfl.crypto.ciphers import ENCRYPTED, IN_THE_CLEAR
from vfl.data.labels import NO_LABEL
from vfl.installed_plugins import error_line
from vfl.learning import LinearPart
from vfl.learning.independent_equations import most_equations
from vfl.learning.linear.regression import LinearRegression
from vfl.learning.networks import DenseNetwork
from vfl.plugin_registry import UnusablePlugin

# Of records and features: what the slowest attacks do with them in seconds. More records tell nothing more.
_MOST_CELLS, _FEWEST_RECORDS, _MOST_RECORDS = 40_000, 500, 2_000


@dataclass(frozen=True)
class LeftOut:
    """An attack that is not mounted.

    Attributes:
        attack: its name.
        reason: why, in words that follow its name.
        is_safe: whether it can't work here at all; False where this run says nothing of it.
    """

    attack: str
    reason: str
    is_safe: bool = True


def installed(options: Collection[str] = ()) -> tuple[str, ...]:
    """List the attacks that this installation can load; other packages' are tried once in a child process.

    Args:
        options: names of the attacks that were given options: one that has no default for its own needs them.
    """
    return tuple(name for name in REGISTRY.usable() if not _unloaded(name, options))


def applicable(scenario: Scenario) -> tuple[tuple[str, ...], tuple[LeftOut, ...]]:
    """Split all attacks into those that can apply, and those left out with the reason."""
    names, left_out = list[str](), list[LeftOut]()
    for name in attacks.names():
        if (obstacle := next(_obstacles(name, scenario), None)) is not None:
            left_out.append(obstacle)
        # The auditor mounts it itself, for no service of one session sees others.
        elif not attacks.spec_of(name).joins_sessions:
            names.append(name)
    # One party can send one attack's messages only: those of the attack that is more particular about where it applies.
    replacing = sorted(filter(_needs_ciphertexts, names), key=lambda name: attacks.spec_of(name).obstacle is None)
    for name in replacing[1:]:
        names.remove(name)
        left_out.append(LeftOut(name, f"takes the same messages as {replacing[0]}: name it alone", is_safe=False))
    # Where one party asks something else, what another reads in its answers is about no derivatives.
    for name in _asking(names)[1:]:
        names.remove(name)
        left_out.append(LeftOut(name, "needs a session in which nobody else deviates: name it alone", is_safe=False))
    return tuple(names), tuple(left_out)


def _asking(names: Sequence[str]) -> list[str]:
    """Take those that ask something else than their party's learner."""
    return [name for name in names if not _unloaded(name, (name,)) and spec_of(name).conduct == "replaces_requests"]


def not_measured(scenario: Scenario, left_out: tuple[LeftOut, ...]) -> tuple[str, ...]:
    """Say, in sentences, of what this run says nothing."""
    names = [one.attack for one in left_out if not one.is_safe and scenario.is_trained]
    alone = [name for name in names if name in _asking(names)]
    ciphertexts = [name for name in names if _needs_ciphertexts(name)]
    alone += ciphertexts if scenario.is_encrypted else []
    if alone:
        return (f"What {', '.join(alone)} can tell was not measured: name it alone (--attacks).",)
    if not ciphertexts:
        return ()
    return (
        f"What only ciphertexts can tell was not measured ({', '.join(ciphertexts)}): this run trains in the clear. "
        f"Repeat it {'with --cipher paillier' if not scenario.forwards else 'under ciphertexts'}.",
    )


def few_enough(test_records: int, passive_features: int) -> int:
    """Count test records that no attack takes minutes for, where these are too many; else 0.

    It follows the tables' size alone, so that another machine finds the same.
    """
    most = min(_MOST_RECORDS, max(_FEWEST_RECORDS, _MOST_CELLS // max(1, passive_features)))
    return most if most < test_records else 0


def attack_seconds(label: str, extent: Extent) -> float:
    """Seconds that an attack is thought to take on the reference machine; measured, see ``docs/how-to/how-long.md``.

    Args:
        label: its name, with options in parentheses.
        extent: what it works on.
    """
    try:
        seconds = float(attacks.spec_of(label.partition("(")[0]).seconds(extent))
    except Exception:  # a guest's bug costs its forecast only
        return FEW_SECONDS
    return seconds if 0 <= seconds < math.inf else FEW_SECONDS


def _unloaded(name: str, options: Collection[str]) -> str:
    """Say why an attack can't be made here, with the options that it was given or without any; empty where it can."""
    try:
        attacks.spec_of(name)
    except ImportError:
        return "needs an extra: pip install 'plumbline[lab]'"
    except UnusablePlugin as error:
        return error.reason
    except ValueError as error:
        return str(error)
    if name in options:
        return ""
    try:
        attacks.load(name)
    except UnusablePlugin as error:
        return error.reason
    except ValueError:
        return "has no default for an option: name it with attack_options"
    return ""


def _needs_ciphertexts(name: str) -> bool:
    try:
        return attacks.spec_of(name).conduct == "replaces_messages"
    except (ImportError, ValueError):
        return False


def _obstacles(name: str, scenario: Scenario) -> Iterator[LeftOut]:
    """Say why an attack can't apply, by the first reason."""
    if unloaded := _unloaded(name, scenario.options):
        yield LeftOut(name, unloaded, is_safe=False)
        return
    spec = attacks.spec_of(name)
    if spec.phase == "training":
        yield from _obstacles_in_training(name, spec, scenario)
    else:
        yield from _obstacles_on_predictions(name, spec, scenario)
    try:
        reason = spec.obstacle(scenario) if spec.obstacle is not None else ""
    except Exception as error:  # a guest's bug
        yield LeftOut(name, f"can't say whether it applies: {error_line(error)}", is_safe=False)
    else:
        if reason:
            yield LeftOut(name, reason)


def _obstacles_on_predictions(name: str, spec: AttackSpec, scenario: Scenario) -> Iterator[LeftOut]:
    needs = set(spec.needs)
    if not spec.is_on(scenario.model):
        yield LeftOut(name, f"is for {' and '.join(spec.learners)} models")
    is_on_weights = spec.knowledge == "white_box" or "weights_passive" in needs
    if is_on_weights and not (scenario.has_weights or spec.learners):
        yield LeftOut(name, f"needs weights, and {scenario.model} has none")
    if "auxiliary" in needs and not scenario.has_records:
        yield LeftOut(name, "needs complete records: --auxiliary N")
    if not scenario.is_white_box and is_on_weights:
        why = "this is a black box"
        if not scenario.knows_own_weights:
            is_shared = scenario.protocol == "shared"
            why = "weights stay shared: nobody has them" if is_shared else "trees disclose thresholds alone"
        yield LeftOut(name, f"needs parameters, and {why}")


def _obstacles_in_training(name: str, spec: AttackSpec, scenario: Scenario) -> Iterator[LeftOut]:
    if not scenario.is_trained:
        yield LeftOut(name, "is on training, and a model is installed")
    if not spec.is_on(scenario.learner):
        yield LeftOut(name, f"is on sessions that train {' and '.join(spec.learners)}")
    if "known_records" in spec.needs and not scenario.has_records:
        yield LeftOut(name, "needs complete records: --auxiliary N")
    if spec.conduct == "replaces_messages" and scenario.protocol == "shared":
        yield LeftOut(name, "replaces messages of protocol=hu, and protocol=shared has none of them")
    if spec.conduct == "replaces_messages" and not scenario.is_encrypted:
        yield _without_ciphertexts(name)
    if spec.conduct == "replaces_shares" and scenario.protocol == "shared":
        yield LeftOut(name, "gives up epochs of training for what it reads: name it", is_safe=False)
    if spec.conduct == "replaces_features" and scenario.protocol == "shared":
        yield LeftOut(name, "takes its party's columns out of the model: name it", is_safe=False)


def _without_ciphertexts(name: str) -> LeftOut:
    return LeftOut(name, "is on ciphertexts, and there are none in the clear", is_safe=False)


SHARED_SCORES = "Attacks over several sessions need to know what a score is a sum of, and weights stay shared."
_INSTALLED = "The model is installed and the same in every session, so that no further session tells more."


def session_limit(agreement: Agreement, share: float) -> SessionLimit:
    """Say how many sessions there can be with each passive party, and why no further one is tried where none is.

    Each session answers a record with one model: k - 1 equations with k classes, or one for each unit of a layer that
    is forwarded. The first is never refused.

    Args:
        agreement: the terms of a session.
        share: of a record's equations, that owners let be answered.
    """
    limits = [(party, most_equations(share, party.feature_count)) for party in agreement.parties[1:]]
    plan, family, reason = agreement.plan, agreement.plan.family, None
    session_equations = plan.training.told_equations(plan, agreement.classes).of_session(plan.epochs)
    if not family.spec.trains:
        reason = _INSTALLED
    elif not agreement.serving.tells_owners and plan.protocol == "shared":
        reason = SHARED_SCORES
    elif not isinstance(family, LinearRegression):
        reason = f"What further sessions of the learner {family.name} tell was not measured."
    return SessionLimit(
        share=share,
        parties=tuple(
            AskedParty(party.name, party.feature_count, equations, max(1, equations // session_equations))
            for party, equations in limits
        ),
        reason=reason,
    )


def limit_of(request: AuditRequest, recipe: CheckedRecipe, agreement: Agreement) -> SessionLimit | None:
    """Say after how many sessions the verdict holds; None where no attack of the request reads scores.

    What owners let be answered counts: in a federation that is one person's nothing is refused.
    """
    owners = settings_of(
        {name: value for name, value in recipe.asked.items() if name in ("most_equations", "most_sums")}
    )
    specs = map(spec_of, request.adversary.attacks)
    reads_scores = any(spec.phase == "prediction" and spec.sees_scores for spec in specs)
    if not reads_scores:
        return None
    return replace(session_limit(agreement, owners.most_equations), label_share=owners.most_sums)


def labels_of(
    attacks: Sequence[str], levels: Sequence[Level], limit: SessionLimit | None
) -> dict[str, tuple[str, Mapping[str, Any]]]:
    """List the attacks on all sessions, at each level of knowledge: labels, and each one's name and options.

    Nothing where there is one session only, or further ones tell no more.
    """
    if limit is None or limit.reason is not None or limit.sessions < 2:
        return {}
    joining = dict.fromkeys((OF_ALL_SESSIONS, *(name for name in attacks if spec_of(name).joins_sessions)))
    at_levels = [(name, spec_of(name).at_level) for name in joining]
    options = [(name, at_level[level]) for name, at_level in at_levels for level in levels if level in at_level]
    return {labelled(name, **chosen): (name, chosen) for name, chosen in options}


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


def asked_cipher(cipher: str, given: Collection[str], only_encrypted: str = "") -> CipherChoice | None:
    """Choose the cipher that the request itself decides; None where it leaves the choice open.

    Args:
        cipher: of the settings.
        given: names of the settings that were given, on the command line or in the environment.
        only_encrypted: why the protocol takes ciphertexts, a sentence; empty where it doesn't.
    """
    if "cipher" in given:
        why = "as asked for." if ciphers.spec_of(cipher).is_encrypted else "INSECURE: in the clear, as asked for."
        return CipherChoice(cipher, why, is_asked=True)
    if only_encrypted:
        return CipherChoice(ENCRYPTED, only_encrypted, is_asked=True)
    if about := [name for name in OF_CIPHERTEXTS if name in given]:
        return CipherChoice(ENCRYPTED, f"{about[0]} asks for ciphertexts.", is_asked=True)
    return None


def chosen_cipher(encrypted_seconds: float, plain_seconds: float) -> CipherChoice:
    """Choose by how long training is thought to take under Paillier and in the clear on a usual processor."""
    encrypted, plain = Span.about(encrypted_seconds), Span.about(plain_seconds)
    if encrypted_seconds < PATIENCE_SECONDS:
        return CipherChoice(ENCRYPTED, f"training takes {encrypted} under it.", is_asked=False)
    why = (
        f"INSECURE: it trains in the clear, over the same services and messages, in {plain}. Scores and gradients are "
        f"those of encrypted training to 1e-6. --cipher paillier would train for {encrypted}."
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
        classes: the label's classes, and how many aligned records each has.
        unlabelled: aligned records without a label.
        forewarnings: sentences on what these tables are too small for, and on columns that are the label.
        title: what it differs in from the variants beside it; empty where there is none.
        beside: the plans of these.
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
    classes: Mapping[str, int] = field(default_factory=dict)
    unlabelled: int = 0
    forewarnings: tuple[str, ...] = ()
    title: str = ""
    beside: "tuple[AuditPlan, ...]" = ()

    @property
    def levels(self) -> tuple[Level, ...]:
        """What adversaries of predictions may know beforehand."""
        return self.request.adversary.levels

    @property
    def test_records(self) -> int:
        """Records of the test that can be judged: those with a label."""
        return self.workload.agreement.row_counts.test - self.unlabelled


@dataclass(frozen=True)
class ClearPlan:
    """What is run in one place: see `plumbline.audit.clear_run`.

    Attributes:
        request: an audit's, with every open choice made.
        recipe: its federation, checked.
        levels: what adversaries may know beforehand.
        limit: after how many sessions the verdict holds; None where no attack reads scores.
    """

    request: AuditRequest
    recipe: CheckedRecipe
    levels: tuple[Level, ...]
    limit: SessionLimit | None = None

    def on(self, tables: JoinedTables) -> "ClearPlan":
        """Make the plan over some of the columns."""
        agreement = expected_agreement(self.recipe, tables, is_trained=True)
        return replace(self, limit=limit_of(self.request, self.recipe, agreement))


def candidates(request: AuditRequest) -> AuditRequest:
    """Ask for every attack that could apply, where the request asks for all: what its tables decide is open yet."""
    if not request.adversary.mounts_all:
        return request
    return request.changed(attacks=installed(_with_options(request.federation)))


def _with_options(federation: FederationOptions) -> frozenset[str]:
    """Names of the attacks that options were given for, here or in the environment."""
    plugin_options = {**environment_values(), **federation.settings}.get("attack_options", {})
    options = json.loads(plugin_options) if isinstance(plugin_options, str) else plugin_options
    return frozenset(options)


def plan_audit(request: AuditRequest, recipe: CheckedRecipe, tables: JoinedTables) -> AuditPlan:
    """Decide what to run. It follows from what was asked for, the tables and the processor; nothing is timed.

    Args:
        request: what was asked for.
        recipe: of its ``candidates``.
        tables: of all parties.

    Raises:
        ValueError: for what can't work once the open choices are made.
    """
    federation, adversary = request.federation, request.adversary
    agreement = expected_agreement(recipe, tables, is_trained=federation.hidden is None)
    active = recipe.parties[Role.ACTIVE]
    proposed = active.plan()
    setting_names = active.model_fields_set | LearnerCalls(proposed.family).terms().keys()
    request_choice = asked_cipher(proposed.cipher, setting_names, _only_encrypted(federation))
    calibration = usual_calibration(agreement)
    work = Workload(agreement, tables.table_sizes, {}, 0, 0)
    choice = request_choice or CipherChoice(ENCRYPTED, "nothing is trained.", is_asked=False)
    if request_choice is None and agreement.plan.family.spec.trains:
        choice = chosen_cipher(*(training_seconds(work, calibration, cipher) for cipher in (ENCRYPTED, IN_THE_CLEAR)))
    scenario = replace(
        scenario_of(agreement, is_white_box=not adversary.black_box, is_encrypted=choice.is_encrypted),
        has_records=adversary.auxiliary > 0,
        options=_with_options(federation),
    )
    if federation.hidden:
        scenario = replace(scenario, model="network")
    names, left_out = applicable(scenario) if adversary.mounts_all else (adversary.attacks, ())
    attacked = recipe.parties[Role.ACTIVE].attacked_records
    if not attacked and adversary.mounts_all:
        attacked = few_enough(len(tables.split.test), scenario.passive_features)
    settings = {**federation.settings, "attacked_records": attacked} if attacked else federation.settings
    decided = request.changed(attacks=names, cipher=choice.cipher, settings=settings)
    final = decided.recipe(recipe.tables).checked()
    records = attacked or len(tables.split.test)
    limit = limit_of(decided, final, agreement)
    together = labels_of(names, adversary.levels, limit)
    extent = Extent(records, scenario.passive_features, work.steps, work.batches)
    work = replace(
        work,
        attacks=_seconds_of_attacks(final, extent),
        attacked_records=records,
        passive_features=scenario.passive_features,
        sessions=1 if limit is None else limit.sessions,
        at_the_limit={label: attack_seconds(label, extent) for label in together},
        malicious=malicious_attacks(final.parties) if agreement.plan.family.spec.trains else (),
    )
    # Named attacks on ciphertexts, in a run that has none, say that they don't apply, not that all is safe.
    unapplied = () if choice.is_encrypted else tuple(map(_without_ciphertexts, filter(_needs_ciphertexts, names)))
    unmeasured = not_measured(scenario, left_out or unapplied)
    foretold = forecast(work, calibration, choice.cipher)
    counts = np.bincount(tables.labels[tables.labels != NO_LABEL], minlength=len(tables.class_names)).tolist()
    classes = dict(zip(tables.class_names, counts, strict=True))
    unlabelled = len(tables.labels) - sum(counts)
    planned = AuditPlan(
        *(decided, final, choice, left_out, unmeasured, records, work, foretold, limit, classes, unlabelled),
        forewarnings=tuple(forewarnings(tables, decided.adversary)),
    )
    if not (variants := federation.variants):
        return planned
    cipher = federation.cipher if variants[0].sets_cipher else choice.cipher
    beside = tuple(_plan_beside(request, one, cipher, recipe.tables, tables) for one in variants[1:])
    return replace(planned, title=variants[0].title, beside=beside)


def _only_encrypted(federation: FederationOptions) -> str:
    """Say why the protocol of the audit's variant, or of one beside it, takes ciphertexts; empty where none does."""
    beside = (str(one.settings["protocol"]) for one in federation.variants if "protocol" in one.settings)
    reasons = (str(protocols.REGISTRY.class_of(name).only_encrypted) for name in (federation.protocol, *beside))
    return next(filter(None, reasons), "")


def _plan_beside(
    request: AuditRequest,
    variant: Variant,
    cipher: str,
    own_tables: Mapping[str, Mapping[str, Any]],
    tables: JoinedTables,
) -> AuditPlan:
    """Plan a variant of the request; raises ValueError for one that can't work, before anything is run."""
    variant_request = request.changed(
        settings=dict(variant.settings), cipher="auto" if variant.sets_cipher else cipher, listed={}, try_defences=False
    )
    recipe = candidates(variant_request).recipe(own_tables).checked()
    return replace(plan_audit(variant_request, recipe, tables), title=variant.title)


def expected_agreement(recipe: CheckedRecipe, tables: JoinedTables, *, is_trained: bool) -> Agreement:
    """Make the terms that the parties of these tables will agree on, as far as they decide how much there is to do."""
    parties = tuple(
        _expected_party(tables, name, has_bias=name == Role.ACTIVE and is_trained) for name in tables.settings
    )
    plan = recipe.parties[Role.ACTIVE].plan().encrypted()
    if not is_trained:
        plan = plan.changed(learner="installed")
    return with_open_terms(Agreement(_NO_SESSION, plan, len(tables.class_names), parties))


def _expected_party(tables: JoinedTables, name: str, *, has_bias: bool) -> PartyDescription:
    settings = tables.settings[name]
    described = tables.aligned[name].describe(name, truncates_answers=settings.truncate_answers)
    return replace(
        described,
        feature_count=described.feature_count + has_bias,
        opens_always=settings.opening == "always",
        binary_features=described.binary_features + (has_bias and not settings.pad_widths),
    )


def scenario_of(agreement: Agreement, *, is_white_box: bool, is_encrypted: bool) -> Scenario:
    """Describe what decides which attacks can apply to a session of these terms, without records or attacks' options.

    Whatever answers with sums of features is a linear model to attacks on predictions.
    """
    plan, spec, knows_weights = agreement.plan, agreement.plan.family.spec, agreement.serving.tells_owners
    return Scenario(
        passive_features=sum(party.feature_count for party in agreement.parties[1:]),
        is_white_box=is_white_box and agreement.serving.discloses,
        model="linear" if spec.part in (LinearPart, DenseNetwork) or spec.answers == "sums" else plan.learner,
        learner=plan.learner,
        is_trained=spec.trains,
        forwards=spec.answers == "sums",
        is_encrypted=is_encrypted,
        packing=plan.packing,
        rerandomise=plan.rerandomise,
        protocol=plan.protocol,
        knows_own_weights=knows_weights,
        has_weights=spec.answers != "leaves",
    )


def _seconds_of_attacks(recipe: CheckedRecipe, extent: Extent) -> Mapping[str, float]:
    """Foretell how long each mounted attack takes, by its label, over all parties."""
    seconds: dict[str, float] = {}
    for name, settings in recipe.parties.items():
        role = role_of(name)
        if role is Role.COORDINATOR:
            continue
        for labels in load_attacks(settings.attacks, settings.attack_options, role):
            seconds |= {label: attack_seconds(label, extent) for label in labels}
    return seconds


def plan_facts(plan: AuditPlan) -> dict[str, Any]:
    """List what a run's folder keeps of its plan."""
    return {
        "classes": dict(plan.classes),
        "unlabelled": plan.unlabelled,
        "forewarnings": list(plan.forewarnings),
        "cipher": plan.cipher.cipher,
        "why": plan.cipher.why,
        "attacks": list(plan.request.adversary.attacks),
        "left_out": {one.attack: one.reason for one in plan.left_out},
        "not_measured": list(plan.not_measured),
        "attacked_records": plan.attacked,
        "forecast_seconds": {stage.name: round(stage.seconds, 1) for stage in plan.forecast.stages},
        "processor_seconds": asdict(Span.about(round(plan.forecast.processor_seconds, 1))),
        "amounts": {stage.name: stage.amount for stage in plan.forecast.stages},
        "beside_seconds": {one.title: round(one.forecast.seconds, 1) for one in plan.beside},
    }
