"""Known answers, calibration and properties of the federation's part."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attacks import LEVELS, Level
from plumbline.judge.chance import p_values
from plumbline.judge.federation_part import (
    FLOOR,
    FOLDS,
    AttackTests,
    Comparison,
    Judged,
    LevelVerdict,
    Losses,
    beside_each_other,
    choose_and_judge,
    folds,
)
from plumbline.judge.lights import light_of
from plumbline.telling.document import Light
from vfl.arrays import FloatArray

RECORDS = 400


def flat(name: str, level: Level, *means: float, records: int = RECORDS) -> Losses:
    """Losses that are the same for every record."""
    return Losses(name, level, np.tile(means, (records, 1)))


def compared(attacks: list[Losses], score_free: list[Losses]) -> Comparison:
    return Comparison(attacks, score_free)


def test_the_part_by_hand_level_by_level() -> None:
    found = compared(
        [flat("half_star", "nothing", 0.1, 0.3)],
        [
            flat("guessing 1/2", "nothing", 0.4, 0.2),
            flat("its mean", "marginals", 0.2, 0.2),
            flat("imputation", "records", 0.05, 0.2),
        ],
    )
    first = [found.at(level).verdict("half_star", 0) for level in LEVELS]
    assert [one.baseline for one in first] == ["guessing 1/2", "its mean", "its mean", "imputation"]
    assert [one.part.mean if one.part else None for one in first] == pytest.approx([0.75, 0.5, 0.5, 0.0])
    # An attack that errs more than a guess gives nothing away, and is said to be worse.
    second = found.at("records").verdict("half_star", 1)
    assert second.part is not None
    assert second.removed is not None
    assert (second.part.mean, second.is_exposed) == (0.0, False)
    assert [second.removed.mean, second.removed.low, second.removed.high] == pytest.approx([-0.1] * 3)


def test_what_is_known_without_a_score_has_no_part() -> None:
    found = compared([flat("a", "nothing", 0.0, 0.0)], [flat("guess", "nothing", 0.99 * FLOOR, 1.01 * FLOOR)]).at(
        "nothing"
    )
    assert found.verdict("a", 0).part is None
    exact = found.verdict("a", 1).part
    assert exact is not None
    assert (exact.mean, exact.low, exact.high) == (1.0, 1.0, 1.0)


def test_without_attacks_e0_is_told_all_the_same() -> None:
    (column,) = choose_and_judge([], [flat("guess", "nothing", 0.25)])
    assert [(one.baseline, one.e0, one.attack, one.error, one.part) for one in column.levels] == [
        ("guess", 0.25, "", None, None)
    ] * 4


@pytest.mark.parametrize(("error", "enough"), [(0.1, "amber"), (0.25, "green")])
def test_fewer_than_twenty_known_records_show_nothing_of_who_knows_some(error: float, enough: Light) -> None:
    attacks = [flat("half_star", "nothing", 0.25), flat("shadow", "records", error)]
    lights = []
    for known in (None, 1, 19, 20):
        (column,) = choose_and_judge(attacks, [flat("guess", "nothing", 0.25)], record_count=known)
        assert [one.known for one in column.levels] == [None, None, None, known]
        lights.append(light_of(column.levels))
    assert lights == [enough, "grey", "grey", enough]


def test_a_comparison_needs_a_guess_that_knows_nothing() -> None:
    with pytest.raises(ValueError, match="needs to know nothing"):
        compared([flat("a", "nothing", 0.1)], [flat("its mean", "marginals", 0.1)])


def test_an_attack_counts_only_for_adversaries_who_know_what_it_needs() -> None:
    attacks = [flat("blind", "nothing", 0.3), flat("informed", "records", 0.1)]
    found = compared(attacks, [flat("guess", "nothing", 0.4)])
    assert [found.at(level).attacks for level in LEVELS] == [("blind",)] * 3 + [("blind", "informed")]


def test_intervals_cover_the_true_part_about_95_times_of_100() -> None:
    """Squared errors of normal noise, half of whose variance the attack removes, paired within a record."""
    covered = 0
    for trial in range(400):
        generator = np.random.default_rng(trial)
        shared = generator.normal(size=(200, 1))
        guess = Losses("guess", "nothing", (shared + generator.normal(size=(200, 1))) ** 2)
        attack = Losses("attack", "nothing", shared**2)
        part = compared([attack], [guess]).at("nothing").verdict("attack", 0).part
        assert part is not None
        covered += part.low <= 0.5 <= part.high
    assert 0.93 <= covered / 400 <= 0.97


def test_mean_losses_come_with_intervals_over_columns_and_of_each() -> None:
    varied = Losses("a", "nothing", np.random.default_rng(11).exponential(size=(400, 2)) * [1.0, 3.0])
    found = compared([varied], [flat("guess", "nothing", 0.25, 0.25)])
    both, (first, second) = found.mean_losses("a")
    assert both.mean == pytest.approx(varied.values.mean())
    assert first.mean == pytest.approx(varied.values[:, 0].mean())
    assert first.low < first.mean < first.high
    # Three times the size, three times the width.
    assert (second.high - second.low) / (first.high - first.low) == pytest.approx(3, rel=0.3)
    fixed, _ = found.mean_losses("guess")
    assert (fixed.mean, fixed.low, fixed.high) == pytest.approx((0.25, 0.25, 0.25))


def test_one_record_that_the_guess_misses_is_no_leak() -> None:
    guess = Losses("guess", "nothing", np.eye(20)[:, :1])
    verdict = compared([flat("a", "nothing", 0.0, records=20)], [guess]).at("nothing").verdict("a", 0)
    assert verdict.part is not None
    assert (verdict.part.mean, verdict.part.low, verdict.is_exposed) == (1.0, 0.0, False)


def test_there_is_a_part_from_the_floor_on() -> None:
    guess = flat("guess", "nothing", FLOOR, records=1)
    assert compared([flat("a", "nothing", 0.0, records=1)], [guess]).at("nothing").verdict("a", 0).part is not None


def test_what_rounding_may_do_is_no_leak_and_nothing_is_left_after_all_but_it() -> None:
    found = compared([flat("a", "nothing", 0.2 * (1 - 5e-5), 0.2 * 5e-6)], [flat("guess", "nothing", 0.2, 0.2)]).at(
        "nothing"
    )
    same, all_of_it = found.verdict("a", 0).part, found.verdict("a", 1).part
    assert same is not None
    assert all_of_it is not None
    assert (same.low, same.high, all_of_it.low, all_of_it.high) == (0.0, 0.0, 1.0, 1.0)


def test_one_session_is_judged_without_attacks_that_read_several() -> None:
    attacks = [flat("of many", "nothing", 0.1), flat("of one", "nothing", 0.2)]

    (column,) = choose_and_judge(attacks, [flat("guess", "nothing", 0.4)], of_sessions=["of many"])
    assert [levels[0].attack for levels in (column.levels, column.one_session)] == ["of many", "of one"]
    assert column.one_session[0].error == pytest.approx(0.2)


def test_who_is_best_by_luck_is_not_credited_with_it() -> None:
    """Fifty attacks that are worse than the guess in truth: the luckiest of them on all records looks better."""
    guess = Losses("guess", "nothing", np.full((60, 1), 1.0))
    exposed = 0
    for seed in range(60):
        generator = np.random.default_rng(seed)
        lucky = [Losses(str(number), "nothing", generator.exponential(1.05, size=(60, 1))) for number in range(50)]
        assert min(one.values.mean() for one in lucky) < 0.9
        (column,) = beside_each_other([("x", one) for one in choose_and_judge(lucky, [guess])])
        exposed += column.levels[0].is_exposed
    # Of a share of .05 more than 9 are one in a thousand; without a correction for fifty it is a quarter.
    assert exposed <= 9


def test_an_interval_allows_for_a_choice_that_few_persons_cannot_make() -> None:
    """One of three attacks removes .28, and two nothing: of 60 persons, the choice shows which in most columns only."""
    generator = np.random.default_rng(7)
    truth = generator.normal(size=(60, 1_000))
    estimates = [
        0.28 * truth + generator.normal(0, np.sqrt(0.28 * 0.72), truth.shape),
        *(0.3 * truth + generator.normal(0, np.sqrt(1 - 0.7**2), truth.shape) for _ in range(2)),
    ]
    attacks = [Losses(str(number), "nothing", (truth - one) ** 2) for number, one in enumerate(estimates)]
    guess = Losses("its mean", "nothing", truth**2)

    def held(judged: list[Judged]) -> float:
        parts = [one.levels[0].part for one in judged]
        return float(np.mean([part.low <= 0.28 <= part.high for part in parts if part is not None]))

    judged = choose_and_judge(attacks, [guess], is_tested=False)
    alone = choose_and_judge(attacks[:1], [guess], is_tested=False)
    assert 0.93 <= held(judged) <= 0.97
    assert held(judged) == pytest.approx(held(alone), abs=0.015)
    assert np.mean([one.levels[0].attack != "0" for one in judged]) > 0.05


def chances(judged: Judged) -> list[float | None]:
    return [one.corrected for one in judged.levels]


def judged(*levels: dict[str, float], guesses: tuple[str, ...] = ("zero", "mean", "mean", "imputation")) -> Judged:
    """What was found of a column by attacks of these chances, level by level."""
    found = []
    for level, some in zip(LEVELS, levels, strict=True):
        shown_by = min(some, key=some.__getitem__)
        found.append(LevelVerdict(level, "its mean", 1.0, shown_by, p_value=some[shown_by], shown_by=shown_by))
    return Judged(tuple(found), tests=tuple(map(AttackTests, guesses, levels)))


def test_every_attack_counts_and_what_is_tested_twice_counts_once() -> None:
    """At level marginals and covariance the same two tests, at records two against another guess; nothing by itself."""
    one = judged({"a": 0.01}, {"a": 0.01, "b": 0.2}, {"a": 0.01, "b": 0.2}, {"a": 0.03, "b": 0.3})
    (found,) = beside_each_other([("x", one)])
    assert chances(found) == pytest.approx([0.01, 0.04, 0.04, 0.09])
    fewer = judged({"b": 0.01}, {"b": 0.2}, {"b": 0.2}, {"b": 0.3})
    same, kept, other = beside_each_other([("x", one), ("x", fewer), ("y", fewer)])
    assert chances(same) == pytest.approx([0.03, 0.06, 0.06, 0.15])
    assert chances(kept) == pytest.approx([0.03, 0.8, 0.8, 0.8])
    assert chances(other) == chances(kept)


def test_an_attack_that_wins_every_fold_has_no_choice_in_its_chance() -> None:
    """The chance of a verdict is the least of its attacks' on all records, whichever attack the folds choose."""
    generator = np.random.default_rng(11)
    guess = Losses("guess", "nothing", generator.exponential(1.0, (60, 2)))
    attacks = [Losses(str(number), "nothing", generator.exponential(0.8, (60, 2))) for number in range(9)]
    for column, found in enumerate(choose_and_judge(attacks, [guess])):
        alone = {one.name: float(p_values(guess.values, one.values)[column]) for one in attacks}
        assert dict(found.tests[0].chances) == pytest.approx(alone)
        assert found.levels[0].p_value == min(alone.values())
        assert alone[found.levels[0].shown_by] == min(alone.values())


