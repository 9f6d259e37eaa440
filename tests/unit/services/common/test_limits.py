"""Upper limits: whatever number arrives is refused by a short sentence, or is one that a session can be run with."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protos.v1 import common_pb2
from services.ciphers.formats import check_vector_sizes
from services.common import limits
from services.common.agreement import (
    Agreement,
    PartyDescription,
    ProposedTerms,
    TrainingPlan,
)
from services.common.errors import InvalidMessage
from services.common.scores import PartialScores, check_confidence_scores, check_magnitude, matrix_of
from services.common.wire import joined
from tests.harness.agreements import agreed
from vfl.crypto.ciphers import MOST_KEY_BITS

UINT32, UINT64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
DOUBLES = st.floats(width=64)
NUMBERS = ("key_bits", "feature_fraction_bits", "residual_fraction_bits", "residual_integer_bits")
CIPHER_OPTIONS = st.dictionaries(st.sampled_from([*NUMBERS, "packing", "x"]), UINT32 | DOUBLES | st.booleans()).map(
    json.dumps
)
SESSION_ID = "0123456789abcdef" * 2
PARTIES = (PartyDescription("active", 3, 0, False, 99), PartyDescription("passive", 2, 0, False, 99))
AGREEMENT = Agreement(SESSION_ID, TrainingPlan(batch_size=64), 2, PARTIES, ("score_rounding",))
TERMS = ProposedTerms(SESSION_ID, "active", ("passive",), TrainingPlan(), 2)


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(InvalidMessage) as error:
        call()
    words = str(error.value)
    assert len(words) < 800
    return words


def told(call: Callable[[], object]) -> str:
    """The words of a refusal, empty where there is none."""
    try:
        call()
    except InvalidMessage as error:
        return str(error)
    return ""


@given(
    plan=st.builds(
        common_pb2.TrainingPlan,
        epochs=UINT32,
        batch_size=UINT32,
        learner=st.sampled_from(["linear", "installed", "", "x" * 3_000_000]),
        learner_options=st.one_of(
            st.builds('{{"learning_rate": {}, "l2": {}}}'.format, DOUBLES, DOUBLES),
            st.sampled_from(["{}", "", '{"initialisation": "he"}', "x" * 3_000_000]),
        ),
        protocol=st.sampled_from(["hu", "shared", "", "x" * 3_000_000]),
        protocol_options=st.sampled_from(["{}", "", '{"opening_bits": 99}', "[" * 4_096, " " * 3_000_000]),
        validation_fraction=DOUBLES,
        test_fraction=DOUBLES,
        patience=UINT32,
        seed=UINT64,
        cipher=st.sampled_from(["paillier", "plain", "", "xor", "x" * 3_000_000]),
        cipher_options=CIPHER_OPTIONS | st.text() | st.just("[" * 4_096) | st.just(" " * 3_000_000),
    )
)
def test_a_plan_of_any_numbers_is_refused_in_a_sentence_or_can_be_run(plan: common_pb2.TrainingPlan) -> None:
    if words := told(lambda: TrainingPlan.from_message(plan)):
        assert len(words) < 800
    else:
        assert TrainingPlan.from_message(plan).key_bits <= MOST_KEY_BITS
        assert plan.epochs <= limits.EPOCHS


@pytest.mark.parametrize(
    "changes",
    [
        {"key_bits": 32_768},
        {"key_bits": MOST_KEY_BITS + 8},
        {"epochs": limits.EPOCHS + 1},
        {"patience": limits.EPOCHS + 1},
        {"batch_size": limits.BATCH_SIZE + 1},
        {"learning_rate": 1.7e308},
        {"l2": -1.0},
        {"l2": 1.7e308},
    ],
    ids=str,
)
def test_a_plan_beyond_a_limit_is_refused(changes: dict[str, Any]) -> None:
    plan = TrainingPlan().changed(**changes)
    (name,) = changes
    assert name in refusal(plan.check)
    assert name in refusal(lambda: TrainingPlan.from_message(plan.to_message()))


@pytest.mark.parametrize(
    "changes",
    [
        {"feature_count": 100_000_000},
        {"feature_count": limits.FEATURES + 1},
        {"aligned_rows": limits.ALIGNED_ROWS + 1},
        {"feature_integer_bits": 2**32 - 1},
        {"name": ""},
        {"name": "x" * 65},
        {"name": "passive\nactive"},
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_description_beyond_a_limit_is_refused_also_within_an_agreement(changes: dict[str, Any]) -> None:
    """The second is what a hostile coordinator sends: 100 million features made the active party allocate 1.2 GB."""
    party = replace(PARTIES[1], **changes)
    refusal(party.check)
    refusal(lambda: Agreement.from_message(replace(AGREEMENT, parties=(PARTIES[0], party)).to_message()))


@pytest.mark.parametrize(
    "changes",
    [
        {"session_id": ""},
        {"session_id": "x" * 1_000_000},
        {"classes": 1},
        {"classes": 15_000},
        {"parties": PARTIES[:1]},
        {"parties": ()},
        {"parties": (PARTIES[0], PARTIES[0])},
        {"parties": (PARTIES[0], *(replace(PARTIES[1], name=f"passive-{number}") for number in range(33)))},
        {"score_defences": ("x",) * 33},
        {"score_defences": ("x" * 65,)},
    ],
    ids=lambda value: str(value)[:40],
)
def test_an_agreement_that_no_coordinator_makes_is_refused(changes: dict[str, Any]) -> None:
    assert Agreement.from_message(AGREEMENT.to_message()) == AGREEMENT
    refusal(lambda: Agreement.from_message(replace(AGREEMENT, **changes).to_message()))


@pytest.mark.parametrize(
    "changes",
    [
        {"session_id": "deadbeef"},
        {"active": "x" * 65},
        {"passive_parties": ()},
        {"passive_parties": ("passive", "passive")},
        {"passive_parties": ("passive", "coordinator")},
        {"passive_parties": tuple(f"passive-{number}" for number in range(33))},
        {"classes": 10**6},
        {"plan": TrainingPlan(key_bits=32_768)},
    ],
    ids=lambda value: str(value)[:40],
)
def test_terms_that_no_session_was_opened_with_are_refused(changes: dict[str, Any]) -> None:
    assert ProposedTerms.from_message(TERMS.to_message()) == TERMS
    refusal(lambda: ProposedTerms.from_message(replace(TERMS, **changes).to_message()))


def test_what_is_within_every_limit_is_not_refused() -> None:
    limits.check_classes(limits.CLASSES)
    replace(TrainingPlan(), key_bits=MOST_KEY_BITS, epochs=limits.EPOCHS, batch_size=limits.BATCH_SIZE).check()
    replace(PARTIES[0], feature_count=limits.FEATURES, aligned_rows=limits.ALIGNED_ROWS, name="x" * 64).check()
    TrainingPlan(epochs=100, batch_size=64).check_steps(640_000)


def test_more_steps_than_a_party_records_are_refused() -> None:
    words = refusal(lambda: TrainingPlan(epochs=101, batch_size=64).check_steps(640_000))
    assert "1010000 steps" in words
    assert "larger batch_size or fewer epochs" in words


@pytest.mark.parametrize(
    ("plan", "features", "words"),
    [
        ({"packing": False, "batch_size": 600_000}, (5, 5), "292 MiB.*smaller batch_size"),
        ({"packing": False}, (5, 10_000), "fewer columns"),
        ({"cipher": "plain", "batch_size": 1 << 20}, (5, 5), "smaller batch_size"),
    ],
)
def test_vectors_that_fill_a_memory_are_refused(plan: dict[str, Any], features: tuple[int, int], words: str) -> None:
    classes = 2 if "batch_size" in plan and plan.get("cipher") != "plain" else 100
    with pytest.raises(InvalidMessage, match=words):
        check_vector_sizes(agreed(TrainingPlan(**plan), features=features, classes=classes))
    check_vector_sizes(agreed(TrainingPlan(packing=False), features=(5, 1_000), classes=26))


# -- shares and scores ------------------------------------------------------------------------------------------------


@given(
    message=st.builds(
        common_pb2.PartialScores,
        rows=UINT32,
        columns=UINT32,
        values=st.lists(DOUBLES, max_size=6),
        parameter_gram=st.lists(DOUBLES, max_size=5),
        record_tokens=st.lists(UINT64, max_size=4),
    )
)
def test_a_share_of_any_numbers_is_refused_in_a_sentence_or_sums_stay_finite(message: common_pb2.PartialScores) -> None:
    if words := told(lambda: PartialScores.from_message(message)):
        assert len(words) < 800
    else:
        share = PartialScores.from_message(message)
        assert share.products.shape == (message.rows, message.columns)
        most = np.full_like(share.products, (1 + limits.PASSIVE_PARTIES) * np.abs(share.products).max())
        assert np.isfinite(most**2).all()


@pytest.mark.parametrize("value", [1.7e308, -1.7e308, 1.1e150, np.inf, -np.inf, np.nan])
def test_a_number_whose_sums_may_overflow_is_refused(value: float) -> None:
    assert "finite numbers" in refusal(lambda: check_magnitude(np.array([[0.0], [value]])))
    assert "finite numbers" in refusal(lambda: matrix_of(1, 2, [0.0, value]))


@pytest.mark.parametrize("value", [5e-324, -5e-324, 1e-310, 0.0, -0.0, 1e150, -1e150])
def test_small_and_large_numbers_that_add_up_are_taken(value: float) -> None:
    np.testing.assert_array_equal(matrix_of(1, 2, [value, 1.0]), [[value, 1.0]])


@pytest.mark.parametrize("sizes", [(2**31, 2**31), (0, 0), (2, 1), (4097, 1), (1, 409_601)])
def test_a_shares_size_is_checked_before_its_values_are_read(sizes: tuple[int, int]) -> None:
    rows, columns = sizes
    values = [0.5] if rows * columns > 10_000 else [0.5] * (rows * columns)
    values = [0.5] if sizes == (2, 1) else values
    refusal(lambda: PartialScores.from_message(common_pb2.PartialScores(rows=rows, columns=columns, values=values)))


@pytest.mark.parametrize(
    ("scores", "defended"),
    [
        ([[0.5, 0.5]], False),
        ([[0.5, 0.5], [0.5, 0.6]], False),
        ([[0.5, 0.5], [-0.5, 1.5]], True),
        ([[0.5, 0.5], [np.nan, 0.5]], True),
        ([[0.2, 0.3, 0.5], [0.2, 0.3, 0.5]], False),
    ],
    ids=["rows", "sum", "range", "nan", "columns"],
)
def test_what_no_coordinator_answers_with_is_refused(scores: list[list[float]], defended: bool) -> None:
    assert "The coordinator answers" in refusal(
        lambda: check_confidence_scores(np.array(scores), (2, 2), are_defended=defended)
    )


def test_confidence_scores_are_taken_and_defended_ones_need_not_sum_to_one() -> None:
    check_confidence_scores(np.array([[0.25, 0.75], [1.0, 0.0]]), (2, 2), are_defended=False)
    check_confidence_scores(np.array([[0.3, 0.8], [1.0, 0.1]]), (2, 2), are_defended=True)


def test_a_stream_of_empty_parts_is_left() -> None:
    def empty() -> Any:
        while True:
            yield b""

    assert "holds no data" in refusal(lambda: joined(empty(), 100))
