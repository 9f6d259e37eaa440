"""A study with sections of a few numbers, for tests of how any study is run, written and asked for."""

from pathlib import Path

from studies.claims.statement import Statement, verdict_of
from studies.measurements import AttackMeasurement, Choice, DataChoice, ModelChoice, TaskMeasurement, windows
from studies.page.plots import Curve, Panel, Plot
from studies.page.section import Section
from studies.study import Study, StudyRun

_HERE = "tests.harness.made_up_study"
COLUMNS = 30
STUDY = Study(
    name="made_up",
    title="A study of nobody",
    paper="Nobody, Never, 2026",
    sections={"curves": f"{_HERE}:curves_section", "numbers": f"{_HERE}:numbers_section"},
    lead="It compares attacks on breast_cancer.",
)
BROKEN = Study(
    name="made_up",
    title="A study of nobody",
    paper="Nobody, Never, 2026",
    sections={"broken": f"{_HERE}:broken_section", "numbers": f"{_HERE}:numbers_section"},
    lead="One section of it fails.",
)
STARVED = Study(
    name="made_up",
    title="A study of nobody",
    paper="Nobody, Never, 2026",
    sections={"starved": f"{_HERE}:starved_section"},
    lead="Its measurements lack a library.",
)


def curves_section(run: StudyRun) -> Section:
    """Attacks against d, those of ``--with`` among them."""
    model = ModelChoice(DataChoice("breast_cancer"), seed=run.seed)
    attacks = (Choice.of("half_star"), Choice.of("posterior", prior="half"), *run.attacks)
    measurements = [
        AttackMeasurement(model, windows(COLUMNS, d, 2)[0], attack, records=5)
        for d in ((1, 10) if run.quick else (1, 10, 20))
        for attack in attacks
    ]
    frame = run.measure(measurements)
    curves = tuple(
        Curve(
            attack.words,
            tuple(frame[frame["attack"] == attack.words]["d"]),
            tuple(frame[frame["attack"] == attack.words]["mse"]),
            ours=attack.name == "posterior",
        )
        for attack in attacks
    )
    panel = Panel("breast_cancer", "passive features d", "MSE per feature", curves)
    errors = frame.pivot_table(index="d", columns="attack", values="mse")
    held = (errors["half_star"] < 1 / 3).tolist()
    statement = Statement("Remark 0", "breast_cancer", "half* errs by less than 1/3.", verdict_of(held), "It does.")
    return Section(
        "curves",
        "Attacks against d",
        frame,
        frame[["attack", "d", "mse"]],
        (Plot("attacks", [panel], "Errors against d."),),
        run.available(["breast_cancer", "satellite"])[1],
        statements=(statement,),
    )


def numbers_section(run: StudyRun) -> Section:
    """One number per seed."""
    measurements = [TaskMeasurement.of(f"{_HERE}:twice", number=run.seed + n) for n in range(2 if run.quick else 4)]
    frame = run.measure(measurements)
    return Section("numbers", "Numbers", frame, frame[["number", "value"]], (), ("All of them are even.",))


def broken_section(run: StudyRun) -> Section:
    """It fails."""
    raise ZeroDivisionError("nothing there to divide by")


def starved_section(run: StudyRun) -> Section:
    """It is drawn of what none of its measurements has measured."""
    frame = run.measure([TaskMeasurement.of(f"{_HERE}:unfurnished")])
    return Section("starved", "Starved", frame, frame[["value"]], (), ())


def unfurnished(_shared: object) -> dict[str, float]:
    """A task without its library, as those of networks are without the extra lab."""
    raise ModuleNotFoundError("No module named 'torch'", name="torch")


def twice(_shared: object, number: int) -> dict[str, float]:
    """A task: double a number, but not 13."""
    if number == 13:
        raise ValueError("13 is not doubled.")
    return {"value": 2.0 * number}


def files_in(folder: Path) -> set[str]:
    """Names of the files that were written."""
    return {path.name for path in folder.iterdir()}
