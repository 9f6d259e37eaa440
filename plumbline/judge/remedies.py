"""What can be done about what a run found, as the page and the annex say it: what to do, then the command."""

from plumbline.judge.answer import listed, quoted
from plumbline.judge.column_sets import proposals
from plumbline.judge.findings import Findings, recommendation_words


def measures_of(findings: Findings) -> tuple[str, ...]:
    """List what would help, a sentence each."""
    plan, columns = findings.summary.agreement.plan, findings.answer.columns
    measures = []
    # What was measured of other settings says whether that would help.
    is_measured = findings.what_if is not None and bool(findings.what_if.settings)
    if findings.answer.parties[0].light != "green" and plan.training.remedy and not is_measured:
        measures.append(plan.training.remedy)
    if findings.predictions.kept:
        measures.append("Keep the passive parties' parameters secret (plumbline audit --black-box).")
    if leaking := [column.column for column in columns if column.light in ("red", "amber")]:
        measures.append(f"Leave out columns that leak: {listed(leaking, 2, quoted)}.")
    if findings.what_if is not None and findings.what_if.whole.exposed:
        measures += [f"What if, simulated: {proposal}" for proposal in proposals(findings.what_if)]
    elif measures:
        measures.append("Find out which columns suffice, and whether coarser ones would do (plumbline whatif).")
    measures.append(
        recommendation_words(findings.trials)
        or "Measure which defence would hold, and what it costs: none was tried (plumbline audit --try-defences)."
    )
    if not plan.is_encrypted and plan.family.spec.trains:
        measures.append("Train under encryption: this run was in the clear, for study.")
    if (limit := findings.predictions.limit) is not None and limit.sessions > 1:
        measures.append(
            "Allow fewer sessions about the same records: each answers them anew (PLUMBLINE_MOST_EQUATIONS)."
        )
    return tuple(measures)
