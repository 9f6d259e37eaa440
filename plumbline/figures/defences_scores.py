"""Score defences at work: Rassouli, Figure 13, and Jiang, Figures 14 and 15, with adversaries who know the defence.

SIMULATION: models are trained in one place and scores pass the defences as the coordinator applies them; no service
runs. Noise is seeded. Alignment by PSI is real: both sides' messages are made and read.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import nnls

import attacks
import defences
from defences import NoiseSource, ScoreContext
from defences.purification import fit_autoencoder
from defences.score_schemes import ScoreScheme1, ScoreScheme2, ScoreScheme3
from plumbline.figures.linear_models import TrainedModel, train
from plumbline.figures.page import svg_text
from plumbline.figures.section import Plot, Section
from plumbline.metrics import attack_accuracy, mse_per_feature
from vfl.data import DatasetNotFound, PsiClient, PsiServer, common_order, load_dataset, row_ids, rows_of
from vfl.learning import confidence_scores
from vfl.learning.networks import DenseNetwork, VerticalNetwork
from vfl.theory.inversion import auxiliary_threshold
from vfl.theory.prediction import moments
from vfl.theory.score_noise import largest_noisy_error, strongest_noise

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_SCORE_FLOOR = 1e-300
# Keeps the noise of defences apart from the public streams of the same seed.
_NOISE_STREAM = 0x5C02


@dataclass(frozen=True)
class _Plan:
    """How much is run. windows, records: of the trade-off, on the first data set; all others: of the inversions.

    datasets: how many, the last ones; epsilons: of dp_sgd.
    """

    windows: int
    records: int
    seeds: int
    datasets: int
    attacked: int
    steps: int
    shadow_steps: int
    epsilons: tuple[float, ...]


_FULL = _Plan(6, 1000, seeds=3, datasets=2, attacked=100, steps=500, shadow_steps=1000, epsilons=(0.1, 1.0, 10.0))
_QUICK = _Plan(2, 100, seeds=1, datasets=1, attacked=20, steps=40, shadow_steps=60, epsilons=())


def scores_section(data_dir: Path | None, *, seed: int = 0, quick: bool = False) -> Section:
    """What the coordinator's score defences cost the adversary and the active party.

    The trade-off (Rassouli, Figure 13): half* on a linear model of satellite, clamped to [0, 1] and as it is, by an
    adversary who doesn't know the defence ("unaware") and one who knows it with all its options ("aware"); means over
    windows of adjacent passive columns. Privacy and utility (Jiang, Figures 14 and 15): gradient inversion of a linear
    model and a network on satellite and robot, half the columns passive, white box and by a shadow model; three splits
    from ``seed`` on. Where raw files are missing, digits and wine take their places. quick: less of everything.

    ``data`` has one row per measurement. option: of the defence; strength: the same as a number. attack_error: MSE per
    feature; kl: mean KL divergence of the delivered scores from the original ones, in nats, infinite where a score
    became 0; start: the inversion's initial point.
    """
    plan = _QUICK if quick else _FULL
    names, missing = _available(data_dir)
    used = names[-plan.datasets :]
    trade_off = _trade_off(train(used[0], data_dir, "adam", seed), plan)
    runs = [_privacy_utility(name, data_dir, seed + run, plan) for name in used for run in range(plan.seeds)]
    utility = pd.concat(runs, ignore_index=True)
    data = pd.concat([trade_off, utility], ignore_index=True)
    return Section(
        name="scores",
        title="Defences of the confidence scores (Rassouli VII-B, Jiang 6)",
        data=data,
        summary=_summary(data),
        plots=(_trade_off_plot(trade_off), *(_utility_plot(utility, model) for model in _MODELS)),
        notes=(*missing, *_trade_off_notes(trade_off), *_utility_notes(utility)),
    )


def _available(data_dir: Path | None) -> tuple[list[str], list[str]]:
    """The data sets, and what to say about those that aren't there."""
    found, said = [], []
    for name, fallback in (("satellite", "digits"), ("robot", "wine")):
        try:
            load_dataset(name, data_dir)
            found.append(name)
        except DatasetNotFound as missing:
            found.append(fallback)
            said.append(f"{fallback} takes the place of {name}: its numbers are not the papers'. {missing}")
    return found, said


