"""Settings that contradict each other, plans that cannot work, data that a party cannot use: a sentence each."""

import json
import re
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protos.v1 import common_pb2
from services.ciphers.cipher import make_cipher
from services.ciphers.default_plan import with_open_terms
from services.common.agreement import Agreement, PartyDescription, ProposedTerms, TrainingPlan
from services.common.earlier_plans import plan_content
from services.common.errors import InvalidMessage, OutOfOrder
from services.common.settings import SettingsError, load_settings, settings_of
from services.party.consent import check_as_opened, check_consent, check_plan, warnings_of
from services.party.features import load_party_data
from tests.harness.parties import party_data, values_of

# -- settings ---------------------------------------------------------------------------------------------------------


def test_the_defaults_are_a_plan_that_works_and_is_fully_encrypted() -> None:
    settings = load_settings()
    assert settings.plan() == TrainingPlan(epochs=0).changed(steps="own_moments", calibrated=True)
    assert (settings.cipher, settings.key_bits, settings.transport) == ("paillier", 2048, "mtls")


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLUMBLINE_BATCH_SIZE", "17")
    monkeypatch.setenv("PLUMBLINE_PEERS", "coordinator=a:1, b-bank=b:2,active=c:3")
    settings = load_settings()
    assert settings.batch_size == 17
    assert settings.peers == {"coordinator": "a:1", "b-bank": "b:2", "active": "c:3"}
    assert settings.passive_peers() == ("b-bank",)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("PLUMBLINE_BATCHSIZE", "Did you mean PLUMBLINE_BATCH_SIZE?"),
        ("PLUMBLINE_KEYBITS", "Did you mean PLUMBLINE_KEY_BITS?"),
        # Once: the common prefix alone makes everything "close"; the hint is PLUMBLINE_L2.
        ("PLUMBLINE_XYZZY", "plumbline serve --help"),
    ],
)
def test_an_unknown_variable_is_refused_with_the_close_match(
    monkeypatch: pytest.MonkeyPatch, name: str, hint: str
) -> None:
    monkeypatch.setenv(name, "1")
    with pytest.raises(SettingsError) as error:
        load_settings()
    assert f"Unknown setting {name}." in str(error.value)
    assert hint in str(error.value)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"PEERS": "coordinator"}, "expected NAME=HOST:PORT, got 'coordinator'"),
        ({"PEERS": "coordinator=host"}, "expected NAME=HOST:PORT"),
        ({"SHARE": "3/2"}, "expected K/N"),
        ({"SHARE": "0/2"}, "expected K/N"),
        ({"BATCH_SIZE": "many"}, "PLUMBLINE_BATCH_SIZE: "),
        ({"BATCH_SIZE": "-1"}, "PLUMBLINE_BATCH_SIZE: "),
        # Once: gRPC listened on 80000 - 65536, and blamed the certificates for an address without a host.
        ({"LISTEN": "127.0.0.1:80000"}, "PLUMBLINE_LISTEN: expected HOST:PORT, .*got '127.0.0.1:80000'"),
        ({"LISTEN": "50072"}, "PLUMBLINE_LISTEN: expected HOST:PORT, .*got '50072'"),
        ({"PEERS": "active=127.0.0.1:abc"}, "PLUMBLINE_PEERS: expected NAME=HOST:PORT, got 'active=127.0.0.1:abc'"),
        ({"PEERS": "active=127.0.0.1:99999"}, "PLUMBLINE_PEERS: expected NAME=HOST:PORT"),
        ({"LEARNING_RATE": "inf"}, "PLUMBLINE_LEARNING_RATE: expected a positive number up to 1e.09, got inf"),
        ({"LEARNING_RATE": "nan"}, "PLUMBLINE_LEARNING_RATE: expected a positive number up to 1e.09, got nan"),
        ({"CIPHER": "none"}, "Unknown cipher 'none'. Known: paillier, plain"),
        ({"CIPHER_OPTIONS": '{"key_bits": 2048}'}, "cipher_options names key_bits, which is a setting of its own"),
        ({"CIPHER_OPTIONS": '{"x": 1}'}, "paillier can't take x"),
        ({"KEY_BITS": "1024"}, "can be broken: use 2048 or more, or say allow_insecure_keys=true"),
        ({"KEY_BITS": "1024", "ALLOW_INSECURE_KEYS": "false"}, "can be broken"),
        ({"CIPHER": "plain", "KEY_BITS": "2048"}, "cipher=plain uses no keys and contradicts key_bits"),
        ({"TRANSPORT": "insecure", "CERTS": "certs"}, "transport=insecure contradicts certs"),
        ({"PATIENCE": "2", "VALIDATION_FRACTION": "0"}, "patience needs validation rows"),
        ({"VALIDATION_FRACTION": "0.5", "TEST_FRACTION": "0.5"}, "must leave rows to train on"),
        ({"FEATURE_FRACTION_BITS": "15"}, "a multiple of 4 from 4 to 32"),
        ({"PRIVATE_SEED": "-1"}, "PLUMBLINE_PRIVATE_SEED: "),
        ({"SEED": str(2**64)}, "PLUMBLINE_SEED: expected from 0 to 2.64 - 1, got"),
        # Once: keygen takes multiples of 8 only, fixed point 52 bits in all; both fail in the session.
        ({"KEY_BITS": "2050"}, "PLUMBLINE_KEY_BITS: expected a multiple of 8 from 256 to 4096, got 2050"),
        ({"RESIDUAL_FRACTION_BITS": "48", "RESIDUAL_INTEGER_BITS": "7"}, "residual"),
    ],
    ids=lambda value: ",".join(f"{k}={v}" for k, v in value.items()) if isinstance(value, dict) else "",
)
def test_wrong_and_contradictory_settings_stop_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], words: str
) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(f"PLUMBLINE_{name}", value)
    with pytest.raises(SettingsError, match=words) as error:
        load_settings()
    assert "\n" not in str(error.value)
    assert str(error.value).endswith(".")


