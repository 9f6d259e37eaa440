"""The section on other expansions of the sigmoid: which a federation can train, and what each lets the parties read."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from plumbline.judge.measures import Interval
from studies.claims.claim import NOTHING, Claim, Finding, judged
from studies.claims.kinds import among, listed, within
from studies.claims.statement import Statement, interval_of, interval_over, interval_words
from studies.hu.claims import SIMILAR, in_time
from studies.hu.expansions import EXPANSIONS, UNIQUE_FROM
from studies.hu.experiments import HU_EXPERIMENTS, INITIALISATIONS, HuChoices, measurement
from studies.measurements import TaskMeasurement
from studies.page.elements import number_words
from studies.page.plots import Panel, Plot, error_curve
from studies.page.section import Section
from studies.simulation.affine_expansions import minimax_coefficients, minimax_line
from studies.study import StudyRun
from vfl.theory.training import APPROXIMATIONS, minimax_polynomial, sign_threshold

# Rows of norm 1 at most, as the paper assumes, and credit as it was standardised.
_READINGS = {"mnist01": ("unit-norm rows",), "credit": ("standardised", "bounded rows")}
_FEATURE_SCALING = "bounded"
_MEASURED = ("accuracy_test", "success_step", "answered", "cross_share", "theta_norm")
_DRAWN = (("accuracy_test", "test accuracy"), ("success_step", "labels right, by step"))


def approximations(run: StudyRun) -> Section:
    """Appendices E and F beside the Taylor expansion: accuracy, labels by sign, a single feature."""
    choices = HuChoices.of(run)
    frame = run.measure(measurements_of(choices))
    results = expanded_of(frame)
    features = frame[(frame["status"] == "done") & (frame["function"] == "single_feature")] if len(frame) else frame
    return Section(
        name="approximations",
        title="Other expansions of the sigmoid",
        data=results,
        summary=_summary(results),
        plots=(_plot(results),) if len(results) else (),
        notes=(*choices.skipped, *filter(None, (choices.words,)), *_notes(results)),
        statements=expansion_statements(results, features),
    )


def measurements_of(choices: HuChoices) -> list[TaskMeasurement]:
    """List the trainings by reading, expansion and seed; and, on credit, the attacks on a single feature."""
    measurements = []
    for name in choices.datasets:
        readings = [one for one in HU_EXPERIMENTS[name].readings if one.name in _READINGS[name]]
        measurements += [
            measurement(
                "expansions:expanded",
                name,
                expansion=expansion,
                scaling=reading.scaling,
                seed=seed,
                epochs=choices.epochs[name],
            )
            for reading, expansion, seed in product(readings, EXPANSIONS, choices.seeds)
        ]
    if "credit" in choices.datasets:
        measurements += [
            measurement(
                "expansions:single_feature", "credit", approximation=approximation, scaling=_FEATURE_SCALING, seed=seed
            )
            for approximation, seed in product(APPROXIMATIONS, choices.seeds)
        ]
    return measurements


def expanded_of(frame: pd.DataFrame) -> pd.DataFrame:
    """Make the long table of the trainings: a row per data set, reading, expansion, initialisation, seed and epoch."""
    if not len(frame):
        return frame
    rows = frame[(frame["status"] == "done") & (frame["function"] == "expanded")].to_dict("records")
    return pd.concat([_epochs(row) for row in rows], ignore_index=True) if rows else pd.DataFrame()


def _epochs(row: dict[Any, Any]) -> pd.DataFrame:
    lists = [name for name, value in row.items() if isinstance(value, list) and len(value) == len(row["epoch"])]
    length = len(row["epoch"]) // len(INITIALISATIONS)
    by_start = {
        name: [one for one in row[name] for _ in range(length)] for name in ("guaranteed_steps", "first_wrong_step")
    }
    reading = next(one.name for one in HU_EXPERIMENTS[row["dataset"]].readings if one.scaling == row["scaling"])
    found = pd.DataFrame({name: row[name] for name in lists}).assign(
        **by_start, dataset=row["dataset"], reading=reading, expansion=row["expansion"], seed=int(row["seed"])
    )
    return found.assign(diverged=found["theta_norm"].isna())


def _summary(results: pd.DataFrame) -> pd.DataFrame:
    if not len(results):
        return results
    ends = results[results["epoch"] == results.groupby("dataset")["epoch"].transform("max")]
    groups = ends.groupby(["dataset", "reading", "expansion", "initialisation"], sort=False)
    return groups[[*_MEASURED]].mean().join(groups["diverged"].sum().rename("diverged_seeds")).reset_index()


def _plot(results: pd.DataFrame) -> Plot:
    panels = []
    for (dataset, reading), part in results.groupby(["dataset", "reading"], sort=False):
        for kind, (measure, title) in product(("zero", "xavier"), _DRAWN):
            curves = tuple(
                error_curve(own, "epoch", str(name), measure=measure, ours=name == "minimax line")
                for name, own in part[part["initialisation"] == kind].groupby("expansion", sort=False)
            )
            panels.append(Panel(f"{dataset}, {reading}, {kind}", "epoch", title, curves))
    caption = "Mean over seeds, shaded: standard error. Where a line ends, weights grew without end."
    return Plot("approximations", panels, caption, columns=len(_DRAWN))


def _notes(results: pd.DataFrame) -> list[str]:
    line, (_, line_error) = minimax_line(), minimax_coefficients(1)
    notes = [
        "Protocol 1 adds up shares: each party computes its share of f from its own features, encrypts it, and the "
        "sums of both are the gradient. That needs f(z_A + z_B) = u(z_A) + v(z_B). Ask it at four points, f(a + b) - "
        "f(a) - f(b) + f(0) = 0, and only a straight line in z = theta^T x is left, whatever its slope.",
        f"So a federation trains the minimax line as it stands: S(z) ~ 1/2 + {line.slope:.4f} z is the best line on "
        f"[-5, 5] (largest error {line_error:.3f}), its residual a z - y/2 is the first order's in other units, and "
        f"learning_rate = {line.unit:.3f} eta from zero does it. Random initial weights would have to be drawn "
        f"{line.unit:.3f} times as large, which the settings don't offer. Section wire runs it. It tells labels for "
        f"longer: the sign of f is that of -y for |z| < {line.threshold:.2f}, instead of 2.",
        "SIMULATION: the cubic and the piecewise line are trained in one place, and attacks get f from the oracle that "
        "the appendices assume. The cubic's f has terms such as z_A z_B^2: a party would have to send the encrypted "
        "powers of its product beside the product, and the other to multiply each record's by its own. That is another "
        "protocol than the paper's. The piecewise line asks whether z_A + z_B is within (-1/2, 1/2), a comparison of "
        "two secrets, which additive encryption doesn't do at all.",
    ]
    for (dataset, reading), part in results.groupby(["dataset", "reading"], sort=False) if len(results) else ():
        notes += [f"{dataset}, {reading}: {_crossing(part)} {_accuracies(part)}"]
    return notes


def _crossing(part: pd.DataFrame) -> str:
    found = part[part["initialisation"] == "xavier"].groupby("expansion", sort=False)["cross_share"].mean()
    named = ", ".join(f"{name} {number_words(value)}" for name, value in found.items())
    return f"What is left of f when shares are added, root mean square beside that of f, from Xavier: {named}."


def _accuracies(part: pd.DataFrame) -> str:
    ends = part[(part["epoch"] == part["epoch"].max()) & (part["initialisation"] == "zero")]
    found = ends.groupby("expansion", sort=False)["accuracy_test"].mean()
    named = ", ".join(f"{name} {value:.4f}" if value == value else f"{name} none" for name, value in found.items())
    lost = part[part["diverged"]].drop_duplicates(["expansion", "initialisation", "seed"])
    counts = lost[["expansion", "initialisation"]].value_counts().reset_index().to_dict("records")
    words = "".join(
        f" {row['expansion']} from {row['initialisation']} diverges in {row['count']} of {part['seed'].nunique()} "
        f"seeds: some |theta^T x| gets beyond {UNIQUE_FROM:.1f}, where the cubic has turned and drives it further."
        for row in counts
    )
    return f"Test accuracy from zero after epoch {part['epoch'].max()}: {named}.{words}"


# --- what the paper says ----------------------------------------------------------------------------------------------


_CUBIC, _PIECEWISE, _TAYLOR = "minimax cubic", "piecewise", "taylor"


def expansion_statements(results: pd.DataFrame, features: pd.DataFrame) -> tuple[Statement, ...]:
    """Judge what the paper states of expansions.

    Args:
        results: a row per data set, reading, expansion, initialisation, seed and epoch.
        features: a row per approximation and seed of the attack on a single feature.
    """
    by_reading = [one for words, part in _parts(results) for one in _of_reading(words, part)]
    computed = judged((CUBIC, SIGN_RANGE), pd.DataFrame(index=[0]))
    return (*by_reading, *computed, *judged(_OF_ALL, results, tuple(HU_EXPERIMENTS)), *judged(_SINGLE, features))


def _parts(results: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    for (dataset, reading), part in results.groupby(["dataset", "reading"], sort=False) if len(results) else ():
        yield f"{dataset}, {reading}", part


def _of(expansion: str) -> Callable[[pd.DataFrame], pd.DataFrame]:
    return lambda rows: rows[rows["expansion"] == expansion]


# --- each data set and reading ------------------------------------------------------------------------------------


def _of_reading(words: str, part: pd.DataFrame) -> Iterator[Statement]:
    effect = "The choice of the approximation has minimal effect on the privacy analysis."
    yield Claim("section 2.1", effect, _minimal_effect, subject=words).judged(part)
    in_time = "With the cubic, the criterion is right for the first T_eps iterations."
    yield Claim("Theorem E.3", in_time, among(_of(_CUBIC), _right_in_time), subject=words).judged(part)


def _minimal_effect(part: pd.DataFrame) -> Finding:
    gaps: dict[str, Interval] = {}
    for kind in ("zero", "xavier"):
        ends = part[(part["initialisation"] == kind) & (part["epoch"] == part["epoch"].max())]
        by_seed = ends.pivot_table(index="seed", columns="expansion", values="success_step", dropna=False)
        for name in [one for one in by_seed.columns if one != _TAYLOR]:
            # NaN, whose difference is none, where every seed diverged.
            gaps[f"{name} from {kind}"] = interval_of(by_seed[name] - by_seed[_TAYLOR])
    lead = f"Success by step in epoch {part['epoch'].max()}, less the Taylor expansion's with the same seed"

    def words(gap: Interval) -> str:
        return "diverges in every seed" if np.isnan(gap.mean) else interval_words(gap, decimals=4)

    found = listed(lead, gaps, within(SIMILAR), words, f"Minimal means within {SIMILAR}.")
    silent = any(gap.high < -SIMILAR for name, gap in gaps.items() if name.startswith(_PIECEWISE))
    reason = "A record beyond the piecewise line's ends has f = 0, and shows nothing until it comes back."
    return Finding(found.held, found.measured, reason if silent else "")


def _right_in_time(runs: pd.DataFrame) -> Finding:
    first = runs[runs["epoch"] == 1]
    early = (first["first_wrong_step"] >= 0) & (first["first_wrong_step"] < first["guaranteed_steps"])
    said = [
        f"{kind} {own['guaranteed_steps'].min()}, {wrong.min() if len(wrong := steps[steps >= 0]) else 'none'}"
        for kind, own in first.groupby("initialisation", sort=False)
        for steps in [own["first_wrong_step"]]
    ]
    return in_time(first, ~early, f"T_eps, and the first step (from 0) that errs in any seed: {'; '.join(said)}.")


# --- what needs no run ----------------------------------------------------------------------------------------------


def _minimax(_: pd.DataFrame) -> Finding:
    coefficients, least = minimax_coefficients(3)
    points = np.linspace(-5.0, 5.0, 4001)
    own = float(np.abs(1 / (1 + np.exp(-points)) - 0.5 - minimax_polynomial(points)).max())
    return Finding(
        [bool(np.abs(coefficients - (0.197, -0.004)).max() < 1e-3), own < 1.01 * least],
        f"The minimax polynomial is {coefficients[1]:.5f} z^3 + {coefficients[0]:.5f} z + 0.5 with a largest error of "
        f"{least:.4f}; the printed one's is {own:.4f}.",
    )


def _first_half(_: pd.DataFrame) -> Finding:
    roots = np.roots([-0.004, 0.0, 0.197, -0.5])
    first = float(np.sort(roots[np.isreal(roots) & (roots.real > 0)].real)[0])
    return Finding([sign_threshold("minimax") <= first], f"n(z) = 0.5 first at z = {first:.4f}.")


CUBIC = Claim(
    "appendix E, (122)",
    "-0.004 z^3 + 0.197 z + 0.5 is the minimax polynomial of degree 3.",
    _minimax,
    "Three decimals are too few for the cubic term, which z^3 = 125 multiplies at the ends.",
    "S(z) on [-5, 5]",
)
SIGN_RANGE = Claim(
    "appendix E.2, (131)",
    "|n(z)| < 0.5 for all |z| < 3.2, so that there the sign of f tells the label.",
    _first_half,
    subject="n(z)",
)

# --- all data sets --------------------------------------------------------------------------------------------------


def _beyond_the_turn(runs: pd.DataFrame) -> Finding:
    lead = f"Outside of it means |theta^T x| > {UNIQUE_FROM:.2f}; the largest of any training that stays finite"
    largest = {words: float(part["largest_product"].max()) for words, part in _parts(runs)}
    return listed(lead, largest, lambda one: one > UNIQUE_FROM, "{:.2f}".format)


def _always_right(runs: pd.DataFrame) -> Finding:
    lowest = {words: float(part["right_of_answered"].min()) for words, part in _parts(runs)}
    return listed("Lowest share of any epoch", lowest, lambda share: share == 1, "{:.4f}".format)


def _silent(runs: pd.DataFrame) -> Finding:
    ends = {words: part[part["epoch"] == part["epoch"].max()] for words, part in _parts(runs)}

    def said(last: pd.DataFrame) -> str:
        words = interval_words(interval_over(last, "answered", ("seed",)), decimals=4)
        return f"{words}, {last['told_so_far'].mean():.4f}"

    lead = "Share of records with an answer from zero in the last epoch, and share of labels told by then"
    return listed(lead, ends, lambda last: last["answered"].mean() < 1, said)


_OF_ALL = (
    Claim(
        "appendix E.1",
        "Party A reads g^B off r uniquely for the records outside of an interval, and sorts those (C_t).",
        among(lambda rows: _of(_CUBIC)(rows[rows["largest_product"].notna()]), _beyond_the_turn),
        "The interval holds the values with several roots, (128) means those outside. They are far from the [-5, 5] "
        "that the cubic is for; inside, the root below its turning point is the one, as long as |theta^T x| < 4.05.",
    ),
    Claim(
        "Theorem F.2",
        "With the piecewise line, -sign(f) is the label wherever f isn't 0, at every iteration.",
        among(_of(_PIECEWISE), _always_right),
    ),
    Claim(
        "appendix F.2 (3)",
        "A record with f = 0 says little of its label.",
        among(lambda rows: _of(_PIECEWISE)(rows[rows["initialisation"] == "zero"]), _silent),
        "Every record is told when it is first used, close to zero weights: silence comes too late.",
    ),
)


def _exact(approximation: str, features: pd.DataFrame) -> Finding:
    runs = features[features["approximation"] == approximation]
    if not len(runs):
        return NOTHING
    ready = runs[runs["sortable"].astype(bool)]
    return Finding(
        (ready["exact"] == 1).tolist(),
        f"{len(ready)} of {len(runs)} trainings were sortable after {runs['epochs'].iloc[0]:.0f} epochs of "
        f"{runs['batches'].iloc[0]:.0f} batches; share of values exact "
        f"{interval_words(interval_over(runs, 'exact', ('seed',)), decimals=4)}, of those that were sortable "
        f"{number_words(ready['exact'].mean()) if len(ready) else 'none'}.",
    )


_SINGLE = tuple(
    Claim(
        theorem,
        "With d_B = 1 and s <= d_A, Party A learns the feature up to a sign, once its batches are sortable.",
        partial(_exact, approximation),
        subject="credit, rows of norm 1 at most",
    )
    for approximation, theorem in (
        ("first_order", "Theorem 3.5"),
        ("minimax", "Theorem E.2"),
        ("piecewise", "Theorem F.1"),
    )
)
