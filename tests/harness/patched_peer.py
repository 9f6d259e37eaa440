"""A passive party whose owner has patched its program: it takes back what it was answered, and asks once more.

python -m tests.harness.patched_peer NOTES serve passive    as ``python -m plumbline serve passive``; what it was told
                                                            beyond one answer a step goes to the file NOTES, as JSON

All else is the honest program: its certificate, its keys and proofs, its messages in their order. It does steps until
``FIRST``, asks about it as anybody would, says that it has lost the answer's mask, so that all pass over the step; and
then goes back to it again and again, each time with other questions about what is sent again.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from services.common.errors import FederationError, Suspended
from services.common.meters import StageTimer
from services.party.party_training import PartyTraining
from services.party.resumption import Place
from services.protocols.hu.gradient_exchange import RESIDUALS, SUMS, GradientExchange
from services.protocols.hu.gradient_side import GradientSide, GradientStep
from vfl.arrays import FloatArray, IntArray

FIRST, ROUNDS = 4, 6


class Patched:
    """What the patched program does in place of the honest one.

    Attributes:
        notes: of every further question: the step that it named, and what it was told.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._round, self._claims = path, 0, 0
        self.notes: list[dict[str, Any]] = []
        self._run_step, self._sums, self._place = PartyTraining._run_step, GradientStep.sums, PartyTraining.place
        self._arrivals = GradientExchange.arrivals
        self._training: PartyTraining | None = None

    def install(self) -> None:
        """Take the place of the honest methods, in this process."""
        patched = self

        def run_step(training: PartyTraining, step: int, batch: IntArray) -> StageTimer:
            patched._training = training
            if step == FIRST + 1 and patched._round < ROUNDS:
                patched._round += 1
                raise Suspended("the line was cut.")
            return patched._run_step(training, step, batch)

        def sums(answers: GradientStep) -> FloatArray:
            total = patched._sums(answers)
            if answers.number == FIRST:
                patched._round += 1
                raise Suspended("the line was cut, and with it the mask was lost.")
            return total

        def place(training: PartyTraining) -> Place:
            honest = patched._place(training)
            if honest.completed == FIRST + 1:
                # One step behind the others, it says, in a step that they have passed over.
                return replace(honest, completed=FIRST, asked=frozenset())
            return replace(honest, asked=frozenset())

        def arrivals(exchange: GradientExchange, step: int) -> Any:
            for peer in patched._arrivals(exchange, step):
                if step == FIRST and patched._round:
                    patched._ask(exchange, peer)
                yield peer

        PartyTraining._run_step, GradientStep.sums = run_step, sums  # type: ignore[method-assign, assignment]
        PartyTraining.place, GradientExchange.arrivals = place, arrivals  # type: ignore[method-assign, assignment]

    def _ask(self, exchange: GradientExchange, peer: str) -> None:
        """Ask about the residuals that were sent again, under the names of steps around them."""
        training = self._training
        assert training is not None
        assert isinstance(training.side, GradientSide)
        cipher, vector = exchange._cipher, exchange._received[RESIDUALS, peer, FIRST].values
        rows, columns = exchange._rows_of_step(FIRST), training.gridded.values.shape[1]
        features = np.random.default_rng(self._round).integers(0, 2, (rows, columns)).astype(np.float64)
        for step in (FIRST - 1, FIRST - 2, FIRST, FIRST + 1):
            masked, read = cipher.mask(step, peer, cipher.combine(step, peer, features, vector))
            note: dict[str, Any] = {"step": step, "round": self._round}
            try:
                answer = read(training.side.peers[peer].ask(training.agreement.session_id, SUMS, step, masked))
                note["sums"] = answer.ravel().tolist()
            except FederationError as error:
                note["refused"] = str(error)
            self.notes.append(note)
            self._path.write_text(json.dumps(self.notes))


def main() -> None:
    """Be the passive party."""
    Patched(Path(sys.argv.pop(1))).install()
    from plumbline.__main__ import main as serve

    serve()


if __name__ == "__main__":
    main()
