"""What received columns tell on public data: docs/how-to/received.md keeps the table.

    PLUMBLINE_DATA_DIR=... python -m scripts.received_columns --seeds 0 1 --data bank credit

For each data set and seed 6,000 records are drawn. The receiver has the first half of the columns and the label, the
secret is the rest. All other records train what is handed out: a vendor's score of the secret columns alone (boosted
trees), a joint forest's score, its leaf numbers, and its explanations, what each column adds along the paths of its
trees. Written is the median over secret columns of what is told of what was unknown, of skewed ones on the log scale
that they are judged on besides, where few huge cells aren't nearly all of it; and of the shuffled copy.

``--by forest``, ``--by boosting`` and ``--by ridge`` tell of what regressions of scikit-learn find in the place of a
judge: the same median on the same scales, and the share of each column's variance that they explain without it. Who
guesses worse without is told a larger part by the same score: both print each column's error without and with it.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pandas as pd

from plumbline import judge_received
from plumbline.judge.columns import LogScale
from plumbline.judge.federation_part import at
from plumbline.received.received_findings import KNOWING, control_part
from vfl.arrays import FloatArray, IntArray
from vfl.data import load_dataset

RECORDS, KNOWN, TREES, DEPTH = 6_000, 1_000, 50, 8
HANDED_OUT = ("vendor's score", "forest's score", "leaves", "explanations")


def handed_out(features: FloatArray, labels: IntArray, secret: int, mine: IntArray) -> dict[str, FloatArray]:
    """Make what is received of the records ``mine``; the columns from number ``secret`` on are the sender's."""
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

    others = np.setdiff1d(np.arange(len(features)), mine)
    vendor = HistGradientBoostingClassifier(random_state=0).fit(features[others, secret:], labels[others])
    forest = RandomForestClassifier(TREES, max_depth=DEPTH, random_state=0).fit(features[others], labels[others])
    asked = features[mine]
    return {
        "vendor's score": vendor.predict_proba(asked[:, secret:])[:, 1:],
        "forest's score": forest.predict_proba(asked)[:, 1:],
        "leaves": forest.apply(asked).astype(np.float64),
        "explanations": explanations(forest, asked),
    }


def explanations(forest: object, asked: FloatArray) -> FloatArray:
    """Say what each column of (n, d) records adds to a forest's score along the paths of its trees: (n, d)."""
    added = np.zeros(asked.shape)
    trees = [one.tree_ for one in forest.estimators_]  # type: ignore[attr-defined]
    for tree in trees:
        score, node = tree.value[:, 0, 1] / tree.value[:, 0].sum(axis=1), np.zeros(len(asked), dtype=np.int64)
        while len(inside := np.flatnonzero(tree.children_left[node] >= 0)):
            at_node, column = node[inside], tree.feature[node[inside]]
            goes_left = asked[inside, column].astype(np.float32) <= tree.threshold[at_node]
            node[inside] = np.where(goes_left, tree.children_left[at_node], tree.children_right[at_node])
            np.add.at(added, (inside, column), score[node[inside]] - score[at_node])
    return added / len(trees)


def named(array: FloatArray, what: str, names: list[str], ids: list[str]) -> pd.DataFrame:
    """Name received columns as their senders do."""
    called = {"explanations": [f"shap_{name}" for name in names], "leaves": [f"leaf_{at}" for at in range(TREES)]}
    return pd.DataFrame(array, columns=pd.Index(called.get(what, ["score"]))).assign(id=ids)


@dataclass(frozen=True, eq=False)
class Handout:
    """What is handed out of the records that one seed draws.

    Attributes:
        own: the receiver's table, with its labels.
        secret: the sender's.
        received: arrays by what they are, a row for each record.
    """

    own: pd.DataFrame
    secret: pd.DataFrame
    received: dict[str, FloatArray]


def drawn(data: str, seed: int) -> Handout:
    """Draw records of a data set, and make what is handed out of them."""
    table = load_dataset(data, Path(os.environ["PLUMBLINE_DATA_DIR"]))
    labels = np.unique(table.labels.astype(str), return_inverse=True)[1]
    mine = np.random.default_rng(seed).permutation(len(labels))[:RECORDS]
    secret, names = (len(table.feature_names) + 1) // 2, list(table.feature_names)
    frame = pd.DataFrame(table.features[mine], columns=pd.Index(names)).assign(id=[f"r{row}" for row in mine])
    own = frame[["id", *names[:secret]]].assign(label=labels[mine])
    return Handout(own, frame[["id", *names[secret:]]], handed_out(table.features, labels, secret, mine))


