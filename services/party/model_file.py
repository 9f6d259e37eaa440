"""A party's model as a file of its state: arrays and a header of JSON in an .npz, no pickle, nothing of Protocol 1.

The features aren't in it: they are encoded again from the party's own table, fitted on the same rows. The file has the
hash of the table and that of the features, so that a model is never used with other data than it was trained on.
"""

import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from services.common.agreement import Agreement
from services.common.errors import InvalidMessage, OutOfOrder
from services.common.run_records import content_of
from services.common.state_folder import reading
from services.party.features import PartyData
from services.party.party_model import PartyModel
from services.party.table_hash import hash_of_features
from vfl.arrays import BROKEN_ARRAYS, FloatArray, IntArray, pack_arrays, unpack_arrays
from vfl.learning import Part
from vfl.learning.score_quality import ScoreQuality

_log = logging.getLogger(__name__)

_WHAT = "A model of this party's state"


class TableChanged(OutOfOrder):
    """A model's party has another table now than the one that it was trained on."""


@dataclass(frozen=True, eq=False)
class KeptModel:
    """A model that is kept, with what its party needs besides.

    Attributes:
        model: the party's share.
        order: (aligned rows,) this party's own row numbers in the common order.
        kept_at: when training ended, UTC, ISO 8601.
        warnings: what the session's terms leave unprotected; the active party's, for its operator.
        test: how it did on the test records; the active party's, which has the labels.
        disclosed: the parameters as they were first disclosed; None before.
    """

    model: PartyModel
    order: IntArray
    kept_at: str
    warnings: tuple[str, ...] = ()
    disclosed: Part | None = None
    test: ScoreQuality | None = None

    @classmethod
    def of(
        cls, model: PartyModel, order: IntArray, warnings: tuple[str, ...] = (), test: ScoreQuality | None = None
    ) -> "KeptModel":
        """Take a model that has just been trained."""
        return cls(model, order, datetime.now(UTC).isoformat(timespec="seconds"), warnings, test=test)

    @property
    def session_id(self) -> str:
        """The session that the model is from."""
        return self.model.agreement.session_id

    def with_disclosed(self, disclosed: Part) -> "KeptModel":
        """Add what was disclosed, from the first disclosure on."""
        return replace(self, disclosed=disclosed)


@dataclass(frozen=True)
class ModelSummary:
    """What may be shown of a kept model: no weight, no key.

    Attributes:
        session_id: the session that it is from.
        kept_at: when training ended.
        parties: their names, the active one first.
        aligned_rows: records that all of them hold.
        features: how many this party has, the active party's bias included.
        classes: how many there are.
        table: hash of the party's table.
        score_defences: what the coordinator applies.
    """

    session_id: str
    kept_at: str
    parties: tuple[str, ...]
    aligned_rows: int
    features: int
    classes: int
    table: str
    score_defences: tuple[str, ...]


def packed(kept_model: KeptModel, data: PartyData) -> bytes:
    """Write a model as the content of a file."""
    header = {
        "agreement": content_of(kept_model.model.agreement),
        "party": kept_model.model.name,
        "epochs": kept_model.model.epochs,
        "kept_at": kept_model.kept_at,
        "warnings": kept_model.warnings,
        "table": data.table_hash,
        "test": None if kept_model.test is None else asdict(kept_model.test),
        "features": hash_of_features(kept_model.model.features),
    }
    arrays: dict[str, NDArray[Any]] = {
        "order": kept_model.order,
        "token_key": np.frombuffer(kept_model.model.token_key, dtype=np.uint8),
        **_arrays_of("own", kept_model.model.part),
    }
    if kept_model.model.trained is not None:
        arrays |= _arrays_of("trained", kept_model.model.trained)
    if kept_model.disclosed is not None:
        arrays |= _arrays_of("disclosed", kept_model.disclosed)
    return pack_arrays(header, arrays)


