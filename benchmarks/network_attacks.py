"""Speed of batched gradient inversion, against a loop over single records.

    python -m benchmarks.network_attacks

Prints, for a linear model and networks, seconds for 1,000 records in one batch and for a loop over single records,
measured on a few and scaled, in the same run. What the attack errs by is in ``plumbline figures jiang``.
"""

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

import attacks
from attacks import PredictionView
from vfl.learning.networks import VerticalNetwork
from vfl.learning.torch_training import dense_network, initial_layers, scores_of

RECORDS = 1000
LOOPED_RECORDS = 10


def inversion_seconds(hidden: Sequence[int], *, steps: int = 500) -> tuple[float, float]:
    """Seconds for RECORDS records in one batch, and in a loop of LOOPED_RECORDS single ones, scaled to RECORDS."""
    generator = torch.Generator().manual_seed(0)
    d_active, d, k = 6, 30, 6
    network = VerticalNetwork(
        *(dense_network(initial_layers([inputs, *hidden, k], generator), "sigmoid") for inputs in (d_active, d))
    )
    numbers = np.random.default_rng(0)
    active, passive = numbers.random((RECORDS, d_active)), numbers.random((RECORDS, d))
    scores = scores_of(network, active, passive)
    view = PredictionView(features_active=active, scores=scores, network=network, passive_features=d)
    attack = attacks.load("gia", steps=steps)
    attack.reconstruct(replace(view, features_active=active[:1], scores=scores[:1]))  # warm up
    start = time.perf_counter()
    batch = attack.reconstruct(view)
    batched = time.perf_counter() - start
    start = time.perf_counter()
    singles = [
        attack.reconstruct(replace(view, features_active=active[[i]], scores=scores[[i]]))
        for i in range(LOOPED_RECORDS)
    ]
    looped = (time.perf_counter() - start) * RECORDS / LOOPED_RECORDS
    np.testing.assert_allclose(np.vstack(singles), batch[:LOOPED_RECORDS], rtol=0, atol=1e-6)
    return batched, looped


def main() -> None:
    """Print the table; see the module."""
    torch.set_num_threads(1)
    console = Console()
    speed = Table(title=f"gia, {RECORDS:,} records, 500 rounds (loop: {LOOPED_RECORDS} records, scaled)")
    for heading in ("model", "batch s", "loop s", "ratio"):
        speed.add_column(heading, justify="right")
    for hidden in ((), (8,), (8, 8)):
        batched, looped = inversion_seconds(hidden)
        name = "linear" if not hidden else f"network {hidden}"
        speed.add_row(name, f"{batched:.2f}", f"{looped:.1f}", f"{looped / batched:.0f}x")
    console.print(speed)


if __name__ == "__main__":
    main()