def mean_divergence(scores: FloatArray, delivered: FloatArray) -> float:
    """Mean of D(c || c~) over (n, k) rows, in nats; delivered rows are normalised, infinite where one has a lost 0."""
    sums = delivered.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        logarithms = np.log(np.where(sums > 0, delivered / np.where(sums > 0, sums, 1.0), 1 / delivered.shape[1]))
    present = scores > 0
    ratios = np.log(np.where(present, scores, 1.0)) - np.where(present, logarithms, 0.0)
    # Rounding takes equal rows a little below 0.
    return max(float((scores * ratios).sum(axis=1).mean()), 0.0)


# --- the trade-off of Figure 13 ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Curve:
    """One defence at several strengths. options: what the registry is given for each strength and k classes.

    typical: the strength that the page's table and notes show.
    """

    title: str
    name: str
    strengths: tuple[float, ...]
    typical: float
    options: Callable[[float, int], dict[str, Any]]

    def label(self, strength: float) -> str:
        return f"remainder {strength:g}/k" if self.name == "class_label" else f"alpha {strength:g}"


_BUDGETS = (0.25, 1.0, 4.0, 16.0, 64.0, 256.0)
_CURVES = (
    _Curve("scheme 1, +v", "score_scheme1", _BUDGETS, 4.0, lambda alpha, _: {"alpha": alpha, "sign": 1}),
    _Curve("scheme 1, -v", "score_scheme1", _BUDGETS, 4.0, lambda alpha, _: {"alpha": alpha, "sign": -1}),
    _Curve("scheme 2, +v", "score_scheme2", _BUDGETS, 4.0, lambda alpha, _: {"alpha": alpha, "sign": 1}),
    _Curve("scheme 2, -v", "score_scheme2", _BUDGETS, 4.0, lambda alpha, _: {"alpha": alpha, "sign": -1}),
    _Curve("scheme 3", "score_scheme3", (0.1, 0.3, 0.5, 0.7, 0.9, 0.99), 0.5, lambda alpha, _: {"alpha": alpha}),
    # As shares of 1/k, at which the winner would no longer win.
    _Curve("class label", "class_label", (0.5, 0.1, 1e-2, 1e-3, 1e-4, 1e-6), 1e-3, lambda r, k: {"remainder": r / k}),
)


