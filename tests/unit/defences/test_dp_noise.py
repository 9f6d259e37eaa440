"""dp_noise: the noise that was asked for, refused where it can't fit, and the success that it predicts."""

import math
import re
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest, norm

import defences
from defences import DefenceError, NoiseSource, TrainingTerms
from defences.discrete_gaussian import LARGEST_DEVIATION
from defences.dp_noise import DEFAULT_EPSILON, DpNoise, _in_steps
from services.common.agreement import TrainingPlan
from services.common.errors import InvalidMessage
from vfl.crypto.fixed_point import FixedPoint
from vfl.learning import ResidualScheme
from vfl.theory.dp_noise import CALIBRATIONS, Calibration, PrivacyBudget, largest_deviation, noise_levels
from vfl.theory.gaussian_mechanism import gaussian_epsilon

TERMS = TrainingTerms(role="active", epochs=30, steps=1500, rows=256, learning_rate=0.01, residual_limit=2.0**14)


def test_it_sits_at_both_kinds_of_party_and_keeps_nothing() -> None:
    defence = defences.load("dp_noise")
    assert isinstance(defence, DpNoise)
    assert defence.spec.sits == ("active", "passive")
    assert (defence.spec.stages, defence.spec.keeps) == (("residuals", "updates"), "nothing")


@pytest.mark.parametrize("columns", [1, 16])
def test_a_network_is_refused_even_with_one_unit_or_a_given_sigma(columns: int) -> None:
    """Its formula is of linear models: it would state an epsilon that nothing stands behind."""
    for defence in (DpNoise(), DpNoise(sigma=1.0)):
        with pytest.raises(DefenceError, match=r"residuals of linear models.*choose marvell"):
            defence.check(replace(TERMS, columns=columns, hidden=columns))


@pytest.mark.parametrize("calibration", CALIBRATIONS)
def test_each_role_gets_its_sigma_of_the_formula(calibration: Calibration) -> None:
    defence = DpNoise(epsilon=0.2, delta=0.05, gradient_bound=1.5, calibration=calibration)
    levels = noise_levels(
        PrivacyBudget(0.2, 0.05, calibration),
        epochs=30,
        steps=1500,
        rows=256,
        learning_rate=0.01,
        gradient_bound=1.5,
    )
    assert defence.levels(TERMS) == levels
    assert defence.sigma_for(TERMS) == levels.sigma_active
    assert defence.sigma_for(replace(TERMS, role="passive")) == levels.sigma_passive


def test_the_defaults_and_the_papers_number_of_steps() -> None:
    assert DpNoise() == DpNoise(delta=None, gradient_bound=1.0, calibration="exact", project=True)
    assert DpNoise().sigma_for(TERMS) == DpNoise(epsilon=DEFAULT_EPSILON).sigma_for(TERMS)
    paper = DpNoise(delta=0.1, calibration="lemma")
    assert paper.sigma_for(TERMS) == pytest.approx(197.181, abs=1e-3)
    assert replace(paper, steps=30).sigma_for(TERMS) == pytest.approx(196.969, abs=1e-3)
    assert DpNoise(sigma=3.5).sigma_for(TERMS) == 3.5
    assert DpNoise(sigma=3.5).levels(TERMS) is None


def test_delta_is_a_tenth_of_one_record_unless_it_is_given() -> None:
    """At 1/n publishing one record of n would keep the promise; without n, as many as 50 batches hold are assumed."""
    of_400 = replace(TERMS, records=400)
    assert DpNoise(epsilon=0.1).sigma_for(of_400) == DpNoise(epsilon=0.1, delta=1 / 4000).sigma_for(of_400)
    assert DpNoise().sigma_for(TERMS) == DpNoise(delta=0.1 / (50 * 257)).sigma_for(TERMS)
    assert DpNoise(delta=0.1).prediction(of_400).note.startswith("Delta is 0.1, and there are 400 training records")
    assert "40 in all" in DpNoise(delta=0.1).prediction(of_400).note
    assert DpNoise(delta=1 / 4000).prediction(of_400).note == DpNoise().prediction(of_400).note == ""


@pytest.mark.parametrize("columns", [1, 4])
def test_the_noise_is_gaussian_with_that_sigma(columns: int) -> None:
    residuals = np.random.default_rng(0).normal(size=(5000, columns))
    noisy = DpNoise(sigma=7.0).protect_residuals(residuals, TERMS, NoiseSource(1))
    assert noisy.shape == residuals.shape
    assert kstest(((noisy - residuals) / 7.0).ravel(), "norm").pvalue > 1e-3


