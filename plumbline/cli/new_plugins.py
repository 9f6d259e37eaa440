"""``plumbline new``: a package of an attack, a defence, a learner or a protocol, whole and with its test."""

from __future__ import annotations

import importlib.util
import keyword
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from plumbline.cli.output import console_out, plain_errors

_TEMPLATES = Path(__file__).parents[1] / "templates/new"
_PROJECT = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "{package}"
version = "0.1"
dependencies = ["plumbline"]

[project.entry-points."plumbline.{kind}s"]
{module} = "{module}:{title}"

[tool.setuptools]
py-modules = ["{module}"]
"""


class Kind(StrEnum):
    """What a package can bring."""

    ATTACK = "attack"
    DEFENCE = "defence"
    LEARNER = "learner"
    PROTOCOL = "protocol"


@dataclass(frozen=True)
class _Names:
    """What a plugin is called: ``mean_guess``, ``mean-guess`` and ``MeanGuess``."""

    module: str

    @property
    def package(self) -> str:
        return self.module.replace("_", "-")

    @property
    def title(self) -> str:
        return "".join(word.capitalize() for word in self.module.split("_"))


# What each template does, under whose name it is written; docs/adding-*.md show these.
_EXAMPLES: Mapping[Kind, tuple[str, str]] = {
    Kind.ATTACK: ("mean_guess", "plumbline audit --data breast_cancer --attacks {} --auxiliary 20 --epochs 1"),
    Kind.DEFENCE: ("score_power", "plumbline audit --data breast_cancer --defences {} --epochs 1"),
    Kind.LEARNER: ("least_squares", "plumbline audit --data breast_cancer --learner {} --epochs 3"),
    Kind.PROTOCOL: (
        "pairwise_sums",
        "plumbline audit --data breast_cancer --parties 3 --protocol {} --cipher plain --epochs 3",
    ),
}


def new(
    kind: Annotated[Kind, typer.Argument(help="What it brings.", show_default=False)],
    name: Annotated[str, typer.Argument(help="What it is called, such as mean_guess.", show_default=False)],
) -> None:
    """Write a package of an attack, a defence, a learner or a protocol, with its test, into a folder of its name.

    What it does is an example, there to be changed.

    Example: plumbline new attack mean_guess
    """
    with plain_errors():
        module = name.replace("-", "_")
        _check(kind, name, module)
        folder = Path(_Names(module).package)
        folder.mkdir()
        for file, content in plugin_files(kind, module).items():
            (folder / file).write_text(content)
        audit = _EXAMPLES[kind][1].format(module)
        console_out.print(f"Wrote {folder}. Now: pip install --editable {folder} && pytest {folder}\nThen: {audit}")


def plugin_files(kind: Kind, module: str) -> dict[str, str]:
    """Give the files of a package by their names: its metadata, its code and its test."""
    names, example = _Names(module), _Names(_EXAMPLES[kind][0])

    def written(template: str) -> str:
        text = (_TEMPLATES / template).read_text()
        return text.replace(example.module, names.module).replace(example.title, names.title)

    return {
        "pyproject.toml": _PROJECT.format(kind=kind, module=module, package=names.package, title=names.title),
        f"{module}.py": written(f"{kind}.py.txt"),
        f"test_{module}.py": written(f"{kind}_test.py.txt"),
    }


def _check(kind: Kind, name: str, module: str) -> None:
    if not module.isidentifier() or keyword.iskeyword(module) or not module.isascii() or module != module.lower():
        raise ValueError(f"{name!r} can't be a module's name: take small letters, digits and _, such as mean_guess.")
    if Path(_Names(module).package).exists():
        raise ValueError(f"{_Names(module).package} is there already: choose another name, or another folder.")
    if importlib.util.find_spec(module) is not None:
        raise ValueError(f"Python has a module {module} here already: choose another name.")
    if module in _known(kind):
        raise ValueError(f"The {kind} {module} is there already: choose another name.")


def _known(kind: Kind) -> tuple[str, ...]:
    from attacks.registry import REGISTRY as ATTACKS
    from defences.registry import REGISTRY as DEFENCES
    from services.common.protocols import REGISTRY as PROTOCOLS
    from vfl.learning.registry import REGISTRY as LEARNERS

    registries = {Kind.ATTACK: ATTACKS, Kind.DEFENCE: DEFENCES, Kind.LEARNER: LEARNERS, Kind.PROTOCOL: PROTOCOLS}
    return registries[kind].names()
