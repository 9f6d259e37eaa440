"""Attacks that send something else than the protocol says, which an audit gives a session of their own.

What they are answered for other messages their party's part learns from in place of sums, and others train with that
part: scores of such a session are no model's that honest parties would have.
"""

from collections.abc import Mapping
from typing import Any

from attacks.training_attack import listens, replaces_requests
from plumbline.recipe import changed
from services.adversary.load import load_attacks
from services.adversary.training import check_replaced, obstacle
from services.common.identity import Role, role_of
from services.common.settings import Settings


def malicious_attacks(parties: Mapping[str, Settings]) -> tuple[str, ...]:
    """Name the attacks of a federation that need a session of their own, in the order in which parties mount them.

    One that can't be on its sessions changes nothing of them, and needs none.

    Args:
        parties: settings of every process, by its party's name.

    Raises:
        ValueError: where a party mounts two that replace the same.
    """
    active = parties[Role.ACTIVE]
    if active.model:
        return ()
    plan = active.plan()
    names, requesting = list[str](), list[str]()
    for party, settings in parties.items():
        role = role_of(party)
        if role is Role.COORDINATOR:
            continue
        _, attacks = load_attacks(settings.attacks, settings.attack_options, role)
        check_replaced(attacks)
        deviating = [one for label, one in attacks.items() if not listens(one) and not obstacle(label, one, plan)]
        names += [one.name for one in deviating]
        requesting += [one.name for one in deviating if replaces_requests(one)]
    if len(distinct := dict.fromkeys(requesting)) > 1:
        raise ValueError(f"{' and '.join(distinct)} need a session each: name one of them.")
    return tuple(dict.fromkeys(names))


def mounting(parties: Mapping[str, Settings], names: frozenset[str], *, only: bool) -> dict[str, Settings]:
    """Change which attacks a federation mounts: only those of these names, or all of its own but these."""
    return {name: changed(name, settings, **_attacks(settings, names, only)) for name, settings in parties.items()}


def _attacks(settings: Settings, names: frozenset[str], only: bool) -> dict[str, Any]:
    labels = tuple(name for name in settings.attacks if (name in names) == only)
    options = {name: settings.attack_options[name] for name in labels if name in settings.attack_options}
    return {"attacks": labels, "attack_options": options}
