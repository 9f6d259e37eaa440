"""The paper's earlier version: what differs from the later one, each item beside a measurement or a computation.

SIMULATION: models are trained in one place, on all parties' columns; no service runs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from studies.claims.claim import NOTHING, Claim, Finding, judged
from studies.claims.statement import Statement
from studies.measurements.descriptions import Choice, Measurement, TaskMeasurement
from studies.page.elements import number_words
from studies.page.plots import Curve, Panel, Plot
from studies.page.section import Section
from studies.rassouli.claims.comparisons import ATTACKS, LABELS, hidden
from studies.rassouli.schemes import SCHEME_LISTS
from studies.rassouli.white_box import GIA_STEPS, gia
from studies.rassouli.windowed import (
    SYNTHETIC,
    Windows,
    classes_over,
    columns_of,
    measured_on,
    measurements_over,
    model_of,
    window_options,
)
from studies.simulation.error_theory import sample_ordering
from studies.simulation.linear_models import TrainedModel
from studies.study import StudyRun
from vfl.arrays import FloatArray
from vfl.theory.prediction import row_space

_PERMUTATION = ("feature_transform", (("at", "training"), ("kind", "permutation")))
_EQUAL, _KEPT = 1e-6, 1e-3


@dataclass(frozen=True)
class _Plan:
    """How much is run. small: of the transform, whose models are trained on so many rows at most."""

    datasets: tuple[str, ...]
    rows: int | None
    systems: Windows
    searches: Windows
    small: int
    records: int
    steps: int


_FULL = _Plan(
    ("satellite", "robot", SYNTHETIC), None, Windows(sizes=12, count=6), Windows(count=5), 5000, 1000, GIA_STEPS
)
_QUICK = _Plan(("satellite", SYNTHETIC), 4000, Windows(sizes=5, count=2), Windows(sizes=3, count=2), 1000, 100, 300)


def earlier_section(run: StudyRun) -> Section:
    """Check every difference of the two versions, as far as the earlier one's text goes.

    ``data``: a row per measurement: ``item``, and the measures of ``systems_at``, of attacks, of the transform and of
    the schemes.
    """
    plan = _QUICK if run.quick else _FULL
    names, skipped = run.available(plan.datasets)
    items = {"systems": _systems, "attacks": _attacks, "transform": _transforms, "schemes": _schemes}
    parts = {item: measured_on(run, names, partial(measurements, run, plan)) for item, measurements in items.items()}
    found = {item: part.assign(item=item) for item, part in parts.items() if len(part)}
    statements = _statements(found) if found else ()
    rows = [
        dict(zip(("item", "earlier", "later"), (one.subject, *_VERSIONS[one.subject]), strict=True))
        | {"measured here": f"{one.verdict}: {one.measured}"}
        for one in statements
    ]
    return Section(
        name="earlier",
        title="The earlier version of the paper",
        data=_flat(found),
        summary=pd.DataFrame(rows),
        plots=(_plot(found["systems"]),) if "systems" in found else (),
        notes=(*skipped, *_NOTES),
        statements=statements,
    )


_NOTES = (
    "The text of the earlier version that is at hand ends within the proof of Theorem 1, without its formulas; what "
    "it says of later sections is what its introduction announces. Up to there the two agree in every definition, "
    "proposition and proof but for the items of the table.",
    "Additions without a number of their own: the later version names its contributions against the literature, "
    "defines the nuclear norm, cross entropy and total variation, and states von Neumann's trace inequality, which "
    "Theorem 2's bounds and Theorems 3 and 4 rest on (sections on bounds and on the transform).",
)


def _systems(run: StudyRun, plan: _Plan, name: str) -> list[Measurement]:
    return [
        TaskMeasurement.of(f"{__name__}:systems_at", model_of(name, run.seed, rows=plan.rows), **window_options(window))
        for window in plan.systems.of(name)
    ]


def _attacks(run: StudyRun, plan: _Plan, name: str) -> list[Measurement]:
    compared = (Choice.of("ls"), Choice.of("half_star"), Choice.of("rcc2"), gia("zero", plan.steps))
    return list(measurements_over(model_of(name, run.seed, rows=plan.rows), plan.searches, compared, plan.records))


def _transforms(run: StudyRun, plan: _Plan, name: str) -> list[Measurement]:
    model = model_of(name, run.seed, "lbfgs", plan.small)
    return [
        TaskMeasurement.of(
            "studies.rassouli.transform:errors_when_transformed",
            model,
            **window_options(window),
            records=min(plan.records, plan.small // 10),
            plugins=(_PERMUTATION,),
        )
        for window in Windows(sizes=3, count=1).of(name)
    ]


def _schemes(run: StudyRun, plan: _Plan, name: str) -> list[Measurement]:
    return [
        TaskMeasurement.of(
            "studies.rassouli.schemes:trade_off",
            model_of(name, run.seed, rows=plan.rows),
            **window_options(window),
            records=plan.records,
        )
        for window in Windows(sizes=2, count=1).of(name)
        if len(window) > 1
    ]


# --- two ways to the equations ------------------------------------------------------------------------------------


def systems_at(model: TrainedModel, *, d: int, start: int) -> Mapping[str, Any]:
    """Solve one window's equations as the two versions set them up, and by a random combination of their rows.

    The earlier version takes differences of consecutive class rows one by one, the later one multiplies by J; its
    Remark 1 lets any invertible R come before it. moved: by how much an estimate of ls or half* differs at most.
    pseudoinverse: the relative distance of (R A)^+ from A^+ R^-1, which Remark 3 equates. violations: of Theorem 1 by
    half*, of 200 held-out records. tall: whether A has more rows than its rank.
    """
    weights = model.weights[:, columns_of(d, start, model.weights.shape[1])]
    truth = model.features[:200, columns_of(d, start, model.weights.shape[1])]
    k = len(weights)
    one_by_one = np.array([weights[row + 1] - weights[row] for row in range(k - 1)])
    multiplied = (np.eye(k, k=1) - np.eye(k))[:-1] @ weights
    mixing = np.random.default_rng(k).standard_normal((k - 1, k - 1)) + 2 * np.eye(k - 1)
    systems = (one_by_one, multiplied, mixing @ multiplied)
    estimates = [_estimates(matrix, truth) for matrix in systems]
    moved = max(float(np.abs(other - estimates[0]).max()) for other in estimates[1:])
    inverse = row_space(multiplied).pseudoinverse @ np.linalg.inv(mixing)
    mixed = row_space(systems[2]).pseudoinverse
    half_star = estimates[0][1]
    ordering = sample_ordering(truth, half_star, half_star)
    return {
        "same_equations": float(np.abs(one_by_one - multiplied).max()),
        "moved": moved,
        "pseudoinverse": float(np.linalg.norm(mixed - inverse) / np.linalg.norm(mixed)),
        "violations": int((ordering.half_star > ordering.half + _EQUAL).sum()),
        "tall": bool(k - 1 > row_space(multiplied).rank),
    }


def _estimates(matrix: FloatArray, truth: FloatArray) -> FloatArray:
    """ls and half* of (n, d) records, (2, n, d)."""
    space = row_space(matrix)
    solved = (truth @ matrix.T) @ space.pseudoinverse.T
    return np.stack([solved, solved + 0.5 * space.null_projector.sum(axis=1)])


# --- what is shown ------------------------------------------------------------------------------------------------


def _flat(found: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """One frame of all; lists become rows."""
    lists = {"transform": ["defence", "adversary", "mse", "kl"], "schemes": list(SCHEME_LISTS)}
    parts = [part.explode(lists[item], ignore_index=True) if item in lists else part for item, part in found.items()]
    if not parts:
        return pd.DataFrame()
    flat = pd.concat(parts, ignore_index=True).drop(columns="plugins", errors="ignore")
    words = {"defence": "", "option": "", "adversary": ""}
    numbers = [one for one in ("mse", "gain", *SCHEME_LISTS) if one in flat and one not in words]
    return flat.fillna({name: empty for name, empty in words.items() if name in flat}).astype(
        dict.fromkeys(numbers, float)
    )


# What each version says, in our words.
_VERSIONS = {
    "Equations": (
        "the difference of each pair of consecutive class rows, one by one",
        "the same by the matrix J of eq. 4",
    ),
    "Remark 1": ("absent", "any invertible combination of the equations has the same solutions"),
    "Remark 3": ("absent up to where the text ends", "(R A)^+ = A^+ R^-1, so the passive party need not know R"),
    "Theorem 1": ("stated, its proof begun", "stated and proved, with the same steps"),
    "Literature": (
        "compared with equation solving (ESA) in what the text has",
        "compared with ESA and gradient inversion (GIA)",
    ),
    "Schemes": (
        "two, which don't alter the scores",
        "several: one that doesn't alter the scores, others that keep the decisions only",
    ),
}


def _statements(found: Mapping[str, pd.DataFrame]) -> tuple[Statement, ...]:
    """The later version's side of each item, judged."""
    both = [found[item] for item in ("transform", "schemes") if item in found]
    schemes = _flat({item: found[item] for item in ("transform", "schemes")}) if len(both) == 2 else pd.DataFrame()
    return (
        *judged(_ON_SYSTEMS, found["systems"]),
        _ON_LITERATURE.judged(found["attacks"]),
        _ON_SCHEMES.judged(schemes),
    )


