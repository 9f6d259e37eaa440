"""For how many sessions the lights of columns and of labels are, in sentences."""

from collections.abc import Sequence

from defences.registry import spec_of
from plumbline.judge.answer import ColumnAnswer, listed, short
from plumbline.judge.lights import light_of
from services.common.agreement import Agreement
from services.common.session_limit import SessionLimit
from services.party.label_sums import WHOLE, most_to_a_record, sums_of_plan, tells_anew
from vfl.data.faults import counted

# Stages of a defence of what sums of labels are made of.
_RESIDUALS = frozenset({"residuals", "labelled_residuals"})


def sessions_behind(limit: SessionLimit | None, columns: Sequence[ColumnAnswer], party: str = "") -> int:
    """After how many sessions with a passive party, or with any, the lights of columns hold; 1 where nobody added any.

    Args:
        limit: of the run; None where no auditor looked beyond its own session.
        columns: that are judged.
        party: the passive party's name; empty for the most of all.
    """
    if limit is None or not any(one.one_session for one in columns):
        return 1
    return max(one.sessions for one in limit.parties if party in ("", one.name))


def is_untried(limit: SessionLimit | None, columns: Sequence[ColumnAnswer]) -> bool:
    """Tell whether what further sessions tell is unknown, though an owner allows them."""
    is_open = limit is not None and limit.reason is None and limit.sessions > 1
    return is_open and sessions_behind(limit, columns) == 1


def told_by_one(columns: Sequence[ColumnAnswer]) -> str:
    """Count the columns one session alone tells, as the matrix does: ``6 of them, 2 far better``."""
    lights = [light_of(one.one_session, one.headline) if one.one_session else one.light for one in columns]
    leaking, far = sum(light in ("red", "amber") for light in lights), lights.count("red")
    return f"{leaking} of them, {far or 'none'} far better" if leaking else "none of them demonstrably"


def limit_sentence(limit: SessionLimit | None, columns: Sequence[ColumnAnswer], agreement: Agreement) -> str:
    """Say for how many sessions the lights of columns are, why so many, and what one of them would show.

    Args:
        limit: of the run; None where no auditor looked beyond its own session: then nobody says.
        columns: that are judged.
        agreement: of the session.
    """
    if limit is None or not columns:
        return ""
    if limit.reason:
        return f"The lights of columns are for one session. {limit.reason}"
    equations = agreement.plan.training.told_equations(agreement.plan, agreement.classes)
    kind = "a network" if equations.of_epoch else f"{agreement.classes} classes"
    share = f"PLUMBLINE_MOST_EQUATIONS={limit.share:g}"
    each = f"a session of {kind} takes {equations.of_session(agreement.plan.epochs)} of them"
    if limit.sessions == 1:
        return f"The lights of columns are for one session: {share} allows no second ({_equations(limit)}; {each})."
    most = f"the most that {share} allows ({_equations(limit)}; {each})"
    if is_untried(limit, columns):
        return f"The lights of columns are for one session: what {limit.sessions} tell, {most}, was not measured."
    return (
        f"The lights of columns are for {limit.sessions} sessions, {most}. All but one were trained in the clear by "
        f"the auditor, over {counted(limit.records, 'record')} each (SIMULATED)."
    )


def labels_untried(limit: SessionLimit | None, agreement: Agreement, defences: Sequence[str] = ()) -> str:
    """Say what isn't known of labels, as further sessions tell more of them than the one that was measured; or nothing.

    Args:
        limit: of the run; None where no auditor looked beyond its own session: then any number may be allowed.
        agreement: of the session.
        defences: of the label party. Those of residuals hide less with every session, and the owner's limit doesn't
            refuse any.
    """
    if not most_to_a_record(sums_of_plan(agreement)):
        return ""
    if hiding := [name for name in defences if _hides_residuals(name)]:
        return f"What further sessions tell of labels was not measured: {listed(hiding)} hides less with every one."
    if not tells_anew(agreement):
        return ""
    if limit is None or limit.label_share is None:
        return "What further sessions tell of labels was not measured."
    if (sessions := _label_sessions(limit.label_share, agreement)) < 2:
        return ""
    allowed = f"as PLUMBLINE_MOST_SUMS={limit.label_share:g} allows"
    return f"What {sessions} sessions tell of labels, {allowed}, was not measured."


def label_limit_sentence(limit: SessionLimit | None, agreement: Agreement, defences: Sequence[str] = ()) -> str:
    """Say for how many sessions the light of labels is, and how many in other batches the label party's owner allows.

    Args:
        limit: of the run; None where no auditor looked beyond its own session: then nobody says.
        agreement: of the session.
        defences: of the label party.
    """
    if limit is None or limit.label_share is None or not (each := most_to_a_record(sums_of_plan(agreement))):
        return ""
    share, sums = f"PLUMBLINE_MOST_SUMS={limit.label_share:g}", f"each with {each / WHOLE:.2f} sums of them to a record"
    sessions = _label_sessions(limit.label_share, agreement)
    if untried := labels_untried(limit, agreement, defences):
        return f"The light of labels is for one session, and not green: further ones tell more, {sums}. {untried}"
    if tells_anew(agreement):
        return f"The light of labels is for one session: {share} allows no second, {sums}."
    further = (
        f"{share} allows no second" if sessions < 2 else f"what {sessions} tell, as {share} allows, was not measured"
    )
    return (
        "The light of labels is for one session and for any number in the same batches, which last and tell no sums of "
        f"labels anew. Of sessions in other batches, {sums}, {further}."
    )


def _hides_residuals(defence: str) -> bool:
    """Tell whether a defence changes what sums of labels are made of; so does one that isn't installed here."""
    try:
        return bool(_RESIDUALS.intersection(spec_of(defence.partition("(")[0]).stages))
    except (ImportError, ValueError):
        return True


def _label_sessions(share: float, agreement: Agreement) -> int:
    """Count the sessions of a plan, each in other batches, that fit into so many sums of labels to a record."""
    return int(share * WHOLE) // max(1, most_to_a_record(sums_of_plan(agreement)))


def _equations(limit: SessionLimit) -> str:
    """Count the equations of a record that each passive party's owner lets be answered."""
    several = len(limit.parties) > 1
    phrases = [f"{one.equations} of a record's {counted(one.features, 'equation')}" for one in limit.parties]
    named = [f"{word} at {short(one.name)}" for word, one in zip(phrases, limit.parties, strict=True)]
    return ", ".join(named if several else phrases)
