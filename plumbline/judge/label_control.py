"""Tells a leak from a classifier: the same attack on the same plan, where no column tells the labels.

A model of a party's columns follows the labels as far as the columns can, and an attack that reads it is right without
reading a message. Labels that were shuffled can't be told from any column: what an attack has right of them, the
messages told. Trained in the clear, from the parties' own tables (SIMULATION).
"""

from dataclasses import dataclass, replace

import numpy as np

import attacks
from attacks.training.label_completion import own_classifier
from attacks.training.recovered_labels import UNRESOLVED
from attacks.training_attack import listens
from plumbline.judge.redrawn_messages import clear_session
from plumbline.telling.numbers import percent
from services.common.identity import Role
from services.common.run_files import RunFolderError
from services.common.run_folder import RunFolder
from services.common.run_records import FoundLabels
from vfl.arrays import FloatArray, IntArray
from vfl.learning.linear.regression import LinearRegression
from vfl.learning.network import Network
from vfl.learning.trees.boosted_trees import BoostedTrees

# Records of a control: it takes seconds, and batches as large as the session's make as many sums a record.
_MOST_RECORDS, _MOST_CELLS, _FEWEST_RECORDS = 1_500, 20_000_000, 50
_FOLDS = 5


@dataclass(frozen=True)
class LabelControl:
    """How an attack on labels does where they were shuffled, and how a model of the same columns does where not.

    Attributes:
        records: of the control.
        shuffled_right: the share of shuffled labels that the same attack has right: what the messages tell.
        majority: the share of the most frequent class among them.
        columns_right: the share of the true labels that a classifier of the party's own columns names, which learned
            from all others (five folds): what any model of these columns tells.
        reason: why there is no control; empty where there is one.
    """

    records: int = 0
    shuffled_right: float = float("nan")
    majority: float = float("nan")
    columns_right: float = float("nan")
    reason: str = ""

    @property
    def words(self) -> str:
        """Both shares in two sentences; empty without a control."""
        if self.reason:
            return ""
        shuffled, majority, columns = (
            percent(share) for share in (self.shuffled_right, self.majority, self.columns_right)
        )
        return (
            f"Of labels shuffled at random, which no column tells, the same attack has {shuffled} right (the most "
            f"frequent class: {majority}): this is what the messages tell. A classifier of its own columns that "
            f"learned from the other labels has {columns} of the true ones right: this is what any model of these "
            "columns tells."
        )


def label_control(folder: RunFolder, party: str, attack: str, *, known_count: int = 0) -> LabelControl:
    """Repeat a session with shuffled labels in the clear, and attack it as a passive party did.

    Args:
        folder: of the run, with all parties' features.
        party: whose attack it is.
        attack: its name, with options in parentheses; the control has it with its defaults.
        known_count: how many labels the party knew beforehand: of the control's as many, which aren't counted.
    """
    agreement = folder.record(Role.ACTIVE).agreement
    if agreement is None or not isinstance(agreement.plan.family, LinearRegression | Network | BoostedTrees):
        return LabelControl(reason="A control is of sessions that train linear, network or boosted_trees.")
    name = attack.partition("(")[0]
    if not agreement.plan.training.sends_sums and "equations" in attacks.spec_of(name).needs:
        return LabelControl(reason="A control in the clear has sums to listen to, and protocol=shared sends none.")
    try:
        defended = [name for name, one in folder.records().items() if name != Role.COORDINATOR and one.defences]
        blocks = [folder.features(one.name).features for one in agreement.parties]
        labels = folder.labels()
    except RunFolderError as error:
        return LabelControl(reason=str(error))
    if defended:
        return LabelControl(reason=f"A control has no defences, and {', '.join(defended)} had some.")
    generator = np.random.default_rng(0)
    train = agreement.plan.split(len(labels)).train
    index = [one.name for one in agreement.parties].index(party)
    width = max(1, blocks[index].shape[1], agreement.residual_columns)
    most = min(_MOST_RECORDS, _MOST_CELLS // (agreement.plan.epochs * width))
    rows = np.sort(generator.permutation(train)[:most])
    if len(rows) < _FEWEST_RECORDS:
        return LabelControl(reason=f"A control needs {_FEWEST_RECORDS} records, and can have {len(rows)} here.")
    shuffled = generator.permutation(labels[rows])
    known_labels = np.full(len(rows), UNRESOLVED)
    known_labels[: min(known_count, len(rows) // 2)] = shuffled[: min(known_count, len(rows) // 2)]
    unknown = known_labels == UNRESOLVED
    try:
        view = clear_session(
            agreement, [block[rows] for block in blocks], shuffled, index, np.arange(len(rows)), generator
        ).view
        listening = attacks.load_training(name)
        if not listens(listening):
            return LabelControl(reason=f"{attack} needs ciphertexts, and a control has none.")
        view = replace(view, known_labels=known_labels) if known_count else view
        answer = FoundLabels(**listening.attack(view).arrays()).labels
    except Exception as error:  # a guest's bug costs its control only
        return LabelControl(reason=f"{attack} can't be repeated: {error}")
    majority = np.bincount(shuffled).argmax()
    return LabelControl(
        records=len(rows),
        # What is left open is guessed.
        shuffled_right=float((np.where(answer < 0, majority, answer) == shuffled)[unknown].mean()),
        majority=float((shuffled == majority)[unknown].mean()),
        columns_right=_by_columns(blocks[index][rows], labels[rows]),
    )


def _by_columns(features: FloatArray, labels: IntArray) -> float:
    """Measure the share of labels that a classifier names which learned from the other folds."""
    right = np.zeros(len(labels), dtype=np.bool_)
    folds = np.random.default_rng(0).permutation(len(labels)) % _FOLDS
    for fold in range(_FOLDS):
        is_training = folds != fold
        if len(np.unique(labels[is_training])) > 1:
            named = own_classifier().fit(features[is_training], labels[is_training]).predict(features[~is_training])
        else:
            named = np.full((~is_training).sum(), labels[is_training][0])
        right[~is_training] = named == labels[~is_training]
    return float(right.mean())
