"""Algorithm 2 on real ciphertexts: exact sums, an honest-looking message, and a key holder who sees uniform numbers."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from attacks.training.auxiliary_ciphertext import (
    AuxiliaryCiphertext,
    AuxiliaryPlan,
    NotPossible,
    compress,
    extend,
    fill,
    random_columns,
    split,
)
from attacks.training.feature_order import RecoveredFeatures
from attacks.training.recovered_labels import RecoveredLabels
from attacks.training_views import Equations, TrainingView, simulated_view, solve_shares
from tests.harness.layouts import choose_layout
from vfl.crypto import (
    BINARY,
    RESIDUAL,
    CipherVector,
    ColumnFormats,
    ColumnWidths,
    FixedPoint,
    InvalidAnswer,
    LayoutMismatch,
    PackingLayout,
    PrivateKey,
    PublicKey,
    ciphertext_width,
    decrypt_integers,
    encrypt_vector,
    keygen,
    layouts_for,
    mask_vector,
    matvec,
    to_bytes,
    unmask,
)
from vfl.data import load_dataset
from vfl.learning import BatchSchedule, GradientDescent, VerticalData, initial_weights
from vfl.theory.training import OracleRun, simulate_oracle

KeyPair = tuple[PublicKey, PrivateKey]
SIGNED = FixedPoint(16, 0)
UNSIGNED = FixedPoint(16, 0, signed=False)
SHARE_STEP = 2.0**-32


@pytest.fixture(scope="session")
def small_keys() -> KeyPair:
    return keygen(512, insecure=True)


def on_grid(values: np.ndarray, bits: int = 16) -> np.ndarray:
    return np.asarray(np.rint(values * 2.0**bits) / 2.0**bits)


def exact_sums(matrix: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """matrix^T shares in integers, as the nearest float64."""
    whole = (matrix * 2**16).astype(np.int64).astype(object).T @ (shares * 2**32).astype(np.int64).astype(object)
    return np.array([float(value) for value in (whole / 1).ravel()]).reshape(whole.shape) / 2.0**48


# --- ciphertexts ----------------------------------------------------------------------------------------------


@settings(max_examples=12)
@given(
    s=st.integers(1, 20),
    d=st.integers(1, 3),
    columns=st.integers(1, 3),
    iota=st.integers(62, 200),
    signed=st.booleans(),
    seed=st.integers(0, 99),
)
def test_all_sums_come_back(
    small_keys: KeyPair, s: int, d: int, columns: int, iota: int, signed: bool, seed: int
) -> None:
    _, private = small_keys
    fixed = SIGNED if signed else UNSIGNED
    generator = np.random.default_rng(seed)
    features = on_grid(generator.uniform(-1 if signed else 0, 1, (s, d)))
    shares = on_grid(generator.uniform(-127, 127, (s, columns)), 32)
    attack = AuxiliaryCiphertext(iota=iota, seed=seed)
    formats = {"residual_format": RESIDUAL, "feature_format": fixed}
    if s > d * (511 // iota):
        with pytest.raises(NotPossible, match=f"Batches of {s} rows"):
            attack.plan(key_bits=512, features=d, rows=s, **formats)
        return
    plan = attack.plan(key_bits=512, features=d, rows=s, **formats)
    assert plan.copies == 511 // iota
    extended = extend(features, plan, fixed, attack.generator(0))
    assert extended.shape == (s, plan.copies * d)
    np.testing.assert_array_equal(extended[:, :d], features)
    product = matvec(extended, encrypt_vector(private, shares), features=fixed)
    masked, mask = mask_vector(compress(product, plan))
    assert len(masked.ciphertexts) == d * columns
    sums = split(mask, decrypt_integers(private, masked), plan)
    np.testing.assert_array_equal(sums, exact_sums(extended, shares))
    honest, honest_mask = mask_vector(matvec(features, encrypt_vector(private, shares), features=fixed))
    expected = unmask(honest_mask, decrypt_integers(private, honest))
    np.testing.assert_array_equal(sums[:d], expected)
    solved = solve_shares(Equations(0, "peer", np.arange(s), extended, sums), share_step=SHARE_STEP)
    assert solved.values is not None
    if solved.values is not None:
        assert np.abs(solved.values - shares).max() <= (0.0 if solved.error < SHARE_STEP / 4 else solved.error)


def test_extreme_sums_in_every_slot(small_keys: KeyPair) -> None:
    """Largest and smallest sums next to each other: the carries that Hu's (38) forgets."""
    _, private = small_keys
    s, plan = 256, AuxiliaryPlan(1, 7, 64)
    for pattern in ([1.0] * 7, [-1.0] * 7, [1.0, -1.0] * 3 + [1.0], [-1.0, 1.0] * 3 + [-1.0], [0.0] * 7):
        matrix = np.tile(pattern, (s, 1))
        shares = np.full((s, 1), 2.0**7 - 2.0**-32)
        masked, mask = mask_vector(compress(matvec(matrix, encrypt_vector(private, shares), features=SIGNED), plan))
        np.testing.assert_array_equal(split(mask, decrypt_integers(private, masked), plan), exact_sums(matrix, shares))


