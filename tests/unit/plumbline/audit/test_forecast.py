"""The arithmetic of a forecast, from calibrations that are given: what doubles when its work does."""

import secrets
import sys
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attacks import Extent
from plumbline.audit import forecast as module
from plumbline.audit.forecast import (
    MALICIOUS_SESSION,
    Calibration,
    CipherSeconds,
    Span,
    Workload,
    alignment_seconds,
    cost_of,
    forecast,
    step_seconds,
    training_seconds,
    usual_calibration,
)
from plumbline.audit.plan import attack_seconds
from services.ciphers.formats import CipherFormats
from services.common.agreement import Agreement, PartyDescription, TrainingPlan
from services.protocols.hu.decrypted_sums import products_of
from services.protocols.shared.share_holder import ShareHolder
from services.protocols.shared.share_messages import Kind, MessageSizes
from services.protocols.shared.shared_terms import SharedTerms
from tests.harness.shared_sessions import keys_of
from vfl.crypto import Engine, from_bytes
from vfl.crypto.kernels.counts import product_cost

REFERENCE = Calibration(55e-6, 40e-6, cores=2, cipher=CipherSeconds(0.5, 1e-3, 4e-6, 0.02))


def terms(rows: int = 1_000, features: tuple[int, ...] = (8, 8), **plan: object) -> Agreement:
    """Terms of a session of parties with so many features each, the active one's bias included."""
    names = ["active", *(f"passive-{number}" for number in range(1, len(features)))]
    parties = [PartyDescription(name, count, 1, False, rows) for name, count in zip(names, features, strict=True)]
    chosen = {"epochs": 10, "batch_size": 100, "validation_fraction": 0.0, "test_fraction": 0.0, **plan}
    return Agreement("0" * 32, TrainingPlan(**chosen), 2, tuple(parties))  # type: ignore[arg-type]


def with_widths(agreement: Agreement, **counts: int) -> Agreement:
    """The terms with so many narrow columns of the active party."""
    first, *others = agreement.parties
    changes = {f"{name}_features": count for name, count in counts.items()}
    return replace(agreement, parties=(replace(first, **changes), *others))  # type: ignore[arg-type]


def work(agreement: Agreement | None = None, **changes: object) -> Workload:
    agreement = agreement or terms()
    ids = tuple(party.aligned_rows for party in agreement.parties)
    return replace(Workload(agreement, ids, {"gia": 6.0, "ls": 1.0}, 200, 8), **changes)  # type: ignore[arg-type]


def test_the_same_batches_in_every_epoch_count_once() -> None:
    plan = terms().plan
    fixed, reshuffled = (
        work(replace(terms(), plan=plan.changed(batches=batches, epochs=5))) for batches in ("fixed", "reshuffled")
    )
    assert reshuffled.batches == reshuffled.steps == fixed.steps == 5 * fixed.batches
    for attack in ("trajectory_labels", "trajectory_products"):
        assert attack_seconds(attack, Extent(100, 15, 18_000, 300)) < 30
        assert attack_seconds(attack, Extent(100, 15, 18_000)) > 300


def test_known_alignments() -> None:
    # Ids of the passive party stream: 1,000 x 55 us. The active party's are blinded, then answered: 500 x 95 us.
    assert alignment_seconds((500, 1_000), REFERENCE) == pytest.approx(0.055 + 0.0475)
    # One core does both sides' work of the stream as well.
    assert alignment_seconds((500, 1_000), replace(REFERENCE, cores=1)) == pytest.approx(0.095 + 0.0475)
    # A second passive party is asked for what is left only.
    both = alignment_seconds((500, 100, 400), REFERENCE)
    assert both == pytest.approx(100 * 55e-6 + 500 * 95e-6 + 400 * 55e-6 + 100 * 95e-6)


@given(sizes=st.lists(st.integers(1, 10**6), min_size=2, max_size=4), factor=st.integers(2, 9))
def test_an_alignment_grows_with_its_ids(sizes: list[int], factor: int) -> None:
    once = alignment_seconds(sizes, REFERENCE)
    assert alignment_seconds([size * factor for size in sizes], REFERENCE) == pytest.approx(factor * once)


@pytest.mark.parametrize("packing", [True, False])
def test_a_step_costs_its_encryptions_products_and_answers(packing: bool) -> None:
    agreement, seconds = terms(features=(20, 6), packing=packing), REFERENCE.cipher
    assert seconds is not None
    formats = CipherFormats(agreement)
    residuals = formats.residual_ciphertexts(100)
    busy = []
    for party in agreement.parties:
        products = products_of(formats.messages_of(party.name), 100, formats.columns_of(party.name))
        busy.append(residuals * 1e-3 + products * 4e-6 + formats.sum_ciphertexts(party.name) * 0.02)
    assert step_seconds(cost_of(agreement), seconds, cores=2) == pytest.approx(max(busy))
    assert step_seconds(cost_of(agreement), seconds, cores=1) == pytest.approx(sum(busy))
    # A party's second worker has no core of its own where there are but two.
    assert step_seconds(cost_of(agreement), seconds, cores=2, workers=2) == pytest.approx(sum(busy) / 2)
    assert step_seconds(cost_of(agreement), seconds, cores=8, workers=2) == pytest.approx(max(busy) / 2)


