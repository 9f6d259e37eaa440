"""Trains one model three times over real services: both parties on our arithmetic, then each on python-paillier.

    pip install 'plumbline[phe]'
    python examples/check_against_phe.py

Prints what each run computed with, and how far its weights are from the first run's: not at all.
"""

import tempfile
from pathlib import Path

import numpy as np

from plumbline.federation import Federation
from plumbline.processes import LocalProcesses
from plumbline.recipe import Recipe, changed, shares_of
from services.common.run_folder import RunFolder
from vfl.arrays import FloatArray

PARTIES = ("active", "passive")
# One value in a ciphertext, as python-paillier has it, and weights that begin alike. The keys are of 2,048 bits.
SETTINGS = {"packing": False, "epochs": 1, "seed": 1}


def trained(folder: Path, kernels: dict[str, str]) -> list[FloatArray]:
    """Each party's weights after an epoch, with the kernel that each of them uses."""
    recipe = Recipe(shares_of("breast_cancer", 2), is_repeatable=True, settings=SETTINGS).checked()
    settings = recipe.settings(folder / "parties")
    own = {name: changed(name, settings[name], kernel=kernels[name]) for name in PARTIES}
    processes = LocalProcesses(folder, {**settings, **own})
    with Federation.start(processes) as federation:
        federation.train()
        for name in PARTIES:
            (arithmetic,) = [line for line in processes.log(name).read_text().splitlines() if "Arithmetic: " in line]
            print(f"{name:8} {arithmetic.partition('Arithmetic: ')[2]}")
    return [RunFolder(folder / "parties").weights(name).weights for name in PARTIES]


def main() -> None:
    """Train, and compare."""
    first: list[FloatArray] = []
    for kernels in (("auto", "auto"), ("phe", "auto"), ("auto", "phe")):
        with tempfile.TemporaryDirectory() as folder:
            weights = trained(Path(folder), dict(zip(PARTIES, kernels, strict=True)))
        first = first or weights
        difference = max(float(np.abs(own - other).max()) for own, other in zip(weights, first, strict=True))
        print(f"         {sum(own.size for own in weights)} weights, largest difference {difference}\n")


if __name__ == "__main__":
    main()
