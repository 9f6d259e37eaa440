"""What each party of a run received, counted: equations against unknowns, in training and with each prediction."""

from collections.abc import Iterator, Mapping
from typing import Any

from plumbline.judge.summary import RunSummary
from services.common.exposure import Exposure

_BETWEEN = "From the first prediction, between bounds: thresholds say where a record's values lie."


def ledger(summary: RunSummary, facts: Mapping[str, Any]) -> list[Exposure]:
    """Count what every party received, in training and with each prediction.

    Sessions in the clear are counted as they would be under Paillier: what the wire shows besides is a warning's.

    Args:
        summary: the run's terms and results.
        facts: the run's; ``request`` tells whether parameters were disclosed.
    """
    agreement = summary.agreement
    disclosed = agreement.serving.discloses and not facts.get("request", {}).get("black_box", False)
    return [*agreement.plan.training.exposures(agreement), *_of_predictions(summary, disclosed=disclosed)]


def _of_predictions(summary: RunSummary, *, disclosed: bool) -> Iterator[Exposure]:
    agreement, plan = summary.agreement, summary.agreement.plan
    active, *passive = agreement.parties
    unknowns = sum(party.feature_count for party in passive)
    equations = max(1, plan.training.told_equations(plan, agreement.classes).of_model)
    answers = agreement.answers
    names = " and ".join(party.name for party in passive)
    after = f", after {', '.join(agreement.score_defences)}" if agreement.score_defences else ""
    answer, parts = {
        "scores": (f"{agreement.classes} confidence scores", "the scores"),
        "sums": (f"{equations} sums of the first layer", "these sums"),
        "leaves": (f"which leaf of each of {plan.epochs} trees is reached", "these leaves"),
    }[answers]
    parameters = "parameters as disclosed" if disclosed else "no parameters"
    how = "in the clear" if agreement.serving.tells_owners else "uniform by itself"
    if plan.family.spec.reaches and answers == "scores":
        how += f"; what each leaf weighs, in an order that it doesn't know; and so {active.name}'s scores"
    yield Exposure(
        party=active.name,
        owner=passive[0].name if len(passive) == 1 else "",
        received=f"{answer} for each record{after}; {parameters}",
        about=f"{names}'s features of one record",
        equations=equations,
        unknowns=unknowns,
        since=_BETWEEN
        if disclosed and plan.family.spec.reaches
        else _since_prediction(equations, unknowns, disclosed=disclosed),
        possible=disclosed,
    )
    yield Exposure(
        party="coordinator",
        owner="",
        received=f"each party's part of {parts}, {how}; no parameters",
        about=f"all parties' features of one record ({active.name} included)",
        equations=equations * len(agreement.parties),
        unknowns=sum(party.feature_count for party in agreement.parties) - 1,
        since="Never by equations alone: it doesn't know what they weigh features with.",
        possible=False,
    )


def _since_prediction(equations: int, unknowns: int, *, disclosed: bool) -> str:
    if not disclosed:
        return "Not by solving: without parameters the equations are unknown. Estimates need other knowledge."
    if unknowns <= equations:
        return "From the first prediction, exactly: there are no more unknowns than equations."
    return "From the first prediction, as an estimate: many records fit the same scores."
