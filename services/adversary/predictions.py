"""Hosts the attacks that an active party can mount, on live transcripts, with what it owns and received only."""

import logging
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

import attacks
from attacks.base import BaselinedAttack
from attacks.prediction.adaptive import UndistortedView, highest, undo
from services.adversary.knowledge import Knowledge
from services.adversary.load import labelled
from services.common.lost_records import LostRecords
from services.common.run_folder import RunFolder
from services.common.run_records import DONE, FAILED, NOT_APPLICABLE, AttackStatus, Estimates, PredictionAttackOutcome
from services.party.context import TellsAttack, nobody_watches
from vfl.arrays import FloatArray, IntArray

_log = logging.getLogger(__name__)

# Letters of the defences' names in an attack's label.
_MOST_NAMED = 100


def spread(count: int, most: int) -> IntArray:
    """Places of at most ``most`` of ``count`` records, spread evenly over all of them."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.int64))


class AttackHost:
    """Runs the switched-on attacks on scores as they arrive and writes what they found to the run folder.

    An attack that can't be mounted is reported as not applicable, with the reason. The federation goes on. Where the
    session has defences, those that read no channel run once more on what knowing the defences makes of the view. Where
    parameters are disclosed, those that can do without run once more as if none were: two deployments, one session.
    What was seen in sessions before is part of each view, as long as this process lives.
    """

    def __init__(
        self,
        attacks_by_label: Mapping[str, attacks.PredictionAttack],
        folder: Path | None,
        lost: LostRecords | None = None,
    ) -> None:
        """Mount attacks.

        Args:
            attacks_by_label: the attacks, by label.
            folder: where what they found is written. None writes nothing.
            lost: where it is noted what could not be written.
        """
        self._lost = lost or LostRecords()
        self._mounted = dict(attacks_by_label)
        self._folder = RunFolder(folder) if folder is not None else None
        self._outcomes: list[PredictionAttackOutcome] = []
        self._batch = 0
        self._earlier = EarlierSessions()

    @property
    def is_idle(self) -> bool:
        """Whether no attack is switched on."""
        return not self._mounted

    def begin(self) -> None:
        """Begin another session; what was seen in the one before has become an earlier one."""
        self._earlier.begin()
        self._outcomes = []
        self._batch = 0

    def go_on(self) -> None:
        """Go on after a restart behind the batches that are on disk. Batch 0 is the test records' for good."""
        self._outcomes = list(self._folder.prediction_outcomes()) if self._folder is not None else []
        self._batch = 1 + max((outcome.batch for outcome in self._outcomes), default=0)

    def attack(
        self, knowledge: Knowledge, rows: Sequence[int], scores: FloatArray, tell: TellsAttack = nobody_watches
    ) -> None:
        """Mount every attack on one batch of predictions.

        Args:
            knowledge: what the adversary knows of the session.
            rows: of the common order.
            scores: (n, classes), of these rows.
            tell: is told how far this has come, before each attack and behind the last.
        """
        indices = np.asarray(rows, dtype=np.int64)
        batch = AttackedBatch(self._batch, len(indices))
        self._batch += 1
        records = indices if knowledge.order is None else knowledge.order[indices]

        def view() -> attacks.PredictionView:
            present = knowledge.view(indices, scores)
            return replace(present, earlier=self._earlier.of(records, present.d))

        def black_box() -> attacks.PredictionView:
            return replace(knowledge, disclosed=None).view(indices, scores)

        # A view for each: an attack is a guest, and may write into its own.
        attackers = [
            Mounted(label, attack, black_box if attack.spec.knowledge == "black_box" else view)
            for label, attack in self._mounted.items()
        ]
        if (knowing := _knowing(knowledge, view)) is not None:
            defences, undone = knowing
            attackers += [
                Mounted(labelled(one.label, knowing=defences), one.attack, lambda: replace(undone.view), undone.level)
                for one in attackers
                if one.attack.spec.sees_scores and not one.attack.spec.reads_channel
            ]
        attackers += [
            Mounted(labelled(label, parameters="kept"), attack, lambda: _kept(view()), is_optional=True)
            for label, attack in self._mounted.items()
            if _can_do_without_parameters(attack.spec)
        ]
        for number, attacker in enumerate(attackers):
            tell(number, len(attackers), attacker.label)
            batch.mount(attacker)
        tell(len(attackers), len(attackers), "")
        with suppress(attacks.ViewError):  # each attack has said why there is no view
            self._earlier.remember(records, knowledge.view(indices, scores))
        self._outcomes += batch.outcomes
        if self._folder is not None:
            with self._lost.noting("What attacks on predictions found"):
                self._folder.write_estimates(batch.number, Estimates(indices, batch.arrays, knowledge.auxiliary_rows))
                self._folder.write_prediction_outcomes(self._outcomes)