# -- plans and agreements ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"epochs": 10_001},
        {"learner_options": {"learning_rate": 0.0}},
        {"learner_options": {"learning_rate": -1.0}},
        {"learner_options": {"learning_rate": float("nan")}},
        {"learner_options": {"learning_rate": "fast"}},
        {"learner_options": {"l2": -0.1}},
        {"learner_options": {"l2": float("inf")}},
        {"learner_options": {"initialisation": "he"}},
        {"learner_options": {"l3": 0.1}},
        {"learner": "trees"},
        {"protocol": "bgw"},
        {"validation_fraction": -0.1},
        {"test_fraction": 1.0},
        {"test_fraction": float("nan")},
        {"key_bits": 128},
        {"key_bits": 257},
        {"key_bits": 260},
        {"feature_fraction_bits": 0},
        {"feature_fraction_bits": 36},
        {"residual_fraction_bits": 4},
        {"residual_fraction_bits": 33},
        {"residual_integer_bits": 0},
        {"residual_integer_bits": 15},
        {"residual_fraction_bits": 40, "residual_integer_bits": 13},
    ],
    ids=str,
)
def test_a_plan_that_cannot_work_is_refused_by_name_on_arrival(changes: dict[str, Any]) -> None:
    (named,) = list(changes.get("learner_options", changes))[:1]
    with pytest.raises(InvalidMessage, match=f"{named.split('_')[0]}|options of linear are no JSON"):
        TrainingPlan.from_message(replace(TrainingPlan(), **changes).to_message())


@pytest.mark.parametrize("plugin", ["cipher", "learner"])
def test_a_plan_of_an_older_version_is_refused_in_words(plugin: str) -> None:
    """It named a cipher by a number, and its options beside it; no learner."""
    message = TrainingPlan().to_message()
    message.ClearField(plugin)  # type: ignore[arg-type]
    message.ClearField(f"{plugin}_options")  # type: ignore[arg-type]
    older = common_pb2.TrainingPlan.FromString(message.SerializeToString() + bytes([10 << 3, 1, 11 << 3, 1]))
    words = f"names no {plugin}: whoever proposes it runs an older version of Plumbline"
    with pytest.raises(InvalidMessage, match=words):
        TrainingPlan.from_message(older)


