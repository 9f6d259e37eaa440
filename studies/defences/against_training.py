"""Every attack on training against the defences of training: real federations with 2,048-bit keys over mTLS."""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from plumbline.audit.request import AuditRequest
from studies.simulation.live import LiveRun, residual_integer_bits, run_live
from vfl.data import load_dataset

DATASET = "breast_cancer"
# Enough for the attacks, and few steps: each of them takes a tenth of a second.
RECORDS = 200
_EPOCHS, _TEST_FRACTION = 6, 0.2
_LISTENING_BATCH, _LARGE_BATCH, _LEARNING_RATE = 14, 128, 0.1

LISTENING = "batches of 14, parties of 14, 1 and 15 features"
EXTENDED = "batches of 128, two parties of 15 features, no packing"
UNMASKED = "batches of 128, no packing, rerandomise=off"


@dataclass(frozen=True)
class Setting:
    """A federation in which some attacks work when nothing is done about them.

    Attributes:
        title: on the page.
        adversary: the party that attacks.
        measured: (attack, party that mounts it) of each.
        trials: defences to switch on, by words.
        settings: of the federation.
    """

    title: str
    adversary: str
    measured: tuple[tuple[str, str], ...]
    trials: tuple["LiveTrial", ...]
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class LiveTrial:
    """Defences switched on together, each with its options."""

    defences: tuple[str, ...]
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


_NOISE = LiveTrial(("dp_noise",))
_TRUNCATION = LiveTrial(("response_truncation",))
_TRANSFORM = LiveTrial(("feature_transform",), {"feature_transform": {"kind": "negate", "at": "training"}})
_RANDOM = LiveTrial(("feature_transform",), {"feature_transform": {"at": "training"}})

SETTINGS = (
    Setting(
        LISTENING,
        "active",
        (("label_recovery", "passive-2"), ("feature_order", "active"), ("averaged_products", "active")),
        (_NOISE, _TRUNCATION, _TRANSFORM),
        # feature_order joins batches by the records that they share.
        {"epochs": _EPOCHS, "batch_size": _LISTENING_BATCH, "batches": "reshuffled"},
    ),
    Setting(
        EXTENDED,
        "passive",
        (("auxiliary_ciphertext", "passive"),),
        (_TRUNCATION, _NOISE),
        {
            "epochs": 2,
            "batch_size": _LARGE_BATCH,
            "packing": False,
            # Room for the sums of noisy residuals as well.
            "attack_options": {"auxiliary_ciphertext": {"iota": 80}},
        },
    ),
    Setting(
        UNMASKED,
        "active",
        (("randomiser_channel", "active"),),
        (LiveTrial(("response_truncation", "dp_noise")), _RANDOM),
        {"epochs": 1, "batch_size": _LARGE_BATCH, "packing": False, "rerandomise": False},
    ),
)


def training_rows(*, quick: bool) -> pd.DataFrame:
    """Measure one row per federation and attack: undefended, each defence alone, and two together where neither helps.

    right: the share of what was attacked that the attack got right; answered: the share it gave an answer for.
    """
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="plumbline-tables-") as folder:
        for setting in SETTINGS[1:2] if quick else SETTINGS:
            plain = run_live(_request(setting, LiveTrial(()), Path(folder)))
            rows += _rows_of(setting, "none", "", plain, plain)
            for trial in setting.trials[:1] if quick else setting.trials:
                run = run_live(_request(setting, trial, Path(folder)))
                for name in trial.defences:
                    words = ", ".join(f"{key}={value}" for key, value in trial.options.get(name, {}).items())
                    others = " and ".join(other for other in trial.defences if other != name)
                    together = f"with {others}" if others else ""
                    rows += _rows_of(setting, name, words or together or "defaults", run, plain)
    return pd.DataFrame(rows)


def _rows_of(setting: Setting, defence: str, options: str, run: LiveRun, plain: LiveRun) -> list[dict[str, Any]]:
    rows = []
    for attack, party in setting.measured:
        found, before = run.finding(attack, party), plain.finding(attack, party)
        rows.append(
            {
                "phase": "training",
                "dataset": DATASET,
                "case": f"{DATASET}, live: {setting.title}",
                "defence": defence,
                "options": options,
                "awareness": "knows nothing of it",
                "attack": attack,
                "status": "measured",
                "reason": found.reason,
                "right": _share(found.success),
                "right_undefended": _share(before.success),
                "answered": _share(found.resolved),
                "answered_undefended": _share(before.resolved),
                "model_accuracy": run.accuracy,
                "model_accuracy_undefended": plain.accuracy,
            }
        )
    return rows


def _share(value: float) -> float:
    """An attack that couldn't start got nothing right."""
    return 0.0 if value != value else value


def _request(setting: Setting, trial: LiveTrial, folder: Path) -> AuditRequest:
    settings: dict[str, Any] = {
        "learning_rate": _LEARNING_RATE,
        "validation_fraction": 0.0,
        "test_fraction": _TEST_FRACTION,
        # On by default; here it is a defence among others.
        "truncate_answers": "response_truncation" in trial.defences,
        **setting.settings,
    }
    common: dict[str, Any] = {
        "name": "figures",
        "attacks": tuple(attack for attack, _ in setting.measured),
        "defences": trial.defences,
        "adversary": setting.adversary,
    }
    if setting.title == LISTENING:
        rows = RECORDS
        common |= {"active": str(folder / "active.parquet"), "label": "label"}
        common["passive"] = tuple(str(folder / f"passive-{number}.parquet") for number in (1, 2))
        _write_tables(folder)
    else:
        rows = 530  # the two parties' common records of 569, each of which lacks some
        common["data"] = DATASET
    if "dp_noise" in trial.defences:
        epochs, batch = int(settings["epochs"]), int(settings["batch_size"])
        steps = epochs * -(-round(rows * (1 - _TEST_FRACTION)) // batch)
        settings["residual_integer_bits"] = residual_integer_bits(
            {}, epochs=epochs, steps=steps, rows=batch, learning_rate=_LEARNING_RATE
        )
    # What the literature trains, and attacks.
    plan = {"steps": "plain", "calibrated": False, **settings}
    return AuditRequest.of(**common, settings={**plan, "defence_options": dict(trial.options)})


def _write_tables(folder: Path) -> None:
    """Three parties' tables: 14 columns and the labels, 1 column, 15 columns."""
    table = load_dataset(DATASET, None)
    features = pd.DataFrame(table.features[:RECORDS], columns=list(table.feature_names))
    ids = [f"r{row:04d}" for row in range(RECORDS)]
    for name, columns in (("active", slice(0, 14)), ("passive-1", slice(14, 15)), ("passive-2", slice(15, 30))):
        part = features.iloc[:, columns].copy()
        part.insert(0, "id", ids)
        if name == "active":
            part["label"] = [str(label) for label in table.labels[:RECORDS]]
        part.to_parquet(folder / f"{name}.parquet", index=False)