def _same(measure: str, words: str, systems: pd.DataFrame) -> Finding:
    """Whether what differs is rounding alone, in every window; ``words`` have room for the most and the count."""
    return Finding(
        (systems[measure] < _EQUAL).tolist(), words.format(most=_largest(systems[measure]), count=len(systems))
    )


def _as_remark_3(systems: pd.DataFrame) -> Finding:
    tall = systems["tall"].astype(bool)
    wide, narrow = systems.loc[~tall, "pseudoinverse"], systems.loc[tall, "pseudoinverse"]
    return Finding(
        (systems["pseudoinverse"] < _EQUAL).tolist(),
        f"relative distance at most {_largest(wide)} where A has full row rank, {_largest(narrow)} in the "
        f"{len(narrow)} windows with d < k - 1",
        "It needs full row rank. For d < k - 1 A is tall: the projector A^+ A and all errors stay as they are, "
        "but not what noise does (eq. 86, Theorem 4)."
        if tall.any()
        else "",
    )


def _largest(values: pd.Series) -> str:
    return number_words(float(values.max())) if len(values) else "unknown"


def _ordered(systems: pd.DataFrame) -> Finding:
    violations = systems["violations"]
    return Finding(
        (violations == 0).tolist(), f"{int(violations.sum())} violations in {len(systems)} windows of 200 records"
    )