def test_a_plan_from_before_protocols_were_named_is_refused() -> None:
    message = TrainingPlan().to_message()
    message.ClearField("protocol")
    with pytest.raises(InvalidMessage, match="names no protocol: whoever proposes it runs an older version"):
        TrainingPlan.from_message(message)


def test_a_plan_from_before_batches_were_named_reshuffled_them() -> None:
    message = TrainingPlan().to_message()
    message.ClearField("batches")
    with pytest.raises(InvalidMessage, match="names no batches: whoever proposes it runs an older version"):
        TrainingPlan.from_message(message)
    stored = asdict(TrainingPlan())
    assert stored.pop("batches") == "fixed"
    assert plan_content(stored, TrainingPlan.__dataclass_fields__)["batches"] == "reshuffled"
    with pytest.raises(SettingsError, match="one of reshuffled, fixed"):
        load_settings(batches="shuffled")
    assert load_settings(batches="reshuffled").plan().batches == "reshuffled"


def test_an_unknown_learner_is_refused_with_the_known_ones() -> None:
    for refused in (
        lambda: TrainingPlan.from_message(replace(TrainingPlan(), learner="linea").to_message()),
        lambda: load_settings(learner="linea"),
    ):
        with pytest.raises(
            (InvalidMessage, SettingsError),
            match=r"Unknown learner 'linea'\. Known: boosted_trees, linear, network\. Did you mean 'linear'\?",
        ):
            refused()
    with pytest.raises(SettingsError, match=r"Unknown protocol 'bgw'\. Known: hu, shared, trees"):
        load_settings(protocol="bgw")


