"""Sessions with real processes: each one's scores are read together with those of the sessions before."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from plumbline.federation import Federation
from plumbline.judge.predictions import AttackFinding
from plumbline.processes import LocalProcesses
from plumbline.recipe import Recipe, own_tables
from vfl.data import fit_encoder, load_dataset

PASSIVE, CLASSES = 6, 3
SESSIONS = PASSIVE // (CLASSES - 1)


@contextmanager
def wine(
    folder: Path, *, disclose: bool, attacks: Mapping[str, Mapping[str, Any]], known: int = 0
) -> Iterator[Federation]:
    """A federation on wine, whose active party holds some records completely."""
    data = load_dataset("wine", None)
    # Multiples of 1/256, encoded as they are: what the adversary holds is what the party trains on.
    columns = np.round(fit_encoder("minmax", data.features).transform(data.features) * 256) / 256
    table = pd.DataFrame(columns, columns=[f"c{number}" for number in range(columns.shape[1])])
    table.insert(0, "id", [f"r{number:03}" for number in range(len(table))])
    own, passive = table.iloc[:, :-PASSIVE].assign(label=data.labels), table.iloc[:, [0, *range(-PASSIVE, 0)]]
    files = [str(folder / name) for name in ("active.parquet", "passive.parquet", "known.parquet")]
    for part, file in zip((own, passive, passive.sample(known, random_state=0)), files, strict=True):
        part.to_parquet(file, index=False)
    tables = own_tables(files[:2], label="label", id_column="id")
    tables["active"]["auxiliary"] = files[2] if known else ""
    recipe = Recipe(
        tables=tables,
        attacks=tuple(attacks),
        disclose=disclose,
        settings={"cipher": "plain", "epochs": 1, "batch_size": 64, "encoder": "none", "attack_options": attacks},
    )
    with Federation.start(LocalProcesses(folder, recipe.checked().settings(folder / "parties"))) as federation:
        yield federation


def errors(federation: Federation) -> dict[str, float]:
    """Each attack's mean squared error on the test records of the last session."""
    found = [one for one in federation.findings() if isinstance(one, AttackFinding)]
    return {one.attack: one.mse.mean for one in found if one.mse is not None}


def test_models_disclosed_after_each_session_tell_every_cell_together(tmp_path: Path) -> None:
    with wine(tmp_path, disclose=True, attacks={"posterior": {}, "many_sessions": {}}) as federation:
        federation.train()
        first = errors(federation)
        assert first["many_sessions"] == first["posterior"] > 0.01
        for _ in range(SESSIONS - 1):
            federation.train()
        last = errors(federation)
        assert last["posterior"] > 0.01
        assert last["many_sessions"] < 1e-12


def test_without_any_disclosure_a_few_known_records_do(tmp_path: Path) -> None:
    options = {"prior": "imputation"}
    with wine(tmp_path, disclose=False, attacks={"many_sessions": options}, known=PASSIVE) as federation:
        for _ in range(SESSIONS):
            federation.train()
        assert errors(federation)["many_sessions"] < 1e-12