def _can_do_without_parameters(spec: attacks.AttackSpec) -> bool:
    """Tell whether an attack takes parameters where any are disclosed, and may find them itself where none are."""
    return spec.sees_scores and spec.knowledge == "white_box" and "weights_passive" not in spec.needs


def _kept(view: attacks.PredictionView) -> attacks.PredictionView:
    """Make the view of who isn't told parameters. Raises ViewError where nobody told any."""
    if not _is_told(view):
        raise attacks.ViewError("No parameters were disclosed that could have been kept.")
    hidden: dict[str, Any] = {"weights_passive": None, "bias": None, "network": None, "low": None, "high": None}
    return replace(view, **hidden, earlier=tuple(replace(one, **hidden) for one in view.earlier))


def _is_told(view: attacks.PredictionView) -> bool:
    """Tell whether passive parties' parameters were disclosed."""
    return any(piece is not None for piece in (view.weights_passive, view.network, view.low))


def _knowing(knowledge: Knowledge, view: Callable[[], attacks.PredictionView]) -> tuple[str, UndistortedView] | None:
    """Take off the view all that the session's defences added, and name them; None where nothing is."""
    if not knowledge.is_defended:
        return None
    try:
        undone = undo(view())
    except Exception as error:  # of one with pieces that don't fit, each attack tells
        _log.warning("The session's defences can't be taken off what was seen: %s", error)
        return None
    return (_named(knowledge.undone_names(undone)), undone) if undone.is_changed else None


def _named(defences: Sequence[str]) -> str:
    """Names in one short word: other parties choose them, and how many there are."""
    names = "+".join(defences)
    return names if len(names) <= _MOST_NAMED else f"{len(defences)} defences"


@dataclass(frozen=True, eq=False)
class Mounted:
    """An attack on one batch.

    Attributes:
        label: what its outcome is called.
        attack: with its options.
        view: makes what it sees, afresh at each call.
        level: what making the view took to know beforehand.
        is_optional: whether nothing is said of it where it isn't done.
    """

    label: str
    attack: attacks.PredictionAttack
    view: Callable[[], attacks.PredictionView]
    level: attacks.Level = "nothing"
    is_optional: bool = False


@dataclass
class AttackedBatch:
    """One batch of predictions, and what attacks made of it.

    Attributes:
        number: of the batch.
        records: how many there are.
        arrays: estimates, and what stands beside them.
        outcomes: one per mounted attack.
    """

    number: int
    records: int
    arrays: dict[str, FloatArray] = field(default_factory=dict)
    outcomes: list[PredictionAttackOutcome] = field(default_factory=list)

    def mount(self, attacker: Mounted) -> None:
        """Run an attack, and keep what becomes of it."""
        label, attack, view = attacker.label, attacker.attack, attacker.view
        start = time.perf_counter()
        status: AttackStatus = DONE
        reason, notes, sees_parameters = None, tuple[str, ...](), False
        try:
            attack_view = view()
            sees_parameters = _is_told(attack_view) and attack.spec.sees_scores and attack.spec.knowledge != "black_box"
            reconstruction = attacks.reconstruct(attack, attack_view)
            self._keep(label, reconstruction)
            notes = (*reconstruction.notes, *self._keep_baseline(label, attack, view))
            _log.info("Attack %s reconstructed %d records.", label, self.records)
        except ValueError as error:  # a ViewError, or a problem that the attack can't solve: its text says which
            status, reason = NOT_APPLICABLE, str(error)
            _log.warning("Attack %s is not applicable: %s", label, error)
        except (Exception, SystemExit) as error:  # a guest's bugs are reported and the federation goes on
            status, reason = FAILED, f"{label} failed with {type(error).__name__}: {error}"
            _log.exception("Attack %s failed.", label)
        if attacker.is_optional and status != DONE:
            return
        self.outcomes.append(
            PredictionAttackOutcome(
                attack=label,
                batch=self.number,
                records=self.records,
                status=status,
                reason=reason,
                level=highest(attacks.level_of(attack), attacker.level),
                sees_scores=attack.spec.sees_scores,
                sees_parameters=sees_parameters,
                notes=notes or None,
                seconds=time.perf_counter() - start,
            )
        )

    def _keep(self, label: str, reconstruction: attacks.Reconstruction) -> None:
        self.arrays[label] = reconstruction.estimate
        if reconstruction.low is not None and reconstruction.high is not None:
            self.arrays |= {f"low: {label}": reconstruction.low, f"high: {label}": reconstruction.high}
        if reconstruction.densest is not None:
            self.arrays[f"densest: {label}"] = reconstruction.densest

    def _keep_baseline(
        self, label: str, attack: attacks.PredictionAttack, view: Callable[[], attacks.PredictionView]
    ) -> tuple[str, ...]:
        """Keep what the attack would estimate had it seen no score; returns why that isn't there, in a note."""
        if isinstance(attack, BaselinedAttack):
            try:
                self.arrays[f"withheld: {label}"] = attack.without_scores(view())
            except (Exception, SystemExit) as error:  # a guest's; its estimate stands
                _log.exception("Attack %s can't say what it would estimate without scores.", label)
                return (f"What it would estimate without scores is unknown: {type(error).__name__}: {error}",)
        return ()


