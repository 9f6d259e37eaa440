"""Jiang, Figures 14 and 15: privacy and utility of score defences, PSI and DP-SGD under gradient inversion.

SIMULATION: models are trained in one place and scores pass the defences as the coordinator applies them; no service
runs. Noise is seeded. Alignment by PSI is real: both sides' messages are made and read.
"""

from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import attacks
import defences
from defences import NoiseSource, ScoreContext
from defences.purification import fit_autoencoder
from plumbline.judge.measures import attack_accuracy, mse_per_feature
from plumbline.simulation.linear_models import TrainedModel, train
from plumbline.simulation.score_measures import mean_divergence, score_utility
from vfl.arrays import FloatArray, IntArray
from vfl.data import PsiClient, PsiServer, common_order, row_ids, rows_of
from vfl.learning import confidence_scores
from vfl.learning.networks import DenseNetwork, VerticalNetwork
from vfl.theory.inversion import auxiliary_threshold

# Keeps the noise of defences apart from the public streams of the same seed.
_NOISE_STREAM = 0x5C02
MODELS = ("linear", "network")
_HIDDEN = {"linear": (), "network": (8, 8)}
# The coordinator's history, for purification trained on real scores.
_HISTORY = 2000


@dataclass(frozen=True)
class InversionPlan:
    """How much is run.

    Attributes:
        attacked: records.
        steps: of gradient inversion.
        shadow_steps: of the shadow model.
        epsilons: of dp_sgd.
    """

    attacked: int
    steps: int
    shadow_steps: int
    epsilons: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class _World:
    """A trained model, split among two parties, and the records that it meets.

    active, passive: held-out columns, (m, d_a) and (m, d); auxiliary records follow the ``attacked`` first ones.
    """

    name: str
    kind: str
    network: VerticalNetwork
    active: FloatArray
    passive: FloatArray
    labels: IntArray
    active_train: FloatArray
    passive_train: FloatArray
    labels_train: IntArray
    attacked: int
    auxiliary: int

    @property
    def scores(self) -> FloatArray:
        return _network_scores(self.network, self.active, self.passive)


def _network_scores(network: VerticalNetwork, active: FloatArray, passive: FloatArray) -> FloatArray:
    return confidence_scores(network.active.partial_scores(active) + network.passive.partial_scores(passive))


def privacy_utility(name: str, data_dir: Path | None, seed: int, plan: InversionPlan) -> pd.DataFrame:
    """Attack a linear model and a network on one split of a data set: a row per model, access and defence."""
    model = train(name, data_dir, "adam", seed)
    parts = [_all_defences(_world(model, kind, plan, seed), plan, seed) for kind in MODELS]
    return pd.concat(parts, ignore_index=True).assign(experiment="privacy-utility", dataset=name, seed=seed)


