"""Sides of a protocol that are driven without a session around them."""

from services.party.side import run_step
from services.protocols.first_layer.layer_steps import LayerSteps
from services.protocols.shared.shared_steps import SharedSteps
from vfl.arrays import IntArray


def do_step(side: SharedSteps | LayerSteps, step: int, batch: IntArray) -> None:
    """Run a step, and go on behind it."""
    run_step(side, side._calls, step, batch)
    side.complete_step(step)
