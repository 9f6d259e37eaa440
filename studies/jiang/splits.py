"""What the black-box figures attack: models and their passive columns, by the ratio r of passive features."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from studies.jiang.inversion.inversion_setting import HIDDEN, linear_model, network_model, size_of
from studies.measurements import Choice, ModelChoice, windows
from studies.measurements.descriptions import ModelKind
from vfl.data import dataset
from vfl.theory.inversion import auxiliary_threshold

# Twice the inversion's: a shadow's parameters go further than features in [0, 1].
_SHADOW_RATE = 0.02


@dataclass(frozen=True)
class Split:
    """A model, and which of its columns are passive.

    Attributes:
        r: ratio of passive features that was asked for (Jiang 5.1.3).
        model: on these columns, where it depends on them.
        passive: the columns.
    """

    r: float
    model: ModelChoice
    passive: tuple[int, ...]

    @property
    def hidden(self) -> tuple[int, ...]:
        """Units of the hidden layers of the passive part; none of a linear one."""
        return HIDDEN if self.model.kind == "network" else ()

    @property
    def labels(self) -> dict[str, Any]:
        """Where it is drawn."""
        own = {"dataset": self.model.data.name, "model": self.model.kind, "r": self.r}
        return own | {"seed": self.model.seed, "start": self.passive[0]}


@dataclass(frozen=True)
class Splits:
    """Which splits of data sets are attacked.

    Attributes:
        ratios: of passive features.
        windows: of adjacent passive columns, evenly spaced, per ratio.
        seeds: how many models, from the run's seed on; windows take them in turn.
        rows: most rows of a data set; None for all.
        steps: of inversions.
        shadow_steps: of the training of shadow models.
    """

    ratios: tuple[float, ...]
    windows: int
    seeds: int = 1
    rows: int | None = None
    steps: int = 2000
    shadow_steps: int = 2000

    def of(self, name: str, first_seed: int, kind: ModelKind = "linear") -> Iterator[Split]:
        """The splits of one data set: of linear models, or of networks of the paper's structure."""
        for r in self.ratios:
            for number, passive in enumerate(windows(dataset(name).features, size_of(name, r), self.windows)):
                yield Split(r, self._model(name, passive, first_seed + number % self.seeds, kind), passive)

    def _model(self, name: str, passive: tuple[int, ...], seed: int, kind: ModelKind) -> ModelChoice:
        if kind == "network":
            return network_model(name, passive, seed, rows=self.rows)
        return linear_model(name, seed, self.rows)

    def shadow(self, hidden: tuple[int, ...]) -> Choice:
        """Jiang's Algorithm 2 with a part of these hidden layers, then Algorithm 1 from zeros."""
        training = {"shadow_steps": self.shadow_steps, "shadow_learning_rate": _SHADOW_RATE}
        return Choice.of("shadow", hidden=hidden, distance="mse", init="zero", steps=self.steps, **training)


@dataclass(frozen=True)
class SplitPlan:
    """How much of a figure is run: on which data sets, and on which splits of each."""

    datasets: tuple[str, ...]
    splits: Splits


def threshold(name: str, hidden: tuple[int, ...] = ()) -> int:
    """Count tau of a data set at r = 1, which suffices for any r (Jiang eq. 21, 22 and section 5.3)."""
    known = dataset(name)
    return auxiliary_threshold(known.features, known.classes, hidden)
