"""Which attacks can apply to an audit: with none named, all of these are mounted. And what each is thought to cost."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import attacks
from attacks import Level, spec_of
from attacks.base import AttackSpec
from attacks.registry import REGISTRY
from plumbline.recipe import PRIORS
from services.adversary.load import labelled
from services.common.agreement import Agreement
from services.common.session_limit import AskedParty, SessionLimit
from services.common.settings import settings_of
from vfl.learning.forms import most_forms
from vfl.plugin_registry import UnusablePlugin

# In place of names: every attack that can apply.
ALL = "all"
# What puts sessions together: the auditor mounts it, for no service of one session sees others.
MANY_SESSIONS = "many_sessions"

_LINEAR = frozenset({"weights_passive", "weights_active", "bias"})
# Of records and features: what the slowest attacks do with them in seconds. More records tell nothing more.
_MOST_CELLS, _FEWEST_RECORDS, _MOST_RECORDS = 40_000, 500, 2_000


@dataclass(frozen=True)
class Scene:
    """What decides which attacks can apply.

    Attributes:
        passive_features: of all passive parties, as the federation trains on them.
        is_white_box: whether passive parties disclose parameters.
        has_records: whether the adversary has complete records.
        is_network: whether a model with hidden layers is installed.
        is_trained: whether the federation trains; False where a model is installed.
        is_encrypted: whether it trains under Paillier.
        packing: whether values share a plaintext.
        rerandomise: whether answers carry fresh randomness.
        options: names of the attacks that were given options.
    """

    passive_features: int
    is_white_box: bool = True
    has_records: bool = False
    is_network: bool = False
    is_trained: bool = True
    is_encrypted: bool = True
    packing: bool = True
    rerandomise: bool = True
    options: frozenset[str] = frozenset()


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


def applicable(scene: Scene) -> tuple[tuple[str, ...], tuple[LeftOut, ...]]:
    """Split all attacks into those that can apply, and those left out with the reason."""
    chosen, left_out = [], []
    for name in attacks.names():
        if name == MANY_SESSIONS:
            continue
        obstacle = next(_obstacles(name, scene), None)
        if obstacle is None:
            chosen.append(name)
        else:
            left_out.append(obstacle)
    return tuple(chosen), tuple(left_out)


def not_measured(scene: Scene, left_out: tuple[LeftOut, ...]) -> tuple[str, ...]:
    """Say, in sentences, of what this run says nothing."""
    names = [one.attack for one in left_out if not one.is_safe and scene.is_trained]
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


def attack_seconds(label: str, records: int, features: int, steps: int) -> float:
    """Seconds that an attack is thought to take on the reference machine; measured, see ``docs/how-to/how-long.md``.

    Args:
        label: its name, with options in parentheses.
        records: that it reconstructs.
        features: of each.
        steps: of training, for an attack on training.
    """
    name = label.partition("(")[0]
    costs: Mapping[str, float] = {
        "gia": 2.5 + records * (0.001 + 1e-4 * features),
        "grn": 1.0 + records * (0.005 + 2e-5 * features),
        "posterior": 0.2 + 2e-5 * records * features**1.5,
        MANY_SESSIONS: 0.2 + 2e-5 * records * features**1.5,
        "shadow": 5.0,
        "imputation": 1.0,
        "feature_order": 0.5 + 0.0005 * steps,
        "label_recovery": 0.5 + 0.001 * steps,
        "averaged_products": 0.5 + 0.0005 * steps,
    }
    return costs.get(name, 0.2)


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


def _obstacles(name: str, scene: Scene) -> Iterator[LeftOut]:
    """Why an attack can't apply: the first is said."""
    if unloaded := _unloaded(name, scene.options):
        yield LeftOut(name, unloaded, is_safe=False)
        return
    spec = attacks.spec_of(name)
    needs = set(spec.needs)
    if spec.phase == "training":
        yield from _obstacles_in_training(name, spec, scene)
        return
    if "auxiliary" in needs and not scene.has_records:
        yield LeftOut(name, "needs complete records: --auxiliary N")
    if not scene.is_white_box and (spec.knowledge == "white_box" or "weights_passive" in needs):
        yield LeftOut(name, "needs parameters, and this is a black box")
    if scene.is_network and needs & _LINEAR:
        yield LeftOut(name, "is for linear models")
    if name == "one_feature" and scene.passive_features > 1:
        yield LeftOut(name, "is for a lone passive feature")


def _obstacles_in_training(name: str, spec: AttackSpec, scene: Scene) -> Iterator[LeftOut]:
    if not scene.is_trained:
        yield LeftOut(name, "is on training, and a model is installed")
    if spec.conduct == "listens":
        return
    if not scene.is_encrypted:
        yield LeftOut(name, "is on ciphertexts, and there are none in the clear", is_safe=False)
    if name == "randomiser_channel" and scene.rerandomise:
        yield LeftOut(name, "is closed: answers carry fresh randomness")
    if name == "randomiser_channel" and scene.packing:
        yield LeftOut(name, "needs ciphertexts of one value each: --no-packing")
    # One party can send one attack's messages only.
    if name == "auxiliary_ciphertext" and not scene.rerandomise and not scene.packing:
        yield LeftOut(name, "takes the same messages as randomiser_channel: name it alone", is_safe=False)


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
        reason=_INSTALLED if agreement.plan.installed_model else None,
    )


def reads_scores(attacks: Sequence[str]) -> bool:
    """Whether any of these attacks reads the scores of predictions: what further sessions add is measured then."""
    return any(spec.phase == "prediction" and spec.sees_scores for spec in map(spec_of, attacks))


def labels_of(levels: Sequence[Level], limit: SessionLimit) -> dict[str, str]:
    """The attack on all sessions, by what its adversary knows beforehand: labels, and the prior of each.

    Nothing where there is one session only, or further ones tell no more.
    """
    if limit.reason is not None or limit.sessions < 2:
        return {}
    priors = [PRIORS[level] for level in levels]
    return {labelled(MANY_SESSIONS, prior=prior): prior for prior in priors}
