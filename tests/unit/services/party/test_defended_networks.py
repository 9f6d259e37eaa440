"""Defences of networks in services: on each message of training and every answer, never on a party's own numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from defences import NoiseSource, load
from defences.label_randomised_response import LabelRandomisedResponse
from services.common.agreement import TrainingPlan
from services.common.errors import FederationError, InvalidMessage
from services.party.party_defences import Message, PartyDefences
from tests.harness.defended import InSequence, with_defences
from tests.harness.exchanges import largest_difference, random_problem, run_together, wired
from tests.harness.parties import active_data, house, small_settings
from vfl.arrays import FloatArray, IntArray
from vfl.learning import VerticalData
from vfl.learning.network import Network
from vfl.learning.network.network_reference import Defended, train_network

# The label party trains with it.
pytest.importorskip("torch")

PLAN = TrainingPlan(epochs=2, batch_size=8, key_bits=512, learner="network").changed(hidden=4)
# Noise in sequence and noise by record don't ask which message it is.
ANY = Message("hidden", "", 0, np.arange(1))
SIGNALS = ["max_norm", "marvell", "discrete_gradients"]


def of_both() -> dict[str, PartyDefences]:
    """All of the label party's one after the other, and those of the passive party."""
    return {
        "active": PartyDefences([load(name) for name in SIGNALS], InSequence(1)),
        "passive": PartyDefences([load("hidden_noise", sigma=0.1), load("hidden_rounding", step=0.01)], InSequence(2)),
    }


@pytest.mark.parametrize("backward", ["plain", "paillier"])
def test_services_train_what_one_place_trains_with_the_same_defences(backward: str) -> None:
    """Each party's own gradient is of what it knows, the other's of what it is sent."""
    problem, plan = random_problem(columns=7), PLAN.changed(backward=backward)
    with wired(problem, plan, defences=of_both()) as trainings:
        weights = run_together(trainings, plan.epochs)
        terms = trainings["active"].setting.terms
    assert isinstance(plan.family, Network)
    here = of_both()

    def backward_of(signals: FloatArray, labels: IntArray) -> FloatArray:
        return here["active"].protect_residuals(signals, terms, ANY, labels)

    def trained(defended: Defended) -> list[FloatArray]:
        run = train_network(
            plan.family,  # type: ignore[arg-type]
            VerticalData(list(problem.blocks.values()), problem.labels, problem.classes),
            plan.schedule(plan.split(problem.rows).train),
            epochs=plan.epochs,
            generators=[np.random.default_rng(100 + number) for number in range(2)],
            defended=defended,
        )
        return [part.weights for part in run.parts]

    expected = trained(Defended(lambda products: here["passive"].protect_hidden(products, ANY), backward_of))
    # Products are rounded before they are disturbed, in services to 2^-32 as well.
    assert largest_difference(weights, expected) < 1e-4
    assert largest_difference(weights, trained(Defended())) > 1e-2


def test_answers_are_of_what_the_passive_party_sends_the_same_each_time(tmp_path: Path) -> None:
    settings = small_settings(learner="network", learner_options={"hidden": 4, "backward": "plain"}, cipher="plain")
    answers: dict[str, FloatArray] = {}
    for name, chosen in {"none": (), "noise": (load("hidden_noise", sigma=2.0),)}.items():
        with house(tmp_path / name, settings=settings, passive_defences=with_defences(*chosen)) as home:
            home.train()
            first, again = (home.active.predict(["id-10", "id-59"]) for _ in range(2))
            for one, scores in first.items():
                np.testing.assert_array_equal(scores, again[one])
            answers[name] = np.array(list(first.values()))
            served = [party._models.served for party in home.passive.values()]
            parts = [home.active._serving.newest, *served]
            models = [one.model for one in parts if one is not None]
            rows = range(len(models[0].features))
            sums = [model.partial_scores(rows) for model in models]
            sent = home.passive["passive"]._context.defences.protect_hidden(sums[1], ANY)
            expected = models[0].scores_of(sums[0] + sent, len(rows))
            near = np.abs(expected[:, None] - answers[name][None]).max(axis=2).min(axis=0)
            assert near.max() < 1e-6
    assert np.abs(answers["none"] - answers["noise"]).max() > 0.01


def test_a_refusal_of_what_terms_say_reaches_who_opens_the_session() -> None:
    problem = random_problem(classes=3)
    with (
        pytest.raises(InvalidMessage, match=r"active: marvell makes two classes' signals alike, and there are 3"),
        wired(problem, PLAN, defences={"active": with_defences(load("marvell"))}),
    ):
        pass


@dataclass(frozen=True)
class Swap(LabelRandomisedResponse):
    """The other class in place of every label."""

    def replace_labels(self, labels: IntArray, ids: Sequence[str], classes: int, noise: NoiseSource) -> IntArray:
        return classes - 1 - labels


@pytest.mark.parametrize("backward", ["paillier", "shared"])
def test_replaced_labels_are_what_every_rung_trains_on(tmp_path: Path, backward: str) -> None:
    """The other class in place of every label trains what a table with the other labels trains."""
    options = {"hidden": 3, "backward": backward, "learning_rate": 0.2}
    settings = small_settings(learner="network", learner_options=options, batch_size=12, patience=0)
    swapped = active_data(labels=[("yes", "no")[row % 2] for row in range(60)])
    scores = []
    for name, table, chosen in (("table", swapped, ()), ("defence", None, (Swap(),)), ("true", None, ())):
        with house(tmp_path / name, settings=settings, active=table, active_defences=with_defences(*chosen)) as home:
            home.train()
            scores.append(home.tested().scores)
    assert np.abs(scores[0] - scores[1]).max() < 1e-3
    assert np.abs(scores[0] - scores[2]).max() > 0.02


@pytest.mark.parametrize(
    ("who", "name", "told"),
    [
        ("active", "marvell", "active: protocol=shared sends no residuals for marvell to protect"),
        ("passive", "hidden_noise", "passive: under protocol=shared no party knows what it forwards.*hidden_noise"),
    ],
)
def test_where_weights_are_shared_there_is_nothing_for_them_to_see(
    tmp_path: Path, who: str, name: str, told: str
) -> None:
    settings = small_settings(learner="network", learner_options={"hidden": 3, "backward": "shared"}, patience=0)
    defended: dict[str, Any] = {f"{who}_defences": with_defences(load(name))}
    with house(tmp_path, settings=settings, **defended) as home, pytest.raises(FederationError, match=told):
        home.train()


def test_without_a_defence_nothing_is_drawn_and_nothing_changes() -> None:
    """The null: parties without defences, and with ones of other stages, train the same to the last bit."""

    class Undrawn(NoiseSource):
        def of_message(self, *content: bytes) -> NoiseSource:
            raise AssertionError("noise was drawn")

    plan, found = PLAN.changed(backward="plain", epochs=1), []
    for chosen in ((), (load("response_truncation"),)):
        defences: dict[str, Any] = {name: PartyDefences(chosen, Undrawn(0)) for name in ("active", "passive")}
        with wired(random_problem(), plan, defences=defences) as trainings:
            found.append(run_together(trainings, 1))
    assert largest_difference(*found) == 0.0
