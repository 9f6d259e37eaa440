"""How often a planted trigger makes a network say what its party chose, beside networks that nobody planted one in.

A column's largest value may mean a class by itself. So the same plan is trained once more with honest messages, from
the parties' own tables in one place (SIMULATION), and shown the same trigger.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from services.common.identity import Role
from services.common.run_folder import RunFolder
from vfl.arrays import FloatArray
from vfl.data.grids import WIDTHS
from vfl.data.labels import NO_LABEL
from vfl.learning import VerticalData
from vfl.learning.network import Network, train_network
from vfl.learning.network.part import NetworkPart


def judged_trigger(folder: RunFolder, party: str, attack: str) -> dict[str, Any]:
    """Show the trigger in records of other classes, the test records where there are any.

    Returns:
        ``success``: the share of what neither the clean records nor the honest network have of the class that the
        trigger turned into it; ``resolved``, and in ``details`` the three shares.

    Raises:
        ValueError: without such records, or of a model that is no network.
    """
    trigger, agreement = folder.found_trigger(party, attack), folder.record(Role.ACTIVE).agreement
    if agreement is None or not isinstance(family := agreement.plan.family, Network):
        raise ValueError("a trigger is judged in a network that the federation trained")
    names, labels = [one.name for one in agreement.parties], folder.labels()
    label, split = int(np.bincount(labels[trigger.rows]).argmax()), agreement.plan.split(len(labels))
    rows = split.test if len(split.test) else np.setdiff1d(np.arange(len(labels)), trigger.rows)
    rows = rows[(labels[rows] != label) & (labels[rows] != NO_LABEL)]
    if not len(rows):
        raise ValueError("no record of another class is left to judge")
    tables, features = [folder.features(name) for name in names], folder.features(party)
    if features.steps is None:
        raise ValueError("this run doesn't say what a column's steps are")
    widths = ["full"] * features.features.shape[1] if features.widths is None else features.widths.tolist()
    order = np.argsort([WIDTHS.index(width) for width in widths], kind="stable")
    column = int(order[trigger.column[0]])
    clean = [one.features[rows] for one in tables]
    triggered = [block.copy() for block in clean]
    triggered[names.index(party)][:, column] = trigger.trigger[0] * features.steps[column]
    parts = [NetworkPart.of(folder.part(name)) for name in names]
    data = VerticalData([one.features for one in tables], labels, agreement.classes)
    honest = train_network(
        family,
        data,
        agreement.plan.schedule(split.train),
        epochs=agreement.plan.epochs,
        generators=np.random.default_rng(0).spawn(len(names)),
    ).parts
    shares = {
        "with_trigger": _of_class(parts, triggered, label),
        "clean": _of_class(parts, clean, label),
        "honest_with_trigger": _of_class(honest, triggered, label),
    }
    baseline = max(shares["clean"], shares["honest_with_trigger"])
    success = max(0.0, (shares["with_trigger"] - baseline) / (1 - baseline)) if baseline < 1 else 0.0
    return {
        "success": success,
        "resolved": 1.0,
        "judged": len(rows),
        "details": {"class": label, "records": len(rows), **{name: round(one, 4) for name, one in shares.items()}},
    }


def _of_class(parts: Sequence[NetworkPart], blocks: Sequence[FloatArray], label: int) -> float:
    """Measure the share of records that a network takes for the class."""
    outputs = sum(part.shares(block) for part, block in zip(parts, blocks, strict=True))
    return float((parts[0].scores(np.asarray(outputs)).argmax(axis=1) == label).mean())
