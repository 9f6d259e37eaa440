"""A sweep as a file: a grid of data sets, splits, models, attacks and defences in TOML, whose lists multiply."""

import inspect
import reprlib
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Literal

from sklearn.datasets import make_classification

import attacks
import defences
from attacks.registry import attack_class
from defences.registry import defence_class
from studies.measurements.descriptions import (
    Access,
    AttackMeasurement,
    Choice,
    DataChoice,
    ModelChoice,
    ModelKind,
    Trainer,
    frozen_options,
    windows,
)
from studies.simulation.recipes import TRAINERS, linear_recipe, network_recipe
from studies.simulation.scaled_tables import SYNTHETIC, load_scaled
from studies.sweeping.grids import LARGEST_SEED, Keyed, SweepFileError, axis_of, check_size, checked, option_sets
from vfl.data import DATASETS, dataset
from vfl.learning.networks import Activation
from vfl.suggestions import did_you_mean

_TOP = ("name", "data", "split", "model", "attacks", "defences", "knowledge", "records")
_SPLIT = ("d", "ratio", "windows", "seeds", "held_out")
_KNOWLEDGE = ("auxiliary", "moments", "delivered", "access", "undo")
_STRUCTURE: Mapping[str, Any] = {"hidden": tuple[int, ...], "activation": Activation}
# Of what is synthetic: a list of anything else is several values.
_MADE: Mapping[str, Any] = {"weights": list[float]}
_PLAIN = bool | float | str
NONE = "none"


@dataclass(frozen=True)
class Sweep:
    """What a file asks for.

    Attributes:
        name: of the sweep and of its folder.
        measurements: in the order of the grid.
    """

    name: str
    measurements: tuple[AttackMeasurement, ...]

    @property
    def datasets(self) -> tuple[str, ...]:
        """Names of the data sets, each once."""
        return tuple(dict.fromkeys(measurement.model.data.name for measurement in self.measurements))


@dataclass(frozen=True)
class _Data:
    """A data set and how many columns it has."""

    choice: DataChoice
    columns: int


@dataclass(frozen=True)
class _Model:
    """A model without its data, seed and passive columns."""

    kind: ModelKind
    trainer: Trainer
    options: Mapping[str, Any]


@dataclass(frozen=True)
class _Adversary:
    """An attack and what it knows: fields of a measurement."""

    attack: Choice
    knows: Mapping[str, Any]


