"""Single shares on the live wire: processes over mTLS, the adversary in the active party's service."""

import io
import json
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console

from plumbline.audit.request import AuditRequest
from plumbline.audit.run import run_audit


def test_a_label_party_that_asks_about_few_rows_reads_whole_records(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    ids = [f"p{row}" for row in range(160)]
    for name, columns in (("hospital", 11), ("laboratory", 4)):
        table = pd.DataFrame(generator.uniform(size=(len(ids), columns))).add_prefix(name)
        table.insert(0, "id", ids)
        if name == "hospital":
            table["ill"] = generator.integers(0, 2, size=len(ids))
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    request = AuditRequest.of(
        runs=tmp_path / "runs",
        active=str(tmp_path / "hospital.csv"),
        passive=(str(tmp_path / "laboratory.csv"),),
        label="ill",
        id_column="id",
        attacks=("single_shares",),
        auxiliary=60,
        cipher="paillier",
        settings={"epochs": 6, "key_bits": 512, "allow_insecure_keys": True, "batch_size": 40, "patience": 0},
    )
    run = run_audit(request, Console(file=io.StringIO(), width=200))
    results = json.loads((run / "results.json").read_text())
    (found,) = results["training_attacks"]
    assert (found["kind"], found["party"]) == ("estimates", "active")
    assert found["success"] >= 0.99
    assert any("could learn whole records of passive" in warning for warning in results["warnings"])
    # Fewer than fifty records are read, which is too few for a light.
    assert "What training tells besides labels was not measured: 50 records are needed to judge it" in json.dumps(
        results["answer"]
    )
