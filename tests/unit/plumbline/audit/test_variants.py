"""Variants of one request: which federations lists of settings ask for, and which they don't."""

import pytest

from plumbline.audit.request import AuditRequest
from plumbline.audit.variants import variants_of

LADDER = {"learner": "linear,network", "backward": "plain,paillier,shared", "learner_options": {"hidden": 8}}


def titles(settings: dict[str, object]) -> list[str]:
    return [one.title for one in variants_of(settings)]


def test_without_a_list_there_is_one_federation() -> None:
    assert variants_of({"learner": "network", "backward": "plain", "epochs": 2}) == ()


def test_each_learner_is_varied_in_what_it_takes() -> None:
    linear, plain, paillier, shared = variants_of({**LADDER, "l2": 0.3, "epochs": 2, "key_bits": 2048})
    assert linear.title == "learner=linear"
    assert plain.title == "learner=network backward=plain"
    assert [one.terms["backward"] for one in (plain, paillier, shared)] == ["plain", "paillier", "shared"]
    # Units are of networks, a penalty is of the linear learner, a key of ciphertexts.
    assert linear.settings == {"learner": "linear", "l2": 0.3, "epochs": 2, "key_bits": 2048}
    network = {"learner": "network", "backward": "plain", "learner_options": {"hidden": 8}, "epochs": 2}
    assert plain.settings == network
    assert shared.settings["key_bits"] == 2048
    assert [one.sets_cipher for one in (linear, plain)] == [False, True]


def test_a_protocol_that_a_learner_sets_itself_is_not_varied_besides() -> None:
    assert titles({"protocol": "hu,shared"}) == ["protocol=hu", "protocol=shared"]
    assert titles({"learner": "linear,network", "protocol": "hu,shared"}) == [
        "learner=linear protocol=hu",
        "learner=linear protocol=shared",
        "learner=network",
    ]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"protocol": "hu,hu"}, "Each protocol once"),
        ({"protocol": "hu,bgw"}, "Unknown protocol 'bgw'. Known: hu, shared"),
        ({"learner": "linear,netwrk"}, "Did you mean 'network'"),
        ({"backward": "plain,shared"}, "backward is a list that linear can't use"),
        ({"learner": "network", "backward": "plain,open"}, "expected backward to be"),
        ({"learner": "network", "protocol": "hu,shared"}, "protocol is a list that network can't use"),
    ],
)
def test_lists_that_ask_for_nothing_are_refused(settings: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        variants_of(settings)


def test_a_request_holds_its_first_variant_and_the_lists_that_ask_for_all() -> None:
    request = AuditRequest.of(data="breast_cancer", settings=LADDER)
    assert request.federation.settings == {"learner": "linear"}
    assert len(request.federation.variants) == 4
    assert request.changed(cipher="plain").federation.variants == request.federation.variants
    with pytest.raises(ValueError, match="--hidden trains one network in the lab"):
        request.changed(hidden=(8,))