def test_iota_must_hold_the_sum() -> None:
    attack = AuxiliaryCiphertext()
    with pytest.raises(NotPossible, match="takes 65 bits, iota has 64"):
        attack.plan(key_bits=2048, features=392, rows=257, residual_format=RESIDUAL, feature_format=SIGNED)
    plan = replace(attack, iota=65).plan(
        key_bits=2048, features=392, rows=257, residual_format=RESIDUAL, feature_format=SIGNED
    )
    assert plan.copies == 31
    with pytest.raises(NotPossible, match=r"u d = 31 \* 8 = 248 equations"):
        attack.plan(key_bits=2048, features=8, rows=249, residual_format=RESIDUAL, feature_format=SIGNED)


def test_wrong_inputs_are_refused(small_keys: KeyPair) -> None:
    _, private = small_keys
    shares = np.ones((4, 1))
    features = np.full((4, 2), 0.5)
    layout = choose_layout(
        batch_size=4, features=2, classes=1, residual_format=RESIDUAL, feature_format=SIGNED, key_bits=512
    )
    plan = AuxiliaryPlan(2, 7, 64)
    with pytest.raises(LayoutMismatch, match="packing=off"):
        compress(matvec(features, encrypt_vector(private, shares, layout=layout)), plan)
    with pytest.raises(NotPossible, match="made for 2"):
        extend(np.ones((4, 3)), plan, SIGNED, np.random.default_rng(0))
    product = matvec(np.full((4, 16), 0.5), encrypt_vector(private, shares), features=SIGNED)
    with pytest.raises(NotPossible, match="don't fit"):
        compress(product, AuxiliaryPlan(2, 8, 64))
    masked, mask = mask_vector(
        compress(
            matvec(extend(features, plan, SIGNED, np.random.default_rng(0)), encrypt_vector(private, shares)), plan
        )
    )
    residues = decrypt_integers(private, masked)
    with pytest.raises(InvalidAnswer, match="Expected 2 residues"):
        split(mask, residues[:1], plan)
    with pytest.raises(InvalidAnswer, match="Residue 1"):
        split(mask, (residues[0], residues[1] + (1 << 500)), plan)


# --- packed sessions --------------------------------------------------------------------------------------------


