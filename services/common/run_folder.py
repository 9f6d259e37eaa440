"""The run folder: every file that services write of a run, for those who write it and those who read it.

Files are whole or not there at all, and for their owner's eyes: they hold features, labels, scores and weights.
What the files hold are the types of ``run_records``; `docs/reference/run-folder.md` describes both.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from services.common.agreement import Agreement
from services.common.durable import write_durably
from services.common.errors import FederationError, one_line
from services.common.identity import Role
from services.common.limits import ALIGNED_ROWS
from services.common.run_files import (
    AGAIN,
    ArraySpec,
    RunFolderError,
    arrays_as,
    check_arrays,
    fields_of,
    parsed,
    read_arrays,
    read_json,
)
from services.common.run_records import (
    SCHEMA,
    DefencePrediction,
    DeliveredScores,
    Estimates,
    FoundLabels,
    FoundTrigger,
    FoundValues,
    PartyFeatures,
    PartyRecord,
    PartyWeights,
    PredictionAttackOutcome,
    StepRecord,
    TrainingAttackOutcome,
    content_of,
    gathered,
)
from services.common.session_limit import SessionLimit
from vfl.adversary_words import GUESSES_OF, ROWS_OF, VALUES_OF
from vfl.arrays import IntArray, write_arrays

_ATTACKS = "attacks"
_OUTCOMES = "outcomes.json"
# An array of estimates: no attack's label has a colon.
_KNOWN_ROWS = "known: rows"
_NO_RECORD = "its party writes it when training ends. See that party's log for why it did not."
_NO_ARRAYS = "nobody asked for it, or its party stopped before. See that party's log."
# What attacks' arrays hold; their values may be any, and none where there is no answer.
_ROWS, _VALUES = ArraySpec(kinds="iu", least=0, most=ALIGNED_ROWS), ArraySpec(most=np.inf, gaps=True)
_ESTIMATE = ArraySpec("records features", most=np.inf, gaps=True)
_OF_ESTIMATES = {
    "rows": ArraySpec("records", kinds="iu", least=0, most=ALIGNED_ROWS),
    _KNOWN_ROWS: ArraySpec("known", kinds="iu", least=0, most=ALIGNED_ROWS),
}
# What a disk must have room for at least: a record of a short session.
_PROBED_BYTES = 64 << 10

T = TypeVar("T")


class RunFolder:
    """Writes and reads the files of one run; every method names one of them.

    Readers raise RunFolderError for a file that is missing or broken. Writers make the folder when it isn't there, and
    raise OSError where the system refuses: what was there before is then untouched.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def malicious(self) -> "RunFolder":
        """What parties wrote of the session in which an audit's attacks sent other messages than the protocol's."""
        return RunFolder(self.path / "malicious")

    def check(self, party: str) -> None:
        """Write a small file and take it away again, so that an unusable folder shows before work is lost.

        Raises:
            RunFolderError: when the folder can't be made or written, or its disk is full.
        """
        probe = self.path / f"{party}.probe"
        try:
            write_durably(probe, bytes(_PROBED_BYTES))
            probe.unlink()
        except OSError as error:
            raise RunFolderError(
                f"This party's records can't be written to {self.path} ({error.strerror or error}): make room or "
                "choose another folder with PLUMBLINE_RUN_DIR, or unset it to write none."
            ) from error

    # -- what a party says of its session ------------------------------------------------------------------------------

    def write_record(self, party: str, record: PartyRecord) -> None:
        """Write ``<party>.json``."""
        self._write_text(self._record_file(party), content_of(record))

    def record(self, party: str) -> PartyRecord:
        """Read ``<party>.json``."""
        path = self._record_file(party)
        content = read_json(path, _NO_RECORD)
        if isinstance(content, dict):
            content = content | {
                key: [gathered(kind, one) for one in content[key]]
                for key, kind in (("steps", StepRecord), ("predictions", DefencePrediction))
                if isinstance(content.get(key), list)
            }
        record = _parsed(PartyRecord, content, path)
        try:
            record.check()
        except (ValueError, FederationError) as error:
            raise RunFolderError(f"{path} is broken: {error} {AGAIN}") from error
        return record

    def has_record(self, party: str) -> bool:
        """Tell whether ``<party>.json`` is there."""
        return self._record_file(party).exists()

    def records(self) -> dict[str, PartyRecord]:
        """Read every party's record, by the party's name, sorted."""
        return {path.stem: self.record(path.stem) for path in sorted(self.path.glob("*.json"))}

    def _record_file(self, party: str) -> Path:
        return self._at(f"{party}.json")

    def write_part(self, party: str, arrays: Mapping[str, NDArray[Any]], features: NDArray[np.str_]) -> None:
        """Write ``<party>-weights.npz``: all that the party's part is made of, and the names of its features."""
        _write_arrays(self._weights_file(party), {**arrays, "features": features})

    def weights(self, party: str) -> PartyWeights:
        """Read ``<party>-weights.npz`` of a linear model."""
        return arrays_as(PartyWeights, self._weights_file(party), _NO_ARRAYS)

    def part(self, party: str) -> dict[str, NDArray[Any]]:
        """Read all that the party's part is made of."""
        arrays = read_arrays(self._weights_file(party), _NO_ARRAYS)
        return {name: array for name, array in arrays.items() if name != "features"}

    def _weights_file(self, party: str) -> Path:
        return self._at(f"{party}-weights.npz")

    def write_delivered_scores(self, party: str, tested: DeliveredScores) -> None:
        """Write ``<party>-test-scores.npz``."""
        _write_arrays(self._scores_file(party), vars(tested))

    def delivered_scores(self, agreement: Agreement) -> DeliveredScores:
        """Read ``<party>-test-scores.npz`` of the active party, or what older runs have in its record.

        Empty where the session tested nothing.
        """
        party, classes = agreement.active.name, agreement.classes
        path = self._scores_file(party)
        if os.path.lexists(path):
            tested = arrays_as(DeliveredScores, path)
        else:
            path = self._record_file(party)
            tested = _scores_in(read_json(path, _NO_RECORD), classes, path)
        if tested.scores.shape[1] != classes or (tested.labels >= classes).any():
            raise RunFolderError(f"{path} is broken: its test records have other classes than the session's. {AGAIN}")
        if (tested.rows >= agreement.active.aligned_rows).any():
            raise RunFolderError(f"{path} is broken: it names test records beyond the aligned ones. {AGAIN}")
        return tested

    def _scores_file(self, party: str) -> Path:
        return self._at(f"{party}-test-scores.npz")

    def write_features(self, party: str, features: PartyFeatures) -> None:
        """Write ``<party>-features.npz``."""
        arrays = {name: array for name, array in vars(features).items() if array is not None}
        _write_arrays(self._features_file(party), arrays)

    def features(self, party: str) -> PartyFeatures:
        """Read ``<party>-features.npz``, which parties write when they are told to (PLUMBLINE_RECORD_FEATURES)."""
        return arrays_as(PartyFeatures, self._features_file(party), _NO_ARRAYS)

    def has_features(self, party: str) -> bool:
        """Tell whether ``<party>-features.npz`` is there."""
        return self._features_file(party).exists()

    def labels(self) -> IntArray:
        """Read the true classes, (n,), from the active party's features file."""
        labels = self.features(Role.ACTIVE).labels
        if labels is None:
            raise RunFolderError(f"{self._features_file(Role.ACTIVE)} is broken: it lacks the array labels. {AGAIN}")
        return labels

    def _features_file(self, party: str) -> Path:
        return self._at(f"{party}-features.npz")

    # -- what attacks found --------------------------------------------------------------------------------------------

    def write_estimates(self, batch: int, estimates: Estimates) -> None:
        """Write ``attacks/estimates-<batch>.npz``."""
        known = {} if estimates.auxiliary_rows is None else {_KNOWN_ROWS: estimates.auxiliary_rows}
        _write_arrays(self._estimates_file(batch), {"rows": estimates.rows, **known, **estimates.by_attack})

    def estimates(self, batch: int) -> Estimates:
        """Read ``attacks/estimates-<batch>.npz``."""
        path = self._estimates_file(batch)
        arrays = read_arrays(path, _NO_ARRAYS)
        if "rows" not in arrays:
            raise RunFolderError(f"{path} is broken: it lacks the array rows. {AGAIN}")
        check_arrays(arrays, {name: _OF_ESTIMATES.get(name, _ESTIMATE) for name in arrays}, path)
        return Estimates(arrays.pop("rows"), arrays, auxiliary_rows=arrays.pop(_KNOWN_ROWS, None))

    def _estimates_file(self, batch: int) -> Path:
        return self._at(f"{_ATTACKS}/estimates-{batch}.npz")

    def write_prediction_outcomes(self, outcomes: Sequence[PredictionAttackOutcome]) -> None:
        """Write ``attacks/outcomes.json``."""
        self._write_text(self._at(f"{_ATTACKS}/{_OUTCOMES}"), content_of(outcomes))

    def prediction_outcomes(self) -> tuple[PredictionAttackOutcome, ...]:
        """Read ``attacks/outcomes.json``; empty when no attack was switched on."""
        path = self._at(f"{_ATTACKS}/{_OUTCOMES}")
        return _parsed_list(PredictionAttackOutcome, path) if os.path.lexists(path) else ()

    def write_session_limit(self, limit: SessionLimit) -> None:
        """Write ``attacks/sessions.json``, as an auditor does."""
        self._write_text(self._limit_file, content_of(limit))

    def session_limit(self) -> SessionLimit | None:
        """Read ``attacks/sessions.json``; None where no auditor looked beyond the run's own session."""
        path = self._limit_file
        return _parsed(SessionLimit, read_json(path), path) if os.path.lexists(path) else None

    @property
    def _limit_file(self) -> Path:
        return self._at(f"{_ATTACKS}/sessions.json")

    def write_training_outcomes(self, party: str, outcomes: Sequence[TrainingAttackOutcome]) -> None:
        """Write ``attacks/training-<party>.json``."""
        self._write_text(self._outcomes_file(party), content_of(outcomes))

    def has_training_outcomes(self, party: str) -> bool:
        """Tell whether a party has written what its attacks on training found."""
        return self._outcomes_file(party).exists()

    def training_outcomes(self) -> tuple[TrainingAttackOutcome, ...]:
        """Read ``attacks/training-<party>.json`` of every party; empty when no attack was switched on."""
        found = list[TrainingAttackOutcome]()
        for file in sorted((self.path / _ATTACKS).glob("training-*.json")):
            party = file.stem.removeprefix("training-")
            path = self._outcomes_file(party)
            outcomes = _parsed_list(TrainingAttackOutcome, path)
            if any(one.party != party for one in outcomes):
                raise RunFolderError(f"{path} is broken: it tells of attacks of another party than {party}. {AGAIN}")
            found += outcomes
        return tuple(found)

    def write_training_arrays(self, party: str, attack: str, arrays: Mapping[str, NDArray[Any] | None]) -> None:
        """Write ``attacks/training-<party>-<attack>.npz``; its arrays, but for None, depend on the outcome's kind."""
        there = {name: array for name, array in arrays.items() if array is not None}
        _write_arrays(self._training_file(party, attack), there)

    def found_labels(self, party: str, attack: str) -> FoundLabels:
        """Read ``attacks/training-<party>-<attack>.npz`` of an attack of the kind ``labels``."""
        return arrays_as(FoundLabels, self._training_file(party, attack), _NO_ARRAYS)

    def found_trigger(self, party: str, attack: str) -> FoundTrigger:
        """Read the same file of an attack of the kind ``backdoor``."""
        return arrays_as(FoundTrigger, self._training_file(party, attack), _NO_ARRAYS)

    def found_values(self, party: str, attack: str) -> dict[str, FoundValues]:
        """Read the same file of an attack of any other kind, by the peer's name."""
        path = self._training_file(party, attack)
        arrays = read_arrays(path, _NO_ARRAYS)
        check_arrays(arrays, {name: _ROWS if name.startswith(ROWS_OF) else _VALUES for name in arrays}, path)
        peers = [name.removeprefix(VALUES_OF) for name in arrays if name.startswith(VALUES_OF)]
        kinds = (VALUES_OF, ROWS_OF, GUESSES_OF)
        return {peer: FoundValues(*(arrays.get(kind + peer) for kind in kinds)) for peer in peers}  # type: ignore[arg-type]

    def _outcomes_file(self, party: str) -> Path:
        return self._at(f"{_ATTACKS}/training-{party}.json")

    def _training_file(self, party: str, attack: str) -> Path:
        return self._at(f"{_ATTACKS}/training-{party}-{attack}.npz")

    def _at(self, place: str) -> Path:
        """Find the file that stands at a place of the folder."""
        return self.path / place

    @staticmethod
    def _write_text(path: Path, content: Any) -> None:
        write_durably(path, json.dumps(content, indent=1).encode())


