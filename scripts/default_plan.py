"""What the default plan of the linear learner learns and tells, beside sixty epochs of plain steps: decision 27.

A registered data set is shared out among parties and encoded as a party's table is. Both plans train in one place in
float64, on the grid. Printed are steps, honest sums of a party, area under the curve of the test records (of more than
two classes the share right), their log loss as trained and calibrated, and the same of the least first-order loss.
With --listening labels are shuffled first, and what is printed is the area under the curve of a passive party that
keeps what it hears, after one session and after four of the same records with a new start each.
With --federations both plans train as processes of their own, and what each attack on labels of the passive party tells
is the area under the curve of the training labels: of who listens in the clear, where sums are the same, and of who
replaces messages under Paillier. Seconds of the processor and bytes are those of all parties under Paillier, the
seconds with starting and aligning. Of a plan of more steps than --most-steps so many whole epochs are run as fit into
it: costs are then those of all epochs by two such runs, and what replaced messages tell is that of the epochs run.

    python -m scripts.default_plan --data breast_cancer wine satellite credit bank adult --parties 2 3 4
    python -m scripts.default_plan --data breast_cancer bank --federations
"""

import argparse
import os
import resource
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from sklearn.metrics import roc_auc_score

from attacks.registry import spec_of
from plumbline.audit.federating import run_federation
from plumbline.audit.folder import AuditFolder
from plumbline.audit.request import AuditRequest
from plumbline.audit.run import prepare
from plumbline.job_progress import RunProgress
from plumbline.judge.summary import read_summary
from scripts.listening import listened, told
from services.ciphers.default_plan import with_open_terms
from services.common.agreement import Agreement, TrainingPlan
from services.common.run_folder import RunFolder
from services.common.settings import settings_of
from services.party.features import load_party_data
from vfl.arrays import FloatArray, IntArray
from vfl.data import common_order, encode_labels, rows_of
from vfl.learning import (
    GradientDescent,
    ResidualScheme,
    RowSplit,
    VerticalData,
    confidence_scores,
    initial_weights,
    log_loss,
    split_rows,
    train_centrally,
)
from vfl.learning.calibration import UNCALIBRATED, fitted
from vfl.theory.training import OracleRun, simulate_oracle

PLAIN, DEFAULT = "plain", "own_moments"
_SHARE_STEP = 2.0**-32
# A passive party's attacks on labels, that of replaced messages last.
LISTENING, REPLACING = ("label_recovery", "trajectory_labels", "own_part"), "auxiliary_ciphertext"
# Messages of a training's steps.
_OF_STEPS = ("Send", "Ask")


class Shared(NamedTuple):
    """A data set among parties: their features of the common records, the labels, and their agreement's terms."""

    blocks: list[FloatArray]
    labels: IntArray
    agreement: Agreement

    def under(self, steps: str, seed: int) -> TrainingPlan:
        """The plan of a setting of steps, nothing else given."""
        plan = replace(settings_of({"steps": steps}).plan(), seed=seed)
        return with_open_terms(replace(self.agreement, plan=plan)).plan

    def split(self, plan: TrainingPlan) -> RowSplit:
        """Rows that are trained on, validated with and tested."""
        fractions = {"validation_fraction": plan.validation_fraction, "test_fraction": plan.test_fraction}
        return split_rows(len(self.labels), **fractions, seed=plan.seed)

    def descent(self, plan: TrainingPlan, rows: IntArray) -> GradientDescent:
        """How a plan trains these rows."""
        rate = plan.family.rate(len(self.blocks))  # type: ignore[attr-defined]
        return GradientDescent(plan.schedule(rows), plan.epochs, rate, own_moments=plan.family.steps == DEFAULT)  # type: ignore[attr-defined]

    def start(self, seed: int) -> list[FloatArray]:
        """All parties' first weights."""
        generator, total = np.random.default_rng(seed), self.agreement.total_features
        columns = self.agreement.residual_columns
        return [
            initial_weights("xavier", block.shape[1], columns, total_features=total, generator=generator)
            for block in self.blocks
        ]


