"""Kinds of messages are refused as they are declared: of one name, or an answer to what nobody asks."""

import pytest

from services.common.errors import InvalidMessage
from services.exchange.declared_messages import ASKS, DeclaredMessage, Right, answers, declared


def test_kinds_are_given_by_name_and_stay_as_they_were_declared() -> None:
    ask, chained = DeclaredMessage("a", right=ASKS), DeclaredMessage("b", right=Right(is_asked=True, question="a"))
    kinds = declared([DeclaredMessage("c", right=answers("b")), ask, chained])
    assert (list(kinds), kinds["a"], kinds["b"]) == (["c", "a", "b"], ask, chained)
    with pytest.raises(TypeError):
        kinds["d"] = ask  # type: ignore[index]


@pytest.mark.parametrize(
    ("kinds", "words"),
    [
        ([DeclaredMessage("a"), DeclaredMessage("b"), DeclaredMessage("a", right=ASKS)], "of one name: a"),
        ([DeclaredMessage("a", right=answers("b"))], "a answers b, which no message asks"),
        ([DeclaredMessage("a", right=answers("b")), DeclaredMessage("b")], "a answers b, which no message asks"),
        ([DeclaredMessage("a", right=answers("a"))], "a answers a, which no message asks"),
    ],
)
def test_two_of_a_name_and_answers_to_nothing_are_refused(kinds: list[DeclaredMessage], words: str) -> None:
    with pytest.raises(InvalidMessage, match=words):
        declared(kinds)