def _outperforms(attacks: pd.DataFrame) -> Finding:
    named = attacks.assign(k=classes_over(attacks))
    named = hidden(named.assign(attack=named["attack"].where(~named["attack"].str.startswith("gia("), "gia")))
    pairs = {LABELS[one]: ATTACKS.pairs(named, one, "half_star") for one in ("ls", "gia")}
    found = {name: ATTACKS.surely(own, f"{name} by") for name, own in pairs.items() if len(own)}
    held = [bool((pairs[name]["difference"] > 0).mean() > 0.5) for name in found]
    return Finding(held, f"Half* errs less than {'; than '.join(one.measured.rstrip('.') for one in found.values())}")


def _unaltered(flat: pd.DataFrame) -> Finding:
    """Scores are kept by what turns features, decisions alone by what moves scores."""
    divergences = flat["kl"].astype(float)
    turned = divergences[(flat["item"] == "transform") & flat["defence"].str.contains("retrained|permutation")]
    altering = (flat["item"] == "schemes") & flat["strength"].notna()
    moved, kept = divergences[altering], flat.loc[altering, "decisions_kept"].astype(float)
    if not (len(turned) and len(moved)):
        return NOTHING
    least, most = (one.groupby(flat["defence"]).max() for one in (turned, moved))
    return Finding(
        [*(least < _KEPT).tolist(), *(most > _KEPT).tolist(), bool((kept == 1).all())],
        f"KL at most {_largest(turned)} for -I, a random H and a permutation, trained again; up to "
        f"{_largest(moved[np.isfinite(moved)])} for schemes 1 to 3 and the label, which keep "
        f"{kept.min():.0%} of the decisions",
    )


_ON_SYSTEMS = (
    Claim(
        "Earlier version, eq. 3-4",
        "Both versions arrive at the same equations.",
        partial(_same, "same_equations", "entries of A differ by at most {most}, {count} windows"),
        subject="Equations",
    ),
    Claim(
        "Remark 1",
        "Attacks estimate the same whatever the combination of the equations.",
        partial(_same, "moved", "LS and Half* differ by at most {most} under a random R"),
        subject="Remark 1",
    ),
    Claim("Remark 3, Lemma 3", "(R A)^+ = A^+ R^-1.", _as_remark_3, subject="Remark 3"),
    Claim("Theorem 1", "Half* is never worse than Half, record by record.", _ordered, subject="Theorem 1"),
)
_ON_LITERATURE = Claim(
    "Contributions", "The proposed attacks outperform both, for the most part.", _outperforms, subject="Literature"
)
_ON_SCHEMES = Claim(
    "Section VII",
    "Turned features leave the scores unaltered; schemes on scores alter them and keep every decision.",
    _unaltered,
    subject="Schemes",
)


def _plot(systems: pd.DataFrame) -> Plot:
    """Where Remark 3's identity holds, and where it doesn't."""
    floor = np.finfo(np.float64).eps
    systems = systems.assign(k=classes_over(systems))
    panels = []
    for name in systems["dataset"].unique():
        own = systems[systems["dataset"] == name]
        means = own.groupby(["d", "k"])[["moved", "pseudoinverse"]].max().clip(lower=floor)
        x = tuple(d / k for d, k in means.index)
        curves = (
            Curve("estimates of LS and Half*, apart at most", x, tuple(means["moved"])),
            Curve("(R A)^+ from A^+ R^-1, relative", x, tuple(means["pseudoinverse"])),
        )
        panels.append(Panel(str(name), "d / k", "difference", curves, ((1.0, "d = k"),), log_y=True))
    caption = "Two ways to combine the equations: what stays the same, and what needs d >= k - 1."
    return Plot("systems", panels, caption)