def _world(model: TrainedModel, kind: str, plan: InversionPlan, seed: int) -> _World:
    """The last half of the columns is passive; tau auxiliary records are those of r_pas = 1 (Jiang 5.3)."""
    k, columns = len(model.weights), model.features.shape[1]
    split = columns - columns // 2
    tau = auxiliary_threshold(columns, k, _HIDDEN[kind])
    tau = min(tau, len(model.features) // 2)
    blocks = model.features_train[:, :split], model.features_train[:, split:]
    if kind == "linear":
        network = _linear_network(model.weights, model.bias, split)
    else:
        network = (
            import_module("vfl.learning.torch_training")
            .AdamTraining()
            .train_network(*blocks, model.labels_train, hidden=_HIDDEN[kind], classes=k, seed=seed)
        )
    return _World(
        name=model.name,
        kind=kind,
        network=network,
        active=model.features[:, :split],
        passive=model.features[:, split:],
        labels=model.labels,
        active_train=blocks[0],
        passive_train=blocks[1],
        labels_train=model.labels_train,
        attacked=min(plan.attacked, len(model.features) - tau),
        auxiliary=tau,
    )


def _linear_network(weights: FloatArray, bias: FloatArray, split: int) -> VerticalNetwork:
    active = DenseNetwork((weights[:, :split].T,), (bias,))
    return VerticalNetwork(active, DenseNetwork((weights[:, split:].T,), (np.zeros(len(bias)),)))


@dataclass(frozen=True, eq=False)
class _Case:
    """A defence, and the world and scores behind it."""

    family: str
    strength: str
    world: _World
    delivered: FloatArray


def _all_defences(world: _World, plan: InversionPlan, seed: int) -> pd.DataFrame:
    start = _better_start(world, plan, seed)
    rows = []
    for case in (*_score_cases(world, seed), *_trained_privately(world, plan, seed)):
        shared = {
            "model": world.kind,
            "defence": case.family,
            "option": case.strength,
            "adversary": "unaware",
            "start": start,
            "d": world.passive.shape[1],
            "kl": mean_divergence(world.scores, case.delivered),
            **score_utility(case.delivered, world.scores, world.labels),
        }
        for access, estimate in _inversions(case, start, plan, seed):
            rows.append({**shared, "access": access, **_attacked(world, estimate)})
    blind = np.full((world.attacked, world.passive.shape[1]), 0.5 if start == "half" else 0.0)
    guess = {"model": world.kind, "defence": "guess", "option": start, "adversary": "unaware", "d": blind.shape[1]}
    rows += [{**guess, "access": access, **_attacked(world, blind)} for access in ("white box", "black box")]
    return pd.DataFrame(rows)


def _attacked(world: _World, estimate: FloatArray) -> dict[str, float]:
    truth = world.passive[: world.attacked]
    accuracy = attack_accuracy(truth, estimate, held_out=world.passive_train, held_out_labels=world.labels_train)
    return {"attack_error": mse_per_feature(truth, estimate), "attack_accuracy": accuracy}


def _score_cases(world: _World, seed: int) -> list[_Case]:
    """Everything that leaves the model as it is."""
    scores = world.scores
    context = ScoreContext(NoiseSource(seed ^ _NOISE_STREAM))

    def protected(name: str, strength: str, **options: Any) -> _Case:
        return _Case(name, strength, world, defences.load(name, **options).protect_scores(scores, context))

    history = _network_scores(world.network, world.active_train, world.passive_train)[:_HISTORY]
    realistic = fit_autoencoder(history, None, defences.load("purification").epochs, 0)
    aligned = _aligned(world, seed)
    return [
        _Case("none", "", world, scores),
        _Case("psi", "", aligned, aligned.scores),
        *(protected("score_rounding", f"{places} decimals", decimals=places) for places in (2, 1, 0)),
        *(protected("score_noise", f"sigma {sigma}", sigma=sigma) for sigma in (0.01, 0.1, 1.0)),
        protected("purification", "random scores"),
        _Case("purification", "real scores", world, realistic.purify(scores)),
        protected("class_label", ""),
    ]


def _aligned(world: _World, seed: int) -> _World:
    """The same records, found by PSI between two tables in different orders with ids of their own besides."""
    n = len(world.labels)
    generator = np.random.default_rng(seed)
    ids = np.array(row_ids(n + 20))
    own_ids = [generator.permutation(np.append(ids[:n], ids[n + own : n + 20 : 2])).tolist() for own in (0, 1)]
    client, server = PsiClient(own_ids[0]), PsiServer(own_ids[1])
    client.receive_setup(server.setup(len(own_ids[0])))
    common = common_order(client.intersect(server.respond(client.request())))
    place = {value: row for row, value in enumerate(ids.tolist())}
    tables = (world.active, world.passive)
    active, passive = (
        table[[place[own[row]] for row in rows_of(own, common)]] for table, own in zip(tables, own_ids, strict=True)
    )
    return replace(world, active=active, passive=passive)


def _trained_privately(world: _World, plan: InversionPlan, seed: int) -> list[_Case]:
    """dp_sgd's models (Jiang 6.1.2), each the world of its own scores; none where opacus isn't installed."""
    cases = []
    classes = world.network.active.outputs
    for epsilon in plan.epsilons:
        try:
            defence = defences.load("dp_sgd", epsilon=epsilon)
        except (ModuleNotFoundError, ValueError):
            return []
        if world.kind == "linear":
            features = np.hstack([world.active_train, world.passive_train])
            weights, bias = defence.train_linear(features, world.labels_train, classes=classes, seed=seed)
            network = _linear_network(weights, bias, world.active.shape[1])
        else:
            network = defence.train_network(
                world.active_train,
                world.passive_train,
                world.labels_train,
                hidden=_HIDDEN[world.kind],
                classes=classes,
                seed=seed,
            )
        private = replace(world, network=network)
        cases.append(_Case("dp_sgd", f"epsilon {epsilon:g}", private, private.scores))
    return cases


def _better_start(world: _World, plan: InversionPlan, seed: int) -> str:
    """Where inversion does best on undefended scores: an adversary knows what features look like, roughly."""
    errors = {}
    for start in ("zero", "half"):
        ((_, estimate),) = _inversions(_Case("none", "", world, world.scores), start, plan, seed, black_box=False)
        errors[start] = _attacked(world, estimate)["attack_error"]
    return min(errors, key=lambda start: errors[start])


def _inversions(
    case: _Case, start: str, plan: InversionPlan, seed: int, *, black_box: bool = True
) -> list[tuple[str, FloatArray]]:
    """Estimates of the attacked records, white box and, on request, by a shadow of the model's own structure."""
    world = case.world
    first, auxiliary = slice(0, world.attacked), slice(world.attacked, world.attacked + world.auxiliary)
    view = attacks.PredictionView(
        features_active=world.active[first],
        scores=case.delivered[first],
        network=world.network,
        passive_features=world.passive.shape[1],
    )
    options: dict[str, Any] = {"distance": "kld", "init": start, "steps": plan.steps}
    found = [("white box", attacks.load("gia", **options).reconstruct(view))]
    if black_box:
        rows = attacks.AuxiliaryRows(world.active[auxiliary], world.passive[auxiliary], case.delivered[auxiliary])
        structure: dict[str, Any] = {"hidden": _HIDDEN[world.kind], "shadow_learning_rate": 0.05}
        shadow = attacks.load("shadow", shadow_steps=plan.shadow_steps, seed=seed, **structure, **options)
        hidden = replace(view, network=None, network_active=world.network.active, auxiliary=rows)
        found.append(("black box", shadow.reconstruct(hidden)))
    return found