def judged(
    data: str, seed: int, folder: str, asked: Sequence[str] = HANDED_OUT
) -> dict[str, tuple[float, float, float]]:
    """Judge what is asked of what is handed out: by what it is medians of parts and of controls, and seconds."""
    handout, found = drawn(data, seed), {}
    names = [one for one in (*handout.own, *handout.secret) if one not in ("id", "label")]
    for what in asked:
        start = time.process_time()
        told = judge_received(
            handout.own,
            named(handout.received[what], what, names, list(handout.own["id"])),
            handout.secret,
            known=KNOWN,
            label="label",
            seed=seed,
            runs=folder,
            verbosity="quiet",
            encode=dict.fromkeys(names, "number"),
        )
        levels = {one.column: at(one.logs or one.levels, KNOWING) for one in told.predictions.sources}
        errors = ((name, one.e0, one.error) for name, one in levels.items() if one.error is not None)
        print(data, seed, "errors", *(f"{name} {before:.4f} {after:.4f}" for name, before, after in errors), flush=True)
        found[what] = (
            median(one.part.mean for one in levels.values() if one.part is not None),
            max(map(control_part, told.shuffled)),
            time.process_time() - start,
        )
        print(data, seed, what, *(f"{number:.3f}" for number in found[what]), flush=True)
    return found


def learners() -> dict[str, Callable[[], Any]]:
    """Make regressions of scikit-learn by their names, with its defaults; all columns at once."""
    from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
    from sklearn.linear_model import RidgeCV
    from sklearn.multioutput import MultiOutputRegressor

    return {
        "forest": lambda: RandomForestRegressor(100, random_state=0),
        "boosting": lambda: MultiOutputRegressor(HistGradientBoostingRegressor(random_state=0)),
        "ridge": lambda: RidgeCV(np.logspace(-3, 3, 13)),
    }


def by_others(data: str, seed: int, learner: str, asked: Sequence[str]) -> None:
    """Print what a regression of scikit-learn finds with each thing that is handed out, and explains without it."""
    handout, made = drawn(data, seed), learners()[learner]
    own, secret = (frame.drop(columns="id").to_numpy(np.float64) for frame in (handout.own, handout.secret))
    scale, cells = own.std(axis=0), (secret - secret.min(axis=0)) / np.ptp(secret, axis=0)
    logs = [LogScale.for_skewed(column) for column in cells.T]
    secret = np.column_stack(
        [column if one is None else one.of(column) for one, column in zip(logs, cells.T, strict=True)]
    )

    def errors(received: FloatArray) -> FloatArray:
        seen = np.hstack([own / np.where(scale > 0, scale, 1.0), received])
        found = made().fit(seen[:KNOWN], secret[:KNOWN]).predict(seen[KNOWN:])
        squared: FloatArray = ((secret[KNOWN:] - found) ** 2).mean(axis=0)
        return squared

    without = errors(np.zeros((len(own), 0)))
    explained = 1 - without / secret[KNOWN:].var(axis=0)
    print(data, seed, learner, "explains without", *(f"{share:.2f}" for share in explained), flush=True)
    for what in asked:
        found = errors(handout.received[what])
        columns = zip(handout.secret.columns.drop("id"), without, found, strict=True)
        print(
            data, seed, "errors", *(f"{name} {before:.4f} {after:.4f}" for name, before, after in columns), flush=True
        )
        print(data, seed, learner, what, f"{np.median(1 - found / without):.3f}", flush=True)


def main() -> None:
    """Print the table of medians, a row for each data set and what was handed out."""
    parser = argparse.ArgumentParser(description="Measure what received columns tell on public data.")
    parser.add_argument("--data", nargs="+", default=["bank", "credit"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--received", nargs="+", choices=HANDED_OUT, default=HANDED_OUT)
    parser.add_argument("--by", choices=["judge", *learners()], default="judge")
    asked = parser.parse_args()
    if asked.by != "judge":
        for data, seed in product(asked.data, asked.seeds):
            by_others(data, seed, asked.by, asked.received)
        return
    rows = [
        "| data | received | median column | from, to | shuffled, largest | CPU seconds |",
        "|---|---|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory() as folder:
        for data in asked.data:
            runs = [judged(data, seed, folder, asked.received) for seed in asked.seeds]
            for what in runs[0]:
                parts, controls, seconds = zip(*(run[what] for run in runs), strict=True)
                middle, low, high, shuffled = (
                    f"{100 * one:.0f} %" for one in (median(parts), min(parts), max(parts), max(controls))
                )
                rows.append(f"| {data} | {what} | {middle} | {low}, {high} | {shuffled} | {max(seconds):.0f} |")
    print("\n".join(rows))


if __name__ == "__main__":
    main()
