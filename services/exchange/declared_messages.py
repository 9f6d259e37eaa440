"""What a protocol says of each kind of its messages before any is sent: its right to an answer, and what it tells.

A message asks where its receiver is to answer it: with a decryption, or with products of what it holds encrypted. An
answer is taken from nobody else, and not before. What tells nothing is a key, uniform under a mask, or ciphertexts.
"""

from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from types import MappingProxyType
from typing import Literal, TypeVar

from services.common.errors import InvalidMessage


@dataclass(frozen=True)
class Right:
    """Whether a message asks for an answer, is one, or neither.

    Attributes:
        is_asked: whether its receiver may answer it.
        question: the kind that it answers; empty for none.
    """

    is_asked: bool = False
    question: str = ""


NO_RIGHT, ASKS = Right(), Right(is_asked=True)


def answers(question: str) -> Right:
    """Let a message answer one of this kind."""
    return Right(question=question)


@dataclass(frozen=True)
class Tells:
    """What who gets a message reads in it.

    Attributes:
        unit: what a protocol counts it in: bits, or equations, each of which is a number.
        of: whose data it is about: its sender's, or all others' together.
        word: under which its sender counts it, in metrics and its audit log; empty where something else counts it.
    """

    unit: Literal["equations", "bits"]
    of: Literal["sender", "others"] = "sender"
    word: str = ""


@dataclass(frozen=True)
class DeclaredMessage:
    """A kind of message.

    Attributes:
        name: of the kind, among those of its protocol.
        right: whether it asks, or answers.
        tells: what its receiver reads in it; None for nothing.
    """

    name: str
    _: KW_ONLY
    right: Right = NO_RIGHT
    tells: Tells | None = None


M = TypeVar("M", bound=DeclaredMessage)


def declared(messages: Iterable[M]) -> Mapping[str, M]:
    """Give kinds by name.

    Raises:
        InvalidMessage: for two kinds of one name, and for an answer to what none of them asks.
    """
    by_name = dict[str, M]()
    for message in messages:
        if message.name in by_name:
            raise InvalidMessage(f"Two kinds of messages of one name: {message.name}.")
        by_name[message.name] = message
    for message in by_name.values():
        question = by_name.get(message.right.question)
        if message.right.question and (question is None or not question.right.is_asked):
            raise InvalidMessage(f"{message.name} answers {message.right.question}, which no message asks.")
    return MappingProxyType(by_name)
