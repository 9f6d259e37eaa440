"""What one measurement of a sweep is: a description that says everything it depends on, and nothing else.

A description is made of plain values. Its content is its key, so whatever a result depends on must stand in it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias

# What an option may be: JSON, with tuples for lists.
Value: TypeAlias = "bool | int | float | str | tuple[Value, ...] | None"
Options: TypeAlias = tuple[tuple[str, Value], ...]
Access = Literal["white_box", "black_box"]
ModelKind = Literal["linear", "network"]
Trainer = Literal["lbfgs", "adam"]
# Of a measurement, what stands in a table of results under its own name.
_AS_IT_IS = ("access", "records", "auxiliary", "moments", "delivered", "undo")


def frozen_options(options: Mapping[str, Any]) -> Options:
    """Sort options by name, their lists as tuples."""
    return tuple(sorted((name, _frozen(value)) for name, value in options.items()))


def _frozen(value: Any) -> Value:
    return tuple(_frozen(one) for one in value) if isinstance(value, list | tuple) else value


@dataclass(frozen=True)
class Choice:
    """A plugin by name, with its options.

    Attributes:
        name: as it is registered.
        options: sorted by name (``frozen_options``).
    """

    name: str
    options: Options = ()

    @classmethod
    def of(cls, name: str, /, **options: Any) -> "Choice":
        """Make a choice from keyword arguments: ``Choice.of("gia", init="half")``."""
        return cls(name, frozen_options(options))

    @property
    def words(self) -> str:
        """As a person writes it: ``gia(init=half)``."""
        inside = ", ".join(f"{name}={value}" for name, value in self.options)
        return f"{self.name}({inside})" if inside else self.name


@dataclass(frozen=True)
class DataChoice:
    """A data set.

    Attributes:
        name: in the catalogue, or ``synthetic``: scikit-learn's make_classification, 10 features, 2 classes.
        rows: most rows that are used, drawn by the model's seed; None for all.
        options: of ``synthetic``: n_samples, n_features, n_classes and others of make_classification.
        scaled: whether columns are scaled to [0, 1] over all rows; otherwise they are as loaded.
    """

    name: str
    rows: int | None = None
    options: Options = ()
    scaled: bool = True


@dataclass(frozen=True)
class ModelChoice:
    """A model trained in one place on all parties' columns, scaled to [0, 1].

    Attributes:
        data: what it is trained on.
        kind: linear or network.
        trainer: lbfgs (scikit-learn, without a penalty) or adam (torch, stops early); networks take adam.
        seed: of drawn rows, of the split, of initial weights and of batches.
        held_out: the share of rows that nothing is trained on and that are attacked, in (0, 1).
        passive: the passive party's columns where the model depends on them, as a network's parts do; empty otherwise.
        options: of the trainer (lbfgs: C, max_iter; adam: epochs, patience, batch_size, learning_rate) and of a network
            (hidden, activation).
        defence: of training (``dp_sgd``), None for none.

    Raises:
        ValueError: for a network without passive columns, or with lbfgs; and a share out of range.
    """

    data: DataChoice
    kind: ModelKind = "linear"
    trainer: Trainer = "lbfgs"
    seed: int = 0
    held_out: float = 0.2
    passive: tuple[int, ...] = ()
    options: Options = ()
    defence: Choice | None = None

    def __post_init__(self) -> None:
        if not 0 < self.held_out < 1:
            raise ValueError(f"Expected held_out between 0 and 1, exclusive, got {self.held_out}.")
        if self.kind == "network" and (not self.passive or self.trainer == "lbfgs"):
            raise ValueError("A network has a part per party and is trained with adam: give passive columns, and adam.")


@dataclass(frozen=True)
class AttackMeasurement:
    """One attack on one model's predictions (SIMULATION: in one place, no ciphertext, no service).

    Attributes:
        model: what is attacked.
        passive: the passive party's columns, in its order.
        attack: with options.
        records: how many predictions are attacked: the first held-out rows, or all where there are fewer.
        auxiliary: complete records that the adversary has besides, with their scores: held-out rows after the attacked
            ones.
        moments: whether it knows the passive columns' moments.
        delivered: predictions that the active party was sent beside the attacked ones, of held-out rows after these,
            for attacks that learn of them (``agnostic``); complete records were delivered anyway.
        access: white_box discloses parameters; in black box the active party has its own ones only.
        defences: of scores, parameters, features or training, in their order.
        seed: of defences' noise, and of the draw of auxiliary and delivered records.
        undo: whether the adversary takes off what it knows of the defences (``prediction.adaptive``) before it attacks.
            Attacks that read channels know of defences anyway; others attack what they see as if there were none.

    Raises:
        ValueError: for a number of records out of range, or passive columns of a network that aren't its own.
    """

    model: ModelChoice
    passive: tuple[int, ...]
    attack: Choice
    records: int = 1000
    auxiliary: int = 0
    moments: bool = False
    delivered: int = 0
    access: Access = "white_box"
    defences: tuple[Choice, ...] = ()
    seed: int = 0
    undo: bool = False

    def __post_init__(self) -> None:
        if self.records < 1 or self.auxiliary < 0 or self.delivered < 0 or self.seed < 0:
            raise ValueError(
                "Expected records >= 1, and auxiliary, delivered and seed >= 0, got "
                f"{self.records}, {self.auxiliary}, {self.delivered} and {self.seed}."
            )
        if self.auxiliary and self.delivered:
            raise ValueError("Complete records were delivered as well: give auxiliary or delivered, not both.")
        if not self.passive or self.model.passive not in ((), self.passive):
            raise ValueError(f"Expected a network's own passive columns, at least one, got {list(self.passive)}.")


@dataclass(frozen=True)
class TaskMeasurement:
    """Any other measurement: a function of a data set or a model, and options.

    Attributes:
        function: ``module:name`` of a function ``(shared, **options) -> Mapping[str, value]``; it must be pure.
            ``shared`` is a ``TrainedModel`` or ``TrainedNetwork``, a ``ScaledTable``, or None, after what ``on`` is.
        on: the model or data set; None for neither.
        options: its keyword arguments.
    """

    function: str
    on: ModelChoice | DataChoice | None = None
    options: Options = ()

    @classmethod
    def of(cls, function: str, on: ModelChoice | DataChoice | None = None, /, **options: Any) -> "TaskMeasurement":
        """Make a task from keyword arguments."""
        return cls(function, on, frozen_options(options))


Measurement: TypeAlias = AttackMeasurement | TaskMeasurement
# Measurements, and the trainings of the models that they are made on.
Work: TypeAlias = Measurement | ModelChoice


def windows(columns: int, size: int, count: int | None = None) -> list[tuple[int, ...]]:
    """Windows of adjacent columns, cyclically (Rassouli VIII-A): all ``columns`` of them, or so many evenly spaced.

    Raises:
        ValueError: unless 1 <= size < columns.
    """
    if not 1 <= size < columns:
        raise ValueError(f"Expected a window of 1 to {columns - 1} columns of {columns}, got {size}.")
    starts = (
        range(columns) if count is None or count >= columns else sorted({n * columns // count for n in range(count)})
    )
    return [tuple((start + step) % columns for step in range(size)) for start in starts]


def plain(value: Any) -> Any:
    """Write a description as JSON: objects, lists and plain values; what is left at its default is there as well."""
    if isinstance(value, AttackMeasurement | TaskMeasurement | ModelChoice | DataChoice | Choice):
        return {"is": type(value).__name__} | {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(one) for one in value]
    return value


def description(measurement: Measurement) -> dict[str, Any]:
    """Give the columns that describe a measurement in a table of results.

    Of an attack: dataset, data_options, model, trainer, model_options, seed, d, start (its first column), attack (with
    options), defence (all of them, "none" without), access, records, auxiliary, moments, delivered, undo. Of a task:
    function, what it is on, and its options.
    """
    if isinstance(measurement, AttackMeasurement):
        return {
            **_of_model(measurement.model),
            "d": len(measurement.passive),
            "start": measurement.passive[0],
            "attack": measurement.attack.words,
            "defence": " + ".join(choice.words for choice in measurement.defences) or "none",
            **{name: getattr(measurement, name) for name in _AS_IT_IS},
        }
    function = measurement.function.partition(":")[2]
    return {"function": function, **_of_model(measurement.on), **dict(measurement.options)}


def _of_model(on: ModelChoice | DataChoice | None) -> Mapping[str, Any]:
    if on is None:
        return {}
    if isinstance(on, DataChoice):
        return {"dataset": on.name}
    rows = (("rows", on.data.rows),) if on.data.rows is not None else ()
    return {
        "dataset": on.data.name,
        "data_options": Choice("", (*rows, *on.data.options)).words[1:-1],
        "model": on.kind,
        "trainer": on.trainer,
        "model_options": Choice("", on.options).words[1:-1],
        "seed": on.seed,
    }
