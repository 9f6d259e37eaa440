"""Makes what lies beside it: models that XGBoost saved, the table that they were trained on, and what they predict.

    pip install xgboost-cpu==3.2.0 && python make.py

Tests read the files, so that nobody has to have XGBoost.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import xgboost

HERE = Path(__file__).parent
ROWS = 160
draw = np.random.default_rng(3)
table = pd.DataFrame(
    {
        "age": draw.integers(20, 80, ROWS).astype(float),
        "income": draw.normal(3_000, 500, ROWS).round(1),
        "limit": draw.random(ROWS).round(3),
    }
)
table.loc[draw.random(ROWS) < 0.1, "limit"] = np.nan
label = (table["income"] + 10 * table["age"] + 300 * table["limit"].fillna(1) > 3_600).astype(float)
cells = xgboost.DMatrix(table)
told = {}
for objective, target in (
    ("binary:logistic", label),
    ("reg:squarederror", table["income"]),
    ("reg:gamma", table["age"]),
):
    short = objective.partition(":")[2]
    booster = xgboost.train({"objective": objective, "max_depth": 3}, xgboost.DMatrix(table, target), 4)
    booster.save_model(HERE / f"{short}.json")
    told[f"{short} score"] = booster.predict(cells)
    leaves = booster.predict(cells, pred_leaf=True).astype(int)
    told |= {f"{short} leaf {number}": leaf for number, leaf in enumerate(leaves.T, start=1)}
table.assign(**told).to_csv(HERE / "told.csv", index=False, float_format="%.9g")