# Of all sessions together: half a gigabyte of float64.
_MOST_NUMBERS = 64_000_000
_MOST_SESSIONS = 1_000
# The pieces of a view that have a row for each record.
_BY_RECORD = ("features_active", "scores", "record_labels", "own_shift", "received", "low", "high")


class EarlierSessions:
    """Keeps what was seen in each session, by rows of the own table: the common order may differ between sessions.

    The oldest sessions are forgotten first.
    """

    def __init__(self) -> None:
        self._ended: deque[_PastSession] = deque(maxlen=_MOST_SESSIONS)
        self._current: _PastSession | None = None

    def begin(self) -> None:
        """Begin another session: what is seen from now on belongs to it."""
        if self._current is not None:
            self._ended.append(self._current)
        self._current = None

    def remember(self, records: IntArray, view: attacks.PredictionView) -> None:
        """Add a view of predictions of these rows of the own table to the session that goes on."""
        if self._current is None:
            self._current = _PastSession(view)
        self._current.add(records, view)
        while self._ended and sum(one.numbers for one in (*self._ended, self._current)) > _MOST_NUMBERS:
            self._ended.popleft()

    def of(self, records: IntArray, passive_features: int) -> tuple[attacks.PredictionView, ...]:
        """List views of these records in earlier sessions of as many passive columns that saw them, oldest first."""
        views = (session.view_of(records) for session in self._ended if session.d == passive_features)
        return tuple(view for view in views if view is not None)


class _PastSession:
    """What was seen in one session.

    Attributes:
        d: passive columns.
        numbers: how many are kept.
    """

    def __init__(self, view: attacks.PredictionView) -> None:
        # Labels and columns of the training records, the same in every session, would be most of it.
        self._model = replace(view, labels=None, features_train=None, passive_features=view.d, earlier=())
        self._names = [name for name in _BY_RECORD if getattr(view, name) is not None]
        self._records: list[IntArray] = []
        self._pieces: list[list[FloatArray | IntArray]] = []
        self.d = view.d
        auxiliary = view.auxiliary
        self.numbers = 0 if auxiliary is None else auxiliary.features_active.size + auxiliary.features_passive.size

    def add(self, records: IntArray, view: attacks.PredictionView) -> None:
        """Keep what was seen of more records; what is too much of one session alone is left out."""
        pieces = [getattr(view, name) for name in self._names]
        if self.numbers <= _MOST_NUMBERS:
            self._records.append(records)
            self._pieces.append(pieces)
            self.numbers += sum(piece.size for piece in pieces)

    def view_of(self, records: IntArray) -> attacks.PredictionView | None:
        """Make the view of these records; None unless all were seen."""
        session_records = np.concatenate(self._records)
        order = np.argsort(session_records, kind="stable")
        places = order[np.minimum(np.searchsorted(session_records, records, sorter=order), len(session_records) - 1)]
        if not np.array_equal(session_records[places], records):
            return None
        columns = (np.concatenate(parts)[places] for parts in zip(*self._pieces, strict=True))
        pieces: dict[str, Any] = dict(zip(self._names, columns, strict=True))
        return replace(self._model, **pieces)
