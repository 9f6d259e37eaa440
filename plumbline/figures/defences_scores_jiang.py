"""Jiang, Figures 14 and 15: privacy and utility of score defences, PSI and DP-SGD under gradient inversion.

SIMULATION: models are trained in one place and scores pass the defences as the coordinator applies them; no service
runs. Noise is seeded. Alignment by PSI is real: both sides' messages are made and read.
"""

from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import attacks
import defences
from defences import NoiseSource, ScoreContext
from defences.purification import fit_autoencoder
from plumbline.figures.linear_models import TrainedModel, train
from plumbline.figures.page import svg_text
from plumbline.figures.score_measures import mean_divergence, mean_where, score_utility
from plumbline.figures.section import Plot
from plumbline.metrics import attack_accuracy, mse_per_feature
from vfl.data import PsiClient, PsiServer, common_order, row_ids, rows_of
from vfl.learning import confidence_scores
from vfl.learning.networks import DenseNetwork, VerticalNetwork
from vfl.theory.inversion import auxiliary_threshold

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# Keeps the noise of defences apart from the public streams of the same seed.
_NOISE_STREAM = 0x5C02
MODELS = ("linear", "network")
_HIDDEN = {"linear": (), "network": (8, 8)}
# The coordinator's history, for purification trained on real scores.
_HISTORY = 2000