@pytest.mark.parametrize("sigma", [2.0**-10, 0.3, 7.0, 17.5, 1e6, 1e300])
@pytest.mark.parametrize("residual_step", [2.0**-8, 2.0**-32, 2.0**-48])
def test_what_is_sent_is_on_the_grid_and_the_noise_is_no_less_than_was_promised(
    sigma: float, residual_step: float
) -> None:
    deviation, step = _in_steps(sigma, residual_step)
    assert 1 <= deviation <= LARGEST_DEVIATION
    assert step == max(residual_step, step)
    assert math.log2(step) == round(math.log2(step))
    if sigma > residual_step * 2**24:
        assert 1 <= deviation * step / sigma < 1 + 2.0**-23
    # Another last bit of sigma is no other law.
    if sigma in (0.3, 1e300):
        assert {_in_steps(math.nextafter(sigma, way), residual_step) for way in (0, math.inf)} == {(deviation, step)}
    residuals = np.linspace(-1, 1, 50)[:, None]
    terms = replace(TERMS, residual_step=residual_step)
    noisy = DpNoise(sigma=sigma).protect_residuals(residuals, terms, NoiseSource(1))
    steps = noisy / step
    np.testing.assert_array_equal(steps, np.rint(steps))
    assert np.abs(noisy - residuals).max() > sigma


def test_whole_numbers_of_noise_are_a_rounded_gaussian_but_for_what_the_docstring_says() -> None:
    """Hence epsilon is that of the Gaussian mechanism: 1 / (49 S^2) a number is below 2^-45 where one is stated."""
    for deviation in (4, 8, 32):
        whole = np.arange(-12 * deviation, 12 * deviation + 1)
        discrete = np.exp(-((whole / deviation) ** 2) / 2)
        rounded = norm.cdf((whole + 0.5) / deviation) - norm.cdf((whole - 0.5) / deviation)
        distance = np.abs(discrete / discrete.sum() - rounded).sum() / 2
        assert 1 / 51 < distance * deviation**2 < 1 / 49


def test_a_sigma_of_few_steps_states_no_epsilon() -> None:
    fine, coarse = (replace(TERMS, residual_step=step) for step in (2.0**-18, 2.0**-16))
    defence = DpNoise(sigma=5.0)
    stated, unstated = defence.prediction(fine), defence.prediction(coarse)
    assert stated.attained is not None
    assert stated.from_any_peer is not None
    assert (unstated.attained, unstated.levels, unstated.from_any_peer) == (None, None, None)
    assert "Sigma is 327,680 steps of the fixed point" in unstated.note
    assert "Raise residual_fraction_bits" in unstated.note


def test_the_noise_is_fresh_at_each_step_and_repeats_with_a_seed_only() -> None:
    residuals, defence = np.zeros((50, 1)), DpNoise()
    source, again = NoiseSource(3), NoiseSource(3)
    first, second = (defence.protect_residuals(residuals, TERMS, source) for _ in range(2))
    assert len(np.unique(np.vstack([first, second]))) == 100
    np.testing.assert_array_equal(defence.protect_residuals(residuals, TERMS, again), first)
    unseeded = [defence.protect_residuals(residuals, TERMS, NoiseSource()) for _ in range(2)]
    assert not np.isin(unseeded[0], unseeded[1]).any()


