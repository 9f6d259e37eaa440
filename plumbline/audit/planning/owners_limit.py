"""How many sessions the passive parties' owners allow, and what is attacked of all of them together."""

from collections.abc import Mapping, Sequence
from typing import Any

from attacks import Level, spec_of
from plumbline.audit.planning.applicable import MANY_SESSIONS
from plumbline.recipe import PRIORS
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
        reason=None if agreement.plan.family.spec.trains else _INSTALLED,
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
