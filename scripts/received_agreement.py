"""Whether a judge of received columns and an audit say the same of one federation: docs/how-to/received.md keeps it.

    PLUMBLINE_DATA_DIR=... python -m scripts.received_agreement --data breast_cancer bank credit

A federation is audited in black box, with an adversary who has some records in full. Then its scores of the very same
records are judged as if nobody knew who made them. Written is which part of what was unknown either says one session
tells who has these records.
"""

import argparse
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import numpy as np
import pandas as pd

import plumbline
from plumbline.judge.evidence import SourceVerdict
from plumbline.judge.federation_part import at
from plumbline.judge.measures import Interval
from plumbline.received.kinds import kinds_of
from plumbline.received.mounting import mount
from plumbline.received.received_findings import KNOWING, read_received_findings
from plumbline.received.received_tables import JudgeFacts, ReceivedRecords
from services.common.identity import Role
from services.common.run_folder import RunFolder
from vfl.data import Table, load_dataset
from vfl.data.typed_tables import typed_table_of
from vfl.learning.confidence import confidence_scores

SENDER = "passive"
# How near both are to come.
WITHIN = 0.03


def audited(data: str, records: int, known: int, folder: Path) -> tuple[dict[str, Interval], RunFolder]:
    """Audit a federation of a data set's first and second half of columns: parts by column, and the run's folder."""
    kept = os.environ.get("PLUMBLINE_DATA_DIR")
    table = load_dataset(data, Path(kept) if kept else None)
    mine = np.random.default_rng(0).permutation(len(table.labels))[:records]
    names = list(table.feature_names)
    frame = pd.DataFrame(table.features[mine], columns=pd.Index(names)).assign(id=[f"r{row}" for row in mine])
    half = len(names) // 2
    own = frame[["id", *names[:half]]].assign(label=table.labels[mine].astype(str))
    found = plumbline.audit(
        own,
        frame[["id", *names[half:]]],
        label="label",
        id="id",
        runs=folder,
        auxiliary=known,
        black_box=True,
        attacks=["imputation", "regression", "posterior(prior=imputation)"],
        encode=dict.fromkeys(names, "number"),
        cipher="plain",
        # Few judged records choose another best attack from one day to the next.
        settings={"test_fraction": 0.6, "validation_fraction": 0.1},
        assume_yes=True,
        verbosity="quiet",
    )
    run = next(one for one in folder.iterdir() if not one.is_symlink())
    return parts(found.predictions.sources), RunFolder(run / "parties")


def judged(run: RunFolder, into: Path) -> dict[str, Interval]:
    """Judge the scores of the records that an audit judged, with those that its adversary had: parts by column."""
    estimates, folder = run.estimates(0), RunFolder(into)
    own, secret = run.features(Role.ACTIVE), run.features(SENDER)
    ours, theirs = run.weights(Role.ACTIVE).weights, run.weights(SENDER).weights
    scores = confidence_scores(own.features @ ours + secret.features @ theirs)[:, 1:]
    names = [f"score_{number}" for number in range(1, scores.shape[1] + 1)]
    ids = tuple(f"r{row}" for row in range(len(scores)))
    table, known = typed_table_of(Table(ids, scores, tuple(names))), np.asarray(estimates.auxiliary_rows)
    facts = JudgeFacts("agreement", "scores", SENDER, len(known), kinds_of(table, [], ()))
    records = ReceivedRecords(own, secret, table.frame, facts, known, estimates.rows)
    records.write(folder)
    mount(folder, records, seed=0)
    return parts(read_received_findings(folder, facts).predictions.sources)


def parts(sources: Sequence[SourceVerdict]) -> dict[str, Interval]:
    """Which part of each column one session tells who has records in full, with its 95 % interval."""
    told = {one.column: at(one.one_session or one.levels, KNOWING).part for one in sources}
    return {name: Interval(0.0, 0.0, 0.0) if part is None else part for name, part in told.items()}


def compared(data: str, records: int, known: int, folder: Path) -> dict[str, tuple[Interval, Interval]]:
    """What an audit and a judge say is told of each secret column."""
    audit, run = audited(data, records, known, folder / "audits")
    judge = judged(run, folder / "judged")
    return {name: (audit[name], judge[name]) for name in audit}


def overlap(audit: Interval, judge: Interval) -> bool:
    """Tell whether both may be of the same part."""
    return audit.low <= judge.high and judge.low <= audit.high


def main() -> None:
    """Print both medians, the column on which they differ most, and those on which they differ beyond chance."""
    parser = argparse.ArgumentParser(description="Compare a judge of received columns with an audit.")
    parser.add_argument("--data", nargs="+", default=["breast_cancer", "bank", "credit"])
    parser.add_argument("--records", type=int, default=6_000)
    parser.add_argument("--known", type=int, default=200)
    asked = parser.parse_args()
    for data in asked.data:
        with tempfile.TemporaryDirectory() as folder:
            found = compared(data, asked.records, asked.known, Path(folder))
        audit, judge = (median(one.mean for one in parts) for parts in zip(*found.values(), strict=True))
        apart = {name: abs(ours.mean - theirs.mean) for name, (ours, theirs) in found.items()}
        worst = max(apart, key=apart.__getitem__)
        disjoint = [name for name, both in found.items() if not overlap(*both)]
        print(
            data,
            f"audit {audit:.3f} judge {judge:.3f}",
            f"{sum(one > WITHIN for one in apart.values())} of {len(found)} columns further apart than {WITHIN}, most",
            worst,
            *(f"{one.mean:.3f} ({one.low:.3f} to {one.high:.3f})" for one in found[worst]),
            f"disjoint intervals: {', '.join(disjoint) or 'none'}",
            flush=True,
        )


if __name__ == "__main__":
    main()