@pytest.mark.parametrize("text", ["", "[]", "{", '{"l2": NaN}', '{"l2": "' + "x" * 4_096 + '"}', "[" * 4_000])
def test_options_that_no_party_announces_are_refused_on_arrival(text: str) -> None:
    message = TrainingPlan().to_message()
    message.learner_options = text
    with pytest.raises(InvalidMessage, match="options of linear"):
        TrainingPlan.from_message(message)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"learner": "installed"}, "set PLUMBLINE_MODEL"),
        ({"learner_options": {"l2": 0.1}, "l2": 0.2}, "l2 is said twice"),
        ({"learner_options": '{"l3": 0.1}'}, "linear can't take l3"),
        ({"learner_options": "l2=1"}, "PLUMBLINE_LEARNER_OPTIONS: .*JSON"),
        ({"steps": "own_moments", "learning_rate": 2.0}, "learning_rate up to 0.5.*choose 0.5, or steps=plain"),
        ({"steps": "own_moments", "l2": 0.1, "protocol": "shared"}, "trains under protocol=hu with these options"),
    ],
)
def test_settings_of_a_learner_that_contradict_each_other_stop_the_start(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        load_settings(**settings)


def test_a_learners_options_come_from_their_own_settings_or_together() -> None:
    apart, together = load_settings(l2=0.1, epochs=2), load_settings(learner_options={"l2": 0.1}, epochs=2)
    assert (
        apart.plan()
        == together.plan()
        == TrainingPlan(epochs=2, learner_options={"l2": 0.1, "steps": "own_moments", "calibrated": True})
    )
    drawn = {"initialisation": "xavier", "l2": 0.1, "learning_rate": 0.5}
    assert apart.plan().learner_options == {**drawn, "steps": "own_moments", "calibrated": True}
    assert load_settings(model="part.npz").plan().learner == "installed"


def test_steps_by_own_moments_are_a_setting_an_option_and_a_term_of_the_plan() -> None:
    apart, together = load_settings(steps="plain"), load_settings(learner_options={"steps": "plain"})
    assert apart.plan() == together.plan() == TrainingPlan(epochs=0).changed(calibrated=True)
    assert TrainingPlan.from_message(load_settings().plan().to_message()).terms["steps"] == "own_moments"


@pytest.mark.parametrize(
    ("cipher", "options", "words"),
    [
        ("paillie", "{}", "Unknown cipher 'paillie'. Known: paillier, plain. Did you mean 'paillier'?"),
        ("x" * 3_000_000, "{}", "letters"),
        ("paillier", '{"scale": 3}', "paillier can't take scale. Its options: packing, key_bits"),
        ("paillier", '{"key_bits": "2048"}', "expected key_bits to be a whole number, got '2048'"),
        ("paillier", '{"key_bits": 2048.0}', "expected key_bits to be a whole number"),
        ("paillier", '{"packing": "yes"}', "expected packing to be true or false"),
        ("paillier", '{"key_bits": 128}', "Expected key_bits to be a multiple of 8 from 256 to 4096, got 128"),
        ("plain", '{"residual_fraction_bits": 48}', "must be at most 52"),
        ("paillier", "[]", "The options of paillier are no JSON object"),
        ("paillier", "{", "no JSON that can be read"),
        ("paillier", '{"key_bits": NaN}', "no JSON that can be read"),
        ("paillier", json.dumps({"packing": "x" * 4_096}), "bytes of the options of paillier"),
    ],
)
def test_a_cipher_and_its_options_are_refused_by_name_on_arrival(cipher: str, options: str, words: str) -> None:
    message = TrainingPlan().to_message()
    message.cipher, message.cipher_options = cipher, options
    with pytest.raises(InvalidMessage) as refused:
        TrainingPlan.from_message(message)
    assert words in str(refused.value)
    assert len(str(refused.value)) < 800


@given(
    fraction=st.sampled_from(range(8, 49, 4)),
    integer=st.integers(1, 14),
    key_bits=st.sampled_from([256, 264, 512]),
    features=st.sampled_from(range(4, 33, 4)),
    packing=st.booleans(),
)
def test_every_plan_that_passes_its_check_makes_a_cipher_or_a_refusal_in_words(
    fraction: int, integer: int, key_bits: int, features: int, packing: bool
) -> None:
    # Once: a fixed-point format of more than 52 bits, or a row that no plaintext holds, raises a bare ValueError.
    plan = TrainingPlan(
        batch_size=8,
        residual_fraction_bits=fraction,
        residual_integer_bits=integer,
        key_bits=key_bits,
        feature_fraction_bits=features,
        packing=packing,
    )
    parties = (PartyDescription("active", 3, 0, False, 99), PartyDescription("passive", 2, 1, True, 99))
    with suppress(InvalidMessage):
        plan.check()
        assert make_cipher(Agreement("5e55104e" * 4, plan, 3, parties), "active").public_key.key_id


def test_plans_and_agreements_survive_the_wire() -> None:
    plan = TrainingPlan(epochs=3, batch_size=9, patience=2, seed=2**64 - 1, packing=False, learner_options={"l2": 0.25})
    parties = (PartyDescription("active", 3, 2, True, 99), PartyDescription("passive", 2, 0, False, 99))
    agreement = Agreement("0123456789abcdef" * 2, plan, 3, parties)
    assert Agreement.from_message(agreement.to_message()) == agreement
    proposed = replace(plan, batch_size=0)
    assert TrainingPlan.from_message(proposed.to_message()) == proposed
    with pytest.raises(InvalidMessage, match="leaves epochs or batch size open"):
        Agreement.from_message(replace(agreement, plan=proposed).to_message())
    bits = {name for name in asdict(plan) if name.endswith("fraction_bits") or name.endswith("integer_bits")}
    options = {"packing", "key_bits", "rerandomise", *bits}
    assert set(asdict(plan)) - options == set(common_pb2.TrainingPlan.DESCRIPTOR.fields_by_name)
    assert set(json.loads(plan.to_message().cipher_options)) == options


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"feature_count": 0}, "joins with no feature"), ({"feature_integer_bits": 21}, "Scale them first")],
)
def test_a_description_that_cannot_work_is_refused_on_arrival(changes: dict[str, Any], words: str) -> None:
    party = replace(PartyDescription("passive", 3, 0, False, 10), **changes)
    with pytest.raises(InvalidMessage, match=words):
        PartyDescription.from_message(party.to_message())


# -- consent ----------------------------------------------------------------------------------------------------------


def _agreement(**plan: Any) -> Agreement:
    return Agreement(
        "5e55104e" * 4, TrainingPlan(batch_size=4).changed(**plan), 2, (PartyDescription("active", 1, 0, False, 9),)
    )


