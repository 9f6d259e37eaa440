"""What each defence costs with its default settings: time of an iteration and bytes on the wire, and its own work.

The same federation (breast_cancer, 2,048-bit keys, mTLS) runs without and with each defence, interleaved. On a busy
machine two equal runs differ by more than most defences take. The fastest iteration of a run differs less than the
median one, and each defence's own work is timed by itself as well, in seconds of process CPU.
"""

import secrets
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import defences
from defences import NoiseSource, ScoreContext, TrainingTerms
from defences.purification import fit_autoencoder, random_scores
from defences.registry import REGISTRY
from plumbline.audit.request import AuditRequest
from studies.page.plots import Curve, Panel, Plot
from studies.page.section import Section
from studies.simulation.live import LiveRun, residual_integer_bits, run_live
from studies.simulation.rounds import told
from studies.study import StudyRun
from vfl.crypto.capacity import truncate
from vfl.data import fit_encoder, load_dataset

DATASET = "breast_cancer"
UNDEFENDED, WIDE = "none", "none, noise's fixed point"
_PLAN: Mapping[str, Any] = {"steps": "plain", "calibrated": False, "epochs": 3, "batch_size": 64}
# The services' defaults, which the time of a whole training is computed for.
_DEFAULT_EPOCHS, _LEARNING_RATE = 60, 0.5
_ROUNDS = 3
_PARTY_FEATURES, _SCORES, _TIMED = 15, 1000, 30
_TARGETS = {"response_truncation": 0.01}
_TARGET = 0.05
_LAB_ONLY, _TOO_FEW = "lab only", "too few runs to compare"


@dataclass(frozen=True)
class _Trial:
    """defence: "" for none; settings: besides the plan."""

    title: str
    defence: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)


def cost_section(run: StudyRun) -> Section:
    """Measure milliseconds of an iteration, bytes, and own work of every defence. Times are not repeatable, bytes
    nearly.

    ``data`` has one row per federation and party (medians over steps of the iteration and of each stage, and the
    fastest iteration), and one per defence for its own work. iteration_ratio: to the undefended run of the same round,
    or to the
    median of all of them for defences that no step waits for, which run once. own_ms: of each iteration; once_ms: of
        each session; per_1000_ms: of 1,000 scores.

    quick: one round of dp_noise and response_truncation only, of which no time is compared.
    """
    bits = _noise_bits(_PLAN["epochs"])
    rounds, single = _trials(bits)
    if run.quick:
        rounds, single = [trial for trial in rounds if trial.defence != "feature_transform"], []
    planned: list[tuple[int, _Trial]] = []
    for number in range(1 if run.quick else _ROUNDS):
        first = number % len(rounds)
        # Another order in each round: whoever runs first meets a colder machine.
        planned += [(number, trial) for trial in (*rounds[first:], *rounds[:first])]
    planned += [(_ROUNDS, trial) for trial in single]
    runs = [(number, trial, _run(trial)) for number, trial in told(planned, run.done)]
    live = _live_rows(runs)
    own = _own_work([trial for trial in (*rounds, *single) if trial.defence], run.data_dir, run.seed)
    data = pd.concat([live, own], ignore_index=True)
    summary = _summary(live, own)
    return Section(
        name="cost",
        title="What the defences cost",
        data=data,
        summary=summary,
        plots=(_plot(live),) if _comparable(live) else (),
        notes=tuple(_notes(live, own, summary, bits)),
    )


def _trials(bits: int) -> tuple[list[_Trial], list[_Trial]]:
    """Those that every step meets, repeated; and those that it doesn't, once."""
    wide = {"residual_integer_bits": bits}
    rounds = [
        _Trial(UNDEFENDED),
        _Trial(WIDE, settings=wide),
        _Trial("dp_noise", "dp_noise", settings=wide),
        _Trial("response_truncation", "response_truncation"),
        _Trial("feature_transform, at=training", "feature_transform", {"at": "training"}),
    ]
    repeated = {trial.defence for trial in rounds}
    once = [_Trial("feature_transform", "feature_transform")]
    others = {name: defences.load(name).spec for name in REGISTRY.usable() if name not in repeated}
    # A linear model has no layer that a network's defences could change.
    once += [
        _Trial(name, name)
        for name, spec in others.items()
        if "lab" not in spec.sits and "hidden_layer" not in spec.needs
    ]
    return rounds, [_Trial(UNDEFENDED), *once, _Trial(UNDEFENDED)]


