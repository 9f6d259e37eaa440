"""Two tables of the same patients, as a hospital and a laboratory would have them: for the tutorials, to try things on.

    python examples/tables.py FOLDER

writes FOLDER/hospital.csv (patient, diagnosis, ten measurements) and FOLDER/laboratory.csv (patient, ten other
measurements), from the breast-cancer data that comes with scikit-learn. As in life, the rows are in another order in
each, and each lacks some patients whom the other has.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer

LACKING = 0.03


def tables(seed: int = 1) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The hospital's table, with the labels, and the laboratory's."""
    bunch = load_breast_cancer(as_frame=True)
    everything = bunch.data.rename(columns=lambda name: name.replace(" ", "_"))
    everything.insert(0, "patient", [f"p{number:04d}" for number in range(1, len(everything) + 1)])
    diagnosis = bunch.target_names[bunch.target]
    generator = np.random.default_rng(seed)

    def share(prefix: str) -> pd.DataFrame:
        columns = ["patient", *(name for name in everything if name.startswith(prefix))]
        rows = generator.permutation(len(everything))[: round(len(everything) * (1 - LACKING))]
        mine: pd.DataFrame = everything.loc[rows, columns]
        return mine

    hospital, laboratory = share("mean_"), share("worst_")
    hospital.insert(1, "diagnosis", diagnosis[hospital.index])
    return hospital, laboratory


def main() -> None:
    """Write both tables into the folder that is named."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in zip(("hospital", "laboratory"), tables(), strict=True):
        table.to_csv(folder / f"{name}.csv", index=False)


if __name__ == "__main__":
    main()
