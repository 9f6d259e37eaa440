"""Where noise comes from: normal whatever its source, repeatable only by a seed, the same for the same record."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest

from defences import NoiseSource
from defences.noise import _normal, on_grid

COUNT = 20_000
SOURCES = pytest.mark.parametrize("seed", [None, 7], ids=["system", "seeded"])


def looks_normal(values: np.ndarray) -> bool:
    """Moments within five standard errors, and Kolmogorov-Smirnov: together wrong about once in 100,000 runs."""
    n = len(values)
    errors = {1: 0.0, 2: 1.0, 3: 0.0, 4: 3.0}
    spread = {1: 1.0, 2: 2.0, 3: 15.0, 4: 96.0}  # variances of the powers of a standard normal number
    moments = all(abs((values**k).mean() - errors[k]) < 5 * np.sqrt(spread[k] / n) for k in errors)
    return moments and float(kstest(values, "norm").pvalue) > 1e-6


@SOURCES
def test_gaussian_numbers_are_standard_normal(seed: int | None) -> None:
    values = NoiseSource(seed).gaussian((COUNT // 4, 4))
    assert values.shape == (COUNT // 4, 4)
    assert looks_normal(values.ravel())
    assert not looks_normal(values.ravel() * 1.1), "this test can fail"
    assert abs(np.corrcoef(values[:, 0], values[:, 1])[0, 1]) < 0.08


@SOURCES
def test_numbers_per_record_are_standard_normal(seed: int | None) -> None:
    records = np.random.default_rng(0).random((COUNT // 4, 3))
    values = NoiseSource(seed).gaussian_per_record(records, 4)
    assert values.shape == (COUNT // 4, 4)
    assert looks_normal(values.ravel())
    assert abs(np.corrcoef(values[:, 0], values[:, 1])[0, 1]) < 0.08


def test_the_extremes_of_64_bits_become_finite_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    for byte in (b"\x00", b"\xff"):
        monkeypatch.setattr("secrets.token_bytes", lambda count, byte=byte: byte * count)
        assert np.isfinite(NoiseSource().gaussian((3,))).all()


def test_tails_have_no_gaps_that_tell_what_noise_was_added_to() -> None:
    """Beyond four standard deviations, neighbouring words give neighbours closer than a grid of 2^-32 of sigma 2000."""
    for upper in (0, 1):
        words = (np.arange(2000, dtype=np.uint64) + np.uint64(2**49)) * np.uint64(2) + np.uint64(upper)
        values = _normal(words)
        assert abs(values[0]) > 4
        assert (np.sign(values) == (1 if upper else -1)).all()
        gaps = np.abs(np.diff(values))
        assert 0 < gaps.max() < 2.0**-32 / 2000


def test_on_its_grid_records_with_the_same_noise_are_the_same() -> None:
    records = np.array([[0.3, 0.7], [0.3 + 2.0**-27, 0.7 - 2.0**-27], [0.3 + 2.0**-23, 0.7]])
    first, second, other = on_grid(records)
    assert first.tolist() == second.tolist() != other.tolist()
    assert np.abs(on_grid(records) - records).max() <= 2.0**-25


def test_the_systems_draws_are_fresh_each_time_and_in_each_source() -> None:
    one, other = NoiseSource(), NoiseSource()
    draws = [source.gaussian((50,)) for source in (one, one, other)]
    assert len({draw.tobytes() for draw in draws}) == 3
    assert len({source.integers(2**62, 4).tobytes() for source in (one, one, other)}) == 3


def test_the_system_is_asked_and_no_generator(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def counting(count: int) -> bytes:
        asked.append(count)
        return bytes(range(256)) * (count // 256 + 1)

    monkeypatch.setattr("secrets.token_bytes", lambda count: counting(count)[:count])
    NoiseSource().gaussian((5, 2))
    assert asked == [32, 80], "a key, and eight bytes per number"


@given(st.integers(0, 2**32))
def test_a_seed_repeats_the_whole_sequence_bit_for_bit(seed: int) -> None:
    one, other = NoiseSource(seed), NoiseSource(seed)
    records = np.linspace(0, 1, 6).reshape(3, 2)
    for source in (one, other):
        source.gaussian((3,))
    assert one.gaussian((4, 2)).tobytes() == other.gaussian((4, 2)).tobytes()
    assert one.integers(1000, 5).tolist() == other.integers(1000, 5).tolist()
    assert one.gaussian_per_record(records, 3).tobytes() == other.gaussian_per_record(records, 3).tobytes()
    assert NoiseSource(seed + 1).gaussian((4,)).tobytes() != NoiseSource(seed).gaussian((4,)).tobytes()


def test_a_seed_is_no_other_stream_of_the_same_seed() -> None:
    """Initial weights are drawn from the private seed as well: noise that repeats them would give them away."""
    assert not np.isin(np.random.default_rng(3).standard_normal(100), NoiseSource(3).gaussian((100,))).any()


@SOURCES
@given(rows=st.lists(st.integers(0, 2**24), min_size=2, max_size=8, unique=True), data=st.data())
def test_the_same_record_has_the_same_noise_in_any_batch(
    seed: int | None, rows: list[int], data: st.DataObject
) -> None:
    source = NoiseSource(seed)
    records = np.array([[row * 2.0**-24, 0.5] for row in rows])
    whole = source.gaussian_per_record(records, 3)
    source.gaussian((5,))
    order = data.draw(st.permutations(range(len(rows))))
    part = order[: data.draw(st.integers(1, len(rows)))]
    np.testing.assert_array_equal(source.gaussian_per_record(records[part], 3), whole[part])


@SOURCES
def test_last_bits_that_differ_from_batch_to_batch_change_nothing(seed: int | None) -> None:
    source, records = NoiseSource(seed), np.array([[0.3, 0.7], [1 / 3, 2 / 3]])
    np.testing.assert_array_equal(
        source.gaussian_per_record(np.nextafter(records, 1), 2), source.gaussian_per_record(records, 2)
    )


@SOURCES
def test_records_and_keys_have_noise_of_their_own(seed: int | None) -> None:
    source = NoiseSource(seed)
    records = np.array([[0.0, 0.0], [2.0**-23, 0.0], [0.0, 2.0**-23], [1.0, 0.0]])
    noise = source.gaussian_per_record(records, 2)
    assert len(np.unique(noise)) == noise.size
    other = NoiseSource(None if seed is None else seed + 1).gaussian_per_record(records, 2)
    assert not np.isin(noise, other).any()


def test_asking_for_more_columns_keeps_the_first_ones() -> None:
    source, records = NoiseSource(1), np.array([[0.25, 0.75]])
    np.testing.assert_array_equal(source.gaussian_per_record(records, 5)[:, :2], source.gaussian_per_record(records, 2))


@SOURCES
def test_integers_cover_their_range_evenly(seed: int | None) -> None:
    drawn = NoiseSource(seed).integers(8, 4000)
    counts = np.bincount(drawn, minlength=8)
    assert len(counts) == 8
    assert ((counts - 500) ** 2 / 500).sum() < 50, "chi-square with 7 degrees of freedom: once in 10^8 runs"


@SOURCES
def test_what_is_drawn_under_a_label_repeats_and_under_another_it_doesnt(seed: int | None) -> None:
    source = NoiseSource(seed)
    first, again, other = (source.repeating(label) for label in ("one", "one", "two"))
    source.gaussian((7,))
    draws = [first.gaussian((4, 4)), first.gaussian((4, 4))]
    assert not np.isin(draws[0], draws[1]).any(), "a sequence, not one number for ever"
    for draw in draws:
        np.testing.assert_array_equal(again.gaussian((4, 4)), draw)
    assert not np.isin(other.gaussian((4, 4)), draws).any()
    records = np.array([[0.25, 0.75]])
    np.testing.assert_array_equal(first.gaussian_per_record(records, 3), again.gaussian_per_record(records, 3))
    assert not np.isin(first.gaussian_per_record(records, 3), source.gaussian_per_record(records, 3)).any()
    np.testing.assert_array_equal(source.repeating("one").integers(1000, 5), source.repeating("one").integers(1000, 5))


@SOURCES
def test_repeating_takes_nothing_from_the_source_and_is_its_secret(seed: int | None) -> None:
    one, other = NoiseSource(seed), NoiseSource(None if seed is None else seed + 1)
    assert not np.isin(one.repeating("label").gaussian((9,)), other.repeating("label").gaussian((9,))).any()
    if seed is not None:
        one.repeating("label").gaussian((9,))
        np.testing.assert_array_equal(one.gaussian((9,)), NoiseSource(seed).gaussian((9,)))


@SOURCES
def test_repeating_numbers_are_standard_normal(seed: int | None) -> None:
    assert looks_normal(NoiseSource(seed).repeating("label").gaussian((COUNT,)))


# -- of one message ---------------------------------------------------------------------------------------------------


@SOURCES
@given(content=st.lists(st.binary(max_size=20), max_size=4), before=st.integers(0, 5))
def test_the_same_content_has_the_same_draws_in_the_same_order(
    seed: int | None, content: list[bytes], before: int
) -> None:
    source = NoiseSource(seed)
    first = source.of_message(*content)
    draws = [first.gaussian((3,)), first.discrete_gaussian((2, 2), 9), first.integers(1000, 4), first.gaussian((3,))]
    source.gaussian((before,))
    again = source.of_message(*content)
    for draw, other in zip(
        draws,
        (again.gaussian((3,)), again.discrete_gaussian((2, 2), 9), again.integers(1000, 4), again.gaussian((3,))),
        strict=True,
    ):
        np.testing.assert_array_equal(draw, other)
    assert not np.isin(draws[0], draws[3]).any()
    other_source = NoiseSource(None if seed is None else seed + 1)
    assert not np.isin(draws[0], other_source.of_message(*content).gaussian((3,))).any()


@SOURCES
@given(contents=st.lists(st.lists(st.binary(max_size=4), max_size=4), min_size=2, max_size=4, unique_by=tuple))
def test_other_content_has_other_draws_however_it_is_cut(seed: int | None, contents: list[list[bytes]]) -> None:
    source = NoiseSource(seed)
    draws = [source.of_message(*content).gaussian((4,)) for content in contents]
    assert len(np.unique(np.concatenate(draws))) == 4 * len(contents)


@SOURCES
def test_a_message_keeps_what_repeats_for_each_record_text_and_label(seed: int | None) -> None:
    source, records = NoiseSource(seed), np.array([[0.25, 0.75]])
    message = source.of_message(b"a message")
    np.testing.assert_array_equal(message.gaussian_per_record(records, 2), source.gaussian_per_record(records, 2))
    np.testing.assert_array_equal(message.integers_per_text(["id"], 60), source.integers_per_text(["id"], 60))
    np.testing.assert_array_equal(message.repeating("label").gaussian((3,)), source.repeating("label").gaussian((3,)))


def test_a_key_gives_these_numbers_for_ever() -> None:
    """After a restart with another version as well. Floats alone may differ, in the last bits."""
    message = NoiseSource(key=bytes(range(32))).of_message(b"residuals", b"step 3")
    assert message.discrete_gaussian((4,), 5 * 2**32).tolist() == [-5236428710, -2528494450, 27694836994, -41952536099]
    assert message.integers(10**6, 3).tolist() == [738883, 539591, 550788]
    np.testing.assert_allclose(message.gaussian((2,)), [-0.4933578692393999, 0.3231055869158449], rtol=1e-12)