def _noise_bits(epochs: int) -> int:
    """The fixed point that dp_noise's defaults need in the federations here."""
    steps = epochs * _steps_per_epoch()
    return residual_integer_bits({}, epochs=epochs, steps=steps, rows=_PLAN["batch_size"], learning_rate=_LEARNING_RATE)


def _steps_per_epoch() -> int:
    # 70 % of the rows train; each of the two parties lacks 2 % of them.
    return -(-round(0.7 * 0.98**2 * len(load_dataset(DATASET, None).labels)) // int(_PLAN["batch_size"]))


# --- federations --------------------------------------------------------------------------------------------------


def _run(trial: _Trial) -> LiveRun:
    # On by default; here it is a defence among others.
    truncates = trial.defence == "response_truncation"
    settings: dict[str, Any] = {**_PLAN, "truncate_answers": truncates, **trial.settings}
    if trial.options:
        settings["defence_options"] = {trial.defence: dict(trial.options)}
    # An attack in its service makes the passive party disclose, as some defences need; half costs nothing.
    return run_live(
        AuditRequest.of(
            data=DATASET,
            name="figures",
            attacks=("half",),
            defences=(trial.defence,) if trial.defence else (),
            settings=settings,
        )
    )


def _live_rows(runs: list[tuple[int, _Trial, LiveRun]]) -> pd.DataFrame:
    plain = [(number, run) for number, trial, run in runs if trial.title == UNDEFENDED]
    repeated = {number: run for number, run in plain if number < _ROUNDS}
    rows = []
    for number, trial, run in runs:
        for party in sorted(run.steps):
            before = [repeated[number]] if number in repeated else [one for _, one in plain]
            times, plain_times = run.iterations(party), [one.iterations(party) for one in before]
            row = {"kind": "federation", "trial": trial.title, "defence": trial.defence, "round": number}
            row |= {"party": party, "iteration_ms": 1e3 * statistics.median(times), "fastest_ms": 1e3 * min(times)}
            row |= {f"{stage}_ms": 1e3 * seconds for stage, seconds in run.stage_medians(party).items()}
            row |= {"bytes": run.total_bytes, "training_bytes": run.training_bytes}
            row["iteration_ratio"] = statistics.median(times) / statistics.median(map(statistics.median, plain_times))
            rows.append(row)
    return pd.DataFrame(rows)


# --- own work -----------------------------------------------------------------------------------------------------


def _own_work(trials: list[_Trial], data_dir: Path | None, seed: int) -> pd.DataFrame:
    """Of each defence in this process: medians of repetitions, on numbers of the federation's size."""
    rows = []
    for trial in trials:
        defence = defences.load(trial.defence, **trial.options)
        rows.append(
            {"kind": "own work", "trial": trial.title, "defence": trial.defence, **_timed(defence, data_dir, seed)}
        )
    rows.append({"kind": "own work", "trial": "dp_sgd", "defence": "dp_sgd", **_timed_dp_sgd(data_dir, seed)})
    return pd.DataFrame(rows)


def _timed(defence: Any, data_dir: Path | None, seed: int) -> dict[str, float]:
    generator, stages = np.random.default_rng(seed), defence.spec.stages
    if "residuals" in stages:
        residuals = generator.standard_normal((_PLAN["batch_size"], 1))
        steps = _DEFAULT_EPOCHS * _steps_per_epoch()
        terms = TrainingTerms("active", _DEFAULT_EPOCHS, steps, len(residuals), _LEARNING_RATE, np.inf)
        return {"own_ms": _median_ms(lambda: defence.protect_residuals(residuals, terms, NoiseSource()))}
    if "answers" in stages:
        answers, widths = [secrets.randbits(2048) for _ in range(_PARTY_FEATURES)], [64] * _PARTY_FEATURES
        return {"own_ms": _median_ms(lambda: truncate(answers, widths))}
    if "scores" in stages:
        return _timed_on_scores(defence, generator)
    table = load_dataset(DATASET, data_dir)
    if "labels" in stages:
        labels, ids = (table.labels == table.labels[0]).astype(np.int64), [str(row) for row in range(len(table.labels))]
        return {"once_ms": _median_ms(lambda: defence.replace_labels(labels, ids, 2, NoiseSource()))}
    own = fit_encoder("minmax", table.features).transform(table.features)[:, -_PARTY_FEATURES:]
    theta = generator.standard_normal((1, _PARTY_FEATURES))
    if getattr(defence, "at", "") == "training":
        return {"once_ms": _median_ms(lambda: defence.transform_features(own, NoiseSource()))}
    weights = np.vstack([-theta / 2, theta / 2])
    return {"once_ms": _median_ms(lambda: defence.disclose(weights, own, NoiseSource()))}


def _timed_on_scores(defence: Any, generator: np.random.Generator) -> dict[str, float]:
    """On 1,000 scores of 6 classes; purification's training, which happens once, apart from its use."""
    scores = generator.dirichlet(np.ones(6), _SCORES)
    weights = generator.standard_normal((6, _PARTY_FEATURES))
    context = ScoreContext(NoiseSource(), weights @ weights.T)
    once = {}
    if defence.name == "purification":
        # What torch loads at its first use is not the defence's work.
        fit_autoencoder(random_scores(10, 6, defence.seed), defence.hidden, 1, defence.seed)
        start = time.process_time()
        fit_autoencoder(random_scores(10_000, 6, defence.seed), defence.hidden, defence.epochs, defence.seed)
        once = {"once_ms": 1e3 * (time.process_time() - start)}
        defence.fit(6)
    return {**once, "per_1000_ms": _median_ms(lambda: defence.protect_scores(scores, context))}


def _timed_dp_sgd(data_dir: Path | None, seed: int) -> dict[str, float]:
    """Central training with DP-SGD over the same number of steps of the lab's own training without."""
    from vfl.learning.torch_training import AdamTraining

    table = load_dataset(DATASET, data_dir)
    features = fit_encoder("minmax", table.features).transform(table.features)
    labels = (table.labels == table.labels[0]).astype(np.int64)
    defence = defences.load("dp_sgd")
    defence.spent(len(labels))  # the accountant's answer is kept
    private = _median_ms(lambda: defence.train_linear(features, labels, seed=seed), 3)
    without = AdamTraining(epochs=defence.epochs, patience=None, batch_size=defence.batch_size)
    plain = _median_ms(lambda: without.train_linear(features, labels, seed=seed), 3)
    return {"iteration_ratio": private / plain}


def _median_ms(work: Callable[[], object], repetitions: int = _TIMED) -> float:
    times = []
    for _ in range(repetitions):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return 1e3 * statistics.median(times)


# --- what is shown ------------------------------------------------------------------------------------------------


def _comparable(live: pd.DataFrame) -> bool:
    """Whether times may be compared: one undefended run doesn't tell what equal runs differ by."""
    return len(live[live["trial"] == UNDEFENDED]["round"].unique()) > 1


def _summary(live: pd.DataFrame, own: pd.DataFrame) -> pd.DataFrame:
    """One row per trial. own share: of a training with the default plan.

    ratio: the median over parties and rounds. fastest ratio: of the fastest iterations of all rounds, which a busy
    machine disturbs least; for trials that were repeated. Neither, where there are too few runs to compare.
    """
    plain = live[live["trial"] == UNDEFENDED]
    repeated = live[live["round"] < _ROUNDS].groupby("trial")["fastest_ms"].min()
    iteration, steps = float(plain["fastest_ms"].median()), _DEFAULT_EPOCHS * _steps_per_epoch()
    rows = []
    for trial in dict.fromkeys([*live["trial"], *own["trial"]]):
        runs, work = live[live["trial"] == trial], own[own["trial"] == trial]
        of = {} if work.empty else work.iloc[0].to_dict()
        row: dict[str, Any] = {"defence": trial, "runs": len(runs) // 2}
        if len(runs):
            row["ms per iteration"], row["fastest ms"] = runs["iteration_ms"].median(), runs["fastest_ms"].min()
            row["ratio"] = runs["iteration_ratio"].median()
            row["fastest ratio"] = repeated.get(trial, np.nan) / repeated[UNDEFENDED]
            row["bytes ratio"] = float(runs["training_bytes"].median() / plain["training_bytes"].median())
        else:
            row["ratio"] = row["fastest ratio"] = of.get("iteration_ratio", np.nan)
        row |= {"own ms per iteration": of.get("own_ms", np.nan), "own ms once": of.get("once_ms", np.nan)}
        row["ms per 1,000 scores"] = of.get("per_1000_ms", np.nan)
        if len(runs) and of:
            spent = np.nansum([of.get("own_ms", 0.0) * steps, of.get("once_ms", 0.0)])
            row["own share of training"] = float(spent) / (steps * iteration)
        row["target"] = _verdict(trial, row, _spread(live)[1])
        rows.append(row)
    summary = pd.DataFrame(rows)
    if _comparable(live):
        return summary
    summary.loc[~summary["target"].isin(["", _LAB_ONLY]), "target"] = _TOO_FEW
    return summary.drop(columns=["ratio", "fastest ratio"])


def _verdict(trial: str, row: Mapping[str, Any], slowest: float) -> str:
    """By its own work and, for trials that were repeated, by the fastest iterations as well."""
    share, ratio = row.get("own share of training", np.nan), row["fastest ratio"]
    target = _TARGETS.get(trial, _TARGET)
    if trial.startswith(UNDEFENDED):
        return ""
    if np.isnan(share):
        return _LAB_ONLY
    if share < target and not ratio >= 1 + target:
        return f"below {target:.0%}: met"
    return f"below {target:.0%}: {'not resolved' if share < target and ratio <= slowest else 'not met'}"


def _plot(live: pd.DataFrame) -> Plot:
    """Ratios of all runs by round, both parties' ends shaded."""
    by_round = live.assign(ratio=_fastest(live)).groupby(["trial", "round"], sort=False)["ratio"]
    ends = by_round.agg(["mean", "min", "max"]).reset_index()
    curves = [
        Curve(str(trial), tuple(own["round"] + 1.0), tuple(own["mean"]), tuple(own["min"]), tuple(own["max"]))
        for trial, own in ends.groupby("trial", sort=False)
    ]
    curves.append(Curve("5 % more", (1.0, float(ends["round"].max() + 1)), (1.05, 1.05)))
    low, high = _spread(live)
    caption = (
        "The fastest iteration of each federation, in medians of the undefended ones; the last round has those that "
        f"run once. Shaded: both parties. Undefended runs lie between {low:.2f} and {high:.2f}, which is the machine's "
        "doing."
    )
    return Plot("iterations", (Panel("Fastest iterations", "round", "multiple of the median", tuple(curves)),), caption)


def _fastest(live: pd.DataFrame) -> "pd.Series[float]":
    """Each run's fastest iteration, as a multiple of the undefended runs' median of its party."""
    medians = live[live["trial"] == UNDEFENDED].groupby("party")["fastest_ms"].median()
    return live["fastest_ms"] / live["party"].map(medians)


def _spread(live: pd.DataFrame) -> tuple[float, float]:
    """The least and the greatest of the undefended runs' fastest iterations, as multiples of their median."""
    ratios = _fastest(live)[live["trial"] == UNDEFENDED]
    return float(ratios.min()), float(ratios.max())


def _notes(live: pd.DataFrame, own: pd.DataFrame, summary: pd.DataFrame, bits: int) -> list[str]:
    by_defence = summary.set_index("defence")
    shares = by_defence["own share of training"].dropna()
    wire = by_defence["bytes ratio"]
    fixed_point = (
        f"dp_noise's defaults need residual_integer_bits={bits} here and {_noise_bits(_DEFAULT_EPOCHS)} for "
        f"{_DEFAULT_EPOCHS} epochs, in place of 7: the run '{WIDE}' shows what the wider fixed point costs without "
        "noise:"
    )
    if _comparable(live):
        low, high = _spread(live)
        ratios = by_defence["fastest ratio"]
        told = [f"{ratios[name]:.3f} with {name}" for name in shares.index if not np.isnan(ratios[name])]
        notes = [
            f"The fastest iterations of equal, undefended runs lie between {low:.2f} and {high:.2f} of their median. "
            f"Those of all rounds together, as a multiple of the undefended: {', '.join(told)}. No step waits for the "
            "others.",
            f"{fixed_point} {ratios[WIDE]:.2f} of the time, {wire[WIDE]:.2f} of the bytes.",
        ]
    else:
        notes = [
            "Too few runs to compare: with a single undefended one, nothing tells a defence's time from the machine's. "
            "Own work and bytes are comparable; for the rest, run this section without --quick.",
            f"{fixed_point} {wire[WIDE]:.2f} of the bytes.",
        ]
    notes += [
        f"Own work, timed by itself: at most {shares.max():.2%} of a training of {_DEFAULT_EPOCHS} epochs "
        f"({shares.idxmax()}).",
        f"response_truncation: {wire['response_truncation']:.3f} of the bytes of training, its own work "
        f"{shares['response_truncation']:.4%} of training (target: below 1 %).",
    ]
    purified = summary[summary["defence"] == "purification"].to_dict("records")
    if purified:
        used, fitted = purified[0]["ms per 1,000 scores"], purified[0]["own ms once"] / 1e3
        notes.append(
            f"purification: {used:.2f} ms per 1,000 scores after training (target: below 1 ms), which takes "
            f"{fitted:.1f} s of CPU once, besides torch's import: the opening of a session waits for both."
        )
    private = float(own.loc[own["trial"] == "dp_sgd", "iteration_ratio"].iloc[0])
    return [
        *notes,
        f"dp_sgd takes {private:.1f} times as long as the same training in the lab without it; no federation waits.",
    ]
