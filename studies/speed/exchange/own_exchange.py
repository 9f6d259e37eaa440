"""The exchange with this project's own arithmetic, timed whole."""

import time
from dataclasses import dataclass

from studies.speed.exchange.phe_exchange import phe_keys, phe_number
from studies.speed.exchange.work import RESIDUAL, ExchangeWork, Phases
from studies.speed.repetition import Clock, require_equal, timed
from vfl.crypto import (
    CipherVector,
    ColumnFormats,
    Engine,
    PackingLayout,
    decrypt_integers,
    encrypt_vector,
    layouts_for,
    mask_vector,
    matvec,
    unmask,
)

# Without packing, so many answers are decrypted by `phe` as well.
_SHOWN_TO_PHE = 2


@dataclass(frozen=True)
class OwnVariant:
    """One way to compute the exchange.

    Attributes:
        engine: the kernel and its cores.
        layout: how values share plaintexts; None for the paper's protocol to the letter.
        clock: this process's CPU, or the clock where other processes work as well.
    """

    engine: Engine
    layout: PackingLayout | None
    clock: Clock = time.process_time

    def ciphertexts(self, work: ExchangeWork) -> int:
        """Count the ciphertexts of one exchange, both ways."""
        if self.layout is None:
            return sum(work.matrix.shape)
        return self.layout.ciphertexts_for(len(work.matrix)) + self.layout.answers_for(formats_of(work))

    def run(self, work: ExchangeWork) -> Phases:
        """Compute the exchange; raises WrongResult for another product than the exact one."""
        key, engine = work.private_key, self.engine
        encrypt, c = timed(lambda: self.encrypted(work), self.clock)
        product, answer = timed(lambda: self.product(work, c), self.clock)
        hide, (masked, mask) = timed(lambda: mask_vector(answer, engine=engine), self.clock)
        decrypt, residues = timed(lambda: decrypt_integers(key, masked, engine=engine), self.clock)
        reveal, values = timed(lambda: unmask(mask, residues), self.clock)
        require_equal("plumbline", values.tolist(), [float(value) for value in work.expected])
        self._check_integers(work, answer)
        return Phases(encrypt, product, hide, decrypt + reveal)

    def encrypted(self, work: ExchangeWork) -> CipherVector:
        """The residual under its owner's key."""
        return encrypt_vector(
            work.private_key, work.residual, layout=self.layout, fixed_point=RESIDUAL, engine=self.engine
        )

    def product(self, work: ExchangeWork, residual: CipherVector) -> CipherVector:
        """The encrypted product."""
        return matvec(work.matrix, residual, columns=formats_of(work), engine=self.engine)

    def _check_integers(self, work: ExchangeWork, answer: CipherVector) -> None:
        """Values are floats; what they stand for must be exact to the last bit."""
        key = work.private_key
        residues = decrypt_integers(key, answer, engine=self.engine)
        n = key.public_key.n
        signed = [residue - n if residue > n // 2 else residue for residue in residues]
        found = signed if self.layout is None else self.layout.unpack_product(signed, work.matrix.shape[1])
        require_equal("plumbline", list(found), work.expected)
        if self.layout is None:
            public_key, private_key = phe_keys(key)
            told = [private_key.decrypt(phe_number(public_key, one)) for one in answer.ciphertexts[:_SHOWN_TO_PHE]]
            require_equal("phe on plumbline's ciphertexts", told, work.expected[:_SHOWN_TO_PHE])


def formats_of(work: ExchangeWork) -> ColumnFormats:
    """The formats of a work's columns."""
    return ColumnFormats(((work.entries, work.matrix.shape[1]),))


def best_layout(work: ExchangeWork) -> PackingLayout:
    """The layout with the fewest modular products."""
    return layouts_for(
        [formats_of(work)],
        batch_size=len(work.matrix),
        classes=1,
        residual_format=RESIDUAL,
        key_bits=work.private_key.public_key.bits,
    )[0]
