"""Which attacks of an audit get a session of their own, and what is then mounted in each of the two."""

from typing import Any

import pytest

from plumbline.audit.malicious_attacks import malicious_attacks, mounting
from plumbline.audit.request import AuditRequest
from services.common.settings import Settings


def parties(*attacks: str, **asked: Any) -> dict[str, Settings]:
    """Settings of every process of an audit of wine that mounts these."""
    request = AuditRequest.of(**{"data": "wine", "cipher": "paillier", "attacks": attacks, **asked})
    return dict(request.recipe(request.tables.party_settings).checked().parties)


@pytest.mark.parametrize(
    ("attacks", "asked", "expected"),
    [
        (("half_star", "own_part", "auxiliary_ciphertext"), {}, ("auxiliary_ciphertext",)),
        (("half_star", "own_part"), {}, ()),
        # It changes nothing of a session that it can't be on.
        (("auxiliary_ciphertext",), {"cipher": "plain"}, ()),
        (("auxiliary_ciphertext",), {"settings": {"protocol": "shared"}}, ()),
        (("opening_code",), {}, ()),
        (("opening_code", "own_part"), {"settings": {"protocol": "shared"}}, ("opening_code",)),
        (("auxiliary_ciphertext",), {"settings": {"learner": "network"}}, ()),
        (
            ("chosen_share", "gradient_direction"),
            {"settings": {"learner": "network", "backward": "shared"}},
            ("chosen_share",),
        ),
        (
            ("replacement_backdoor",),
            {"settings": {"learner": "network", "backward": "paillier"}},
            ("replacement_backdoor",),
        ),
    ],
)
def test_who_sends_something_else_needs_a_session_of_its_own(
    attacks: tuple[str, ...], asked: dict[str, Any], expected: tuple[str, ...]
) -> None:
    assert malicious_attacks(parties(*attacks, **asked)) == expected


def test_two_that_replace_the_same_messages_are_refused_before_anything_is_trained() -> None:
    with pytest.raises(ValueError, match="auxiliary_ciphertext and randomiser_channel both replace messages"):
        malicious_attacks(parties("auxiliary_ciphertext", "randomiser_channel", settings={"packing": False}))


def test_two_parties_that_ask_otherwise_need_a_session_each() -> None:
    trees = {"data": "breast_cancer", "settings": {"learner": "boosted_trees"}}
    assert malicious_attacks(parties("chosen_sums", "leaf_labels", **trees)) == ("chosen_sums",)
    with pytest.raises(ValueError, match="chosen_gradients and chosen_sums need a session each: name one of them"):
        malicious_attacks(parties("chosen_gradients", "chosen_sums", **trees))


def test_each_attack_is_mounted_in_one_of_the_two_sessions_with_its_options() -> None:
    options = {"auxiliary_ciphertext": {"iota": 76}, "posterior": [{"prior": "mean"}, {"prior": "covariance"}]}
    whole = parties("posterior", "own_part", "auxiliary_ciphertext", settings={"attack_options": options})
    names = frozenset(malicious_attacks(whole))
    honest, malicious = (mounting(whole, names, only=only) for only in (False, True))
    assert [one.attacks for one in malicious.values()] == [(), ("auxiliary_ciphertext",), ("auxiliary_ciphertext",)]
    assert [one.attacks for one in honest.values()] == [(), ("posterior",), ("own_part",)]
    assert malicious["active"].attack_options == {"auxiliary_ciphertext": {"iota": 76}}
    assert honest["active"].attack_options == {"posterior": options["posterior"]}
    # All else is as it was.
    for name, settings in whole.items():
        for one in (honest[name], malicious[name]):
            assert {**one.given(), "attacks": (), "attack_options": {}} == {
                **settings.given(),
                "attacks": (),
                "attack_options": {},
            }