@given(full=st.integers(0, 30), byte=st.integers(0, 30), binary=st.integers(1, 30))
def test_columns_of_fewer_digits_take_fewer_products(full: int, byte: int, binary: int) -> None:
    count = full + byte + binary
    narrow = with_widths(terms(features=(count, 4)), binary=binary, byte=byte)
    wide = terms(features=(count, 4))
    products = [
        products_of(formats.messages_of("active"), 100, formats.columns_of("active"))
        for formats in (CipherFormats(narrow), CipherFormats(wide))
    ]
    assert products[0] < products[1]


def test_three_parties_work_for_two_peers_each() -> None:
    two, three = terms(features=(8, 8)), terms(features=(8, 8, 8))
    assert REFERENCE.cipher is not None
    seconds = replace(REFERENCE.cipher, encryption=0.0)
    assert step_seconds(cost_of(three), seconds, cores=3) == pytest.approx(
        2 * step_seconds(cost_of(two), seconds, cores=3)
    )


@given(epochs=st.integers(1, 40), factor=st.integers(2, 5))
def test_training_grows_with_its_epochs(epochs: int, factor: int) -> None:
    keyless = replace(REFERENCE, cipher=CipherSeconds(0.0, 1e-3, 4e-6, 0.02))
    for cipher in ("plain", "paillier"):
        once = training_seconds(work(terms(epochs=epochs)), keyless, cipher)
        assert training_seconds(work(terms(epochs=epochs * factor)), keyless, cipher) == pytest.approx(factor * once)


def test_a_slower_machine_takes_longer_by_as_much() -> None:
    slower = Calibration(110e-6, 80e-6, cores=2)
    fast, slow = forecast(work(), REFERENCE, "plain"), forecast(work(), slower, "plain")
    assert [stage.name for stage in slow.stages] == ["starting", "aligning", "training", "attacking", "judging"]
    assert slow.seconds == pytest.approx(2 * fast.seconds)


def test_encryption_is_what_makes_the_difference() -> None:
    plain, encrypted = forecast(work(), REFERENCE, "plain"), forecast(work(), REFERENCE, "paillier")
    changed = [
        one.name for one, other in zip(plain.stages, encrypted.stages, strict=True) if one.seconds != other.seconds
    ]
    assert changed == ["training"]
    assert encrypted.seconds > plain.seconds


@pytest.mark.parametrize("protocol", ["hu", "shared"])
def test_a_session_of_attacks_that_send_other_messages_takes_what_the_audited_one_does(protocol: str) -> None:
    agreement = terms(protocol=protocol)
    honest = forecast(work(agreement), REFERENCE, "paillier")
    both = forecast(work(agreement, malicious=("auxiliary_ciphertext",)), REFERENCE, "paillier")
    again = next(stage for stage in both.stages if stage.name == MALICIOUS_SESSION)
    done = [stage for stage in honest.stages if stage.name not in ("attacking", "judging")]
    assert again.seconds == pytest.approx(sum(stage.seconds for stage in done))
    assert again.processor_seconds == pytest.approx(sum(stage.processor_seconds for stage in done))
    assert again.amount == "for auxiliary_ciphertext"
    assert both.seconds == pytest.approx(honest.seconds + again.seconds)


def test_what_is_not_done_takes_no_time() -> None:
    installed = forecast(work(terms(learner="installed"), attacks={}), REFERENCE, "plain")
    assert [stage.name for stage in installed.stages] == ["starting", "aligning", "judging"]


def test_what_all_processes_take_of_the_processor_is_what_one_core_would() -> None:
    agreement = terms(features=(8, 8, 8))
    two, eight = (forecast(work(agreement), replace(REFERENCE, cores=cores), "paillier") for cores in (2, 8))
    one = forecast(work(agreement), replace(REFERENCE, cores=1), "paillier")
    assert one.seconds == pytest.approx(one.processor_seconds)
    assert two.processor_seconds == eight.processor_seconds == one.processor_seconds
    assert eight.seconds < two.seconds < one.seconds


def test_a_usual_processor_takes_less_the_more_it_can_and_more_for_longer_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass(frozen=True)
    class Kind:
        batch: int
        releases_gil: bool

    def products(kind: Kind, key_bits: int = 2048) -> float:
        monkeypatch.setattr(module, "best_kernel", lambda: kind)
        found = usual_calibration(terms(key_bits=key_bits))
        assert found.cipher is not None
        return found.cipher.multiplication

    lanes, limbs, portable = Kind(8, True), Kind(1, True), Kind(1, False)
    assert products(lanes) < products(limbs) < products(portable)
    assert 1.8 < products(limbs, 3072) / products(limbs) < 2.3


