"""Networks of whole parties: early stopping, restarts, what is counted, and what is refused beside them."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from defences import load
from services.common.errors import InvalidMessage, OutOfOrder
from services.common.settings import SettingsError, load_settings
from services.party.equation_count import EQUATIONS, spent_in
from tests.harness.parties import house, small_settings
from tests.harness.restarts import IDS, Town, town

# The label party trains with it.
pytest.importorskip("torch")

NETWORK: dict[str, Any] = {"learner": "network", "backward": "plain", "learner_options": {"hidden": 2}}


def in_the_clear(folder: Path, **settings: Any) -> Any:
    return town(folder, **{**NETWORK, **settings})


def spent(home: Town) -> int:
    content = home.states["passive"].read(EQUATIONS)
    return 0 if content is None else max((one.most for one in spent_in(content)), default=0)


def test_a_network_stops_early_and_answers_the_same_after_a_restart(tmp_path: Path) -> None:
    with in_the_clear(tmp_path, parties=3, epochs=40, patience=2, learning_rate=0.3, private_seed=1) as home:
        outcome = home.active.train(home.settings.plan(), _Ignoring())
        assert 0 < outcome.kept_epoch < 37
        assert outcome.epochs_run == outcome.kept_epoch + 3
        before = home.scores()
        np.testing.assert_allclose(before.sum(axis=1), 1.0)
        assert len(np.unique(before[:, 0])) == len(IDS)
        home.restart(*home.names)
        np.testing.assert_array_equal(home.scores(), before)


class _Ignoring:
    def stage(self, name: str) -> None: ...
    def step(self, done: int, planned: int, what: str = "") -> None: ...
    def epoch(self, outcome: Any) -> None: ...


def test_forwarded_sums_are_counted_before_a_training_begins(tmp_path: Path) -> None:
    """Two units in two epochs, and two of the kept model: all of 3 columns. A linear model of two classes is 1."""
    with in_the_clear(tmp_path, most_equations=0.4) as home:
        home.train()
        assert spent(home) == 3
        with pytest.raises(OutOfOrder, match="is answered with 3 independent sums of the columns of a record"):
            home.train()
        home.restart(*home.names)
        with pytest.raises(OutOfOrder, match="PLUMBLINE_MOST_EQUATIONS"):
            home.train()


def test_a_session_that_is_ended_in_mid_training_has_been_counted(tmp_path: Path) -> None:
    with in_the_clear(tmp_path, most_equations=0.4) as home:
        with pytest.raises(InvalidMessage, match="stops here"):
            home.active.train(home.settings.plan(), _Stopping())
        assert spent(home) == 3


class _Stopping(_Ignoring):
    def epoch(self, outcome: Any) -> None:
        raise InvalidMessage("The job stops here.")


def test_a_coordinator_that_defends_scores_refuses_a_network(tmp_path: Path) -> None:
    with (
        in_the_clear(tmp_path, score_defences=[load("score_rounding", decimals=2)]) as home,
        pytest.raises(InvalidMessage, match="The coordinator applies score_rounding to scores, and of the learner"),
    ):
        home.train()


def test_settings_bring_the_rungs_protocol_and_cipher_along() -> None:
    plain = load_settings(**NETWORK, learning_rate=0.2).plan()
    assert (plain.cipher, plain.protocol) == ("plain", "hu")
    assert plain.learner_options["learning_rate"] == 0.2
    assert load_settings(learner="network").plan().learner_options["learning_rate"] == 0.1
    assert load_settings(learner="network", key_bits=3072).plan().cipher == "paillier"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"learner": "network", "cipher": "plain"}, "trains under protocol=hu and cipher=paillier with these options"),
        ({**NETWORK, "key_bits": 2048}, "cipher=plain uses no keys and contradicts key_bits"),
        ({"backward": "plain"}, "backward is of learner=network: give linear its own in learner_options"),
        ({"learner": "network", "l2": 0.1}, "l2 is of learner=linear: give network its own in learner_options"),
        ({**NETWORK, "learner_options": {"backward": "plain"}}, "backward is said twice"),
        ({"learner": "network", "learner_options": {"hidden": 0}}, "Expected hidden to be from 1 to 1024 units, got 0"),
    ],
)
def test_settings_of_a_network_that_contradict_each_other_stop_the_start(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        load_settings(**settings)


def test_services_start_without_what_only_a_training_or_an_attack_needs() -> None:
    code = """
import sys
import numpy as np
import services.active.server, services.passive.server, services.coordinator.server
print([name for name in ("scipy.linalg", "scipy.optimize", "scipy.special") if name in sys.modules])
from vfl.learning import OwnData, registry
from vfl.learning.network import NetworkPart
from vfl.learning.networks import DenseNetwork
half = registry.load("network").begin(OwnData(3, None, 2, 6, np.random.default_rng(0)))
top = DenseNetwork((np.ones((16, 2)),), (np.zeros(2),), "tanh")
NetworkPart(np.ones((3, 16)), top).scores(half.part().shares(np.ones((4, 3))))
print("torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[]", "False"]


@pytest.mark.parametrize(("own", "proposed"), [("shared", "plain"), ("shared", "paillier"), ("paillier", "plain")])
def test_a_party_on_another_rung_refuses_and_says_what_to_set(tmp_path: Path, own: str, proposed: str) -> None:
    mine, theirs = (
        small_settings(
            learner="network",
            learner_options={"hidden": 2, "backward": one},
            patience=0,
            **({"cipher": "plain"} if one == "plain" else {}),
        )
        for one in (own, proposed)
    )
    with house(tmp_path, settings=theirs, passive_settings=mine) as home:
        with pytest.raises(OutOfOrder, match=r"such as PLUMBLINE_BACKWARD: set them alike at every party"):
            home.train()
        assert home.passive["passive"]._session is None or home.passive["passive"]._session.joined is None


@pytest.mark.parametrize(("rate", "is_told"), [(0.2, False), (1e8, True)])
def test_numbers_that_leave_the_range_end_nothing_and_are_told_at_the_label_party_alone(
    tmp_path: Path, rate: float, is_told: bool
) -> None:
    options = {"hidden": 3, "activation": "relu", "learning_rate": rate, "backward": "shared"}
    settings = small_settings(learner="network", learner_options=options, patience=0)
    with house(tmp_path, settings=settings) as home:
        home.train()
        remarks = home.record()["remarks"]
        assert [one for one in remarks if "came near what backward=shared holds" in one] == remarks
        assert bool(remarks) == is_told
        assert home.record("passive")["remarks"] == []
