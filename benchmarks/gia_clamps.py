"""What keeping gradient inversion in [0, 1] costs or saves: each of gia's clamps, from 0 and from 1/2.

    python -m benchmarks.gia_clamps [DATA_DIR [MODELS]]

Mean squared error per value of 50 held-out records, linear models trained by Adam as in the papers, the last half of
the columns passive. Without raw files it measures breast_cancer only.
"""

import sys
from itertools import product
from pathlib import Path

import numpy as np
from rich.console import Console

import attacks
from plumbline.simulation.linear_models import train
from vfl.data import DatasetNotFound

_DATASETS = ("satellite", "credit", "breast_cancer")
_MODELS, _RECORDS = 3, 50
_CLAMPS = ("each_step", "straight_through", "at_end")


def main(data_dir: Path | None, models: int) -> None:
    """Print a row per data set, distance and start, a column per clamp."""
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"{'':34}", *(f"{clamp:>20}" for clamp in _CLAMPS), f"{'half':>8} {'half*':>8}")
    for name in _DATASETS:
        try:
            cases = [_case(name, data_dir, seed) for seed in range(models)]
        except DatasetNotFound as missing:
            console.print(f"{name} was left out. {missing}")
            continue
        baselines = [np.mean([_error(attacks.load(one), *case) for case in cases]) for one in ("half", "half_star")]
        for distance, start in product(("mse", "kld"), ("zero", "half")):
            errors = [
                [_error(attacks.load("gia", distance=distance, init=start, clamp=clamp), *case) for case in cases]
                for clamp in _CLAMPS
            ]
            shown = [f"{np.mean(each):.4f} ({min(each):.3f}-{max(each):.3f})" for each in errors]
            console.print(
                f"{name:14} {distance:5} from {start:9}",
                *(f"{one:>20}" for one in shown),
                *(f"{one:8.4f}" for one in baselines),
            )


def _case(name: str, data_dir: Path | None, seed: int) -> tuple[attacks.PredictionView, np.ndarray]:
    model = train(name, data_dir, "adam", seed)
    columns = model.features.shape[1]
    return model.view(range(columns - columns // 2, columns), _RECORDS)


def _error(attack: attacks.PredictionAttack, view: attacks.PredictionView, truth: np.ndarray) -> float:
    return float(((attack.reconstruct(view) - truth) ** 2).mean())


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None, int(sys.argv[2]) if len(sys.argv) > 2 else _MODELS)
