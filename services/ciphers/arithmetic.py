"""What computes a party's messages under Paillier: an engine, or python-paillier for who wants to check it."""

import logging
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Protocol

from services.ciphers.formats import CipherFormats
from services.common.agreement import Agreement
from services.common.settings import Settings
from vfl.cores import Cores, cores_for
from vfl.crypto import Engine, PrivateKey, keygen
from vfl.crypto.kernels import best_kernel, kernel_named
from vfl.crypto.messages import HonestMessages, MessageFormats, Messages
from vfl.crypto.pool import PooledEngine

_log = logging.getLogger(__name__)


class Arithmetic(Protocol):
    """Makes a party's keys and messages. One serves all of its sessions."""

    def new_key(self, bits: int) -> PrivateKey:
        """Generate a key for one session. Whether so few bits are allowed is settled before."""

    def messages(self, formats: MessageFormats, private_key: PrivateKey) -> Messages:
        """Make the messages that Protocol 1 prescribes; raises ValueError under formats that it can't work with."""


@dataclass(frozen=True)
class EngineArithmetic:
    """The fast way.

    Attributes:
        engine: what computes; by default the best kernel there is, on one core.
    """

    engine: Engine = field(default_factory=Engine)

    def __str__(self) -> str:
        return str(self.engine)

    def new_key(self, bits: int) -> PrivateKey:
        """Generate a key of exactly so many bits."""
        return keygen(bits, insecure=True)[1]

    def messages(self, formats: MessageFormats, private_key: PrivateKey) -> Messages:
        """Make messages that the engine computes, from what it made ahead where there was time."""
        return HonestMessages(formats, private_key, PooledEngine.of(self.engine))


class ReferenceArithmetic:
    """python-paillier's objects, keys included: PLUMBLINE_KERNEL=phe. It needs the extra `phe`."""

    def __str__(self) -> str:
        return f"python-paillier {version('phe')}, one value in a ciphertext"

    def new_key(self, bits: int) -> PrivateKey:
        """Generate a key of exactly so many bits with python-paillier."""
        from vfl.crypto.reference_messages import reference_key

        return reference_key(bits, insecure=True)

    def messages(self, formats: MessageFormats, private_key: PrivateKey) -> Messages:
        """Make messages of python-paillier's objects; raises LayoutMismatch for formats with packing."""
        from vfl.crypto.reference_messages import ReferenceMessages

        return ReferenceMessages(formats, private_key)


def messages_by(
    arithmetic: Arithmetic, agreement: Agreement, name: str, private_key: PrivateKey | None = None
) -> Messages:
    """Make a party's messages of a session, under a fresh key pair of the agreed length or under the given one."""
    formats = CipherFormats(agreement).messages_of(name)
    return arithmetic.messages(formats, private_key or arithmetic.new_key(agreement.plan.key_bits))


def arithmetic_of(settings: Settings, processes: Cores) -> Arithmetic:
    """Choose the arithmetic that a party's settings name. The log tells which it is.

    Args:
        settings: the party's, checked.
        processes: the party's cores, for a kernel that holds the interpreter's lock. Another gets as many threads.
    """
    arithmetic = ReferenceArithmetic() if settings.kernel == "phe" else _engine_of(settings, processes)
    _log.info("Arithmetic: %s.", arithmetic)
    return arithmetic


def _engine_of(settings: Settings, processes: Cores) -> EngineArithmetic:
    kernel = best_kernel() if settings.kernel == "auto" else kernel_named(settings.kernel)
    cores = cores_for(processes.count, releases_gil=True) if kernel.releases_gil else processes
    return EngineArithmetic(Engine(kernel, cores))
