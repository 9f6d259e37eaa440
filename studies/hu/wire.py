"""The section on the wire: one epoch of each data set in a real federation, attacked, beside the simulation."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from studies.claims.claim import Claim, Finding, Test, judged
from studies.claims.kinds import among, listed
from studies.hu.experiments import HU_EXPERIMENTS, HuChoices, measurement
from studies.measurements import TaskMeasurement
from studies.page.elements import number_words
from studies.page.plots import Curve, Panel, Plot
from studies.page.section import Section
from studies.simulation.affine_expansions import TAYLOR_SLOPE, minimax_line
from studies.study import StudyRun

TITLE = "One epoch on the wire"
# Batches of a short study; a step of MNIST under Algorithm 2 takes seconds.
_QUICK_STEPS = {"mnist01": 2, "credit": 4}
_SCALINGS = {name: experiment.readings[0].scaling for name, experiment in HU_EXPERIMENTS.items()}
_ABSENT = (
    "No federation was started: plumbline figures hu --section wire --wire runs one epoch of credit and of MNIST 0/1 "
    "in real services over mTLS with 2,048-bit Paillier, and puts each beside the simulation. It took five minutes on "
    "two cores with AVX512-IFMA, and takes longer without, once: finished epochs are kept."
)
HONEST, LISTENING, LINE = "honest", "Algorithm 2", "Algorithm 2, minimax line"


def wire(run: StudyRun) -> Section:
    """Train an epoch of each data set in a federation, and in the simulation with the same weights and batches."""
    choices = HuChoices.of(run)
    if not choices.wire:
        return _section(pd.DataFrame(), (_ABSENT,))
    # One federation at a time: two would share the processors, and tell other seconds.
    measurements = measurements_of(choices)
    frames = [_part(run, number, len(measurements)).measure([one]) for number, one in enumerate(measurements)]
    frame = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()
    frame = frame[frame["status"] == "done"] if len(frame) else frame
    return _section(labelled(frame), (*choices.skipped, *_notes(frame, choices)))


def _part(run: StudyRun, number: int, count: int) -> StudyRun:
    """The run of one of several measurements, whose progress is a part of the section's."""
    return replace(run, done=lambda share: run.done((number + share) / count))


def measurements_of(choices: HuChoices) -> list[TaskMeasurement]:
    """List the federations: attacked from zero and from Xavier, honest, and one with a minimax line, on credit."""
    measurements = []
    for name in choices.datasets:
        common: dict[str, Any] = {"scaling": _SCALINGS[name], "seed": choices.seeds[0]}
        common["steps"] = _QUICK_STEPS[name] if choices.quick else None
        own: list[tuple[str, bool, dict[str, Any]]] = [("zero", True, {}), ("zero", False, {})]
        if name == "credit":
            own += [("xavier", True, {}), ("zero", True, {"slope": minimax_line().slope})]
        measurements += [
            measurement("wire_epoch:wire_epoch", name, initialisation=start, attacked=attacked, **more, **common)
            for start, attacked, more in own
        ]
    return measurements


