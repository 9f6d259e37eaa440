"""What a hospital could be handed of a laboratory's measurements: for the how-to on received columns, to try things on.

    python examples/received.py FOLDER

writes FOLDER/hospital.csv (patient, diagnosis, ten measurements), FOLDER/laboratory.csv (patient, ten others), and of
the same patients scores.csv (a risk that the laboratory computed of its own columns), leaves.csv (the leaf numbers of
a forest on the columns of both) and embeddings.csv (a network's hidden layer over the laboratory's); and
FOLDER/model.json, the model behind scores.csv as `plumbline judge --model` reads it. The data are the
breast-cancer data that come with scikit-learn. A quarter of the patients, who are in no table, trained the models.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

TRAINED, HIDDEN = 0.25, 6


def tables(seed: int = 1) -> tuple[dict[str, pd.DataFrame], dict[str, Any]]:
    """Every table by its name, a row per patient in an order of its own; and the model of the scores, for JSON."""
    bunch, draw = load_breast_cancer(as_frame=True), np.random.default_rng(seed)
    everything = bunch.data.rename(columns=lambda name: name.replace(" ", "_"))
    order = draw.permutation(len(everything))
    trained, asked = np.split(order, [round(TRAINED * len(order))])
    scaler, label = StandardScaler().fit(everything), bunch.target.to_numpy()
    cells = scaler.transform(everything)
    own, others = (np.flatnonzero(everything.columns.str.startswith(prefix)) for prefix in ("mean_", "worst_"))
    both, inner = np.concatenate([own, others]), cells[:, others]
    score = LogisticRegression().fit(inner[trained], label[trained])
    forest = RandomForestClassifier(20, max_depth=5, random_state=seed).fit(cells[trained][:, both], label[trained])
    network = MLPClassifier((HIDDEN,), max_iter=2_000, random_state=seed).fit(inner[trained], label[trained])
    hidden = np.maximum(inner[asked] @ network.coefs_[0] + network.intercepts_[0], 0.0)
    made = {
        "hospital": everything.iloc[asked, own].assign(diagnosis=bunch.target_names[label[asked]]),
        "laboratory": everything.iloc[asked, others],
        "scores": pd.DataFrame({"risk": score.predict_proba(inner[asked])[:, 0]}),
        "leaves": pd.DataFrame(forest.apply(cells[asked][:, both])).add_prefix("leaf_"),
        "embeddings": pd.DataFrame(hidden).add_prefix("embedding_"),
    }
    patients = [f"p{number:04d}" for number in asked]
    # Class 0 is what the risk is of.
    terms = zip(everything.columns[others], -score.coef_[0], scaler.mean_[others], scaler.scale_[others], strict=True)
    columns = {name: {"weight": weight, "mean": mean, "width": width} for name, weight, mean, width in terms}
    model = {"model": "linear", "link": "logit", "intercept": -score.intercept_[0], "columns": columns}
    shuffled = {
        name: table.assign(patient=patients).sample(frac=1, random_state=place)
        for place, (name, table) in enumerate(made.items())
    }
    return shuffled, model


def main() -> None:
    """Write all tables into the folder that is named."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    folder.mkdir(parents=True, exist_ok=True)
    made, model = tables()
    for name, table in made.items():
        table.to_csv(folder / f"{name}.csv", index=False)
    (folder / "model.json").write_text(json.dumps(model, indent=1))


if __name__ == "__main__":
    main()