@given(st.integers(1, 50))
def test_folds_are_as_large_as_each_other_and_always_alike(records: int) -> None:
    sizes = np.bincount(folds(records))
    assert (len(sizes), sizes.sum()) == (min(FOLDS, records), records)
    assert np.ptp(sizes) <= 1
    np.testing.assert_array_equal(folds(records), folds(records))


@given(st.integers(0, 10_000), st.integers(2, 40))
def test_no_record_has_a_say_in_the_choice_that_is_judged_by_it(seed: int, records: int) -> None:
    """Each record's loss is that of what costs least, on average, in all other folds."""
    losses = np.random.default_rng(seed).exponential(size=(3, records, 1))
    judged = np.empty(records)
    for fold in range(min(FOLDS, records)):
        is_judged = folds(records) == fold
        judged[is_judged] = losses[losses[:, ~is_judged].mean(axis=(1, 2)).argmin(), is_judged, 0]
    (column,) = choose_and_judge(
        [Losses(str(number), "nothing", one) for number, one in enumerate(losses)],
        [flat("guess", "nothing", 1.0, records=records)],
    )
    assert column.levels[0].error == pytest.approx(judged.mean())


@given(st.integers(0, 10_000))
def test_parts_lie_in_0_to_1_and_fall_with_what_is_known_beforehand(seed: int) -> None:
    generator = np.random.default_rng(seed)

    def drawn(name: str, level: Level) -> Losses:
        values: FloatArray = generator.exponential(generator.uniform(0.01, 1), size=(40, 2))
        return Losses(name, level, values)

    found = compared([drawn("a", "nothing")], [drawn(level, level) for level in LEVELS])
    for column in range(2):
        parts = [found.at(level).verdict("a", column).part for level in LEVELS]
        means = [one.mean for one in parts if one is not None]
        assert means == sorted(means, reverse=True)
        assert all(0 <= one.low <= one.high <= 1 for one in parts if one is not None)