def test_more_than_two_classes_need_a_sigma() -> None:
    many = replace(TERMS, columns=3)
    with pytest.raises(DefenceError, match=r"two classes.*give sigma"):
        DpNoise().check(many)
    DpNoise(sigma=5.0).check(many)
    with pytest.raises(DefenceError, match=r"two classes.*give sigma"):
        DpNoise().protect_residuals(np.zeros((8, 3)), TERMS, NoiseSource(0))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"epsilon": 0}, "epsilon.*positive"),
        ({"epsilon": 1.0, "calibration": "lemma"}, "epsilon.*between 0 and 1.*exact"),
        ({"epsilon": 1.0, "calibration": "printed"}, "epsilon.*give sigma"),
        ({"epsilon": -0.5}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"delta": 0.0}, "delta"),
        ({"delta": 1.0}, "delta"),
        ({"gradient_bound": 0.5}, "gradient_bound"),
        ({"calibration": "literal"}, "calibration.*exact, lemma, printed"),
        ({"steps": 0}, "steps"),
        ({"sigma": 0.0}, "sigma.*positive"),
        ({"sigma": -1.0}, "sigma"),
        ({"sigma": math.inf}, "sigma.*finite"),
        ({"sigma": math.nan}, "sigma"),
        ({"sigma": 1.0, "epsilon": 0.5}, "epsilon or sigma.*drop one"),
        ({"variance": 1.0}, "Its options: epsilon, delta"),
        ({"epsilon": "small"}, "dp_noise"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        defences.load("dp_noise", **options)


@pytest.mark.parametrize("change", [{"learning_rate": 2.0}, {"epochs": 2000}])
def test_terms_that_the_formula_does_not_cover_are_refused_unless_sigma_is_given(change: dict[str, Any]) -> None:
    terms = replace(TERMS, **change)
    with pytest.raises(DefenceError, match="can't compute sigma for this session"):
        DpNoise().check(terms)
    DpNoise(sigma=5.0).check(terms)


def test_epsilon_is_of_plain_steps_and_sigma_of_any() -> None:
    """NaN stands for steps that aren't the gradient times a number, such as those by own moments."""
    terms = replace(TERMS, learning_rate=math.nan)
    with pytest.raises(DefenceError, match=r"proof is of plain steps.*Set steps=plain, or give sigma"):
        DpNoise().check(terms)
    DpNoise(sigma=5.0).check(terms)
    prediction = DpNoise(sigma=5.0).prediction(terms)
    assert (prediction.attained, prediction.guaranteed_steps) == (None, 0)


# --- the fixed point's range ---------------------------------------------------------------------------------------


def test_the_default_fixed_point_is_too_narrow_for_the_defaults_and_the_remedy_is_named() -> None:
    narrow = replace(TERMS, residual_limit=2.0**7)
    with pytest.raises(DefenceError, match=r"set residual_integer_bits to 12, or give a sigma of 16\.2 or less"):
        DpNoise().check(narrow)
    at_a_tenth = DpNoise(delta=0.1)
    with pytest.raises(DefenceError, match=r"bits to 10, or set epsilon to 6\.28 or more, or give a sigma of 16\.2"):
        at_a_tenth.check(narrow)
    with pytest.raises(DefenceError, match=r"set residual_integer_bits to 11, or give a sigma of 16\.2 or less"):
        replace(at_a_tenth, calibration="lemma").check(narrow)
    with pytest.raises(DefenceError, match=r"integer_bits to 8, or set epsilon to 0\.837 or more, or give"):
        replace(at_a_tenth, calibration="printed").check(narrow)
    DpNoise().check(replace(TERMS, residual_limit=2.0**12))


@given(
    epsilon=st.floats(0.01, 0.99),
    calibration=st.sampled_from(CALIBRATIONS),
    delta=st.sampled_from([None, 0.1]),
    role=st.sampled_from(["active", "passive"]),
    bits=st.integers(1, 14),
    epochs=st.integers(1, 50),
    rows=st.integers(1, 4096),
    bound=st.floats(0.6, 20),
)
def test_every_remedy_that_is_named_works(
    epsilon: float,
    calibration: Calibration,
    delta: float | None,
    role: Any,
    bits: int,
    epochs: int,
    rows: int,
    bound: float,
) -> None:
    defence = DpNoise(epsilon=epsilon, delta=delta, calibration=calibration, gradient_bound=bound)
    terms = replace(TERMS, role=role, epochs=epochs, rows=rows, residual_limit=2.0**bits)
    try:
        defence.check(terms)
    except DefenceError as error:
        told = str(error)
    else:
        return
    assert "set " in told or "give a " in told or "give a larger epsilon" in told
    widest = replace(terms, residual_limit=2.0**14)
    if found := re.search(r"residual_integer_bits to (\d+)", told):
        assert int(found[1]) <= 14
        wider = replace(terms, residual_limit=2.0 ** int(found[1]))
        defence.check(wider)
        with pytest.raises(DefenceError):
            defence.check(replace(wider, residual_limit=wider.residual_limit / 2))
    else:
        with pytest.raises(DefenceError):
            defence.check(widest)
    if found := re.search(r"epsilon to ([\d.]+) or more", told):
        replace(defence, epsilon=float(found[1])).check(terms)
    if found := re.search(r"sigma of ([\d.e-]+) or less", told):
        DpNoise(sigma=float(found[1]), gradient_bound=bound).check(terms)


def test_bits_that_no_plan_agrees_on_are_no_remedy() -> None:
    """The agreement takes up to 14: what TrainingPlan refuses must not be what a refusal recommends."""
    with pytest.raises(
        DefenceError, match=r"no residual_integer_bits up to 14 hold: set epsilon to 0\.\d+ or more, or give"
    ):
        DpNoise(epsilon=0.03).check(TERMS)
    told = (
        r"no residual_integer_bits up to 14 hold: give a larger epsilon, a smaller sigma or a smaller gradient_bound\.$"
    )
    with pytest.raises(DefenceError, match=told):
        DpNoise(epsilon=0.01, gradient_bound=50.0).check(replace(TERMS, residual_limit=2.0**7))
    with pytest.raises(InvalidMessage, match="from 1 to 14"):
        TrainingPlan(residual_integer_bits=15).check()
    TrainingPlan(residual_integer_bits=14).check()


def test_what_is_checked_is_the_larger_batch_that_a_session_may_have() -> None:
    """rows are those of the smallest batch; others have one more."""
    deviation = largest_deviation(1500 * 257, 1e-8)
    fitting = (2.0**14 - 4) / deviation
    DpNoise(sigma=math.nextafter(fitting, 0) * (1 - 1e-12)).check(TERMS)
    with pytest.raises(DefenceError, match="1500 steps of up to 257 rows"):
        DpNoise(sigma=fitting * (1 + 1e-12)).check(TERMS)


@pytest.mark.parametrize("limit", [2.0**7, math.inf])
@pytest.mark.parametrize(
    "options",
    [
        {"epsilon": 1e-310, "calibration": "lemma"},
        {"epsilon": 1e-320, "calibration": "lemma"},
        {"gradient_bound": 1e200},
        {"gradient_bound": 1e308, "sigma": 1.0},
        {"sigma": 1e308},
        {"steps": 10**400},
    ],
)
def test_numbers_that_overflow_are_refused_with_a_sentence(options: dict[str, Any], limit: float) -> None:
    """Also without encryption, where any finite noise fits."""
    with pytest.raises(DefenceError, match=r"exceeds every float64: (raise|give a larger) epsilon"):
        defences.load("dp_noise", **options).check(replace(TERMS, residual_limit=limit, rows=1))


@pytest.mark.parametrize("option", ["sigma", "gradient_bound", "epsilon", "delta"])
def test_whole_numbers_beyond_every_float_are_refused_at_once(option: str) -> None:
    options: dict[str, Any] = {option: 10**400}
    with pytest.raises(ValueError, match=f"Expected {option} to be"):
        DpNoise(**options)
    with pytest.raises(ValueError, match=f"[Ee]xpected {option} to be"):
        defences.load("dp_noise", **options)


@pytest.mark.parametrize("calibration", CALIBRATIONS)
@pytest.mark.parametrize("options", [{"delta": 1e-320}, {"epsilon": 1e-300}, {"epsilon": 1e-300, "delta": 5e-324}])
def test_tiny_budgets_are_computed_where_float64_holds_them(options: dict[str, Any], calibration: Calibration) -> None:
    """A refusal names a remedy, and without a limit nothing is in the way."""
    for bound in (1.0, 4095.999999999):
        defence = DpNoise(gradient_bound=bound, calibration=calibration, **options)
        assert math.isfinite(defence.sigma_for(TERMS))
        defence.check(replace(TERMS, residual_limit=math.inf))
        defence.prediction(TERMS)
        with pytest.raises(DefenceError, match=r"give a sigma of|give a larger epsilon"):
            defence.check(replace(TERMS, residual_limit=2.0**7))
        try:
            defence.check(TERMS)
        except DefenceError as error:
            assert "give a sigma of" in str(error)  # noqa: PT017 - it may fit, too


def test_noise_that_passes_the_check_can_be_encoded() -> None:
    """A whole run's residuals, at the largest sigma that 7 integer bits take."""
    terms = replace(TERMS, steps=20, residual_limit=2.0**7)
    defence, source = DpNoise(sigma=17.5), NoiseSource(5)
    defence.check(terms)
    with pytest.raises(DefenceError):
        DpNoise(sigma=18.0).check(terms)
    for _ in range(terms.steps):
        noisy = defence.protect_residuals(np.full((256, 1), -4.0), terms, source)
        FixedPoint(32, 7).encode(noisy, inclusive=False)


# --- the prediction ------------------------------------------------------------------------------------------------


def test_the_prediction_is_what_a_first_step_and_a_whole_run_show() -> None:
    defence = DpNoise(sigma=9.0)
    predicted = defence.prediction(TERMS)
    rng, source = np.random.default_rng(0), NoiseSource(6)
    labels = rng.integers(0, 2, 20_000)
    f = ResidualScheme(2).active_share(np.zeros((20_000, 1)), labels)
    draws = np.hstack([defence.protect_residuals(f, TERMS, source) for _ in range(TERMS.epochs)])
    by_step, on_sums = (((seen < 0) == (labels == 1)).mean() for seen in (draws[:, 0], draws.sum(axis=1)))
    assert predicted.first_step_success == pytest.approx(norm.cdf(2 / 9))
    assert by_step == pytest.approx(predicted.first_step_success, abs=5 * 0.5 / math.sqrt(20_000))
    assert on_sums == pytest.approx(predicted.best_success, abs=5 * 0.5 / math.sqrt(20_000))
    features = rng.normal(size=(256, 6))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    noise = [defence.protect_residuals(np.zeros((256, 1)), TERMS, source) for _ in range(500)]
    squared = np.array([((features.T @ z) ** 2).sum() for z in noise]) / (4 * 256) ** 2
    assert math.sqrt(squared.mean()) == pytest.approx(predicted.gradient_error, rel=0.1)
    assert predicted.levels is None
    assert predicted.note == "Sigma was given, not computed from an epsilon: what it is worth stands beside it."
    assert predicted.attained is not None
    assert predicted.attained.delta_at_the_asked_epsilon is None
    assert predicted.attained.epsilon_of_the_run == pytest.approx(
        gaussian_epsilon(43.86588, 9.0, 0.1 / 12_850), rel=1e-5
    )
    three = defence.prediction(replace(TERMS, columns=3))
    assert three.attained is None
    assert "no epsilon and no delta" in three.note


@pytest.mark.parametrize("role", ["active", "passive"])
def test_what_noise_is_worth_sets_each_partys_noise_against_its_own_sensitivity(
    role: Literal["active", "passive"],
) -> None:
    """The label party's shares move further, so that it adds more: each party's noise is worth what was asked for."""
    terms = replace(TERMS, role=role, learning_rate=0.001, parties=3)
    defence = DpNoise(epsilon=0.5, delta=1e-5)
    predicted = defence.prediction(terms)
    levels, attained = predicted.levels, predicted.attained
    assert levels is not None
    assert attained is not None
    assert levels.sigma_active > 1.5 * levels.sigma_passive
    assert attained.epsilon_of_the_run == pytest.approx(0.5, rel=1e-6)
    assert attained.delta_at_the_asked_epsilon == pytest.approx(1e-5, rel=1e-6)
    # Three parties whose noise is worth the same: the ratio of one, times the root of three.
    ratio = levels.sensitivity_active / levels.sigma_active
    assert attained.epsilon_of_all_parties == pytest.approx(gaussian_epsilon(ratio * math.sqrt(3), 1.0, 1e-5), rel=1e-6)


def test_long_rows_are_noted_in_the_own_record_and_not_in_a_refusal_that_others_read() -> None:
    """(71)-(72) assume ||x|| <= 1; how long this party's rows are is its own business."""
    long = replace(TERMS, row_norm=3.0)
    assert "up to 3 long" in DpNoise().prediction(long).note
    assert DpNoise().prediction(replace(TERMS, row_norm=1.0001)).note == ""
    refusals = []
    for terms in (TERMS, long):
        with pytest.raises(DefenceError) as refused:
            DpNoise(sigma=10.0).check(replace(terms, residual_limit=16.0))
        refusals.append(str(refused.value))
    assert refusals[0] == refusals[1]


@pytest.mark.parametrize(
    ("options", "terms", "told"),
    [
        ({"project": False}, {}, "project=false this party's weights have no bound"),
        ({"steps": 30}, {}, "Sigma is for 30 steps, and the session has 1,500"),
        ({}, {"row_norm": 1.01}, "rows are up to 1.01 long"),
        ({}, {"row_norm": 0.8, "features": 3, "all_features": 6}, "its share is 0.707"),
    ],
)
@pytest.mark.parametrize("given", [{}, {"sigma": 9.0}])
def test_no_epsilon_is_stated_whose_conditions_do_not_hold(
    options: dict[str, Any], terms: dict[str, Any], told: str, given: dict[str, Any]
) -> None:
    held = DpNoise(**given).prediction(TERMS)
    assert held.attained is not None
    predicted = DpNoise(**options, **given).prediction(replace(TERMS, **terms))
    assert (predicted.levels, predicted.attained) == (None, None)
    assert told in predicted.note
    assert "no epsilon is stated" in predicted.note
    assert predicted.sigma > 0
    assert (predicted.from_any_peer is None) == ("project" in options)
    share = replace(TERMS, row_norm=math.sqrt(0.5), features=3, all_features=6)
    assert DpNoise(**given).prediction(share).attained is not None


def test_the_prediction_of_a_budget_tells_what_it_assumes() -> None:
    defence = DpNoise(delta=0.1, calibration="lemma")
    predicted, passive = defence.prediction(TERMS), defence.prediction(replace(TERMS, role="passive"))
    assert predicted.levels is not None
    assert "Delta is 0.1" in predicted.note
    told = " ".join(predicted.levels.assumptions)
    for word in ("||x|| <= 1", "4 G - 2 = 2", "learning rate", "one record", "epsilon is spent once", "not privacy of"):
        assert word in told
    assert predicted.best_success == pytest.approx(norm.cdf(2 * math.sqrt(30) / 197.181), abs=1e-6)
    assert (predicted.guaranteed_steps, passive.guaranteed_steps) == (4, 4)
    assert passive.sigma < predicted.sigma


@pytest.mark.parametrize("options", [{}, {"sigma": 3.0}])
def test_a_passive_partys_prediction_says_nothing_of_labels(options: dict[str, Any]) -> None:
    """They are hidden by the label party's noise, and whether it adds any is not for this party to know."""
    predicted = DpNoise(**options).prediction(replace(TERMS, role="passive"))
    assert (predicted.first_step_success, predicted.best_success) == (None, None)
    assert predicted.gradient_error > 0


# --- projection ----------------------------------------------------------------------------------------------------


@given(
    sizes=st.lists(st.integers(1, 9), min_size=2, max_size=4),
    bound=st.floats(0.51, 5),
    scale=st.floats(1e-3, 1e3),
    seed=st.integers(0, 999),
)
def test_parts_that_are_each_projected_keep_the_norm_of_the_whole(
    sizes: list[int], bound: float, scale: float, seed: int
) -> None:
    """And bring no two models further from each other, which is all that Lemma D.2 needs of a step."""
    rng = np.random.default_rng(seed)
    defence = DpNoise(gradient_bound=bound, project=True)
    terms = [replace(TERMS, features=size, all_features=sum(sizes)) for size in sizes]
    models = [[scale * rng.normal(size=(size, 1)) for size in sizes] for _ in range(2)]
    kept = [[defence.project_parameters(*pair) for pair in zip(model, terms, strict=True)] for model in models]
    for model in kept:
        assert np.linalg.norm(np.vstack(model)) <= (4 * bound - 2) * (1 + 1e-12)
    apart, before = (np.linalg.norm(np.vstack(pair[0]) - np.vstack(pair[1])) for pair in (kept, models))
    assert apart <= before * (1 + 1e-12)


def test_only_parameters_that_are_too_long_are_shortened_unless_asked_not_to() -> None:
    terms = replace(TERMS, features=1, all_features=4)
    short, long = np.array([[0.6], [0.8]]), np.array([[3.0], [4.0]])
    projecting = DpNoise()
    np.testing.assert_array_equal(projecting.project_parameters(short, terms), short)
    np.testing.assert_allclose(projecting.project_parameters(long, terms), [[0.6], [0.8]])
    np.testing.assert_array_equal(DpNoise(project=False).project_parameters(long, terms), long)
    np.testing.assert_array_equal(projecting.project_parameters(long, replace(terms, columns=3)), long)


def test_a_party_whose_part_was_too_long_is_told_what_to_do_and_it_helps() -> None:
    """4 sqrt(1 / 4) = 2 would do for a part of 1 in 4 features; the bound that is named is enough."""
    terms = replace(TERMS, features=1, all_features=4)
    told = DpNoise().remark(2.61, terms)
    assert "reached a norm of 2.61" in told
    assert "Its share of the 2 that epsilon rests on is 1," in told
    (enough,) = re.findall(r"gradient_bound of ([\d.]+) or more", told)
    assert DpNoise(gradient_bound=float(enough)).remark(2.61, terms) == ""
    assert DpNoise(gradient_bound=float(enough) - 0.02).remark(2.61, terms)
    assert DpNoise().remark(1.0, terms) == DpNoise(sigma=5.0).remark(9.0, replace(terms, columns=3)) == ""
