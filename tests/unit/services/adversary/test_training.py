"""The host of attacks on training: what it shows them, and what it leaves alone."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import attacks
from defences import load
from services.adversary.training import TrainingAdversary
from services.ciphers.cipher import PaillierCipher
from services.common.run_folder import RunFolder
from tests.harness.defended import with_defences
from tests.harness.exchanges import SMALL_PLAN, random_problem
from tests.harness.parties import active_data, house, party_data, small_settings
from tests.harness.seated import encrypted_in_place, setting_of
from tests.harness.shared_sessions import SharedProblem


@dataclass(frozen=True)
class Nothing:
    """A result that says nothing."""

    kind: ClassVar[str] = "nothing"

    def facts(self) -> dict[str, attacks.Json]:
        return {}

    def arrays(self) -> dict[str, Any]:
        return {}


@dataclass(frozen=True)
class Watching:
    """Keeps the view that it is shown."""

    name: ClassVar[str] = "watching"
    spec: ClassVar[attacks.AttackSpec] = attacks.AttackSpec("either", "training", (), "a test")
    views: list[attacks.TrainingView] = field(default_factory=list)

    def attack(self, view: attacks.TrainingView) -> Nothing:
        self.views.append(view)
        return Nothing()


@pytest.mark.parametrize("cipher", ["plain", "paillier"])
def test_an_adversary_sees_its_own_share_without_its_own_noise(tmp_path: Path, cipher: str) -> None:
    """From zero weights a passive party's share of the first step is 0, whatever it encrypts."""
    settings = small_settings(epochs=1, initialisation="zero", cipher=cipher, residual_integer_bits=8)
    labels = np.random.default_rng(8).permutation(["no", "yes"] * 30).tolist()
    weights = []
    for number, chosen in enumerate(((), (load("dp_noise", sigma=5.0),))):
        attack, folder = Watching(), tmp_path / str(number)
        with house(
            folder,
            settings=settings,
            active=active_data(labels=labels),
            passive_defences=with_defences(*chosen),
            passive_adversary={"watching": attack},
        ) as home:
            home.train()
        (view,) = attack.views
        assert [one.step for one in view.steps] == list(range(len(view.steps)))
        assert view.steps_per_epoch == len(view.steps) > 1
        assert not view.steps[0].share.any()
        assert view.steps[1].share.any()
        assert np.abs(view.steps[1].share).max() < 1
        weights.append(np.load(folder / "active-weights.npz")["weights"])
    # What it encrypted was noisy all the same.
    assert np.abs(weights[0] - weights[1]).max() > 0.05


@pytest.mark.parametrize("opening", ["always", "guarded"])
@pytest.mark.parametrize("parties", [2, 3])
def test_on_shared_weights_an_adversary_is_shown_what_it_decrypts(tmp_path: Path, parties: int, opening: str) -> None:
    """Uniform numbers in place of sums, and the opened weights, or the kept share, in place of those of each step."""
    attack = Watching()
    settings = small_settings(protocol="shared", opening=opening, epochs=4, patience=0, batch_size=8, key_bits=512)
    passive = [party_data(seed=seed) for seed in range(1, parties)]
    mounted = {"watching": attack, "auxiliary_ciphertext": attacks.load_training("auxiliary_ciphertext")}
    with house(tmp_path, settings=settings, passive=passive, passive_adversary=mounted) as home:
        home.train()
        record = home.active_training.agreement
    name = record.parties[1].name
    view = next(one for one in attack.views if one.peer_features.keys() == {one.name for one in record.peers_of(name)})
    part: Any = home.passive[name]._models.served.model.part  # type: ignore[union-attr]
    is_opened = opening == "always"
    weights = part.arrays()["weights"] if is_opened else part.share.astype(np.int64) * 0.5**63
    assert len(view.steps) == 4 * (view.steps_per_epoch or 0)
    assert len(view.equations) == len(view.steps) * (parties - 1)
    assert all(np.allclose(one.share, view.features[one.rows] @ weights) for one in view.steps)
    sums = np.concatenate([one.sums.ravel() / len(one.rows) for one in view.equations if one.peer == "active"])
    assert np.abs(sums).max() > 0.8
    assert abs(sums.mean()) < 4 / np.sqrt(3 * len(sums))
    outcomes = {one.attack: one for one in RunFolder(tmp_path).training_outcomes()}
    assert outcomes["watching"].is_done
    assert "replaces messages of protocol=hu" in str(outcomes["auxiliary_ciphertext"].reason)


@dataclass(frozen=True)
class Encoding:
    """Encrypts other features, and is wrong about them."""

    spec: attacks.AttackSpec
    forward: Any = None
    backward: Any = None
    name: ClassVar[str] = "encoding"

    @classmethod
    def on(cls, *learners: str) -> Any:
        spec = attacks.AttackSpec("passive", "training", (), "a test", conduct="replaces_features")
        return cls(replace(spec, learners=learners))

    def code(self, terms: Any) -> Any:
        return replace(self, forward=self.forward or terms.features, backward=terms.features)

    def read(self, opened: Any) -> Any:
        opened[:] = np.nan
        raise RuntimeError("a guest's bug")

    def result(self) -> Nothing:
        return Nothing()


def test_an_attack_that_is_refused_replaces_no_features() -> None:
    problem = SharedProblem.random()
    features = problem.blocks["passive-1"]
    for one in (Encoding.on("another"), replace(Encoding.on(), forward=[[1.0]])):
        adversary = TrainingAdversary({"encoding": one}, "passive-1", None)
        assert encrypted_in_place(adversary, problem.agreement(), "passive-1", features) is None


def test_a_guest_that_cannot_read_what_is_opened_ends_no_session(tmp_path: Path) -> None:
    settings = small_settings(protocol="shared", opening="always", epochs=1, patience=0)
    with house(tmp_path, settings=settings, passive_adversary={"encoding": Encoding.on()}) as home:
        home.train()
        assert np.isfinite(home.tested().scores).all()
    (outcome,) = RunFolder(tmp_path).training_outcomes()
    assert outcome.reason == "encoding failed with RuntimeError: a guest's bug"


def test_without_attacks_a_party_has_the_honest_side_of_its_own_setting() -> None:
    setting, made = setting_of(random_problem().agreement(SMALL_PLAN), "passive"), list[Any]()
    TrainingAdversary({}, "passive", None).seat(setting, made.append)  # type: ignore[arg-type]
    assert made == [setting]
    assert type(setting.means.cipher(setting.agreement, "passive")) is PaillierCipher


def test_who_watches_a_job_is_told_which_attack_on_training_is_at_work(tmp_path: Path) -> None:
    with house(tmp_path, settings=small_settings(cipher="plain"), active_adversary={"watching": Watching()}) as home:
        watcher = home.train()
    assert watcher.stages == ["aligning", "agreeing", "training", "attacking", "testing", "serving"]
    assert [told for told in watcher.told if told[0] == "attacking"] == [
        ("attacking", 0, 1, "watching"),
        ("attacking", 1, 1, ""),
    ]
