"""The guard of networks: what a forwarded layer tells of features, and the backward signal of labels, whatever is sent.

Counts of equations don't say it: each of a signal's columns is another function of the same labels, and a hidden layer
has as many numbers of each record as it has units, in every epoch.
"""

from services.common.agreement import Agreement
from services.common.exposure import Mode, weighed


def guard_forwarding(agreement: Agreement, name: str, mode: Mode, *, tells_labels: bool) -> list[str]:
    """Warn of what a learner that forwards tells of this party's data.

    A passive party is warned unless units x epochs stay below half of the columns that the products are of: X of n
    records follows from as many products X W_t as it has columns, up to a rotation that a covariance or a few known
    records settle (``training.gram_space``). Beside the warning stands what an audit measured, or that it didn't.
    A label party is always warned where others learn their gradients.

    Args:
        agreement: the session's terms.
        name: the party's.
        mode: warn, refuse (raises instead) or off.
        tells_labels: whether passive parties learn their gradients.

    Returns:
        The warnings.

    Raises:
        OutOfOrder: the first warning, where the mode is refuse.
    """
    if mode == "off":
        return []
    if name == agreement.active.name:
        warnings = _of_labels(agreement) if tells_labels else []
    else:
        warnings = _of_features(agreement, name)
    return weighed(warnings, mode)


def forwarded_ratio(agreement: Agreement) -> float:
    """Compare what a session forwards of a record with what is warned of: twice the sums, by the passive columns."""
    columns = sum(party.feature_count for party in agreement.parties[1:])
    return 2 * agreement.outputs * agreement.plan.epochs / columns


def _of_labels(agreement: Agreement) -> list[str]:
    plan, active = agreement.plan, agreement.active.name
    peers = " and ".join(party.name for party in agreement.parties[1:])
    remedy = plan.leakage.remedy
    how = f", choose {remedy}" if remedy else ", choose a learner or a protocol that keeps gradients shared"
    if not plan.is_encrypted:
        return [
            f"{peers} can read labels of {active}'s records from the backward signal of each, which travels in the "
            f"clear. To prevent it{how}."
        ]
    return [
        f"{peers} could learn labels of {active}'s records from the answers about each batch, whatever its size: a "
        f"gradient of {agreement.residual_columns} units fits few other labels than the batch's own. Encrypting the "
        f"backward signal hides it, and not what is summed of it. To prevent it{how}."
    ]


def _of_features(agreement: Agreement, name: str) -> list[str]:
    units, epochs, active = agreement.outputs, agreement.plan.epochs, agreement.active.name
    passive = agreement.parties[1:]
    # Of several only the sum is seen.
    columns = sum(party.feature_count for party in passive)
    if forwarded_ratio(agreement) < 1:
        return []
    whose = f"{name}'s columns are {columns}" if len(passive) == 1 else f"all passive parties' columns are {columns}"
    return [
        f"{active} could learn every column of {name}'s records: it reads {units} sums of them for each record in each "
        f"of {epochs} epochs, {units * epochs} in all, and {whose}. From as many sums as columns it finds these up to "
        f"a rotation, with no record known, and the rotation by what is known of them anyway. To prevent it, train so "
        f"that units times epochs stay below half of these columns, add more of them, or defend what is forwarded."
    ]