@given(seconds=st.floats(0, 1e6), factor=st.floats(1, 10))
def test_a_range_holds_what_is_foretold_and_grows_with_it(seconds: float, factor: float) -> None:
    small, large = Span.about(seconds), Span.about(factor * seconds)
    assert small.low <= seconds <= small.high
    assert small.low <= large.low
    assert small.high <= large.high


@pytest.mark.parametrize(("features", "megabytes"), [(12, 104), (100, 735)])
def test_shared_weights_say_beforehand_what_they_take_of_memory(features: int, megabytes: int) -> None:
    agreement = terms(100_000, (features, features), protocol="shared")
    stage = next(
        one for one in forecast(work(agreement), REFERENCE, "paillier").stages if one.name == "encrypting features"
    )
    kept = int(stage.amount.partition(" keeps ")[2].partition(" MB")[0])
    assert kept == pytest.approx(megabytes, rel=0.02)
    assert stage.seconds > 1e-3 * 100_000
    names = [one.name for one in forecast(work(terms(protocol="shared")), REFERENCE, "paillier").stages]
    assert names[1:4] == ["aligning", "encrypting features", "training"]


@pytest.mark.parametrize("features", [2, 12])
def test_what_others_encrypted_features_take_of_memory_is_what_is_said(features: int) -> None:
    """Whatever they hold: any numbers of a ciphertext's length take as much."""
    shared = SharedTerms(terms(2_000, (features, features), protocol="shared"))
    sizes = MessageSizes(shared)
    holder = ShareHolder(shared, "active", np.zeros((2_000, features)), keys_of(1, 512)[0], Engine())
    for kind, take in ((Kind.ROWS, holder.take_rows), (Kind.BLOCKS, holder.take_blocks)):
        count, width = sizes.features(kind, "passive-1"), sizes.width(kind)
        take("passive-1", from_bytes(secrets.token_bytes(count * width), count, width))
    groups = [*holder._rows["passive-1"], *holder._blocks["passive-1"]]
    taken = sum(sys.getsizeof(group) + sum(map(sys.getsizeof, group)) for group in groups)
    assert taken == pytest.approx(sizes.kept_bytes("active"), rel=0.01)


def test_shared_weights_that_no_memory_holds_are_refused_beforehand() -> None:
    with pytest.raises(ValueError, match="at most 1024 can be kept: align fewer records or choose fewer columns"):
        cost_of(terms(1_000_000, (100, 100), protocol="shared"))
    with pytest.raises(ValueError, match="choose a longer key"):
        cost_of(terms(protocol="shared", key_bits=128))


def test_a_step_on_shared_weights_costs_its_products_and_answers() -> None:
    """By hand, of formats that follow from public numbers: blocks of rows forward, groups of columns backward."""
    agreement = terms(protocol="shared")
    shared = SharedTerms(agreement)
    blocks, formats = shared.schedule.blocks_of_step(0), shared.formats
    products = blocks * product_cost(8, formats.ring, formats.ring)
    products += product_cost(100, formats.residual_bits, formats.residual_bits)
    seconds = CipherSeconds(0.0, 0.0, 4e-6, 0.02)
    assert step_seconds(cost_of(agreement), seconds, 2) == pytest.approx(products * 4e-6 + (blocks + 1) * 0.02)
    three = step_seconds(cost_of(terms(features=(8, 8, 8), protocol="shared")), seconds, 8)
    # The label party holds V of both others.
    assert three > 1.8 * step_seconds(cost_of(agreement), seconds, 8)


def test_a_step_of_a_shared_first_layer_costs_what_each_party_does_in_turn() -> None:
    """By hand, at 16 units and 2,048 bits: 16 slots of z in an answer, 14 of a gradient."""
    changes: dict[str, Any] = {"learner": "network", "learner_options": {"backward": "shared"}, "protocol": "shared"}
    agreement = terms(**changes)
    pads, answers = 8 + 2 * 100, 100 + 2 * 8
    products = product_cost(8, 100 * 18, 100 * 18) + 2 * product_cost(100, 8 * 18, 8 * 18)
    seconds = CipherSeconds(0.0, 1e-3, 4e-6, 0.02)
    expected = pads * 1e-3 + products * 4e-6 + answers * 0.02
    assert step_seconds(cost_of(agreement), seconds, 2) == pytest.approx(expected)
    # Nobody encrypts features before.
    names = [one.name for one in forecast(work(agreement), REFERENCE, "paillier").stages]
    assert names[1:3] == ["aligning", "training"]
    with pytest.raises(ValueError, match="choose a longer key"):
        step_seconds(cost_of(terms(**changes, key_bits=128)), seconds, 2)