def labelled(frame: pd.DataFrame) -> pd.DataFrame:
    """Name what each federation was, and add the success over the whole epoch, on the wire and simulated."""
    if not len(frame):
        return frame
    slopes = frame["slope"].fillna(TAYLOR_SLOPE) if "slope" in frame else pd.Series(TAYLOR_SLOPE, frame.index)
    kinds = [
        HONEST if not attacked else LISTENING if slope == TAYLOR_SLOPE else LINE
        for attacked, slope in zip(frame["attacked"], slopes, strict=True)
    ]
    return frame.assign(
        federation=kinds, success=frame["by_step"].map(_mean), success_simulated=frame["by_step_simulated"].map(_mean)
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if len(values) else float("nan")


def _section(frame: pd.DataFrame, notes: tuple[str, ...]) -> Section:
    return Section(
        name="wire",
        title=TITLE,
        data=frame,
        summary=_summary(frame),
        plots=(_plot(frame),) if len(frame) else (),
        notes=notes,
        statements=judged(WIRE_CLAIMS, frame),
    )


def _summary(frame: pd.DataFrame) -> pd.DataFrame:
    if not len(frame):
        return frame
    columns = [
        *("dataset", "federation", "initialisation", "steps", "rows", "u", "equations", "success", "success_simulated"),
        *("difference", "bound", "accuracy", "accuracy_simulated", "training_bytes", "seconds"),
    ]
    return frame[columns].rename(columns={"training_bytes": "bytes_of_training", "seconds": "seconds_of_epoch"})


def _notes(frame: pd.DataFrame, choices: HuChoices) -> list[str]:
    notes = [
        "Coordinator, active and passive party were processes of this machine: mTLS, Paillier with 2,048-bit keys, "
        "Protocol 1 in both directions. The simulation beside it had the same rows, batches and initial weights, in "
        "float64; parties leave out columns that don't vary. Labels, weights and accuracy are the same in every run; "
        "bytes (keys and masks are fresh) and seconds (the machine) are not, and are those of the run that was kept.",
        "Under Algorithm 2 the passive party asks for u d sums per step: its peer was told to answer in full "
        "(truncate_answers=false, packing=off, INSECURE). Plumbline's own defaults cut answers to their honest width "
        "and pack them: those are the honest epochs.",
        "A minimax line 1/2 + a z is trained by a federation as it stands: residuals a z - y/2 are the first order's "
        f"in other units, phi = 4 a theta at a rate of 4 a eta (a = {minimax_line().slope:.4f} on [-5, 5]). Weights "
        "are compared in units of theta.",
    ]
    if choices.quick:
        steps = " and ".join(f"{_QUICK_STEPS[name]} steps of {name}" for name in choices.datasets)
        notes.append(f"Quick: not an epoch but {steps}, on as many rows.")
    for row in frame.to_dict("records"):
        if row["reason"]:
            notes.append(f"{row['dataset']}: {row['reason']}")
    return [*notes, *_prices(labelled(frame))]


def _prices(frame: pd.DataFrame) -> list[str]:
    """What Algorithm 2 cost beside an honest epoch."""
    found = []
    for name, part in frame.groupby("dataset", sort=False) if len(frame) else ():
        by_kind = {row["federation"]: row for row in part[part["initialisation"] == "zero"].to_dict("records")}
        if {HONEST, LISTENING} <= set(by_kind):
            honest, attacked = by_kind[HONEST], by_kind[LISTENING]
            found.append(
                f"{name}: an honest step took {number_words(honest['seconds'] / honest['steps'])} s and "
                f"{number_words(honest['training_bytes'] / honest['steps'] / 1000)} kB, one under Algorithm 2 "
                f"(u = {attacked['u']:.0f}, nothing packed) {number_words(attacked['seconds'] / attacked['steps'])} s "
                f"and {number_words(attacked['training_bytes'] / attacked['steps'] / 1000)} kB."
            )
    return found


def _plot(frame: pd.DataFrame) -> Plot:
    panels = []
    for row in frame[frame["federation"] != HONEST].to_dict("records"):
        steps = tuple(float(step) for step in range(1, len(row["by_step_simulated"]) + 1))
        curves = [Curve("simulation", steps, tuple(row["by_step_simulated"]))]
        if len(row["by_step"]):
            curves.append(Curve("on the wire", steps, tuple(row["by_step"]), ours=True))
        kind = " (minimax line)" if row["federation"] == LINE else ""
        title = f"{row['dataset']}, from {row['initialisation']}{kind}"
        panels.append(Panel(title, "step", "labels right", tuple(curves)))
    return Plot("wire", panels, "Share of each batch's labels that the sign of f tells, in one epoch.")


# --- claims -----------------------------------------------------------------------------------------------------


def _of_each(lead: str, words: Callable[[Any], str], holds: Callable[[Any], bool]) -> Test:
    """Whether something holds of each federation, which are told by data set, start and kind."""

    def tested(frame: pd.DataFrame) -> Finding:
        rows = frame.to_dict("records")
        named = {f"{row['dataset']} from {row['initialisation']}, {row['federation']}": row for row in rows}
        return listed(lead, named, holds, words)

    return tested


def _published(frame: pd.DataFrame) -> pd.DataFrame:
    """What the first epochs of Figures 3 and 4 have."""
    starts = {"mnist01": "zero", "credit": "xavier"}
    return frame[(frame["federation"] == LISTENING) & (frame["initialisation"] == frame["dataset"].map(starts))]


_BOTH = "mnist01 and credit"
WIRE_CLAIMS = (
    Claim(
        "Protocol 1, (34)-(35)",
        "Both parties obtain their gradients, as without encryption.",
        _of_each(
            "Largest difference of a weight after the epoch, and what fixed point may make of it",
            lambda row: f"{number_words(row['difference'])} ({number_words(row['bound'])})",
            lambda row: row["difference"] <= row["bound"],
        ),
        subject=_BOTH,
    ),
    Claim(
        "section 5.2",
        "A 64-bit encoding of plaintexts guarantees good model performance.",
        _of_each(
            "Test accuracy on the wire and in float64",
            lambda row: f"{row['accuracy']:.4f} and {row['accuracy_simulated']:.4f}",
            lambda row: row["accuracy"] == row["accuracy_simulated"],
        ),
        subject=_BOTH,
    ),
    Claim(
        "section 5.2, Algorithm 2",
        "With u d_B >= s equations f is unique, and the attacks of sections 3 and 4 go on.",
        among(
            lambda frame: frame[frame["federation"] != HONEST],
            _of_each(
                "Share of rows whose f was solved for, and of labels right, on the wire and simulated",
                lambda row: (
                    f"{row['answered']:.4f}; {row['success']:.4f} and {row['success_simulated']:.4f} "
                    f"(u = {row['u']:.0f}, {row['equations']:.0f} equations)"
                ),
                lambda row: row["answered"] == 1 and list(row["by_step"]) == list(row["by_step_simulated"]),
            ),
        ),
        subject=_BOTH,
    ),
    Claim(
        "Figures 3 and 4, first epoch",
        "On MNIST every label is recovered; on credit from Xavier fewer.",
        among(
            _published,
            _of_each(
                "Labels right on the wire",
                lambda row: f"{row['success']:.4f}",
                lambda row: row["success"] == 1 if row["dataset"] == "mnist01" else row["success"] < 1,
            ),
        ),
        subject=_BOTH,
    ),
)
