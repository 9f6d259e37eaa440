"""The toss for the key of records' names: all get the same number, and who shows something else is named."""

from collections.abc import Callable

import pytest

from services.common.errors import FederationError, InvalidMessage, OutOfOrder
from services.party.coin_toss import TOSSED_BYTES, CoinToss

SESSION = "ab" * 16
NAMES = ("active", "passive-1", "passive-2")


def tosses(session: str = SESSION) -> list[CoinToss]:
    return [CoinToss(session, "active", ("passive-2", "passive-1"), name) for name in NAMES]


def committed(parties: list[CoinToss]) -> list[bytes]:
    return [party.commitment for party in parties]


def test_all_get_the_same_number_and_another_in_each_toss() -> None:
    results = set()
    for _ in range(2):
        parties = tosses()
        shown = [party.reveal(committed(parties)) for party in parties]
        for party in parties:
            party.finish(shown)
        (result,) = {party.result for party in parties}
        assert len(result) == TOSSED_BYTES
        assert result not in shown
        results.add(result)
    assert len(results) == 2


def test_a_commitment_tells_nothing_of_the_contribution_and_is_of_one_session_and_party() -> None:
    parties = tosses()
    commitments = committed(parties)
    shown = parties[1].reveal(commitments)
    assert shown not in commitments
    with pytest.raises(InvalidMessage, match="active has committed to something else"):
        parties[0].reveal([commitments[1], *commitments[1:]])


def test_who_shows_something_else_is_named() -> None:
    parties = tosses()
    shown = [party.reveal(committed(parties)) for party in parties]
    for other in (bytes(TOSSED_BYTES), b"", shown[0]):
        with pytest.raises(InvalidMessage, match="passive-2 shows another contribution"):
            parties[0].finish([*shown[:2], other])
    assert not parties[0].result


@pytest.mark.parametrize(
    ("misuse", "error"),
    [
        (lambda own, all_of: own.finish(all_of), OutOfOrder),
        (lambda own, all_of: own.reveal(all_of[:2]), InvalidMessage),
        (lambda own, all_of: (own.reveal(all_of), own.finish(all_of[:2])), InvalidMessage),
        (lambda own, all_of: (own.reveal(all_of), own.reveal([all_of[0], all_of[1], bytes(32)])), OutOfOrder),
    ],
)
def test_what_is_out_of_turn_is_refused(
    misuse: Callable[[CoinToss, list[bytes]], object], error: type[FederationError]
) -> None:
    parties = tosses()
    with pytest.raises(error):
        misuse(parties[1], committed(parties))


def test_the_same_again_gets_the_same() -> None:
    parties = tosses()
    assert parties[2].reveal(committed(parties)) == parties[2].reveal(committed(parties))
