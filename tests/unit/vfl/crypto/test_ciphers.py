"""Ciphers by name: what both of ours declare, and one that another package brings."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from services.ciphers.cipher import PlainCipher, make_cipher, party_cipher
from services.ciphers.formats import check_vector_sizes
from services.common.agreement import Agreement, PartyDescription, TrainingPlan
from services.common.errors import InvalidMessage, OutOfOrder
from services.common.identity import Role
from services.common.settings import SettingsError, settings_of
from services.party.consent import check_plan, warnings_of
from services.protocols.hu.guard import channels_of
from services.roles import check_role
from tests.harness.documented_plugin import lay_out
from vfl.crypto import ciphers

XOR = '''
from dataclasses import dataclass
from typing import ClassVar
from vfl.crypto.ciphers import CipherSpec


@dataclass(frozen=True)
class Xor:
    """Exclusive or with a pad, for this test."""

    name: ClassVar[str] = "xor"
    spec: ClassVar[CipherSpec] = CipherSpec(is_encrypted=True, counts_equations=False)
    weakness: ClassVar[str] = "a pad that is used twice can be broken"
    residual_limit: ClassVar[float] = 8.0
    residual_step: ClassVar[float] = 2.0**-8
    capacity: ClassVar[int] = 63
    value_bytes: ClassVar[int] = 8
    feature_fraction_bits: int = 16
    pad: int = 7

    def __post_init__(self):
        if self.pad < 1:
            raise ValueError(f"Expected pad to be positive, got {self.pad}.")

    def __str__(self):
        return f"xor with {self.pad}"


@dataclass(frozen=True)
class Half:
    spec: ClassVar[CipherSpec] = Xor.spec


class Bare:
    """Declares nothing."""
'''
PARTIES = (PartyDescription("active", 3, 0, False, 99), PartyDescription("passive", 2, 0, False, 99))


def agreed(plan: TrainingPlan) -> Agreement:
    return Agreement("5e55104e" * 4, replace(plan, batch_size=8), 2, PARTIES)


@pytest.fixture
def xor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    lay_out(
        tmp_path,
        "xor_cipher",
        XOR,
        {ciphers.ENTRY_POINT_GROUP: "xor = xor_cipher:Xor\nbare = xor_cipher:Bare\nhalf = xor_cipher:Half"},
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("xor_cipher", None)


def test_ours_are_listed_and_declare_what_travels() -> None:
    assert ciphers.names() == ("paillier", "plain")
    paillier, plain = ciphers.load("paillier"), ciphers.load("plain")
    assert (paillier.spec.is_encrypted, plain.spec.is_encrypted) == (True, False)
    assert (paillier.spec.counts_equations, plain.spec.counts_equations) == (True, False)
    assert (paillier.residual_limit, paillier.residual_step, paillier.value_bytes) == (128.0, 2.0**-32, 512)
    assert (plain.residual_limit, plain.residual_step, plain.value_bytes) == (float("inf"), 0.0, 8)
    assert (paillier.capacity, ciphers.load("paillier", key_bits=512).capacity) == (2047, 511)
    assert not paillier.weakness
    assert not plain.weakness
    assert ciphers.load("paillier", key_bits=2040).weakness == "2040-bit Paillier keys can be broken"
    assert str(ciphers.load("paillier", packing=False)) == "Paillier, 2048-bit keys, packing off"
    assert str(plain) == "INSECURE: none (cipher=plain)"


def test_a_session_in_the_clear_stands_for_an_encrypted_one_of_the_same_numbers() -> None:
    assert ciphers.option_names("plain") == ciphers.option_names("paillier")
    plan = TrainingPlan(cipher="plain", key_bits=512, packing=False)
    assert plan.encrypted() == replace(plan, cipher="paillier")
    assert plan.encrypted().encrypted() == plan.encrypted()
    assert (plan.is_encrypted, plan.encrypted().is_encrypted) == (False, True)


def test_without_its_package_it_is_unknown_everywhere() -> None:
    with pytest.raises(ciphers.UnknownCipher, match=r"Unknown cipher 'xor'\. Known: paillier, plain\."):
        ciphers.load("xor")
    with pytest.raises(SettingsError, match=r"Unknown cipher 'xor'\. Known: paillier, plain\."):
        settings_of({"cipher": "xor"})
    with pytest.raises(InvalidMessage, match=r"Unknown cipher 'xor'\. Known: paillier, plain\."):
        TrainingPlan(cipher="xor").check()
    message = TrainingPlan().to_message()
    message.cipher, message.cipher_options = "xor", '{"pad": 3}'
    with pytest.raises(InvalidMessage, match=r"Unknown cipher 'xor'\. Known: paillier, plain\."):
        TrainingPlan.from_message(message)


@pytest.mark.usefixtures("xor")
def test_another_packages_cipher_is_found_listed_and_agreed_upon_with_its_options() -> None:
    assert ciphers.names() == ("bare", "half", "paillier", "plain", "xor")
    with pytest.raises(ciphers.UnknownCipher, match=r"Known: bare, half, paillier, plain, xor\."):
        ciphers.load("rot13")
    settings = settings_of({"cipher": "xor", "cipher_options": '{"pad": 3}', "allow_insecure_keys": True})
    plan = TrainingPlan.from_message(settings.plan().to_message())
    assert plan == settings.plan()
    assert str(plan.encryption) == "xor with 3"
    check_plan(plan, settings)
    assert warnings_of(agreed(plan), insecure_transport=False) == [
        "INSECURE: a pad that is used twice can be broken.",
    ]
    assert channels_of(agreed(plan), "active") == ()


@pytest.mark.usefixtures("xor")
def test_settings_of_paillier_beside_it_are_refused_and_only_paillier_packs() -> None:
    chosen = {"cipher": "xor", "allow_insecure_keys": True}
    with pytest.raises(SettingsError, match="key_bits, packing is of cipher=paillier: drop it, and give xor its own"):
        settings_of({**chosen, "packing": True, "key_bits": 3072})
    peers = {"coordinator": "localhost:1", "active": "localhost:2"}
    settings = settings_of({**chosen, "kernel": "phe", "feature_fraction_bits": 12, "data": "t.csv", "peers": peers})
    assert settings.plan().feature_fraction_bits == 12
    check_plan(settings.plan(), settings)
    check_role(settings, Role.PASSIVE)


@pytest.mark.usefixtures("xor")
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ('{"pad": "3"}', "expected pad to be a whole number, got '3'"),
        ('{"pad": 0}', "Expected pad to be positive, got 0."),
        ('{"salt": 1}', "xor can't take salt. Its options: feature_fraction_bits, pad."),
        ('{"feature_fraction_bits": 15}', "Expected feature_fraction_bits to be a multiple of 4"),
    ],
)
def test_its_options_are_checked_against_its_own_type_by_who_reads_them(options: str, words: str) -> None:
    message = TrainingPlan().to_message()
    message.cipher, message.cipher_options = "xor", options
    with pytest.raises(InvalidMessage) as refused:
        TrainingPlan.from_message(message)
    assert words in str(refused.value)


@pytest.mark.usefixtures("xor")
def test_parties_with_other_ciphers_or_other_options_of_one_agree_on_nothing() -> None:
    own = {"cipher": "xor", "allow_insecure_keys": True}
    plan = settings_of(own).plan()
    with pytest.raises(OutOfOrder, match="cipher=xor, this party runs cipher=paillier"):
        check_plan(plan, settings_of({}))
    with pytest.raises(OutOfOrder, match=r"cipher_options=\{'pad': 7\}.*PLUMBLINE_CIPHER_OPTIONS alike"):
        check_plan(plan, settings_of({**own, "cipher_options": '{"pad": 3}'}))
    with pytest.raises(SettingsError, match="a pad that is used twice can be broken"):
        settings_of({"cipher": "xor"})


@pytest.mark.usefixtures("xor")
def test_a_protocol_refuses_a_cipher_that_has_no_messages_in_it_and_takes_one_that_has() -> None:
    agreement = agreed(TrainingPlan(cipher="xor"))
    with pytest.raises(InvalidMessage, match="Protocol 1 has no messages under cipher=xor: choose another"):
        make_cipher(agreement, "active")
    party_cipher.register(type(agreement.plan.encryption), lambda _, terms, name, _arithmetic: PlainCipher(terms, name))
    assert isinstance(make_cipher(agreement, "active"), PlainCipher)


@pytest.mark.usefixtures("xor")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("bare", "bare is no cipher: make it a frozen dataclass with a spec"),
        (
            "half",
            "half lacks name, weakness, residual_limit, residual_step, capacity, value_bytes, which",
        ),
    ],
)
def test_what_lacks_a_part_is_no_cipher(name: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ciphers.load(name)
    with pytest.raises(SettingsError, match=words):
        settings_of({"cipher": name})


def test_a_value_in_the_clear_takes_eight_bytes_of_a_message() -> None:
    """A step of so many rows and classes fits in the clear and not as ciphertexts."""
    agreement = replace(agreed(TrainingPlan(packing=False)), classes=50)
    large = replace(agreement, plan=replace(agreement.plan, batch_size=1 << 14))
    check_vector_sizes(replace(large, plan=replace(large.plan, cipher="plain")))
    with pytest.raises(InvalidMessage, match="MiB"):
        check_vector_sizes(large)
