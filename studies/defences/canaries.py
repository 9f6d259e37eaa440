"""What ``dp_noise`` is worth at most: a lower bound of epsilon from canaries, beside the epsilon that theory attains.

Every trial is a training in which one record's label is 0 or 1 (``canary_trials``). The adversary knows all else, adds
the canary's noisy shares over the epochs, and says which it was. Theory's epsilon is of the whole record and of all
shares; the label alone moves its own shares by 4, of the 8 that theory allows for. So the bound stays below.
"""

from typing import Any

import numpy as np
import pandas as pd

from plumbline.simulation.rounds import told
from studies.defences.canary_trials import CanarySession, on_the_wire, simulated
from studies.page.plots import Curve, Panel, Plot
from studies.page.section import Section
from studies.study import StudyRun
from vfl.theory.dp_noise import LABEL_TERM, sensitivities
from vfl.theory.empirical_epsilon import epsilon_lower_bound
from vfl.theory.gaussian_mechanism import gaussian_epsilon

SIGMAS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
CONFIDENCE = 0.95
_TRIALS, _QUICK_TRIALS = 20_000, 1_000
_KEY_BITS, _QUICK_KEY_BITS = 2048, 512
# Noise of the two worlds is independent.
_WORLDS = (0, 1)


def canaries_section(run: StudyRun) -> Section:
    """Bound epsilon from below for several sigmas, and check simulated trials against the wire.

    20,000 trials per world and sigma, two of them on the wire at 2,048 bits. quick: 1,000, and keys of 512 bits.
    """
    trials, key_bits = (_QUICK_TRIALS, _QUICK_KEY_BITS) if run.quick else (_TRIALS, _KEY_BITS)
    data = pd.DataFrame(
        [measured(CanarySession(sigma), trials, run.seed, key_bits) for sigma in told(SIGMAS, run.done)]
    )
    return Section(
        name="defences_canaries",
        title="What canaries prove of dp_noise",
        data=data,
        summary=data,
        plots=(_plot(data),),
        notes=_notes(data, key_bits),
    )


def measured(session: CanarySession, trials: int, seed: int, key_bits: int) -> dict[str, Any]:
    """Measure one sigma: the bound, its trials, and what theory says.

    Args:
        session: the terms of every trial.
        trials: per world.
        seed: of the noise, different in every trial.
        key_bits: of the trials on the wire, one per world.
    """
    delta = default_delta(session)
    seeds = {world: [2 * trials * seed + world * trials + trial for trial in range(trials)] for world in _WORLDS}
    shares = {world: simulated(session, world, seeds[world]) for world in _WORLDS}
    agreeing = sum(
        np.array_equal(on_the_wire(session, world, seeds[world][0], key_bits), shares[world][0]) for world in _WORLDS
    )
    # The shift of a label is the same in every epoch: no statistic is better than the sum, but for theta's moves.
    bound = epsilon_lower_bound(*(shares[world].sum(axis=1) for world in _WORLDS), delta=delta, confidence=CONFIDENCE)
    return {
        "sigma": session.sigma,
        "delta": delta,
        "epsilon_proved": bound.epsilon,
        "epsilon_of_label": gaussian_epsilon(2 * LABEL_TERM * np.sqrt(session.epochs), session.sigma, delta),
        "epsilon_of_theory": gaussian_epsilon(sensitivity(session), session.sigma, delta),
        "confidence": bound.confidence,
        "trials_per_world": trials,
        "judged_per_world": bound.trials,
        "hits": bound.hits,
        "false_alarms": bound.false_alarms,
        "on_the_wire": len(_WORLDS),
        "agreeing": int(agreeing),
    }


def default_delta(session: CanarySession) -> float:
    """A tenth of one over the number of records: at one over it, publishing a record would do."""
    return 1 / (10 * len(session.blocks[0].values))


def sensitivity(session: CanarySession) -> float:
    """Delta, by how much one changed record can move all of the label party's shares (Hu, Lemma D.3)."""
    moved = sensitivities(
        epochs=session.epochs,
        steps=len(session.batches),
        rows=session.batch_size,
        learning_rate=session.learning_rate,
    )
    return moved.active


def _notes(data: pd.DataFrame, key_bits: int) -> tuple[str, ...]:
    first = data.iloc[0]
    found = ", ".join(
        f"{row.epsilon_proved:.2f} of {row.epsilon_of_theory:.2f} at sigma {row.sigma:g}" for row in data.itertuples()
    )
    return (
        "SIMULATION: all trials but those on the wire follow the two parties' arithmetic in one place, and their noise "
        f"is seeded. {int(data['agreeing'].sum())} of {int(data['on_the_wire'].sum())} trials that ran as Protocol 1 "
        f"under Paillier with {key_bits} bits gave the same shares, bit for bit.",
        f"Proved of epsilon with {first['confidence']:.0%} confidence at delta = {first['delta']:.4g}, from "
        f"{int(first['judged_per_world']):,} trials per world (as many more chose the threshold): {found}.",
        "The canary is one label: it moves its record's share by 4 in each epoch, and theta a little. Theory allows "
        "for a whole record at the longest theta that it assumes, 8 in each epoch. epsilon_of_label is exact for the "
        "label's own shares: what canaries of this kind can prove at most.",
        "A bound of 0 proves nothing. It says that these trials couldn't tell, not that nobody can.",
    )


def _plot(data: pd.DataFrame) -> Plot:
    sigmas = tuple(data["sigma"])
    curves = tuple(
        Curve(label, sigmas, tuple(data[column]))
        for column, label in (
            ("epsilon_of_theory", "theory, a whole record"),
            ("epsilon_of_label", "theory, the label's own shares"),
            ("epsilon_proved", "proved by canaries"),
        )
    )
    caption = (
        "Epsilon by sigma: what theory attains, and what an adversary's guesses prove of it; a bound of 0 is left out."
    )
    panel = Panel("Epsilon by sigma", "sigma", "epsilon", curves, log_x=True, log_y=True)
    return Plot("defences_canaries-epsilon", (panel,), caption)