@pytest.mark.parametrize(
    ("plan", "settings"),
    [
        ({"cipher": "plain"}, {}),
        ({"cipher": "paillier"}, {"cipher": "plain"}),
        ({"key_bits": 1024}, {}),
        ({"key_bits": 2048}, {"key_bits": 3072}),
        ({"key_bits": 256}, {"key_bits": 1024, "allow_insecure_keys": True}),
        ({"packing": False}, {}),
        ({"packing": True}, {"packing": False}),
        ({"packing": True}, {"packing": False, "kernel": "phe"}),
    ],
    ids=str,
)
def test_terms_other_or_weaker_than_ones_own_settings_are_refused(
    plan: dict[str, Any], settings: dict[str, Any]
) -> None:
    agreement = _agreement(**plan)
    with pytest.raises(OutOfOrder, match="this party"):
        check_consent(agreement, load_settings(**settings), agreement.active)


@pytest.mark.parametrize(
    ("plan", "settings"),
    [
        ({}, {}),
        ({"key_bits": 3072}, {}),
        ({"cipher": "plain"}, {"cipher": "plain"}),
        ({"key_bits": 512}, {"key_bits": 512, "allow_insecure_keys": True}),
    ],
    ids=str,
)
def test_terms_as_strong_as_ones_own_settings_are_accepted(plan: dict[str, Any], settings: dict[str, Any]) -> None:
    agreement = _agreement(**plan)
    check_consent(agreement, load_settings(**settings), agreement.active)


@pytest.mark.parametrize(
    ("allow", "plan", "is_joined"),
    [
        ("", {"learner": "network"}, True),
        ("linear,hu", {}, True),
        ("hu,network,linear", {"learner": "network"}, True),
        ("network,hu", {}, False),
        ("linear,hu", {"learner": "network"}, False),
    ],
)
def test_an_owner_says_which_learners_and_protocols_are_joined(
    allow: str, plan: dict[str, Any], is_joined: bool
) -> None:
    settings, proposed = settings_of({"allow": allow}), TrainingPlan().changed(**plan)
    if is_joined:
        check_plan(proposed, settings)
        return
    words = rf"learner={proposed.learner} under protocol=hu.*allows {allow.replace(',', ', ')}.*PLUMBLINE_ALLOW"
    with pytest.raises(OutOfOrder, match=words):
        check_plan(proposed, settings)


def test_a_protocol_that_the_owner_leaves_out_is_not_joined() -> None:
    settings = settings_of({"allow": "linear,hu"})
    with pytest.raises(OutOfOrder, match=r"learner=linear under protocol=shared.*PLUMBLINE_ALLOW"):
        check_plan(TrainingPlan(protocol="shared"), settings)


@pytest.mark.parametrize(
    ("allow", "words"),
    [
        ("linear,hu,lineer", r"linear, .*hu, shared, trees; got 'lineer'\. Did you mean 'linear'"),
        ("linear", "names no protocol, so no session could be joined: add some of hu, shared, trees"),
        ("hu", "names no learner"),
        ("linear,shared", "leaves out protocol=hu, which this party runs"),
    ],
)
def test_what_allows_nothing_or_nobody_knows_stops_the_service_at_its_start(allow: str, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        settings_of({"allow": allow})


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"cipher": "plain"}, "INSECURE: cipher=plain"),
        ({"rerandomise": False}, "INSECURE: rerandomise=off"),
        ({"learner": "network", "backward": "plain"}, "INSECURE: cipher=plain"),
        ({"learner": "network", "backward": "paillier"}, "learner=network under protocol=hu.*Choose backward=shared"),
    ],
    ids=str,
)
def test_what_isnt_recommended_is_warned_of_and_refused_by_a_guard_that_refuses(
    settings: dict[str, Any], words: str
) -> None:
    plan = settings_of(settings).plan()
    warnings = warnings_of(replace(_agreement(), plan=plan), insecure_transport=False)
    assert [warning for warning in warnings if re.match(words, warning)]
    for guard in ("warn", "off"):
        check_plan(plan, settings_of({**settings, "guard": guard}))
    with pytest.raises(OutOfOrder, match=rf"{words}.*PLUMBLINE_GUARD=refuse"):
        check_plan(plan, settings_of({**settings, "guard": "refuse"}))


