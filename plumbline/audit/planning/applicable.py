"""Which attacks can apply to an audit: with none named, all of these are mounted. And what each is thought to cost."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import attacks
from attacks import Level, spec_of
from attacks.base import FEW_SECONDS, AttackSpec, Extent, Scenario
from attacks.registry import OF_ALL_SESSIONS, REGISTRY
from services.adversary.load import labelled
from services.common.agreement import Agreement
from services.common.session_limit import AskedParty, SessionLimit
from services.common.settings import settings_of
from vfl.installed_plugins import error_line
from vfl.learning.forms import most_forms
from vfl.plugin_registry import UnusablePlugin

# In place of names: every attack that can apply.
ALL = "all"

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
    """Names of the attacks that this installation can load; other packages' are tried once in a child process.

    Args:
        options: names of the attacks that were given options: one that has no default for its own needs them.
    """
    return tuple(name for name in REGISTRY.usable() if not _unloaded(name, options))


def applicable(scenario: Scenario) -> tuple[tuple[str, ...], tuple[LeftOut, ...]]:
    """Split all attacks into those that can apply, and those left out with the reason."""
    chosen, left_out = list[str](), list[LeftOut]()
    for name in attacks.names():
        if (obstacle := next(_obstacles(name, scenario), None)) is not None:
            left_out.append(obstacle)
        # The auditor mounts it itself, for no service of one session sees others.
        elif not attacks.spec_of(name).joins_sessions:
            chosen.append(name)
    # One party can send one attack's messages only: those of the attack that is more particular about where it applies.
    replacing = sorted(filter(_needs_ciphertexts, chosen), key=lambda name: attacks.spec_of(name).obstacle is None)
    for name in replacing[1:]:
        chosen.remove(name)
        left_out.append(LeftOut(name, f"takes the same messages as {replacing[0]}: name it alone", is_safe=False))
    return tuple(chosen), tuple(left_out)


def not_measured(scenario: Scenario, left_out: tuple[LeftOut, ...]) -> tuple[str, ...]:
    """Say, in sentences, of what this run says nothing."""
    names = [one.attack for one in left_out if not one.is_safe and scenario.is_trained]
    ciphertexts = [name for name in names if _needs_ciphertexts(name)]
    if not ciphertexts:
        return ()
    return (
        f"What only ciphertexts can tell was not measured ({', '.join(ciphertexts)}): this run trains in the clear. "
        "Repeat it with --cipher paillier.",
    )


def few_enough(test_records: int, passive_features: int) -> int:
    """How many test records every attack can reconstruct without taking minutes, where these are too many; else 0.

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
    """Why an attack can't be made here, with the options that it was given or without any; empty where it can."""
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
    """Why an attack can't apply: the first is said."""
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
    if "auxiliary" in needs and not scenario.has_records:
        yield LeftOut(name, "needs complete records: --auxiliary N")
    if not scenario.is_white_box and (spec.knowledge == "white_box" or "weights_passive" in needs):
        yield LeftOut(name, "needs parameters, and this is a black box")
    if not spec.is_on(scenario.model):
        yield LeftOut(name, f"is for {' and '.join(spec.learners)} models")


def _obstacles_in_training(name: str, spec: AttackSpec, scenario: Scenario) -> Iterator[LeftOut]:
    if not scenario.is_trained:
        yield LeftOut(name, "is on training, and a model is installed")
    if not spec.is_on(scenario.learner):
        yield LeftOut(name, f"is on sessions that train {' and '.join(spec.learners)}")
    if spec.conduct == "replaces_messages" and not scenario.is_encrypted:
        yield LeftOut(name, "is on ciphertexts, and there are none in the clear", is_safe=False)


_INSTALLED = "The model is installed and the same in every session, so that no further session tells more."


def share_of_forms(asked: Mapping[str, Any]) -> float:
    """The share of a record's forms that owners let be answered, of settings as they were asked for."""
    return settings_of({name: asked[name] for name in ("most_forms",) if name in asked}).most_forms


def session_limit(agreement: Agreement, share: float) -> SessionLimit:
    """Say how many sessions there can be with each passive party, and why none of them tells more where that is so.

    Each session answers a record with one model: k - 1 forms with k classes. The first is never refused.

    Args:
        agreement: the terms of a session.
        share: of a record's forms, that owners let be answered.
    """
    limits = [(party, most_forms(share, party.feature_count)) for party in agreement.parties[1:]]
    return SessionLimit(
        share=share,
        parties=tuple(
            AskedParty(party.name, party.feature_count, forms, max(1, forms // (agreement.classes - 1)))
            for party, forms in limits
        ),
        reason=None if agreement.plan.family.spec.trains else _INSTALLED,
    )


def reads_scores(attacks: Sequence[str]) -> bool:
    """Whether any of these attacks reads the scores of predictions: what further sessions add is measured then."""
    return any(spec.phase == "prediction" and spec.sees_scores for spec in map(spec_of, attacks))


def labels_of(
    attacks: Sequence[str], levels: Sequence[Level], limit: SessionLimit
) -> dict[str, tuple[str, Mapping[str, Any]]]:
    """The attacks on all sessions, at each level of what is known beforehand: labels, and each one's name and options.

    Nothing where there is one session only, or further ones tell no more.
    """
    if limit.reason is not None or limit.sessions < 2:
        return {}
    joining = dict.fromkeys((OF_ALL_SESSIONS, *(name for name in attacks if spec_of(name).joins_sessions)))
    at_levels = [(name, spec_of(name).at_level) for name in joining]
    options = [(name, at_level[level]) for name, at_level in at_levels for level in levels if level in at_level]
    return {labelled(name, **chosen): (name, chosen) for name, chosen in options}