@given(
    s=st.integers(1, 12),
    widths=st.builds(ColumnWidths, st.integers(0, 12), st.integers(0, 5), st.integers(0, 12)).filter(lambda w: w.total),
    widest=st.integers(1, 6),
    signed=st.booleans(),
)
def test_all_sums_of_filled_answers_come_back(
    small_keys: KeyPair, s: int, widths: ColumnWidths, widest: int, signed: bool
) -> None:
    """Where each row has a ciphertext of its own, what honest sums leave of packed answers holds further ones."""
    _, private = small_keys
    full = (SIGNED if signed else UNSIGNED).entries
    columns = widths.formats(full)
    parties = [columns, ColumnFormats(((full, widest),))]
    layout = layouts_for(parties, batch_size=s, classes=1, residual_format=RESIDUAL, key_bits=512)[0]
    if layout.rows_per_ciphertext > 1:
        return
    attack = AuxiliaryCiphertext()
    answers = layout.answers_for(columns)
    filled = replace(layout, columns_per_answer=510 // layout.slot_bits)
    room = widths.total + filled.room_beside(columns, BINARY, answers=answers)
    if room < s:
        with pytest.raises(NotPossible, match=f"Batches of {s} rows have more unknowns than the {room} sums"):
            attack.packed_plan(key_bits=512, features=columns, rows=s, layout=layout)
        return
    plan = attack.packed_plan(key_bits=512, features=columns, rows=s, layout=layout)
    generator = np.random.default_rng(s)
    features = np.hstack([random_columns(s, entry, count, generator) for entry, count in columns.runs]).astype(float)
    shares = on_grid(generator.uniform(-127, 127, (s, 1)), 32)
    matrix = fill(features, plan, attack.generator(0))
    assert matrix.shape == (s, plan.equations)
    np.testing.assert_array_equal(matrix[:, : widths.total], features)
    residual = encrypt_vector(private, shares, layout=layout)
    honest = matvec(features, residual, columns=columns)
    product = matvec(matrix, replace(residual, layout=plan.layout), columns=plan.columns)
    assert len(product.ciphertexts) == len(honest.ciphertexts), "it passes for an honest one"
    one_more = ColumnFormats((*plan.columns.runs, (BINARY, 1)))
    assert plan.layout.answers_for(one_more) == len(honest.ciphertexts) + 1, "there is no room for another"
    masked, mask = mask_vector(product)
    np.testing.assert_array_equal(unmask(mask, decrypt_integers(private, masked)), exact_sums(matrix, shares))


def test_the_narrower_the_columns_the_less_room_there_is_to_fill() -> None:
    """39 sums of 0/1 columns and 30 of real ones fill the same answer of 1,950 bits."""
    full = UNSIGNED.entries
    equations = {}
    for widths in (ColumnWidths(binary=30), ColumnWidths(full=30)):
        columns = widths.formats(full)
        layout = PackingLayout(256, 1, 1, 30, RESIDUAL, full)
        equations[widths.binary] = (
            AuxiliaryCiphertext().packed_plan(key_bits=2048, features=columns, rows=30, layout=layout).equations
        )
    assert equations == {30: 41, 0: 31}


@pytest.mark.parametrize(("rows", "classes"), [(2, 1), (1, 2)])
def test_residuals_that_share_a_ciphertext_cant_be_combined_one_by_one(rows: int, classes: int) -> None:
    layout = PackingLayout(64, classes, rows, 2, RESIDUAL, UNSIGNED)
    with pytest.raises(NotPossible, match="Several residuals share a ciphertext"):
        AuxiliaryCiphertext().packed_plan(key_bits=2048, features=UNSIGNED.columns(15), rows=8, layout=layout)


# --- what the key holder sees ---------------------------------------------------------------------------------


def test_the_key_holder_cannot_tell(small_keys: KeyPair) -> None:
    """Same count, shape, exponent and width; masked plaintexts uniform with and without the attack (alpha 1e-6)."""
    key, private = small_keys
    generator = np.random.default_rng(0)
    features, plan = on_grid(generator.uniform(0, 1, (6, 4))), AuxiliaryPlan(4, 7, 64)
    residual = encrypt_vector(private, on_grid(generator.uniform(-2, 2, (6, 1)), 32))
    honest = matvec(features, residual, features=UNSIGNED)
    extended = extend(features, plan, UNSIGNED, np.random.default_rng(1))
    attacked = compress(matvec(extended, residual, features=UNSIGNED), plan)
    seen: dict[bool, list[int]] = {}
    for active, product in ((False, honest), (True, attacked)):
        messages = [mask_vector(product)[0] for _ in range(400)]
        assert {message_header(message) for message in messages} == {message_header(mask_vector(honest)[0])}
        seen[active] = [value for message in messages for value in decrypt_integers(private, message)]
    bins = 32
    counts = {
        active: np.bincount([v * bins // key.n for v in values], minlength=bins) for active, values in seen.items()
    }
    critical = chi2.isf(1e-6, bins - 1)
    for observed in counts.values():
        expected = observed.sum() / bins
        assert ((observed - expected) ** 2 / expected).sum() < critical
    # Two-sample: with against without.
    difference = (counts[True] - counts[False]) ** 2 / np.maximum(counts[True] + counts[False], 1)
    assert difference.sum() < critical
    # The test can fail: the same message without a mask is far from uniform.
    bare = np.bincount([v * bins // key.n for v in decrypt_integers(private, attacked)] * 400, minlength=bins)
    assert ((bare - bare.sum() / bins) ** 2 / (bare.sum() / bins)).sum() > critical


def message_header(message: CipherVector) -> tuple[object, ...]:
    width = ciphertext_width(message.public_key)
    return (message.shape, message.exponent, message.layout, len(to_bytes(message.ciphertexts, width)), width)


# --- 2048 bits ------------------------------------------------------------------------------------------------


def test_credit_sized_batch_at_2048_bits() -> None:
    """s = 256, d = 12, u = 31: all shares exactly, in messages like the honest ones."""
    _, private = keygen()
    generator = np.random.default_rng(0)
    features = on_grid(generator.uniform(0, 1, (256, 12)))
    shares = on_grid(generator.uniform(-3, 3, (256, 1)), 32)
    attack = AuxiliaryCiphertext()
    plan = attack.plan(key_bits=2048, features=12, rows=256, residual_format=RESIDUAL, feature_format=UNSIGNED)
    assert (plan.copies, plan.equations) == (31, 372)
    residual = encrypt_vector(private, shares)

    honest_masked, honest_mask = mask_vector(matvec(features, residual, features=UNSIGNED))
    expected = unmask(honest_mask, decrypt_integers(private, honest_masked))
    extended = extend(features, plan, UNSIGNED, attack.generator(0))
    masked, mask = mask_vector(compress(matvec(extended, residual, features=UNSIGNED), plan))
    assert message_header(masked) == message_header(honest_masked)
    sums = split(mask, decrypt_integers(private, masked), plan)
    solved = solve_shares(Equations(0, "peer", np.arange(256), extended, sums), share_step=SHARE_STEP)
    np.testing.assert_array_equal(sums[:12], expected)
    np.testing.assert_array_equal(solved.values, shares)


# --- the oracle attacks on extended equations -----------------------------------------------------------------


def trained(features: np.ndarray, labels: np.ndarray, widths: tuple[int, ...], *, batch: int, epochs: int) -> OracleRun:
    blocks = np.split(features, np.cumsum(widths)[:-1], axis=1)
    blocks[0] = np.hstack([blocks[0], np.ones((len(features), 1))])
    generator = np.random.default_rng(0)
    return simulate_oracle(
        VerticalData(blocks, labels),
        [
            initial_weights("zero", block.shape[1], 1, total_features=features.shape[1] + 1, generator=generator)
            for block in blocks
        ],
        GradientDescent(BatchSchedule(np.arange(len(features)), batch, 0), epochs=epochs, learning_rate=0.01),
        share_step=SHARE_STEP,
    )


def extended_view(run: OracleRun, party: int, plan: AuxiliaryPlan, feature_format: FixedPoint) -> TrainingView:
    """The party's view with the sums that ``split`` would have given, without the ciphertexts."""
    view = simulated_view(run, party, initialisation="zero", label_party_bias=True, share_step=SHARE_STEP)
    attack = AuxiliaryCiphertext()
    equations = []
    for old in view.equations:
        matrix = extend(old.matrix, plan, feature_format, attack.generator(old.step))
        share = run.steps[old.step].shares[int(old.peer.removeprefix("party-"))]
        equations.append(replace(old, matrix=matrix, sums=exact_sums(matrix, share)))
    return replace(view, equations=tuple(equations))


def test_passive_party_gets_labels() -> None:
    generator = np.random.default_rng(0)
    features = on_grid(generator.uniform(0, 0.3, (320, 9)))
    run = trained(features, generator.integers(0, 2, 320), (5, 4), batch=64, epochs=1)
    attack = AuxiliaryCiphertext()
    plain = attack.attack(simulated_view(run, 1, initialisation="zero", label_party_bias=True))
    assert isinstance(plain, RecoveredLabels)
    assert "64 records in a step, 4 sums" in plain.reason
    found = attack.attack(extended_view(run, 1, AuxiliaryPlan(4, 31, 64), UNSIGNED))
    assert isinstance(found, RecoveredLabels)
    np.testing.assert_array_equal(found.labels, run.labels)
    assert max(step.condition_number for step in found.steps) < 100


def test_active_party_gets_the_single_feature() -> None:
    generator = np.random.default_rng(0)
    features = on_grid(generator.uniform(0, 1, (256, 4)))
    run = trained(features, generator.integers(0, 2, 256), (3, 1), batch=64, epochs=4)
    found = AuxiliaryCiphertext().attack(extended_view(run, 0, AuxiliaryPlan(4, 31, 64), UNSIGNED))
    assert isinstance(found, RecoveredFeatures)
    feature = found.features["party-1"]
    truth = features[:, 3]
    assert feature.exact
    assert min(np.abs(feature.values - truth).max(), np.abs(feature.values + truth).max()) < 1e-4


DATA = os.environ.get("PLUMBLINE_DATA_DIR")


@pytest.mark.skipif(not DATA, reason="needs the data sets in PLUMBLINE_DATA_DIR")
@pytest.mark.parametrize(("name", "width"), [("credit", 12), pytest.param("mnist01", 392, marks=pytest.mark.thorough)])
def test_the_papers_data_at_batch_256(name: str, width: int) -> None:
    """Where the gradient alone does not determine f, Algorithm 2's equations do; one epoch of ten batches."""
    assert DATA
    dataset = load_dataset(name, Path(DATA), whole_row_unit_norm=name == "mnist01")
    rows = np.random.default_rng(0).permutation(len(dataset.labels))[:1280]
    features = dataset.features[rows]
    if name == "credit":
        low, high = features.min(axis=0), features.max(axis=0)
        features = (features - low) / np.maximum(high - low, 1e-12)
        features /= np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1.0)
    labels = (dataset.labels[rows] == dataset.class_names[1]).astype(np.int64)
    run = trained(on_grid(features), labels, (features.shape[1] - width, width), batch=256, epochs=1)
    # MNIST needs few of 31 copies: two make 784 columns of which 392 are random.
    attack = AuxiliaryCiphertext(most_copies=None if name == "credit" else 2)
    plan = attack.plan(key_bits=2048, features=width, rows=256, residual_format=RESIDUAL, feature_format=UNSIGNED)
    assert plan.copies == (31 if name == "credit" else 2)
    plain = attack.attack(simulated_view(run, 1, initialisation="zero", label_party_bias=True))
    assert isinstance(plain, RecoveredLabels)
    # But for the first batch: from zero weights labels follow from fewer equations.
    np.testing.assert_array_equal(np.setdiff1d(np.arange(1280), plain.unresolved), np.sort(plain.steps[0].rows))
    found = attack.attack(extended_view(run, 1, plan, UNSIGNED))
    assert isinstance(found, RecoveredLabels)
    np.testing.assert_array_equal(found.labels, labels)
    assert max(step.condition_number for step in found.steps) < 1e4
