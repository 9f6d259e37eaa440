"""One party's part of validations on shares: a word of the mean square of residuals, for the label party alone.

    passive party                                           label party
    hide(step, its share of residuals)        ──>           cross(step, its share, what came)
    show(step, what came)                     <──
              └── word                        ──>           mean_square(step, word)

Pads are under a key of the passive party's that nothing else is under, no features above all: what is decrypted under
it is shown. Whoever chooses what the word is of learns a word, and `OpeningLedger` counts it. Knows no network.
"""

import secrets
from collections.abc import Callable, Sequence

from services.common.errors import OutOfOrder
from services.protocols.shared.shared_terms import SharedTerms
from vfl.crypto import Engine, PrivateKey, PublicKey
from vfl.crypto.sharing import shared_squares
from vfl.crypto.sharing.shared_squares import Crossed, Hidden
from vfl.crypto.sharing.shares import Shares


class Validation:
    """What a party draws for one validation at a time: once, and the same again for the same step.

    Attributes:
        key: that this party's pads are under; the label party has none.
    """

    def __init__(
        self,
        terms: SharedTerms,
        key: PrivateKey | None,
        engine: Engine,
        draw: Callable[[int], int] = secrets.randbelow,
    ) -> None:
        """Begin a session; another draw than the default is for tests."""
        self.key = key
        self._terms, self._engine, self._draw = terms, engine, draw
        # Of the last step that was validated.
        self._hidden: dict[int, Hidden] = {}
        self._crossed: dict[int, Crossed] = {}

    def hide(self, step: int, residual: Shares) -> Hidden:
        """Hide the passive party's share of residuals behind pads."""
        if step not in self._hidden:
            squares = self._terms.squares
            hidden = shared_squares.hide(residual.integers, squares, self._own_key, self._engine, self._draw)
            self._hidden = {step: hidden}
        return self._hidden[step]

    def cross(
        self, step: int, residual: Shares, pads: Sequence[int], differences: Sequence[int], key: PublicKey
    ) -> Crossed:
        """Mask the label party's product of its share and the other's pads."""
        if step not in self._crossed:
            crossed = shared_squares.cross(
                residual.integers, pads, differences, self._terms.squares, key, self._engine, self._draw
            )
            self._crossed = {step: crossed}
        return self._crossed[step]

    def show(self, step: int, answer: int) -> int:
        """Make the passive party's word; any ciphertext gives one. Raises OutOfOrder for a step that hid nothing."""
        if step not in self._hidden:
            raise OutOfOrder(f"Nothing was hidden for the validation after {step} steps.")
        return shared_squares.show(self._hidden[step].own, answer, self._terms.squares, self._own_key, self._engine)

    def mean_square(self, step: int, word: int) -> float:
        """Read the mean square of residuals, for the label party; raises OutOfOrder for a step it did not answer."""
        if step not in self._crossed:
            raise OutOfOrder(f"Nothing was answered for the validation after {step} steps.")
        squares = self._terms.squares
        return squares.joined((squares.word(self._crossed[step].share), word))

    def forget(self) -> None:
        """Forget what was drawn: the session is over."""
        self._hidden, self._crossed = {}, {}

    @property
    def _own_key(self) -> PrivateKey:
        if self.key is None:
            raise OutOfOrder("This party has no key to validate with.")
        return self.key
