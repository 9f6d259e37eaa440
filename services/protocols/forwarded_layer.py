"""What is counted where a first layer is forwarded, whatever becomes of its gradients: sums of units, by epochs."""

from services.common.agreement import Agreement, TrainingPlan
from services.common.exposure import Exposure, ToldEquations
from services.protocols.forwarding_guard import forwarded_ratio
from services.watching.tally import Told


def forwarded_equations(plan: TrainingPlan, classes: int) -> ToldEquations:
    """Count the sums of a record that the label party is told: one for each unit, by a model and by each epoch."""
    units = plan.calls.outputs(classes)
    return ToldEquations(units, units)


def told_of_forwarding(agreement: Agreement, name: str) -> dict[str, Told]:
    """Say, to who watches a passive party, what it forwards of a record against what is warned of."""
    active = agreement.active.name
    return {} if name == active else {active: Told(0, 0, forwarded_ratio(agreement))}


def forwarded_sums(agreement: Agreement) -> Exposure:
    """Count what its sums tell the label party of a record."""
    epochs, units = agreement.plan.epochs, agreement.outputs
    features = sum(party.feature_count for party in agreement.parties[1:])
    enough = -(-features // units)
    return Exposure(
        party=agreement.active.name,
        owner="",
        received=f"{units} sums of the other parties' first layer for each record, in the clear, in each epoch",
        about="the other parties' features of one record",
        equations=units * epochs,
        unknowns=features,
        since=f"From epoch {enough:,} on, to who can tell the other parties' weights: each epoch has other sums."
        if enough <= epochs
        else f"Not within this session: {epochs:,} epochs, where {enough:,} are needed.",
        possible=enough <= epochs,
    )


def signal(agreement: Agreement, party: str, received: str, equations: int, since: str) -> Exposure:
    """Count what comes back to a passive party; 0 equations for what is uniform by itself."""
    active = agreement.active.name
    return Exposure(
        party=party,
        owner=active,
        received=f"{equations:,} {received}" if equations else received,
        about=f"{active}'s labels of one batch",
        equations=equations,
        unknowns=agreement.plan.batch_size,
        since=since,
        possible=equations > 0,
    )