def _trade_off(model: TrainedModel, plan: _Plan) -> pd.DataFrame:
    k, columns = len(model.weights), model.features.shape[1]
    return pd.concat([_trade_off_at(model, d, plan) for d in (k - 1, columns // 2)], ignore_index=True)


def _trade_off_at(model: TrainedModel, d: int, plan: _Plan) -> pd.DataFrame:
    """All curves for d passive columns, means over windows."""
    k, columns = len(model.weights), model.features.shape[1]
    rows: list[dict[str, Any]] = []
    for start in np.linspace(0, columns, plan.windows, endpoint=False).astype(int):
        view, truth = model.view(((start + np.arange(d)) % columns).tolist(), plan.records)
        labels = model.labels[: view.n]
        about_half = moments(truth).about_half
        weights = _disclosed(view)
        context = ScoreContext(NoiseSource(0), weights @ weights.T)
        scores = _scores(view)
        guessed = mse_per_feature(truth, np.full_like(truth, 0.5))
        rows.append({"defence": "guess", "option": "half", "adversary": "unaware", "attack_error": guessed})
        rows.append({"defence": "none", "option": "", "kl": 0.0, **_measured(view, truth, labels, scores, "unaware")})
        by_label = _half_space_estimates(view)
        for curve in _CURVES:
            for strength in curve.strengths:
                defence = defences.load(curve.name, **curve.options(strength, k))
                delivered = defence.protect_scores(scores, context)
                shared = {"defence": curve.title, "option": curve.label(strength), "strength": strength}
                shared["kl"] = mean_divergence(scores, delivered)
                seen = replace(view, scores=delivered)
                limit = largest_noisy_error(weights, about_half, strength) if curve.name == "score_scheme1" else np.nan
                aware = by_label if curve.name == "class_label" else undone(defence, seen)
                rows.append({**shared, **_measured(seen, truth, labels, scores, "unaware"), "theorem_4": limit})
                rows.append(
                    {**shared, **_utility(delivered, scores, labels), "adversary": "aware"}
                    | {"attack_error": mse_per_feature(truth, aware)}
                )
    keys = ["defence", "option", "strength", "adversary"]
    means = pd.DataFrame(rows).groupby(keys, sort=False, dropna=False).mean().reset_index()
    return means.assign(experiment="trade-off", dataset=model.name, model="linear", access="white box", d=d)


def _measured(
    view: attacks.PredictionView, truth: FloatArray, labels: IntArray, scores: FloatArray, adversary: str
) -> dict[str, Any]:
    estimate = attacks.load("half_star").reconstruct(view)
    return {
        "adversary": adversary,
        "attack_error": mse_per_feature(truth, estimate.clip(0, 1)),
        "attack_error_unclamped": mse_per_feature(truth, estimate),
        **_utility(_scores(view), scores, labels),
    }


def _utility(delivered: FloatArray, scores: FloatArray, labels: IntArray) -> dict[str, float]:
    decisions = delivered.argmax(axis=1)
    return {
        "model_accuracy": float((decisions == labels).mean()),
        "decisions_kept": float((decisions == scores.argmax(axis=1)).mean()),
    }


def _scores(view: attacks.PredictionView) -> FloatArray:
    if view.scores is None:
        raise AssertionError  # every view here has scores; this tells the type checker
    return view.scores


def _disclosed(view: attacks.PredictionView) -> FloatArray:
    if view.weights_passive is None:
        raise AssertionError
    return view.weights_passive


def undone(defence: ScoreScheme1 | ScoreScheme2 | ScoreScheme3, view: attacks.PredictionView) -> FloatArray:
    """half* by an adversary who knows the scheme, its options and W_pas: estimates in [0, 1], (n, d).

    Schemes 1 and 3 are taken off exactly. So is scheme 2, but for the decision's score where a lead of exactly delta
    tells that it was overwritten: the adversary leaves that class out of the record's equations.
    """
    logits = np.log(np.maximum(_scores(view), _SCORE_FLOOR))
    winners = np.arange(logits.shape[1]) == logits.argmax(axis=1)[:, None]
    if isinstance(defence, ScoreScheme3):
        return _clamped_half_star(view, logits / (1 - defence.alpha))
    weights = _disclosed(view)
    v = defence.sign * strongest_noise(weights @ weights.T).direction
    if isinstance(defence, ScoreScheme1):
        direction = np.where(winners, v.max(), v)
        noise = direction / np.linalg.norm(direction, axis=1, keepdims=True)
        return _clamped_half_star(view, logits - np.sqrt(defence.alpha) * noise)
    lead = np.where(winners, logits, -np.inf).max(axis=1) - np.where(winners, -np.inf, logits).max(axis=1)
    cleared = logits - np.sqrt(defence.alpha) * v
    estimates = _clamped_half_star(view, cleared)
    overwritten = np.abs(lead - defence.delta) < 1e-9
    if logits.shape[1] == 2:  # no two other classes, no equation
        estimates[overwritten] = 0.5
        return estimates
    for winner in range(logits.shape[1]):
        rows = overwritten & winners[:, winner]
        if rows.any():
            others = np.delete(cleared[rows], winner, 1)
            estimates[rows] = _clamped_half_star(_without_class(view, rows, winner), others)
    return estimates


def _clamped_half_star(view: attacks.PredictionView, logits: FloatArray) -> FloatArray:
    estimates: FloatArray = attacks.load("half_star").reconstruct(replace(view, scores=confidence_scores(logits)))
    return estimates.clip(0, 1)


def _without_class(view: attacks.PredictionView, rows: NDArray[np.bool_], gone: int) -> attacks.PredictionView:
    """The view of some rows by a model that lacks a class: ratios of the other classes' scores are as they were."""
    if view.weights_active is None or view.bias is None:
        raise AssertionError
    return attacks.PredictionView(
        features_active=view.features_active[rows],
        weights_active=np.delete(view.weights_active, gone, 0),
        weights_passive=np.delete(_disclosed(view), gone, 0),
        bias=np.delete(view.bias, gone),
    )


def _half_space_estimates(view: attacks.PredictionView) -> FloatArray:
    """The points closest to one half where the model decides as it did: what a bare label tells, (n, d) in [0, 1].

    A label says that the winner's logit is the largest: k - 1 half-spaces that the truth lies in. Projecting onto them
    never loses (the box is left to clamping). Lawson and Hanson's reduction to non-negative least squares.
    """
    if view.weights_active is None or view.bias is None:
        raise AssertionError
    known = view.features_active @ view.weights_active.T + view.bias
    weights, decided = _disclosed(view), _scores(view).argmax(axis=1)
    estimates = np.empty((view.n, view.d))
    target = np.append(np.zeros(view.d), 1.0)
    for row, winner in enumerate(decided):
        normals = np.delete(weights[winner] - weights, winner, 0)
        # normals @ u >= least for u = x - 1/2.
        least = np.delete(known[row] - known[row, winner], winner) - normals.sum(axis=1) / 2
        stacked = np.vstack([normals.T, least])
        residual = stacked @ nnls(stacked, target)[0] - target
        estimates[row] = 0.5 - residual[:-1] / residual[-1]
    return estimates.clip(0, 1)


# --- privacy and utility, Figures 14 and 15 ------------------------------------------------------------------------

_MODELS = ("linear", "network")
_HIDDEN = {"linear": (), "network": (8, 8)}
# The coordinator's history, for purification trained on real scores.
_HISTORY = 2000


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


def _privacy_utility(name: str, data_dir: Path | None, seed: int, plan: _Plan) -> pd.DataFrame:
    model = train(name, data_dir, "adam", seed)
    parts = [_all_defences(_world(model, kind, plan, seed), plan, seed) for kind in _MODELS]
    return pd.concat(parts, ignore_index=True).assign(experiment="privacy-utility", dataset=name, seed=seed)


def _world(model: TrainedModel, kind: str, plan: _Plan, seed: int) -> _World:
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


def _all_defences(world: _World, plan: _Plan, seed: int) -> pd.DataFrame:
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
            **_utility(case.delivered, world.scores, world.labels),
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
    setup = server.setup(len(own_ids[0]))
    common = common_order(client.intersect(setup, server.respond(client.request())))
    place = {value: row for row, value in enumerate(ids.tolist())}
    tables = (world.active, world.passive)
    active, passive = (
        table[[place[own[row]] for row in rows_of(own, common)]] for table, own in zip(tables, own_ids, strict=True)
    )
    return replace(world, active=active, passive=passive)


def _trained_privately(world: _World, plan: _Plan, seed: int) -> list[_Case]:
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


def _better_start(world: _World, plan: _Plan, seed: int) -> str:
    """Where inversion does best on undefended scores: an adversary knows what features look like, roughly."""
    errors = {}
    for start in ("zero", "half"):
        ((_, estimate),) = _inversions(_Case("none", "", world, world.scores), start, plan, seed, black_box=False)
        errors[start] = _attacked(world, estimate)["attack_error"]
    return min(errors, key=lambda start: errors[start])


def _inversions(
    case: _Case, start: str, plan: _Plan, seed: int, *, black_box: bool = True
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

_KEYS = ["experiment", "dataset", "model", "access", "d", "defence", "option", "adversary"]
_MEASURES = ["model_accuracy", "decisions_kept", "kl", "attack_error", "attack_accuracy"]


def _summary(data: pd.DataFrame) -> pd.DataFrame:
    """Means over splits, rounded; of the trade-off, each curve's typical strength."""
    typical = {curve.title: curve.typical for curve in _CURVES}
    shown = data["strength"].isna() | (data["strength"] == data["defence"].map(typical))
    means = data[shown].groupby(_KEYS, sort=False, dropna=False)[_MEASURES].mean().reset_index()
    return means.round(dict.fromkeys(_MEASURES, 4))


_CURVE_STYLES = {
    "scheme 1, +v": ("#c8553d", "-"),
    "scheme 1, -v": ("#c8553d", "--"),
    "scheme 2, +v": ("#1b6ca8", "-"),
    "scheme 2, -v": ("#1b6ca8", "--"),
    "scheme 3": ("#2a9d8f", "-"),
    "class label": ("#7fb6d9", "-"),
}


def _trade_off_plot(results: pd.DataFrame) -> Plot:
    from matplotlib.figure import Figure

    sizes = list(results["d"].unique())
    figure = Figure(figsize=(4.2 * len(sizes) + 1.8, 6.4), layout="constrained")
    grid = figure.subplots(2, len(sizes), squeeze=False, sharex=True, sharey="row")
    for line, adversary in zip(grid, ("unaware", "aware"), strict=True):
        for axes, d in zip(line, sizes, strict=True):
            at = results[results["d"] == d]
            for title, (colour, style) in _CURVE_STYLES.items():
                curve = at[(at["defence"] == title) & (at["adversary"] == adversary)].sort_values("kl")
                axes.plot(curve["kl"], curve["attack_error"], color=colour, linestyle=style, marker=".", label=title)
            for defence, style in (("guess", "--"), ("none", ":")):
                level = at.loc[at["defence"] == defence, "attack_error"].iloc[0]
                name = "guessing 1/2" if defence == "guess" else "no defence"
                axes.axhline(level, color="#666666", linewidth=0.9, linestyle=style, label=name)
            axes.set_xscale("log")
            axes.spines[["top", "right"]].set_visible(False)
            axes.set_title(f"d = {d}, {adversary} of the defence", fontsize=10)
        line[0].set_ylabel("MSE per feature of half*")
    for axes in grid[-1]:
        axes.set_xlabel("mean KL divergence, nats")
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", frameon=False, fontsize=8)
    dataset = results["dataset"].iloc[0]
    return Plot(
        "scores-trade-off",
        svg_text(figure),
        f"Rassouli, Figure 13, on {dataset}: what half* loses against what the scores lose. Above the dashed line an "
        "adversary who trusts the scores does worse than one who guesses. Below: the same with the defence known.",
    )


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


def _utility_plot(results: pd.DataFrame, model: str) -> Plot:
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


def _mean(results: pd.DataFrame, measure: str, **where: object) -> float:
    """The mean of a measure over the rows that have these values."""
    chosen = np.ones(len(results), dtype=np.bool_)
    for column, value in where.items():
        chosen &= (results[column] == value).to_numpy()
    return float(results.loc[chosen, measure].mean())


def _trade_off_notes(results: pd.DataFrame) -> list[str]:
    kept = results.loc[results["strength"].notna(), "decisions_kept"].min()
    notes = [
        f"Trade-off on {results['dataset'].iloc[0]}, means over windows of adjacent passive columns. Rassouli draws "
        "Figure 13 without numbers in the text and doesn't say for which d, nor whether half* is clamped: here it is. "
        "Unclamped errors are in the data.",
        f"Of the decisions, {kept:.1%} are kept, by schemes 1 to 3 and the class label at every strength. Rassouli's "
        "eq. 94 only ties the overtaker; scheme 2 adds a lead of delta.",
    ]
    for d in results["d"].unique():
        at = results[results["d"] == d]
        errors = {name: _mean(at, "attack_error", defence=name) for name in ("none", "guess")}
        notes += [
            f"d = {d}: half* errs by {errors['none']:.4f} without a defence, a guess of one half by "
            f"{errors['guess']:.4f}. " + " ".join(_curve_sentence(at, curve) for curve in _CURVES),
            f"d = {d}: of the unclamped error that Theorem 4 lets noise of the same budget add at most, scheme 1 adds "
            f"{_share_of_limit(at, 'scheme 1, +v'):.0%} with v_1 and {_share_of_limit(at, 'scheme 1, -v'):.0%} with "
            "-v_1. The paper leaves the sign open.",
        ]
    return [
        *notes,
        "Who knows scheme 1 or 3 and its options takes it off exactly, and scheme 2 but for one score of each record "
        "whose decision was overtaken: deterministic noise protects only against those who don't know of it. What a "
        "bare label tells (one half projected onto where the model decides so) never makes the guess worse.",
    ]


def _curve_sentence(at: pd.DataFrame, curve: _Curve) -> str:
    own = at[(at["defence"] == curve.title) & (at["strength"] == curve.typical)]
    unaware, aware = (_mean(own, "attack_error", adversary=kind) for kind in ("unaware", "aware"))
    divergence = _mean(own, "kl")
    return f"{curve.title}, {curve.label(curve.typical)}: {unaware:.4f} at KL {divergence:.3f}, {aware:.4f} if known."


def _share_of_limit(at: pd.DataFrame, title: str) -> float:
    base = _mean(at, "attack_error_unclamped", defence="none")
    added = _mean(at, "attack_error_unclamped", defence=title, adversary="unaware") - base
    return added / (_mean(at, "theorem_4", defence=title, adversary="unaware") - base)


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


def _utility_notes(results: pd.DataFrame) -> list[str]:
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
        return _mean(own, measure) - _mean(results, measure, defence="none")

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
