"""`python -m scripts.network_accuracies`: a rung in real processes beside plain torch."""

import numpy as np
import pytest

from plumbline.processes import LocalProcesses
from scripts import network_accuracies
from scripts.network_accuracies import TOLERANCE, compared, main
from services.common.agreement import TrainingPlan
from vfl.arrays import FloatArray

# The label party trains with it.
pytest.importorskip("torch")


@pytest.mark.slow("a network is trained on each rung")
def test_a_rung_predicts_as_torch_does_from_the_same_first_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[FloatArray] = []
    expected = network_accuracies._expected

    def from_other_weights_too(processes: LocalProcesses, plan: TrainingPlan) -> FloatArray:
        others = {name: one.model_copy(update={"private_seed": 99}) for name, one in processes.settings.items()}
        told.extend(expected(one, plan) for one in (processes, LocalProcesses(processes.folder, others)))
        return told[0]

    monkeypatch.setattr(network_accuracies, "_expected", from_other_weights_too)
    found = compared(
        "breast_cancer",
        None,
        200,
        1,
        backward="shared",
        epochs=3,
        batch_size=64,
        key_bits=512,
        allow_insecure_keys=True,
    )
    assert abs(found.auc - found.expected_auc) <= TOLERANCE
    assert 0 < found.difference < 1e-3
    assert np.abs(told[0] - told[1]).max() > 0.05


def test_a_rung_that_misses_fails_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    aucs = {"plain": 0.9, "paillier": 0.9 - TOLERANCE / 2, "shared": 0.9 - 2 * TOLERANCE}
    found = lambda *_, backward, **__: network_accuracies.Compared(aucs[backward], 0.9, 0.1)  # noqa: E731
    monkeypatch.setattr(network_accuracies, "compared", found)
    monkeypatch.setattr("sys.argv", ["network_accuracies", "--seeds", "2"])
    with pytest.raises(SystemExit, match="A test AUC differs by more than"):
        main()
    assert "| breast_cancer | `shared` | 0.89600 | 0.90000 | -4.0e-03 | 1.0e-01 |" in capsys.readouterr().out
    aucs["shared"] = 0.9
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
