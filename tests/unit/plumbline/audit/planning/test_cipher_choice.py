"""Which cipher an audit trains with: as asked, or Paillier where nobody waits longer than three minutes for it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.audit.planning.cipher_choice import PATIENCE_SECONDS, asked_cipher, chosen_cipher


@given(encrypted=st.floats(0, 1e6), plain=st.floats(0, 1e3))
def test_paillier_is_chosen_below_three_minutes_and_only_there(encrypted: float, plain: float) -> None:
    choice = chosen_cipher(encrypted, plain)
    assert (choice.cipher == "paillier") == (encrypted < PATIENCE_SECONDS)
    assert choice.why.startswith("INSECURE") == (choice.cipher == "plain")
    assert not choice.is_asked


def test_in_the_clear_it_says_why_what_stays_the_same_and_what_encryption_would_take() -> None:
    why = chosen_cipher(2_400.0, 24.2).why
    assert why == (
        "INSECURE: it trains in the clear, over the same services and messages, in about 25 s. Scores and gradients "
        "are those of encrypted training to 1e-6. --cipher paillier would train for about 40 min."
    )
    assert chosen_cipher(25.0, 3.0).why == "training takes about 25 s under it."


@pytest.mark.parametrize(
    ("cipher", "given_settings", "expected"),
    [
        ("plain", {"cipher", "epochs"}, "plain"),
        ("paillier", {"cipher"}, "paillier"),
        ("paillier", {"key_bits", "allow_insecure_keys"}, "paillier"),
        ("paillier", {"packing"}, "paillier"),
        ("paillier", {"rerandomise", "epochs"}, "paillier"),
        ("paillier", {"epochs"}, None),
        ("paillier", set(), None),
    ],
)
def test_what_was_given_counts_and_what_is_of_ciphertexts_asks_for_them(
    cipher: str, given_settings: set[str], expected: str | None
) -> None:
    choice = asked_cipher(cipher, given_settings)
    assert (choice.cipher if choice else None) == expected
    if choice is not None:
        assert choice.is_asked
        assert ("INSECURE" in choice.why) == (expected == "plain")