def _parsed(kind: type[T], content: Any, path: Path) -> T:
    """Read an object of the file as its dataclass; raises RunFolderError naming the first thing wrong with it."""
    if not isinstance(content, dict) or "schema" not in content:
        raise RunFolderError(f"{path} has no schema number: it is no file of a run, or an older one. {AGAIN}")
    if content["schema"] != SCHEMA:
        raise RunFolderError(
            f"{path} has schema {one_line(repr(content['schema']))} and this version of Plumbline reads {SCHEMA}: "
            "read it with the version that wrote it, or run it again."
        )
    return parsed(kind, content, path)


def _scores_in(record: Mapping[str, Any], classes: int, path: Path) -> DeliveredScores:
    """Read the test scores in an older run's record; none of one that has a file for them, or tested nothing."""
    if "test_rows" not in record:
        return DeliveredScores(np.empty(0, np.int64), np.empty((0, classes)), np.empty(0, np.int64))
    try:
        arrays = {name: np.asarray(record.get(f"test_{name}")) for name in ("rows", "scores", "labels")}
    except ValueError as error:
        raise RunFolderError(f"{path} is broken: its test records aren't alike. {AGAIN}") from error
    return fields_of(DeliveredScores, arrays, path)


def _parsed_list(kind: type[T], path: Path) -> tuple[T, ...]:
    content = read_json(path, _NO_RECORD)
    if not isinstance(content, list):
        raise RunFolderError(f"{path} is broken: expected a list. {AGAIN}")
    return tuple(_parsed(kind, gathered(kind, one), path) for one in content)


def _write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    write_durably(path, lambda file: write_arrays(file, arrays))