def shared_out(name: str, parties: int, data_dir: Path) -> Shared:
    """Load a registered data set's shares as so many parties do, whole."""
    settings: dict[str, Any] = {"data": name, "data_dir": data_dir}
    tables = [
        load_party_data(settings_of({**settings, "share": f"{one}/{parties}"}), with_bias=one == 1)
        for one in range(1, parties + 1)
    ]
    common = common_order(set.intersection(*(set(table.ids) for table in tables)))
    aligned = [table.aligned(rows_of(table.ids, common), TrainingPlan()) for table in tables]
    assert tables[0].labels is not None  # noqa: S101 - the first has them
    labels, classes = encode_labels(tables[0].labels)
    names = ("active", *(f"passive-{one}" for one in range(1, parties)))
    described = tuple(one.describe(role, truncates_answers=True) for one, role in zip(aligned, names, strict=True))
    agreement = Agreement("0" * 32, TrainingPlan(), len(classes), described)
    return Shared([one.features for one in aligned], labels[aligned[0].rows], agreement)


def learned(data: Shared, seed: int) -> dict[str, tuple[float, ...]]:
    """Steps, sums of the widest peer, quality, and log loss as trained and calibrated, by plan."""
    found, features = {}, np.hstack(data.blocks)
    for steps in (PLAIN, DEFAULT):
        plan = data.under(steps, seed)
        split = data.split(plan)
        descent = data.descent(plan, split.train)
        whole = VerticalData(data.blocks, data.labels, data.agreement.classes)
        weights = np.vstack(train_centrally(whole, data.start(seed), descent))
        taken = plan.epochs * descent.schedule.steps_per_epoch
        sums = taken * max(block.shape[1] for block in data.blocks[1:]) * data.agreement.residual_columns
        found[steps] = (taken, sums, *_quality(features @ weights, data.labels, split))
    scheme, train = ResidualScheme(data.agreement.classes), features[split.train]
    wanted = -scheme.active_share(np.zeros((len(train), scheme.columns)), data.labels[split.train])
    least = np.linalg.lstsq(train, wanted, rcond=None)[0]
    return {**found, "least loss": (0, 0, *_quality(features @ least, data.labels, split))}


def _quality(logits: FloatArray, labels: IntArray, split: RowSplit) -> tuple[float, float, float]:
    scores, of_test = confidence_scores(logits), labels[split.test]
    calibration = fitted(scores[split.validation], labels[split.validation]) or UNCALIBRATED
    tested = scores[split.test]
    calibrated = calibration.scores(np.log(np.clip(tested, 1e-300, None)))
    right = roc_auc_score(of_test, tested[:, 1]) if scores.shape[1] == 2 else (tested.argmax(axis=1) == of_test).mean()
    return float(right), log_loss(tested, of_test), log_loss(calibrated, of_test)


def heard(data: Shared, steps: str, sessions: int, seed: int) -> float:
    """Area under the curve of shuffled training labels, of a passive party that keeps the sums of some sessions."""
    plan = data.under(steps, seed)
    rows = data.split(plan).train
    labels = np.random.default_rng(seed).permutation(data.labels[rows])
    trained = VerticalData([block[rows] for block in data.blocks], labels, data.agreement.classes)
    descent = data.descent(plan, np.arange(len(rows)))
    runs = [
        simulate_oracle(trained, data.start(100 * seed + one), descent, share_step=_SHARE_STEP)
        for one in range(sessions)
    ]
    penalties = (1e-2, 1e-3, 1e-4)
    together = _areas([_joined(runs)], labels, penalties)
    return max(together + (_areas(runs, labels, penalties) if sessions > 1 else []))


def _joined(runs: Sequence[OracleRun]) -> OracleRun:
    return replace(runs[0], steps=tuple(step for run in runs for step in run.steps))


def _areas(runs: Sequence[OracleRun], labels: IntArray, penalties: Sequence[float]) -> list[float]:
    answers = ([listened(run, len(labels), penalty, holder=0) for run in runs] for penalty in penalties)
    return [told(np.mean(answer, axis=0), labels, 2)[1] for answer in answers]


class Federated(NamedTuple):
    """What one federation of processes took, learned and told.

    Attributes:
        seconds: of the processor, of all processes.
        bytes: of all messages of its steps.
        steps: of training.
        sums: honest ones of the passive party.
        auc: of the test records.
        told: by attack, the area under the curve of the training labels that it was asked about.
        epochs: that were run.
    """

    seconds: float
    bytes: int
    steps: int
    sums: int
    auc: float
    told: dict[str, float]
    epochs: int


