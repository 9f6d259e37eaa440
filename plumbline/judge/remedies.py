"""What can be done about what a run found, as the page and the annex say it."""

from plumbline.judge.answer import listed
from plumbline.judge.column_sets import proposals
from plumbline.judge.findings import Findings, recommendation_words


def measures_of(findings: Findings) -> tuple[str, ...]:
    """List what would help, a sentence each."""
    plan, columns = findings.summary.agreement.plan, findings.answer.columns
    measures = []
    for light, how in (("red", "much"), ("amber", "something")):
        if leaking := [column.column for column in columns if column.light == light]:
            measures.append(f"Leave out the columns that leak {how}: {listed(leaking)}.")
    if findings.what_if is not None and findings.what_if.whole.exposed:
        measures += [f"What if, simulated: {proposal}" for proposal in proposals(findings.what_if)]
    elif measures:
        measures.append("Find out which of them suffice, and whether coarser ones would do (plumbline whatif).")
    measures.append(
        recommendation_words(findings.trials)
        or "Measure which defence would hold, and what it costs: none was tried (plumbline audit --try-defences)."
    )
    # What was measured of other settings says whether that would help.
    is_measured = findings.what_if is not None and bool(findings.what_if.settings)
    if findings.answer.parties[0].light != "green" and plan.training.remedy and not is_measured:
        measures.append(plan.training.remedy)
    if findings.predictions.kept:
        measures.append("Keep the passive parties' parameters secret (a black box: plumbline audit --black-box).")
    if not plan.is_encrypted and plan.family.spec.trains:
        measures.append("Train under encryption: this run was in the clear, for study.")
    if (limit := findings.predictions.limit) is not None and limit.sessions > 1:
        measures.append(
            "Allow fewer sessions about the same records: each answers them anew (PLUMBLINE_MOST_EQUATIONS)."
        )
    return tuple(measures)