@dataclass(frozen=True)
class InversionPlan:
    """How much is run. attacked: records; steps, shadow_steps: of the attacks; epsilons: of dp_sgd."""

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
    """A linear model and a network on one split of a data set; a row per model, access and defence."""
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
        network = import_module("vfl.learning.lab").train_network(
            *blocks, model.labels_train, hidden=_HIDDEN[kind], classes=k, seed=seed
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


# --- what the page shows -------------------------------------------------------------------------------------------

_FAMILIES = {
    "none": "#000000",
    "psi": "#000000",
    "score_rounding": "#e9a23b",
    "score_noise": "#c8553d",
    "purification": "#2a9d8f",
    "class_label": "#7fb6d9",
    "dp_sgd": "#8e6bbf",
}
_MARKERS = ("o", "s", "^")
_UTILITY_FIGURES = {"linear": "14", "network": "15"}


def utility_plot(results: pd.DataFrame, model: str) -> Plot:
    from matplotlib.figure import Figure

    own = results[results["model"] == model]
    panels = [(name, measure) for name in own["dataset"].unique() for measure in ("attack_accuracy", "attack_error")]
    figure = Figure(figsize=(3.1 * len(panels) + 2.2, 6.2), layout="constrained")
    grid = figure.subplots(2, len(panels), squeeze=False)
    for line, access in zip(grid, ("white box", "black box"), strict=True):
        for axes, (name, measure) in zip(line, panels, strict=True):
            _utility_panel(axes, own[(own["dataset"] == name) & (own["access"] == access)], measure)
            axes.set_title(f"{name}, {access}", fontsize=10)
            axes.set_ylabel(measure.replace("_", " "))
    for axes in grid[-1]:
        axes.set_xlabel("model accuracy")
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", frameon=False, fontsize=8)
    return Plot(
        f"scores-{model}",
        svg_text(figure),
        f"Jiang, Figure {_UTILITY_FIGURES[model]}: gradient inversion of a {model} model, half the columns passive. "
        "Right and low accuracy, or high error, is what a defence should reach. Dashed: a guess that sees no scores.",
    )


def _utility_panel(axes: "Axes", results: pd.DataFrame, measure: str) -> None:
    """One access to one data set's model; means over splits."""
    means = results.groupby(["defence", "option"], sort=False)[["model_accuracy", measure]].mean().reset_index()
    axes.axhline(float(results.loc[results["defence"] == "guess", measure].mean()), color="#666666", linestyle="--")
    for family, colour in _FAMILIES.items():
        for marker, row in zip(_MARKERS, means[means["defence"] == family].to_dict("records"), strict=False):
            axes.plot(
                [row["model_accuracy"]],
                [row[measure]],
                color=colour,
                # PSI lies on "none": a ring around its dot.
                marker="o" if family == "psi" else "*" if family == "none" else marker,
                markersize=13 if family == "psi" else 7,
                fillstyle="none" if family == "psi" else "full",
                linestyle="",
                label=f"{family} {row['option']}".strip(),
            )
    axes.spines[["top", "right"]].set_visible(False)


# --- what the numbers say ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Claim:
    """What Jiang says of a defence (6.2). protects: attack accuracy falls; costs: the model's does; None: unsaid."""

    family: str
    option: str
    words: str
    protects: bool | None
    costs: bool | None


_CLAIMS = (
    _Claim("score_noise", "sigma 0.1", "a relatively good balance", True, False),
    _Claim("score_noise", "sigma 1.0", "too much noise costs utility", None, True),
    _Claim("score_rounding", "0 decimals", "only the label is left: a distinct reduction, free of cost", True, False),
    _Claim("class_label", "", "a distinct reduction of attack accuracy, free of cost", True, False),
    _Claim("purification", "random scores", "satisfactory at negligible loss of utility", True, False),
    _Claim("purification", "real scores", "satisfactory at negligible loss of utility", True, False),
    _Claim("dp_sgd", "epsilon 10", "a large budget doesn't prevent the attack", False, None),
    _Claim("dp_sgd", "epsilon 0.1", "attack accuracy falls, and model accuracy with it", True, True),
)
# Falls of accuracy that count: of the attack, of the model.
_DISTINCT, _NEGLIGIBLE = 0.1, 0.02


def utility_notes(results: pd.DataFrame) -> list[str]:
    splits = int(results["seed"].nunique())
    starts = results.loc[results["defence"] == "none", ["dataset", "model", "start"]].drop_duplicates()
    chosen = "; ".join(", ".join(row) for row in starts.astype(str).to_numpy().tolist())
    measured = ["attack_error", "attack_accuracy", "model_accuracy"]
    psi, none = (results.loc[results["defence"] == name, measured].to_numpy() for name in ("psi", "none"))
    equal = "equal" if np.array_equal(psi, none) else "NOT equal"
    notes = [
        f"Privacy and utility: {splits} split{'s' if splits > 1 else ''} of each data set, half the columns passive. "
        "Inversion by the KL distance from the start that does better on undefended scores of the split "
        f"({chosen}); Jiang starts at zero. The shadow has the real structure and tau auxiliary records, whose scores "
        "are defended like all others. Attack accuracy counts records that a classifier labels like the original; a "
        "guess gives all records one label. An attack error above the guess's says that trusting the scores misleads.",
        f"Alignment by PSI changes nothing: all measurements are {equal} to those without a defence. As Jiang says: "
        "who asks knows which record the scores belong to.",
    ]
    notes += [
        _verdict(results, claim) + " " + _effects(results, claim.family, claim.option)
        for claim in _CLAIMS
        if claim.family in set(results["defence"])
    ]
    if "dp_sgd" not in set(results["defence"]):
        notes.append(
            "dp_sgd is not shown: a quick run leaves it out, and it needs opacus (pip install 'plumbline[lab]')."
        )
    return notes


def _verdict(results: pd.DataFrame, claim: _Claim) -> str:
    """What the paper says, whether it is so here, and the mean changes that decide."""
    own = results[(results["defence"] == claim.family) & (results["option"] == claim.option)]

    def change(measure: str) -> float:
        return mean_where(own, measure) - mean_where(results, measure, defence="none")

    attack, model = change("attack_accuracy"), change("model_accuracy")
    agrees = claim.protects in (None, attack < -_DISTINCT) and claim.costs in (None, model < -_NEGLIGIBLE)
    name = f"{claim.family} {claim.option}".rstrip()
    return (
        f"{name}: Jiang says {claim.words}. {'Reproduced' if agrees else 'Not reproduced'}, counting falls of over "
        f"{_DISTINCT} of attack and {_NEGLIGIBLE} of model accuracy: mean changes {attack:+.3f} and {model:+.3f}, "
        "white and black box together. White box:"
    )


def _effects(results: pd.DataFrame, family: str, option: str) -> str:
    """Model accuracy, attack accuracy and attack error, from without to with the defence, beside a guess's."""
    said = []
    for name, model in results[["dataset", "model"]].drop_duplicates().to_numpy().tolist():
        chosen = (results["dataset"] == name) & (results["model"] == model) & (results["access"] == "white box")
        own = results[chosen]
        none, guess = own[own["defence"] == "none"], own[own["defence"] == "guess"]
        with_it = own[(own["defence"] == family) & (own["option"] == option)]
        said.append(
            f"{name}, {model}: model accuracy {none['model_accuracy'].mean():.3f} to "
            f"{with_it['model_accuracy'].mean():.3f}, attack accuracy {none['attack_accuracy'].mean():.2f} to "
            f"{with_it['attack_accuracy'].mean():.2f} (guess {guess['attack_accuracy'].mean():.2f}), attack error "
            f"{none['attack_error'].mean():.3f} to {with_it['attack_error'].mean():.3f} "
            f"(guess {guess['attack_error'].mean():.3f})"
        )
    return "; ".join(said) + "."