def read_sweep(path: Path) -> Sweep:
    """Read a sweep from a TOML file.

    Raises:
        SweepFileError: for what is no TOML or no sweep; it says where and what to do.
        OSError: where it can't be read.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError:
        raise SweepFileError(f"{path} is no text in UTF-8: name a sweep's TOML file.") from None
    except tomllib.TOMLDecodeError as error:
        raise SweepFileError(f"{path} is no TOML: {str(error)[:1].lower()}{str(error)[1:]}.") from None
    try:
        return sweep_of(content, path.stem)
    except ValueError as error:
        raise SweepFileError(f"{path}: {error}") from error


def sweep_of(content: Mapping[str, Any], name: str = "sweep") -> Sweep:
    """Make a sweep of what a file says, as nested mappings and lists.

    Keys: ``data``, ``split`` (``d`` or ``ratio``; ``windows``, ``seeds``, ``held_out``), ``model``, ``attacks``,
    ``defences``, ``knowledge``, ``records``, ``name``. There are as many measurements as the lists multiply to; those
    that come out alike, as two ratios of few columns do, are one.

    Args:
        content: as ``tomllib`` reads it.
        name: where it doesn't say one.

    Raises:
        SweepFileError: for an unknown key, an empty list, a value of another type or out of range, or an unknown data
            set, attack, defence or option, and for more measurements than a sweep may have.
    """
    top = Keyed("", content, _TOP)
    for key in ("data", "split", "attacks"):
        if key not in content:
            raise SweepFileError(f"A sweep needs {key}: see the example of `plumbline sweep --help`.")
    split = Keyed("split", content["split"], _SPLIT)
    chosen = top.one("name", str, name)
    if Path(chosen).name != chosen or chosen in ("", ".", "..") or not chosen.isprintable():
        raise SweepFileError(f"name: {chosen!r} can't name a folder: choose one of letters, without slashes.")
    shares, records = split.axis("held_out", float, 0.2), top.axis("records", int, 1000)
    models, guards = list(_models(top)), list(_defences(top))
    adversaries = list(_adversaries(top))
    axes = (_models_on(list(_data(top)), split, models, shares), guards, records, adversaries)
    check_size("This grid", *axes)
    measurements = (checked("This grid", _measurement, *grid) for grid in product(*axes))
    return Sweep(chosen, tuple(dict.fromkeys(measurements)))


def _measurement(
    target: tuple[ModelChoice, tuple[int, ...]], guard: tuple[Choice, ...], records: int, adversary: _Adversary
) -> AttackMeasurement:
    model, passive = target
    return AttackMeasurement(
        model, passive, adversary.attack, records, defences=guard, seed=model.seed, **adversary.knows
    )


# --- data, splits and models --------------------------------------------------------------------------------------


def _data(top: Keyed) -> Iterator[_Data]:
    for place, entry in top.listed("data"):
        keyed = Keyed(place, {"name": entry} if isinstance(entry, str) else entry)
        own = dict(keyed.content)
        name = _named(keyed, own, (*DATASETS, SYNTHETIC), "data set")
        counts = keyed.axis("rows", int)
        own.pop("rows", None)
        for rows, options in product(counts, _data_options(place, name, own)):
            if rows is not None and rows < 2:
                raise SweepFileError(f"{place}.rows: expected at least 2 rows, got {rows}.")
            columns = _columns(place, name, options)
            yield _Data(DataChoice(name, rows, frozen_options(options)), columns)


def _data_options(place: str, name: str, options: Mapping[str, Any]) -> list[dict[str, Any]]:
    made = [one for one in inspect.signature(make_classification).parameters if one != "return_X_y"]
    known = made if name == SYNTHETIC else []
    keyed = Keyed(place, options, ("name", "rows", *known))
    axes = [axis_of(keyed.at(key), value, _MADE.get(key, _PLAIN)) for key, value in options.items()]
    check_size(place, *axes)
    return [dict(zip(options, values, strict=True)) for values in product(*axes)]


def _columns(place: str, name: str, options: Mapping[str, Any]) -> int:
    if name != SYNTHETIC:
        return dataset(name).features
    table = checked(place, load_scaled, SYNTHETIC, None, options=options)
    return int(table.features.shape[1])


def _models_on(
    data: list[_Data], split: Keyed, models: list[_Model], shares: list[float]
) -> list[tuple[ModelChoice, tuple[int, ...]]]:
    """Every model with every split of its columns."""
    seeds = split.one("seeds", list[int], [0])
    count = split.one("windows", int | Literal["all"], "all")
    if not seeds or min(seeds) < 0 or max(seeds) > LARGEST_SEED:
        raise SweepFileError(
            f"split.seeds: expected a list of at least one seed from 0 to {LARGEST_SEED}, got {reprlib.repr(seeds)}."
        )
    if count != "all" and count < 1:
        raise SweepFileError(f'split.windows: expected at least 1, or "all", got {count}.')
    found = []
    for one in data:
        splits = [
            passive
            for size in _sizes(one, split)
            for passive in windows(one.columns, size, None if count == "all" else count)
        ]
        check_size("The grid of models and splits", models, shares, seeds, splits)
        for model, share, seed, passive in product(models, shares, seeds, splits):
            whose = passive if model.kind == "network" else ()
            made = (one.choice, model.kind, model.trainer, seed, share, whose, frozen_options(model.options))
            found.append((checked("split", ModelChoice, *made), passive))
    return found


def _sizes(data: _Data, split: Keyed) -> list[int]:
    """How many columns are passive: as they are given, or by their share of all."""
    if ("d" in split.content) == ("ratio" in split.content):
        raise SweepFileError("split: give d, how many columns are passive, or ratio, which share of them: one of both.")
    if "d" in split.content:
        sizes: list[int] = split.axis("d", int)
        place = "split.d"
    else:
        ratios = split.axis("ratio", float)
        if not all(0 < ratio < 1 for ratio in ratios):
            raise SweepFileError(f"split.ratio: expected shares between 0 and 1, exclusive, got {ratios}.")
        sizes, place = [max(1, round(ratio * data.columns)) for ratio in ratios], "split.ratio"
    for size in sizes:
        if not 1 <= size < data.columns:
            raise SweepFileError(
                f"{place}: {size} of {data.choice.name}'s {data.columns} columns can't be passive: choose 1 to "
                f"{data.columns - 1}, or ratio for data sets of different widths."
            )
    return sizes


def _models(top: Keyed) -> Iterator[_Model]:
    for place, entry in top.listed("model", [{}]):
        keyed = Keyed(place, {"kind": entry} if isinstance(entry, str) else entry)
        own = {key: value for key, value in keyed.content.items() if key not in ("kind", "trainer")}
        for kind in keyed.axis("kind", ModelKind, "linear"):
            for trainer in keyed.axis("trainer", Trainer, "lbfgs" if kind == "linear" else "adam"):
                yield from _trained(place, kind, trainer, own)


def _trained(place: str, kind: ModelKind, trainer: Trainer, own: Mapping[str, Any]) -> Iterator[_Model]:
    recipe_of = network_recipe if kind == "network" else linear_recipe
    plugin = checked(place, TRAINERS.class_of, trainer)
    structure = {key: value for key, value in own.items() if key in _STRUCTURE and kind == "network"}
    axes = [axis_of(f"{place}.{key}", value, _STRUCTURE[key]) for key, value in structure.items()]
    rest = {key: value for key, value in own.items() if key not in structure}
    for values in product(*axes):
        layers = dict(zip(structure, values, strict=True))
        check = partial(lambda layers, **options: recipe_of(trainer, {**layers, **options}, 0), layers)
        for options in option_sets(place, rest, plugin, check):
            yield _Model(kind, trainer, {**layers, **options})


# --- attacks and defences -----------------------------------------------------------------------------------------


def _named(keyed: Keyed, own: dict[str, Any], known: tuple[str, ...], kind: str) -> str:
    """Take the name out of an entry's keys. Raises SweepFileError where no plugin or data set has it."""
    name = own.pop("name", None)
    if not isinstance(name, str):
        raise SweepFileError(f"{keyed.place}: expected a name, or a table with a name, got {name!r}.")
    if name not in known:
        raise SweepFileError(
            f"{keyed.place}: there is no {kind} {name!r}; known: {', '.join(known)}.{did_you_mean(name, known)}"
        )
    return name


