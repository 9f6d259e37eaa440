"""An active party that opens session after session, at passive parties of their own owners."""

import signal
from pathlib import Path

import pytest

from plumbline.federation import Federation, FederationFailed
from services.common.state_folder import read_state
from services.passive.form_count import FORMS, spent_in
from tests.harness.hostile import SEEDED, assert_sound, log_of, scores_of
from tests.harness.processes import local_processes

# A fifth of 15 columns.
LIMIT = 3


def spent(federation: Federation) -> int:
    """Forms of the record that was answered about most, as the state folder of the passive party has them."""
    content = read_state(federation.processes.state("passive"), FORMS)
    return 0 if content is None else spent_in(content)[0].most


def killed(federation: Federation) -> None:
    """Kill the passive party and start it again."""
    process = federation.processes.process("passive")
    process.send_signal(signal.SIGKILL)
    process.wait()
    federation.processes.start_party("passive")


def test_no_loop_over_sessions_passes_the_limit_whatever_is_killed_between(tmp_path: Path) -> None:
    """Twenty sessions in eight seconds once read every cell of 15 columns."""
    processes = local_processes(tmp_path, **{**SEEDED, "most_forms": 0.2, "private_seed": None, "batch_size": 32})
    with Federation.start(processes) as federation:
        with pytest.raises(FederationFailed, match="leaves the weights almost where they start"):
            federation.train(epochs=1, learning_rate=1e-6)
        for number in range(1, LIMIT + 1):
            federation.train(epochs=1, test_fraction=0.7, seed=number)
            assert spent(federation) == number
            killed(federation)
        expected = scores_of(federation)
        for number in range(2):
            with pytest.raises(FederationFailed, match="3 of 15, which is as many as passive's owner allows"):
                federation.train(epochs=1, test_fraction=0.7, seed=10 + number)
            killed(federation)
        assert scores_of(federation).equals(expected)
        assert spent(federation) == LIMIT
        assert "counted since this start only" not in log_of(processes, "passive")
        assert_sound(processes)


def test_a_kill_in_mid_training_frees_nothing(tmp_path: Path) -> None:
    """What was answered before the kill is on disk; what is answered after it adds up to no more."""
    processes = local_processes(tmp_path, **{**SEEDED, "most_forms": 0.5, "private_seed": None, "cipher": "plain"})
    with Federation.start(processes) as federation:
        seen = 0
        for _ in range(3):

            def strike(event: object) -> None:
                if getattr(event, "WhichOneof")("event") == "epoch":  # noqa: B009
                    killed(federation)

            with pytest.raises(FederationFailed):
                federation.train(watch=strike, epochs=6, batch_size=64)
            assert seen <= spent(federation) <= 7
            seen = spent(federation)
        assert seen >= 1