@pytest.mark.parametrize("settings", [{}, {"learner": "network", "backward": "shared"}], ids=str)
def test_what_is_recommended_is_joined_by_a_guard_that_refuses(settings: dict[str, Any]) -> None:
    strict = settings_of({**settings, "guard": "refuse"})
    check_plan(strict.plan(), strict)
    assert warnings_of(replace(_agreement(), plan=strict.plan()), insecure_transport=False) == []


def test_what_protects_nothing_is_said_in_plain_words() -> None:
    assert warnings_of(_agreement(), insecure_transport=False) == []
    for agreement, insecure, words in (
        (_agreement(), True, "transport=insecure"),
        (_agreement(cipher="plain"), False, "cipher=plain"),
        (_agreement(key_bits=512), False, "512-bit Paillier keys can be broken"),
        (_cutting(_agreement(), False), False, "truncate_answers=false at active"),
    ):
        (warning,) = warnings_of(agreement, insecure_transport=insecure)
        assert warning.startswith("INSECURE: ")
        assert words in warning


def _cutting(agreement: Agreement, truncates: bool) -> Agreement:
    return replace(agreement, parties=tuple(replace(one, truncates_answers=truncates) for one in agreement.parties))


def test_without_answers_there_is_nothing_to_cut_and_nothing_to_warn_of() -> None:
    (plain,) = warnings_of(_cutting(_agreement(cipher="plain"), False), insecure_transport=False)
    assert "truncate_answers" not in plain
    assert warnings_of(_cutting(_agreement(learner="installed"), False), insecure_transport=False) == []


def test_early_stopping_on_defended_scores_is_warned_of() -> None:
    stopping = _agreement(patience=3)
    assert warnings_of(stopping, insecure_transport=False) == []
    (warning,) = warnings_of(replace(stopping, score_defences=("score_noise",)), insecure_transport=False)
    assert "score_noise leaves them" in warning
    assert "set patience to 0" in warning


def test_an_agreement_that_describes_a_party_otherwise_than_it_did_itself_is_refused() -> None:
    agreement = _agreement()
    # Of its widths too: from other ones it would read its own sums at other places.
    for said in (replace(agreement.active, truncates_answers=False), replace(agreement.active, binary_features=1)):
        with pytest.raises(OutOfOrder, match="describes active otherwise"):
            check_consent(agreement, load_settings(), said)


def test_an_agreement_that_gives_another_party_more_rows_is_refused_since_the_guard_counts_them() -> None:
    agreement = _agreement()
    inflated = replace(agreement, parties=(*agreement.parties, PartyDescription("passive", 1, 0, False, 9000)))
    with pytest.raises(OutOfOrder, match="another number of aligned records than active"):
        check_consent(inflated, load_settings(), agreement.active)


def test_terms_that_the_session_wasnt_opened_with_are_refused() -> None:
    opened = ProposedTerms("s", "active", ("passive",), TrainingPlan(), 2)
    rows = tuple(PartyDescription(name, 15, 0, False, 547) for name in ("active", "passive"))
    agreement = with_open_terms(Agreement("5e55104e" * 4, opened.plan, 2, rows))
    assert agreement.plan.batch_size == 128
    check_as_opened(agreement, opened)
    for changed in ({"batch_size": 64}, {"learning_rate": 1e-9}, {"epochs": 4000}):
        with pytest.raises(OutOfOrder, match=f"states {next(iter(changed))}=.* was opened with comes to"):
            check_as_opened(replace(agreement, plan=agreement.plan.changed(**changed)), opened)
    # A batch size that was given stays as it was given.
    given = replace(opened, plan=replace(opened.plan, batch_size=64))
    check_as_opened(replace(agreement, plan=given.plan), given)
    with pytest.raises(OutOfOrder, match="states batch_size=128"):
        check_as_opened(agreement, given)


