"""An audited run whose federation was trained in one place: made in a second, for what is asked of runs."""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console

from plumbline.audit.clear_run import run_in_one_place
from plumbline.audit.folder import AuditFolder, new_run, write_duration, write_plan
from plumbline.audit.plan import ClearPlan
from plumbline.audit.request import AuditRequest
from plumbline.audit.run import prepare

ROWS = 400
LINEAR = {"epochs": 3, "batch_size": 32, "steps": "plain", "learning_rate": 1.0, "most_equations": 0.2}
TREES = {"learner": "boosted_trees", "learner_options": {"n_estimators": 6, "max_depth": 3, "min_rows_of_a_node": 5}}
TREE_ATTACKS = ("disclosed_thresholds", "leaf_labels")


def simulated_run(
    folder: Path, settings: Mapping[str, Any] = LINEAR, attacks: tuple[str, ...] = ("half_star",)
) -> AuditFolder:
    """Make a run of two tables, of whose columns one decides the label; its federation is simulated."""
    generator = np.random.default_rng(0)
    debt, ids = generator.random(ROWS), [f"c{row}" for row in range(ROWS)]
    late = np.where(debt + 0.1 * generator.random(ROWS) > 0.55, "late", "paid")
    bank = pd.DataFrame({"id": ids, "balance": generator.random(ROWS), "default": late})
    fintech = pd.DataFrame(
        {
            "id": ids,
            "debt": debt,
            "age": generator.integers(18, 90, ROWS),
            "town": generator.choice(["a", "b", "c"], ROWS),
        }
    )
    for name, table in (("bank", bank), ("fintech", fintech)):
        table.to_csv(folder / f"{name}.csv", index=False)
    request = AuditRequest.of(
        active=str(folder / "bank.csv"),
        passive=(str(folder / "fintech.csv"),),
        label="default",
        attacks=attacks,
        cipher="plain",
        verbosity="quiet",
        runs=folder / "runs",
        settings=dict(settings),
    )
    plan, tables = prepare(request, Console(file=io.StringIO()))
    made = new_run(request.output.runs, request.title)
    write_plan(made, plan)
    run_in_one_place(ClearPlan(plan.request, plan.recipe, plan.levels, plan.limit), tables, made)
    write_duration(made, 1.0)
    return made
