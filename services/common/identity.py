"""Who a party is: its role and its name, as its certificate states them."""

from dataclasses import dataclass, field
from enum import StrEnum

# The party name that certificates carry and dialling checks, so that an identity is never tied to an address.
DOMAIN = "plumbline.internal"
_URI_SCHEME = "plumbline"


class Role(StrEnum):
    """The parts that a process can play in a federation."""

    COORDINATOR = "coordinator"
    ACTIVE = "active"
    PASSIVE = "passive"
    OPERATOR = "operator"


@dataclass(frozen=True)
class Identity:
    """A party of the federation: its role, and its name, which is unique."""

    role: Role
    name: str

    @property
    def uri(self) -> str:
        """The subject alternative name that carries this identity, ``plumbline://ROLE/NAME``."""
        return f"{_URI_SCHEME}://{self.role}/{self.name}"

    @property
    def host_name(self) -> str:
        """The host name in its certificate, ``NAME.plumbline.internal``; no address is tied to it."""
        return f"{self.name}.{DOMAIN}"

    @classmethod
    def parse(cls, uri: str) -> "Identity":
        """Read ``plumbline://ROLE/NAME``; raises ValueError for anything else."""
        scheme, separator, rest = uri.partition("://")
        role, slash, name = rest.partition("/")
        if scheme != _URI_SCHEME or not separator or not slash or not name:
            raise ValueError(f"Expected {_URI_SCHEME}://ROLE/NAME, got {uri!r}.")
        return cls(Role(role), name)


@dataclass(frozen=True, eq=False)
class Caller(Identity):
    """Who called: an identity, and which of its processes. Equal to whoever has the same identity.

    Attributes:
        instance: random hexadecimal digits, one value per process; empty from a caller who doesn't say. Nobody checks
            it, so it tells an honest party's processes apart and proves nothing.
    """

    instance: str = field(default="")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity) and (self.role, self.name) == (other.role, other.name)

    def __hash__(self) -> int:
        return hash((self.role, self.name))


def role_of(name: str) -> Role:
    """Find the role behind a party name: ``coordinator``, ``active``, ``operator`` are themselves, the rest passive."""
    return Role(name) if name in (Role.COORDINATOR, Role.ACTIVE, Role.OPERATOR) else Role.PASSIVE
