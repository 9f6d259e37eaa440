"""The studies there are, by the names of their commands. Nothing is imported until one is asked for."""

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from vfl.suggestions import did_you_mean

if TYPE_CHECKING:
    from studies.study import OptionValue, Study


@dataclass(frozen=True)
class StudyOption:
    """An option that one study has beside those of all.

    Attributes:
        name: of the command's option, in snake case; ``StudyRun.options`` has its value.
        default: says what it takes as well: a flag, a whole number from 1 on, or words that may be given several times.
        help: in the command's help.
    """

    name: str
    default: "OptionValue"
    help: str


@dataclass(frozen=True)
class StudyEntry:
    """How a study is found, and asked for on a command line.

    Attributes:
        module: where its ``STUDY`` stands.
        help: one sentence on what it shows.
        example: options of a command that somebody would type.
        datasets: that need raw files, of its full run.
        options: what this study can be asked for beside what all can.
    """

    module: str
    help: str
    example: str
    datasets: tuple[str, ...] = ()
    options: tuple[StudyOption, ...] = ()


STUDIES: dict[str, StudyEntry] = {
    "rassouli": StudyEntry(
        "studies.rassouli.study",
        "Rassouli: attacks on the predictions of a linear model, in a white box and a black box, and their bounds.",
        "--section white_box --quick --with rcc1",
        ("bank", "bank_code", "robot", "satellite"),
    ),
    "varasteh": StudyEntry(
        "studies.varasteh.study",
        "Varasteh: the attack that needs no score, and disclosed parameters that were moved against it.",
        "--section agnostic --quick",
        ("bank", "adult_means", "satellite", "pendigits", "grid_all"),
    ),
    "jiang": StudyEntry(
        "studies.jiang.study",
        "Jiang's figures: gradient inversion of linear models and networks, in a white box and a black box.",
        "--section linear --quick",
        ("satellite", "robot", "drive", "bank_all"),
    ),
    "hu": StudyEntry(
        "studies.hu.study",
        "Hu: what training leaks of labels, epoch by epoch; on the wire with --wire; other expansions of the sigmoid.",
        "--datasets credit --seeds 2",
        ("mnist01", "credit"),
        (
            StudyOption("seeds", 5, "Repetitions; --quick has two at most."),
            StudyOption("datasets", (), "mnist01 or credit; default both."),
            StudyOption("wire", False, "Run an epoch of each data set in a real federation as well: some minutes."),
        ),
    ),
    "defences": StudyEntry(
        "studies.defences.study",
        "Every defence against every attack, with what it costs, and the papers' figures of defences.",
        "--section matrix --section cost --quick",
        ("satellite", "robot", "mnist01", "credit", "adult", "bank"),
        (
            StudyOption(
                "datasets", (), "Of the matrix: satellite, breast_cancer, adult or bank; default the first two."
            ),
        ),
    ),
}


def studies_on(dataset: str) -> tuple[str, ...]:
    """Names of the studies that read a data set."""
    return tuple(name for name, entry in STUDIES.items() if dataset in entry.datasets)


def load_study(name: str) -> "Study":
    """A study by name.

    Raises:
        ValueError: for a name that no study has; it lists those there are.
    """
    if name not in STUDIES:
        raise ValueError(f"There is no study {name!r}: choose from {', '.join(STUDIES)}.{did_you_mean(name, STUDIES)}")
    study: Study = import_module(STUDIES[name].module).STUDY
    return study
