"""Real processes, and what their files say."""

import secrets
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from plumbline.audit.request import AuditRequest
from plumbline.federation import Federation
from plumbline.processes import LocalProcesses
from services.common.agreement import TrainingPlan
from services.common.certificates import CertificateFiles
from services.common.identity import Identity, role_of
from services.common.meters import TrafficMeter
from services.common.run_folder import RunFolder
from services.network.transport import Transport
from tests.harness.exchanges import Problem
from vfl.arrays import FloatArray
from vfl.data import (
    DATASETS,
    column_grids,
    common_order,
    encode_labels,
    fit_encoder,
    load_dataset,
    party_share,
    put_on_grids,
    rows_of,
    typed_table_of,
)
from vfl.learning import split_rows

# -- level 3: real processes over mTLS --------------------------------------------------------------------------------

# Small keys, few rows per step and short waits: for tests of anything but the arithmetic.
QUICK = {
    "key_bits": 512,
    "allow_insecure_keys": True,
    "batch_size": 64,
    "epochs": 1,
    "step_timeout": 8,
}

# One per caller: another would have to wait for the silence of the one before.
_INSTANCES: defaultdict[str, str] = defaultdict(lambda: secrets.token_hex(16))


def local_processes(folder: Path, *, data: str = "breast_cancer", parties: int = 2, **settings: Any) -> LocalProcesses:
    """Processes of a registered data set's federation, not started; their records go to ``folder``/parties."""
    request = AuditRequest.of(data=data, parties=parties, settings=settings)
    return LocalProcesses(folder, request.recipe(request.tables.party_settings).checked().settings(folder / "parties"))


@contextmanager
def quick_federation(folder: Path, **settings: Any) -> Iterator[Federation]:
    with Federation.start(local_processes(folder, **{**QUICK, **settings})) as federation:
        yield federation


def dial(processes: LocalProcesses, caller: str, callee: str, certificates: Path | None = None) -> grpc.Channel:
    """A channel from party ``caller``, with its own certificate, to ``callee``. Each caller is one process."""
    files = CertificateFiles.of(certificates or processes.certificates, caller)
    transport = Transport(Identity(role_of(caller), caller), files, TrafficMeter(), _INSTANCES[caller])
    return transport.dial(processes.addresses[callee], callee)


def refused(error: pytest.ExceptionInfo[grpc.RpcError]) -> tuple[grpc.StatusCode, str]:
    """Status and words of a refused call."""
    call = error.value
    assert isinstance(call, grpc.Call)
    return call.code(), call.details() or ""


def registered_problem(processes: LocalProcesses, name: str, plan: TrainingPlan) -> Problem:
    """What the processes train on, put together again: a test may see all the data."""
    parties = [party for party in processes.settings if party != "coordinator"]
    missing = processes.settings["active"].missing_fraction
    tables = [
        party_share(load_dataset(name, Path("data")), number, len(parties), seed=0, missing_fraction=missing)
        for number in range(len(parties))
    ]
    common = common_order(set(tables[0].ids).intersection(*(table.ids for table in tables[1:])))
    split = split_rows(
        len(common), validation_fraction=plan.validation_fraction, test_fraction=plan.test_fraction, seed=plan.seed
    )
    blocks = {}
    for party, table in zip(parties, tables, strict=True):
        aligned = table.features[rows_of(table.ids, common)]
        encoder = fit_encoder("minmax", aligned[split.train])
        of_table = column_grids(typed_table_of(table), "minmax")
        grids = [grid and grid.scaled(scale) for grid, scale in zip(of_table, encoder.scale, strict=True)]
        blocks[party] = put_on_grids(encoder.transform(aligned), grids, plan.feature_fraction_bits).values
        if party == "active":
            blocks[party] = np.hstack([blocks[party], np.ones((len(aligned), 1))])
    labels = tables[0].labels
    assert labels is not None
    indices, _ = encode_labels(labels)
    return Problem(blocks, indices[rows_of(tables[0].ids, common)], DATASETS[name].classes)


def weights_of(folder: Path, parties: Sequence[str]) -> list[FloatArray]:
    """What each party wrote of its own weights."""
    return [RunFolder(folder).weights(name).weights for name in parties]