def federated(name: str, steps: str, cipher: str, attacks: Sequence[str], epochs: int = 0) -> Federated:
    """Run a federation of two parties with attacks by the passive one; ``epochs`` 0: the plan's."""
    asked: dict[str, Any] = {"steps": steps, "seed": 1, "data_dir": os.environ.get("PLUMBLINE_DATA_DIR", "data")}
    if epochs:
        asked["epochs"] = epochs
    request = AuditRequest.of(data=name, attacks=tuple(attacks), adversary="passive", cipher=cipher, settings=asked)
    plan, tables = prepare(request, Console(quiet=True))
    with tempfile.TemporaryDirectory() as scratch:
        run = AuditFolder(Path(scratch))
        before = _processor_seconds()
        run_federation(plan, tables, run, RunProgress())
        seconds = _processor_seconds() - before
        summary = read_summary(run.parties, name)
        places = [run.parties.malicious if spec_of(one).conduct != "listens" else run.parties for one in attacks]
        found = {one: _area(place, one) for one, place in zip(attacks, places, strict=True)}
        sums = summary.steps * summary.parties[1].feature_count * summary.agreement.residual_columns
        of_steps = sum(size for message, size in summary.bytes_by_message.items() if message.startswith(_OF_STEPS))
    return Federated(seconds, of_steps, summary.steps, sums, summary.auc, found, len(summary.epochs))


def _processor_seconds() -> float:
    """Seconds of the processor that processes took which this one started and waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _area(folder: RunFolder, attack: str) -> float:
    """Area under the curve of two classes' labels; those that the attack leaves open count one half."""
    outcome = next(one for one in folder.training_outcomes() if one.attack == attack)
    if not outcome.is_done:
        return 0.5
    found, truth = folder.found_labels("passive", attack), folder.labels()
    rows = found.judged_rows
    likely = np.where(found.labels < 0, 0.5, found.labels) if found.probabilities is None else found.probabilities[:, 1]
    return float(roc_auc_score(truth[rows], np.nan_to_num(likely[rows], nan=0.5)))


def compared(name: str, plans: Sequence[str], most_steps: int) -> None:
    """Print a line for each of these plans of a data set, as federations of processes."""
    for steps in plans:
        clear = federated(name, steps, "plain", LISTENING)
        an_epoch = clear.steps // clear.epochs
        run = min(clear.epochs, max(1, most_steps // an_epoch))
        cost = federated(name, steps, "paillier", (), run)
        seconds, sent = cost.seconds, float(cost.bytes)
        if run < clear.epochs:
            twice = federated(name, steps, "paillier", (), 2 * run)
            left = (clear.epochs - run) / run
            seconds, sent = seconds + left * (twice.seconds - cost.seconds), sent + left * (twice.bytes - cost.bytes)
        replaced = federated(name, steps, "paillier", (REPLACING,), run).told
        of = "" if run == clear.epochs else f" of {run} of {clear.epochs} epochs"
        areas = " ".join(f"{attack}={area:.3f}" for attack, area in {**clear.told, **replaced}.items())
        print(
            f"{name} {steps} steps={clear.steps} sums={clear.sums} seconds={seconds:.0f} megabytes={sent / 1e6:.1f} "
            f"auc={clear.auc:.4f} {areas}{of}",
            flush=True,
        )


def main() -> None:
    """Print a line per data set, number of parties and plan: means over seeds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", default=["breast_cancer"])
    parser.add_argument("--parties", nargs="+", type=int, default=[2])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--listening", action="store_true", help="what a passive party hears of shuffled labels")
    parser.add_argument("--federations", action="store_true", help="what processes take, and what each attack tells")
    parser.add_argument("--steps", nargs="+", choices=(PLAIN, DEFAULT), default=(PLAIN, DEFAULT), help="of federations")
    parser.add_argument("--most-steps", type=int, default=200, help="of a federation under Paillier")
    given = parser.parse_args()
    for name in given.data:
        if given.federations:
            compared(name, given.steps, given.most_steps)
            continue
        for parties in given.parties:
            data = shared_out(name, parties, Path(os.environ.get("PLUMBLINE_DATA_DIR", "data")))
            seeds = range(1, given.seeds + 1)
            if given.listening:
                for steps in (PLAIN, DEFAULT):
                    areas = [np.mean([heard(data, steps, count, seed) for seed in seeds]) for count in (1, 4)]
                    print(f"{name} {parties} {steps} one={areas[0]:.3f} four={areas[1]:.3f}", flush=True)
                continue
            found = [learned(data, seed) for seed in seeds]
            for plan in found[0]:
                taken, sums, right, loss, calibrated = np.mean([one[plan] for one in found], axis=0)
                print(
                    f"{name} {parties} {plan} steps={taken:.0f} sums={sums:.0f} right={right:.4f} loss={loss:.4f} "
                    f"calibrated={calibrated:.4f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
