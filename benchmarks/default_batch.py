"""What the default batch and layout cost, and whether the model learns as well, on five public tables.

    PLUMBLINE_DATA_DIR=data python -m benchmarks.default_batch

Before: 40 epochs of batches of 64 rows, answers given whole. Arithmetic of both parties in one step, in this process
at 2,048 bits: process-CPU seconds, median of three. Test accuracy: the same training in float64, mean over
public seeds.
"""

import os
from dataclasses import replace
from statistics import median
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.stopwatch import timed
from services.common.agreement import Agreement, TrainingPlan
from services.common.settings import settings_of
from services.party.features import load_party_data
from services.protocol1.cipher import honest_messages
from services.protocol1.default_batch import with_batch_size
from services.protocol1.formats import CipherFormats
from vfl.arrays import FloatArray, IntArray
from vfl.data import common_order, encode_labels, rows_of
from vfl.learning import (
    BatchSchedule,
    GradientDescent,
    VerticalData,
    confidence_scores,
    initial_weights,
    smallest_batch,
    split_rows,
    train_centrally,
)

BEFORE = TrainingPlan(batch_size=64, epochs=40)
TABLES = {"breast_cancer": 30, "credit": 10, "bank": 10, "adult": 10, "satellite": 10}
_NAMES = ("active", "passive")
_REPETITIONS = 3


class Session(NamedTuple):
    """Two parties' tables in the common order, and the terms of a session about them."""

    blocks: tuple[FloatArray, FloatArray]
    labels: IntArray
    agreement: Agreement

    def under(self, plan: TrainingPlan, *, truncates: bool) -> "Session":
        """The same tables under other terms."""
        parties = tuple(replace(party, truncates_answers=truncates) for party in self.agreement.parties)
        return self._replace(agreement=with_batch_size(replace(self.agreement, plan=plan, parties=parties)))

    @property
    def steps_per_epoch(self) -> int:
        """Batches of one epoch."""
        return -(-self.agreement.training_rows // self.agreement.plan.batch_size)


def load_session(name: str) -> Session:
    """Deal a registered data set out to two parties, as an audit does."""
    folder = os.environ.get("PLUMBLINE_DATA_DIR", "data")
    parties = [
        load_party_data(settings_of({"data": name, "share": f"{number}/2", "data_dir": folder}), with_bias=number == 1)
        for number in (1, 2)
    ]
    common = common_order(set(parties[0].ids) & set(parties[1].ids))
    active, passive = aligned = [party.aligned(rows_of(party.ids, common), TrainingPlan()) for party in parties]
    assert parties[0].labels is not None  # noqa: S101 - the active party's
    labels, classes = encode_labels(parties[0].labels)
    described = tuple(one.describe(role, truncates_answers=True) for one, role in zip(aligned, _NAMES, strict=True))
    agreement = with_batch_size(Agreement(name, TrainingPlan(), len(classes), described))
    return Session((active.features, passive.features), labels[active.rows], agreement)


def accuracy(session: Session, seed: int) -> float:
    """Train in float64 with one public seed; the share of test records that the model gets right."""
    plan, columns = replace(session.agreement.plan, seed=seed), session.agreement.residual_columns
    generator = np.random.default_rng(100 + seed)
    split = split_rows(
        len(session.labels),
        validation_fraction=plan.validation_fraction,
        test_fraction=plan.test_fraction,
        seed=seed,
    )
    weights = train_centrally(
        VerticalData(list(session.blocks), session.labels, classes=session.agreement.classes),
        [
            initial_weights(
                plan.learner_options["initialisation"],
                block.shape[1],
                columns,
                total_features=session.agreement.total_features,
                generator=generator,
            )
            for block in session.blocks
        ],
        GradientDescent(
            BatchSchedule(split.train, plan.batch_size, seed),
            epochs=plan.epochs,
            learning_rate=plan.learner_options["learning_rate"],
        ),
    )
    logits = sum(block[split.test] @ own for block, own in zip(session.blocks, weights, strict=True))
    return float((confidence_scores(np.asarray(logits)).argmax(axis=1) == session.labels[split.test]).mean())


def seconds_of_step(session: Session) -> tuple[float, int]:
    """(process-CPU seconds, bytes of ciphertexts) of one step of both parties."""
    agreement = session.agreement
    messages = {name: honest_messages(agreement, name) for name in _NAMES}
    rows = smallest_batch(agreement.training_rows, agreement.plan.batch_size)
    shares = np.rint(np.random.default_rng(0).uniform(-2, 2, (rows, agreement.residual_columns)) * 2**32) / 2**32
    sent = 0

    def step() -> None:
        nonlocal sent
        sent = 0
        for own, peer, block in zip(_NAMES, _NAMES[::-1], session.blocks[::-1], strict=True):
            encrypted = messages[own].encrypt(0, shares)
            question = messages[peer].mask(0, own, messages[peer].combine(0, own, block[:rows], encrypted))
            sums = question.read(messages[own].answer(0, peer, question.masked))
            if np.abs(sums - block[:rows].T @ shares).max() > 1e-8:
                raise ValueError("The sums are not the plain ones.")
            sent += 512 * (len(encrypted.ciphertexts) + len(question.masked.ciphertexts))

    return median(timed(step)[0] for _ in range(_REPETITIONS)), sent


def main() -> None:
    """Measure all five, before and now, and print."""
    table = Table(title="The default batch")
    for heading in (
        "table",
        "",
        "batch",
        "steps",
        "layout",
        "s / step",
        "s / epoch",
        "min in all",
        "MB / epoch",
        "accuracy",
    ):
        table.add_column(heading, justify="left" if heading in ("table", "") else "right")
    for name, seeds in TABLES.items():
        session = load_session(name)
        plan = TrainingPlan()
        now_unpacked = replace(plan, packing=False, batch_size=session.agreement.plan.batch_size)
        for words, terms, truncates in (
            ("before", BEFORE, False),
            ("before, truncated", BEFORE, True),
            ("now", plan, True),
            ("now, packing off", now_unpacked, True),
        ):
            one = session.under(terms, truncates=truncates)
            seconds, sent = seconds_of_step(one)
            steps, layout = one.steps_per_epoch, CipherFormats(one.agreement).layout
            shape = f"{layout.rows_per_ciphertext} x {layout.columns_per_answer}" if layout else "none"
            # Neither packing nor truncation changes the model.
            measured = words in ("before", "now")
            right = f"{np.mean([accuracy(one, seed) for seed in range(1, seeds + 1)]):.4f}" if measured else ""
            table.add_row(
                name,
                words,
                str(one.agreement.plan.batch_size),
                str(steps),
                shape,
                f"{seconds:.3f}",
                f"{seconds * steps:.1f}",
                f"{seconds * steps * terms.epochs / 60:.1f}",
                f"{sent * steps / 1e6:.1f}",
                right,
            )
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