def unpacked(content: bytes, data: PartyData, labels: IntArray | None = None) -> KeptModel:
    """Read the model that ``packed`` wrote.

    Args:
        content: of the file.
        data: the party's table.
        labels: class indices, one per record of the table; the active party's only.

    Raises:
        TableChanged: where it isn't the table that the model was trained on.
        StateError: for anything else than such a content.
    """
    header, arrays = _read(content)
    agreement = _agreement_of(header)
    _check_table(header, data)
    with reading(_WHAT, KeyError, ValueError, IndexError, TypeError):
        order = arrays["order"].astype(np.int64)
        model = PartyModel(
            agreement,
            header["party"],
            _features_again(header, data, order, agreement),
            _part_of("own", arrays, agreement),
            int(header["epochs"]),
            arrays["token_key"].tobytes(),
            None if labels is None else labels[order],
            _part_if_any("trained", arrays, agreement),
        )
        shown = _kept_of("disclosed", arrays)
        disclosed = agreement.plan.calls.read_part(shown) if shown else None
        # Absent from models of before.
        test = header.get("test")
        quality = ScoreQuality(**{**test, "by_class": tuple(test.get("by_class", ()))}) if test else None
        return KeptModel(model, order, header["kept_at"], tuple(header["warnings"]), disclosed, quality)


def _check_table(header: dict[str, Any], data: PartyData) -> None:
    """Raise TableChanged for a model of another table, or of a version that encoded otherwise."""
    if "features" not in header:
        raise TableChanged(
            f"{header['party']}'s model is of an older version of Plumbline, which fitted scales on other rows: train "
            "again."
        )
    if header["table"] != data.table_hash:
        raise TableChanged(
            f"{header['party']}'s table, or how it is encoded, has changed since its model was trained: put it back, "
            "or train again."
        )


def _features_again(header: dict[str, Any], data: PartyData, order: IntArray, agreement: Agreement) -> FloatArray:
    """Make the features that the model was trained on; raises TableChanged where the same table gives others now."""
    try:
        features = data.aligned(order, agreement.plan).features
        if header["features"] == hash_of_features(features):
            return features
    except InvalidMessage as error:
        _log.error("%s", error)
    raise TableChanged(
        f"{header['party']}'s table is encoded otherwise than when its model was trained: start it with the defences, "
        "the state folder and the version of Plumbline that it had, or train again."
    )


def summary_of(content: bytes) -> ModelSummary:
    """Read what may be shown of a model's file; raises StateError for anything else."""
    header, _ = _read(content)
    agreement = _agreement_of(header)
    description = agreement.party(header["party"])
    return ModelSummary(
        agreement.session_id,
        str(header["kept_at"]),
        tuple(party.name for party in agreement.parties),
        description.aligned_rows,
        description.feature_count,
        agreement.classes,
        str(header["table"]),
        agreement.score_defences,
    )


def _read(content: bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    with reading(_WHAT, *BROKEN_ARRAYS):
        return unpack_arrays(content)


def _agreement_of(header: dict[str, Any]) -> Agreement:
    with reading(_WHAT, KeyError, ValidationError):
        return TypeAdapter(Agreement).validate_python(header["agreement"])


def _arrays_of(name: str, part: Part) -> dict[str, NDArray[Any]]:
    return {f"{name}_{key}": array for key, array in part.arrays().items()}


def _part_if_any(name: str, arrays: Mapping[str, NDArray[Any]], agreement: Agreement) -> Part | None:
    return _part_of(name, arrays, agreement) if any(key.startswith(f"{name}_") for key in arrays) else None


def _part_of(name: str, arrays: Mapping[str, NDArray[Any]], agreement: Agreement) -> Part:
    read_part = agreement.plan.calls.read_part
    return agreement.serving.read_part(_kept_of(name, arrays), read_part)


def _kept_of(name: str, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    start = f"{name}_"
    return {key.removeprefix(start): array for key, array in arrays.items() if key.startswith(start)}