def _adversaries(top: Keyed) -> Iterator[_Adversary]:
    common = Keyed("knowledge", top.content.get("knowledge", {}), _KNOWLEDGE)
    for place, entry in top.listed("attacks"):
        keyed = Keyed(place, {"name": entry} if isinstance(entry, str) else entry)
        own = dict(keyed.content)
        name = _named(keyed, own, attacks.names(), "attack")
        mine = Keyed(f"{place}.knowledge", own.pop("knowledge", {}), _KNOWLEDGE)
        plugin = checked(place, attack_class, name)
        if (phase := plugin.spec.phase) != "prediction":
            raise SweepFileError(
                f"{place}: {name} is an attack on {phase}, and a sweep measures attacks on predictions: take it out."
            )
        choices = option_sets(place, own, plugin, partial(attacks.load_prediction, name))
        knowledge = _knowledge(common, mine)
        check_size(place, choices, knowledge)
        for options, knows in product(choices, knowledge):
            yield _Adversary(Choice(name, frozen_options(options)), knows)


def _knowledge(common: Keyed, own: Keyed) -> list[dict[str, Any]]:
    """What an adversary knows besides: its own keys, else those of all."""
    hints: Mapping[str, tuple[Any, Any]] = {
        "auxiliary": (int, 0),
        "moments": (bool, False),
        "delivered": (int, 0),
        "access": (Access, "white_box"),
        "undo": (bool, False),
    }
    axes = [(own if key in own.content else common).axis(key, hint, default) for key, (hint, default) in hints.items()]
    check_size(own.place, *axes)
    return [dict(zip(hints, values, strict=True)) for values in product(*axes)]


def _defences(top: Keyed) -> Iterator[tuple[Choice, ...]]:
    """Each entry is a defence, several in their order (a list), or none."""
    for place, entry in top.listed("defences", [NONE]):
        if entry == NONE:
            yield ()
            continue
        chain = [list(_defence(place, one)) for one in (entry if isinstance(entry, list) else [entry])]
        check_size(place, *chain)
        for guard in product(*chain):
            names, options = [one.name for one in guard], {one.name: dict(one.options) for one in guard}
            checked(place, defences.load_all, names, options)
            yield guard


def _defence(place: str, entry: Any) -> Iterator[Choice]:
    keyed = Keyed(place, {"name": entry} if isinstance(entry, str) else entry)
    own = dict(keyed.content)
    name = _named(keyed, own, defences.names(), "defence")
    plugin = checked(place, defence_class, name)
    for options in option_sets(place, own, plugin, partial(defences.load, name)):
        yield Choice(name, frozen_options(options))
