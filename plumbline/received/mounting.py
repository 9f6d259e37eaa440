"""The adversaries of a judge of received columns: models that guess without them, with them, and with shuffled ones.

What they estimate lies in the run's folder as an audit's attacks leave it: the first batch is of what was received, the
second of the control.
"""

import time

import numpy as np

from attacks.registry import FROM_RECORDS, LEARNED
from plumbline.judge.evidence import imputations
from plumbline.judge.predictions import DENSEST
from plumbline.judge.truth import Truth
from plumbline.received.judge_request import SECRET
from plumbline.received.received_tables import ReceivedRecords
from services.common.run_folder import RunFolder
from services.common.run_records import DONE, Estimates, PredictionAttackOutcome
from vfl.arrays import FloatArray

# Batches of a run's folder.
RECEIVED_BATCH, SHUFFLED_BATCH = 0, 1


def mount(folder: RunFolder, records: ReceivedRecords, seed: int) -> None:
    """Estimate the secret columns of the judged records from what was received of them, and from a shuffled copy.

    In the copy every record has what was received of another one at random, known records as well.

    Args:
        folder: of the run, in which the features are.
        records: of the three tables.
        seed: draws the copy.

    Raises:
        RunFolderError: where the folder's files are missing or broken.
    """
    truth = Truth(folder, [SECRET], Estimates(records.judged, {}, records.known))
    order = np.random.default_rng([seed, SHUFFLED_BATCH]).permutation(len(records.received))
    outcomes = list[PredictionAttackOutcome]()
    if not len(records.known):
        folder.write_estimates(RECEIVED_BATCH, truth.estimates({}))
        return
    for batch, received in ((RECEIVED_BATCH, records.received), (SHUFFLED_BATCH, records.received[order])):
        outcomes += mounted(folder, truth, received, batch)
    folder.write_prediction_outcomes(outcomes)


def mounted(folder: RunFolder, truth: Truth, received: FloatArray, batch: int) -> list[PredictionAttackOutcome]:
    """Estimate what one (records, m) version of what was received tells, and write it as a batch of the folder."""
    begun = time.perf_counter()
    view = truth.own_view(received)
    # The very models that judge without it: what another model would add is no part of what was received.
    found = imputations(view.with_received_as_own(), truth.groups, counts=())
    named = {f"{name}(received)": one for name, one in zip((FROM_RECORDS, LEARNED), found, strict=True)}
    arrays = {name: one.estimate for name, one in named.items()}
    arrays |= {DENSEST + name: one.densest for name, one in named.items() if one.densest is not None}
    folder.write_estimates(batch, truth.estimates(arrays))
    seconds = (time.perf_counter() - begun) / len(named)
    return [
        PredictionAttackOutcome(
            attack=name,
            batch=batch,
            records=view.n,
            status=DONE,
            level=one.level,
            sees_scores=True,
            sees_parameters=False,
            seconds=seconds,
        )
        for name, one in named.items()
    ]
