"""For how many sessions the lights of columns and of labels are, in sentences."""

from collections.abc import Sequence

from plumbline.judge.answer import ColumnAnswer, short
from plumbline.judge.federation_part import at
from plumbline.judge.lights import RED_PART, are_too_few, light_of
from services.common.agreement import Agreement
from services.common.session_limit import SessionLimit
from services.party.label_sums import WHOLE, most_to_a_record, sums_of_plan
from vfl.data.faults import counted


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
    """Count the columns one session alone tells: ``2 of them far better and 4 somewhat better``."""
    headlines = [at(one.one_session) for one in columns if not are_too_few(one.one_session)]
    parts = [one.part.mean for one in headlines if one.is_exposed and one.part is not None]
    far = sum(part >= RED_PART for part in parts)
    words = [f"{far} of them far better"] if far else []
    if better := len(parts) - far:
        words.append(f"{better} somewhat better" if far else f"{better} of them somewhat better")
    return " and ".join(words) or "none of them demonstrably"


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
    forms = agreement.plan.training.forms(agreement.plan, agreement.classes)
    kind = "a network" if forms.of_epoch else f"{agreement.classes} classes"
    share = f"PLUMBLINE_MOST_FORMS={limit.share:g}"
    each = f"a session of {kind} takes {forms.of_session(agreement.plan.epochs)} of them"
    if limit.sessions == 1:
        return f"The lights of columns are for one session: {share} allows no second ({_forms(limit)}; {each})."
    most = f"the most that {share} allows ({_forms(limit)}; {each})"
    if is_untried(limit, columns):
        return f"The lights of columns are for one session: what {limit.sessions} tell, {most}, was not measured."
    lights = [light_of(one.one_session) for one in columns]
    shown = ", ".join(f"{lights.count(light)} {light}" for light in dict.fromkeys(lights))
    return (
        f"The lights of columns are for {limit.sessions} sessions, {most}. All but one were trained in the clear by "
        f"the auditor, over {counted(limit.records, 'record')} each (SIMULATED). After one session alone: {shown}."
    )


def label_limit_sentence(limit: SessionLimit | None, agreement: Agreement) -> str:
    """Say for how many sessions the light of labels is, and how many in other batches the label party's owner allows.

    Args:
        limit: of the run; None where no auditor looked beyond its own session: then nobody says.
        agreement: of the session.
    """
    if limit is None or limit.label_share is None or not (each := most_to_a_record(sums_of_plan(agreement))):
        return ""
    most = f"PLUMBLINE_MOST_SUMS={limit.label_share:g}"
    sessions = int(limit.label_share * WHOLE) // each
    others = f"{most} allows no second" if sessions < 2 else f"what {sessions} tell, as {most} allows, was not measured"
    return (
        "The light of labels is for one session. Others in the same batches tell no sums of labels anew; of those in "
        f"other batches, each with {each / WHOLE:.2f} to a record, {others}."
    )


def _forms(limit: SessionLimit) -> str:
    """Count the forms of a record that each passive party's owner lets be answered."""
    several = len(limit.parties) > 1
    words = [f"{one.forms} of a record's {counted(one.features, 'form')}" for one in limit.parties]
    named = [f"{word} at {short(one.name)}" for word, one in zip(words, limit.parties, strict=True)]
    return ", ".join(named if several else words)
