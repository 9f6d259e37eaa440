"""An active party that opens session after session, at a passive party whose owner bounds what they add up to."""

import json
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import grpc
import numpy as np
import pytest

from plumbline.federation import Federation, FederationFailed
from plumbline.processes import LocalProcesses
from plumbline.recipe import changed
from protos.v1 import active_pb2, coordinator_pb2_grpc
from services.common.ledger_marks import LedgerMark
from services.common.state_folder import read_state
from services.party.equation_count import EQUATIONS, spent_in
from tests.harness.hostile import SEEDED, assert_sound, raw_channel, scores_of, served_federation
from tests.harness.processes import dial, local_processes

# New start weights in each session, and small batches, so that a small part of the records is enough to train.
DRAWN_ANEW = {**SEEDED, "private_seed": None, "batch_size": 32}


def owned_apart(folder: Path, share: float) -> LocalProcesses:
    """Processes whose passive party answers with so large a share of its columns, as if its owner were another."""
    processes = local_processes(folder, **DRAWN_ANEW)
    limited = {name: changed(name, one, most_equations=share) for name, one in processes.settings.items()}
    return LocalProcesses(folder, limited)


def spent(federation: Federation) -> int:
    """Equations of the record that was answered about most, as the passive party's state folder has them."""
    content = read_state(federation.processes.state("passive"), EQUATIONS)
    return 0 if content is None else max((one.most for one in spent_in(content)), default=0)


def kill_and_restart(federation: Federation, copy: Path | None = None) -> None:
    """Kill the passive party, put a copy of its state back if there is one, start it again and wait for it."""
    process = federation.processes.process("passive")
    process.send_signal(signal.SIGKILL)
    process.wait()
    if copy is not None:
        shutil.rmtree(state := federation.processes.state("passive"))
        shutil.copytree(copy, state)
    federation.processes.start_party("passive")
    with dial(federation.processes, "operator", "passive") as channel:
        grpc.channel_ready_future(channel).result(60)


def test_no_loop_over_sessions_passes_the_limit_whatever_is_killed_between(tmp_path: Path) -> None:
    """Twenty sessions in eight seconds once read every cell of 15 columns."""
    processes = owned_apart(tmp_path, 0.14)
    with Federation.start(processes) as federation:
        with pytest.raises(FederationFailed, match="leaves the weights almost where they start"):
            federation.train(learning_rate=1e-6)
        # Batches last, whatever the seed: other models take other epochs.
        for session in (1, 2):
            federation.train(test_fraction=0.7, seed=session, epochs=2 + session)
            assert spent(federation) == session
        expected = scores_of(federation)
        for session in (3, 4):
            kill_and_restart(federation)
            with pytest.raises(FederationFailed, match="2 of 15, which is as many as passive's owner allows"):
                federation.train(test_fraction=0.7, seed=session, epochs=2 + session)
        assert scores_of(federation).equals(expected)
        assert spent(federation) == 2
        assert_sound(processes)


def test_a_kill_in_mid_training_frees_nothing(tmp_path: Path) -> None:
    """What was answered before the kill is on disk; what is answered after it adds up to no more."""
    processes = owned_apart(tmp_path, 0.5)
    with Federation.start(processes) as federation:
        seen = [0]

        def strike(event: active_pb2.JobEvent) -> None:
            if event.WhichOneof("event") == "epoch" and event.epoch.epoch >= 1:
                kill_and_restart(federation)

        for session in (1, 2):
            with pytest.raises(FederationFailed):
                federation.train(watch=strike, epochs=6, seed=session)
            seen.append(spent(federation))
        # Three validations were planned of seven forms, and then half of what is left.
        assert 1 <= seen[1] <= 3
        assert seen[1] <= seen[2] <= 5


def test_a_state_that_was_put_back_forgets_no_session(tmp_path: Path) -> None:
    """Whoever gets an owner to put a copy back would be answered anew: the coordinator knows how far the count was."""
    processes = owned_apart(tmp_path / "federation", 0.5)
    older, newest = tmp_path / "older", tmp_path / "newest"
    with Federation.start(processes) as federation:
        shutil.copytree(processes.state("passive"), older)
        federation.train(test_fraction=0.7, seed=1, epochs=3)
        shutil.copytree(processes.state("passive"), newest)
        kill_and_restart(federation, older)
        for seed in (2, 3):
            with pytest.raises(FederationFailed, match=r"passive: forms\.npz of passive's state is of an older copy"):
                federation.train(test_fraction=0.7, seed=seed, epochs=2 + seed)
        assert spent(federation) == 0
        kill_and_restart(federation, newest)
        federation.train(test_fraction=0.7, seed=2, epochs=4)
        assert spent(federation) > 1
        assert_sound(processes)


def test_a_party_moves_no_other_partys_ledger(tmp_path: Path) -> None:
    """Who calls is whom its certificate names, whatever it sends: else it could have a peer refuse for good."""
    with served_federation(tmp_path) as federation:
        processes = federation.processes
        with np.load(processes.state("passive") / EQUATIONS, allow_pickle=False) as archive:
            ledger = LedgerMark.of_header(json.loads(archive["header"].tobytes()))
        further = replace(ledger, generation=1 << 50)
        with raw_channel(processes, "active", "coordinator") as channel:
            stub = coordinator_pb2_grpc.CoordinatorStub(channel)
            reply = stub.NoteLedger(further.to_message(federation.status().session_id), timeout=20)
        assert LedgerMark.from_message(reply) == further
        federation.train(seed=2)
        assert_sound(processes)
