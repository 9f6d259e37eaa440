"""How many sessions the passive parties' owners allow, and what is attacked of all of them together."""

from collections.abc import Mapping, Sequence
from typing import Any

from attacks import Level, spec_of
from attacks.registry import OF_ALL_SESSIONS
from services.adversary.load import labelled
from services.common.agreement import Agreement
from services.common.session_limit import AskedParty, SessionLimit
from services.common.settings import settings_of
from vfl.learning.forms import most_forms

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