@pytest.mark.parametrize(
    ("variable", "text", "value"),
    [
        ("COLUMNS", "age, income,c*", ("age", "income", "c*")),
        ("DROP", '["last, first", "x"]', ("last, first", "x")),
        ("ENCODE", "zip=onehot,a=b=date", {"zip": "onehot", "a=b": "date"}),
        ("ENCODE", '{"last, first": "drop"}', {"last, first": "drop"}),
    ],
)
def test_columns_are_named_in_a_list_or_in_json(
    monkeypatch: pytest.MonkeyPatch, variable: str, text: str, value: object
) -> None:
    monkeypatch.setenv(f"PLUMBLINE_{variable}", text)
    assert getattr(load_settings(), variable.lower()) == value


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {"encode": "zip=onehott"},
            r"^PLUMBLINE_ENCODE: column 'zip' can become one of number, date, onehot, ordinal, drop, bins2, bins4, "
            r"bins10, round4, round10; got 'onehott'. Did you mean 'onehot'\?$",
        ),
        ({"encode": "onehot"}, "^PLUMBLINE_ENCODE: expected COLUMN=ENCODING, such as zip=onehot, got 'onehot'.$"),
        ({"encode": '{"zip"}'}, r"^PLUMBLINE_ENCODE: expected a JSON object such as \{.*got '\{\"zip\"\}'.$"),
        ({"drop": '["a'}, r"^PLUMBLINE_DROP: expected a JSON list such as \[.*got '\[\"a'.$"),
    ],
    ids=str,
)
def test_what_columns_cant_become_is_told_in_one_sentence(settings: dict[str, str], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        load_settings(**settings)


# -- a party's data ---------------------------------------------------------------------------------------------------

GOOD = pd.DataFrame({"id": ["a", "b", "c"], "x": [1.0, 2.0, 4.0], "y": [0, 1, 0]})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"y": [0, None, 1]}, "'y' is empty in row 2"),
        ({"id": ["secret", "b", "secret"]}, "id of an earlier row"),
        ({"id": ["a", "", "c"]}, "without an id"),
    ],
    ids=str,
)
def test_ids_and_labels_that_cant_be_used_are_refused_by_row_without_showing_them(
    tmp_path: Path, change: dict[str, Any], words: str
) -> None:
    path = tmp_path / "t.csv"
    GOOD.assign(**change).to_csv(path, index=False)
    with pytest.raises(ValueError, match=words) as error:
        load_party_data(load_settings(data=str(path), label_column="y"), with_bias=True)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"id_column": "ID"}, "no id column 'ID'.*id"),
        ({"label_column": "label"}, "no label column 'label'"),
        ({"data": "nowhere.csv"}, "no file 'nowhere.csv'"),
        ({"data": "table.docx"}, "Cannot tell the format"),
    ],
)
def test_missing_columns_and_files_are_named(tmp_path: Path, settings: dict[str, str], words: str) -> None:
    path = tmp_path / "t.csv"
    GOOD.to_csv(path, index=False)
    with pytest.raises(ValueError, match=words):
        load_party_data(load_settings(**{"data": str(path), "label_column": "y", **settings}), with_bias=True)


def test_a_party_encodes_its_own_columns_with_a_bias_for_the_active_one_only(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    GOOD.to_csv(path, index=False)
    everything = TrainingPlan(validation_fraction=0.0, test_fraction=0.0)
    active = load_party_data(load_settings(data=str(path), label_column="y"), with_bias=True)
    aligned = active.aligned(np.arange(3), everything)
    assert [column.name for column in aligned.columns] == ["x", "(bias)"]
    np.testing.assert_allclose(aligned.features, np.array([[0, 1], [1 / 3, 1], [1, 1]]), atol=2**-52)
    assert active.labels is not None
    assert active.labels.tolist() == [0, 1, 0]
    passive = load_party_data(load_settings(data=str(path)), with_bias=False)
    assert [column.name for column in passive.aligned(np.arange(3), everything).columns] == ["x", "y"]
    assert passive.labels is None
    described = PartyDescription("active", 2, 0, False, 3, binary_features=1, byte_features=1)
    assert aligned.describe("active", truncates_answers=True) == described


def test_encoded_features_lie_on_the_grid_that_fixed_point_holds_exactly() -> None:
    data = party_data()
    plan = TrainingPlan(feature_fraction_bits=8)
    encoded = data.aligned(np.array([2, 1]), plan).features
    np.testing.assert_array_equal(encoded * 256, np.rint(encoded * 256))
    np.testing.assert_allclose(encoded, values_of(data)[[2, 1]], atol=1 / 512)
