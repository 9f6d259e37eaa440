"""One party's share of a model, as it predicts: a training and a state file both give one. Knows no network."""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from defences import DefenceError
from services.common.agreement import Agreement, TrainingPlan
from services.common.errors import InvalidMessage, refusals_of
from services.common.scores import PartialScores, Products
from services.party.party_defences import PartyDefences
from vfl.arrays import FloatArray, IntArray
from vfl.data.labels import NO_LABEL
from vfl.learning import Part, RowSplit


@dataclass(frozen=True, eq=False)
class PartyModel:
    """What a party answers with in one session. It never changes: another epoch gives another one.

    Attributes:
        agreement: the session's public terms.
        name: the party's name in it.
        features: (aligned rows, d) in the common order, on the fixed-point grid; the active party's last column is the
            constant 1, its bias.
        part: the party's part, as its learner has made it.
        epochs: after how many epochs of training; 0 where nothing is trained.
        token_key: keys the pseudonyms of records.
        labels: class indices, (aligned rows,), -1 where a record has no label; the active party's only.
        trained: the part before its scores were calibrated; None where they weren't.
    """

    agreement: Agreement
    name: str
    features: FloatArray
    part: Part
    epochs: int
    token_key: bytes = field(repr=False)
    labels: IntArray | None = None
    trained: Part | None = None

    @property
    def counted_part(self) -> Part:
        """What its answers are counted by: as trained, since weights that are scaled and rounded tell nothing more."""
        return self.part if self.trained is None else self.trained

    @property
    def known_part(self) -> Part | None:
        """The learner's part of weights that this party has whole; None where it has shares of all."""
        return self.agreement.serving.known(self.part)

    @property
    def own_part(self) -> Part | None:
        """The part, where it is told to its party; None for shares."""
        return self.part if self.agreement.serving.tells_owners else None

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the part: another one is another model, after however many epochs."""
        digest = hashlib.sha256()
        for name, array in sorted(self.part.arrays().items()):
            digest.update(repr((name, array.dtype.str, array.shape)).encode())
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    @cached_property
    def rows(self) -> RowSplit:
        """Training, validation and test rows of the common order."""
        return self.agreement.plan.split(len(self.features))

    @property
    def judged_rows(self) -> IntArray:
        """The test rows that have a label; the active party's only."""
        test = self.rows.test
        return np.compress(self.labels_of(test) != NO_LABEL, test)

    def partial_scores(self, rows: Sequence[int]) -> FloatArray:
        """Compute this party's share of the logits for rows of the common order: (len(rows), columns).

        A record's is the same to the last bit whatever else is asked for with it.

        Raises:
            InvalidMessage: for no row, or one that isn't aligned.
            LearnerFailed: where another package's part can't answer.
        """
        records = self.features[checked_rows(rows, len(self.features))]
        calls = self.agreement.plan.calls
        outputs = calls.outputs(self.agreement.classes)
        return calls.checked(calls(lambda: self.part.shares(records)), (len(records), outputs), "shares")

    def scores_of(self, answer: FloatArray, rows: int) -> FloatArray:
        """Read the scores in the coordinator's answer about so many records, at the active party: (rows, classes).

        They are the answer, but where this party is told sums or leaves: its part makes scores of these.

        Raises:
            InvalidMessage: for an answer of another shape.
            LearnerFailed: where another package's part can't answer.
        """
        answers, classes = self.agreement.answers, self.agreement.classes
        if answers == "scores":
            return answer
        calls = self.agreement.plan.calls
        if answer.shape != (shape := (rows, calls.told(classes))):
            raise InvalidMessage(f"The coordinator answers with {answers} of shape {answer.shape}, expected {shape}.")
        return calls.scores(self.part, answer, classes)

    def share_of(self, rows: Sequence[int], products: Products) -> PartialScores:
        """Send a passive party's shares of scores of these rows with what the session's score defences need besides."""
        return PartialScores(
            products,
            self.parameter_gram() if self.agreement.wants_parameter_gram else None,
            self._record_tokens(rows) if self.agreement.score_defences else (),
        )

    def _record_tokens(self, rows: Sequence[int]) -> tuple[int, ...]:
        """Draw a 64-bit pseudonym of each row's record, another after each epoch, the same from training's end on.

        Keyed BLAKE2b: nobody else can tell whose it is, or make one. The key holds the weights, so that no two states
        of them share a pseudonym. It holds the epoch, since another party's weights may change where these don't.
        """
        state = self.epochs.to_bytes(8, "big") + b"".join(array.tobytes() for array in self.part.arrays().values())
        key = hashlib.blake2b(state, key=self.token_key).digest()
        return tuple(
            int.from_bytes(hashlib.blake2b(row.to_bytes(8, "big"), key=key, digest_size=8).digest(), "big")
            for row in rows
        )

    def parameter_gram(self) -> FloatArray | None:
        """Compute W W^T of this party's class rows, (k, k); None for a part that isn't linear."""
        rows = self.part.class_rows
        return None if rows is None else rows @ rows.T

    def features_of(self, rows: IntArray) -> FloatArray:
        """Give this party's own features of rows of the common order, (len(rows), d)."""
        return self.features[rows]

    def labels_of(self, rows: IntArray) -> IntArray:
        """Class indices of rows of the common order; the active party's model only."""
        if self.labels is None:
            raise ValueError("A passive party has no labels.")
        return self.labels[rows]

    def disclosed_by(self, defences: PartyDefences) -> Part:
        """Disclose this party's parameters: as they are, or as its defences distort them.

        Raises:
            InvalidMessage: where a defence can't distort them.
        """
        if not defences.distorts_parameters:
            return self.known_part or self.part
        with refusals_of(DefenceError):
            return self.part.with_class_rows(defences.disclose(check_linear(self.part, defences), self.features))


def with_unlabelled_tested(rows: IntArray, labels: IntArray, plan: TrainingPlan) -> IntArray:
    """Put aligned rows without a label where the public split has test rows; the others stay in their order.

    Args:
        rows: of the active party's table, (aligned rows,).
        labels: class indices of the same, `NO_LABEL` where there is none.
        plan: says how rows are split.

    Raises:
        InvalidMessage: where there are more than test rows.
    """
    lacks = labels == NO_LABEL
    if not (count := int(lacks.sum())):
        return rows
    test = plan.split(len(rows)).test
    if count > len(test):
        least = math.ceil(100 * count / len(rows)) / 100
        raise InvalidMessage(
            f"{count:,} of {len(rows):,} aligned records have no label and can only be tested, as {len(test):,} are: "
            f"set test_fraction (PLUMBLINE_TEST_FRACTION) above {least:g}, so that some are left to judge by."
        )
    placed, is_theirs = np.empty_like(rows), np.zeros(len(rows), dtype=bool)
    is_theirs[test[:count]] = True
    placed[is_theirs], placed[~is_theirs] = rows[lacks], rows[~lacks]
    return placed


def checked_rows(rows: Sequence[int], count: int) -> IntArray:
    """Rows of the common order as indices; raises InvalidMessage for none, or one that isn't among ``count``."""
    indices = np.fromiter(rows, dtype=np.int64, count=len(rows))
    if len(indices) == 0 or indices.max() >= count:
        raise InvalidMessage(f"Expected rows below {count}, at least one of them.")
    return indices


def check_linear(part: Part, defences: PartyDefences) -> FloatArray:
    """Give a part's class rows, (k, d); raises InvalidMessage where defences that distort them have none to work on."""
    if (rows := part.class_rows) is None:
        raise InvalidMessage(f"{', '.join(defences.names)}: only a linear model's parameters can be distorted.")
    return rows
