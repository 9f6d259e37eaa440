"""Errors that a party may tell another. ``statuses`` has their place on the wire."""


class FederationError(Exception):
    """Base of everything that a party may tell another: the text must carry no secret."""


class InvalidMessage(FederationError):
    """The content of a message is wrong, whatever the moment: fix it and send it again."""


class OutOfOrder(FederationError):
    """The message may be right, but not now or not in this session."""


class NotIdentified(FederationError):
    """The caller shows no identity of this federation."""


class NotAllowed(FederationError):
    """The caller is known and has no right to this."""


class UnknownRecord(FederationError):
    """A record that is not among the aligned ones."""


class Diverged(FederationError):
    """Numbers have left the agreed fixed-point range; the session's terms don't fit its data."""


class PeerVanished(FederationError):
    """Another party did not answer within the deadline."""


class PeerRefused(FederationError):
    """Another party answered with a refusal, in its own words.

    Attributes:
        party: who refused.
        words: why, as that party said it.
        kind: the error that it is at that party; FederationError where this release knows none.
    """

    def __init__(self, party: str, words: str, kind: type[FederationError] = FederationError) -> None:
        super().__init__(f"{party}: {words}")
        self.party = party
        self.words = words
        self.kind = kind


def described(error: BaseException) -> str:
    """An error in words that its own party may read: one sentence where it was expected, else its class as well."""
    return str(error) if is_expected(error) else f"{type(error).__name__}: {error}"


def is_expected(error: BaseException) -> bool:
    """Whether the error's text was made for a person: then no traceback is needed to understand it."""
    return isinstance(error, FederationError | ValueError)
