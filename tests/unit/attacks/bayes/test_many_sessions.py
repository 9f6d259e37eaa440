"""The attack many_sessions: what sessions tell together, known and unknown models, what it refuses."""

from dataclasses import replace

import numpy as np
import pytest

import attacks
from tests.unit.attacks.bayes.test_observation import defended
from tests.unit.attacks.bayes.test_posterior import PRIORS, drawn, error
from vfl.arrays import FloatArray
from vfl.learning import confidence_scores


def in_sessions(view: attacks.PredictionView, truth: FloatArray, count: int, seed: int = 0) -> attacks.PredictionView:
    """The view of the last of so many sessions, each with a random model of its own."""
    rng, made = np.random.default_rng(seed), []
    known = view.auxiliary
    assert known is not None
    for _ in range(count):
        own, passive = rng.standard_normal((view.classes, view.features_active.shape[1] + 1)), rng.standard_normal
        weights = passive((view.classes, view.d))

        def scores_of(
            active: FloatArray, columns: FloatArray, own: FloatArray = own, weights: FloatArray = weights
        ) -> FloatArray:
            return confidence_scores(active @ own[:, :-1].T + own[:, -1] + columns @ weights.T)

        made.append(
            replace(
                view,
                weights_active=own[:, :-1],
                weights_passive=weights,
                bias=own[:, -1],
                scores=scores_of(view.features_active, truth),
                auxiliary=replace(known, scores=scores_of(known.features_active, known.features_passive)),
            )
        )
    return replace(made[-1], earlier=tuple(made[:-1]))


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("box", [True, False])
def test_as_many_equations_as_features_tell_all_of_them(prior: str, box: bool) -> None:
    view, truth = drawn(k=4, d=6)
    estimate = attacks.load("many_sessions", prior=prior, box=box).reconstruct(in_sessions(view, truth, 2))
    np.testing.assert_allclose(estimate, truth, atol=1e-11)


@pytest.mark.parametrize("prior", PRIORS)
def test_one_session_is_posterior(prior: str) -> None:
    view, _ = drawn()
    found = attacks.load("many_sessions", prior=prior).reconstruct(view)
    np.testing.assert_array_equal(found, attacks.load("posterior", prior=prior).reconstruct(view))


@pytest.mark.parametrize("records", [6, 60])
def test_as_many_known_records_as_features_stand_in_for_disclosure(records: int) -> None:
    view, truth = drawn(k=4, d=6)
    sessions = in_sessions(view, truth, 2)
    closed = [
        replace(one, weights_passive=None, passive_features=6, earlier=()) for one in (sessions, *sessions.earlier)
    ]
    attack = attacks.load("many_sessions", prior="imputation", records=records)
    np.testing.assert_allclose(attack.reconstruct(replace(closed[0], earlier=tuple(closed[1:]))), truth, atol=1e-7)


def test_every_session_tells_more() -> None:
    view, truth = drawn(n=60, k=2, d=6)
    attack = attacks.load("many_sessions", prior="covariance")
    errors = [error(attack.reconstruct(in_sessions(view, truth, count)), truth) for count in range(1, 7)]
    assert errors == sorted(errors, reverse=True)
    assert errors[0] < error(attack.without_scores(view), truth)


def test_a_repeated_session_tells_nothing_more() -> None:
    view, _ = drawn()
    attack = attacks.load("many_sessions", prior="covariance", box=False)
    repeated = attack.reconstruct(replace(view, earlier=(view, view)))
    np.testing.assert_allclose(repeated, attack.reconstruct(view), atol=1e-9)


DEFENDED: dict[str, tuple[str, dict[str, object]]] = {
    "2 decimals": ("score_rounding", {"decimals": 2}),
    "3 decimals": ("score_rounding", {"decimals": 3}),
    "noise": ("score_noise", {}),
    "scheme 1": ("score_scheme1", {}),
    "scheme 2": ("score_scheme2", {}),
    "scheme 3": ("score_scheme3", {}),
    "decision": ("class_label", {}),
}


@pytest.mark.parametrize("defence", DEFENDED)
def test_sessions_add_up_behind_every_score_defence(defence: str) -> None:
    plain, truth = drawn(n=40, k=3, d=6)
    sessions = in_sessions(plain, truth, 6)
    behind = [defended(one, DEFENDED[defence]) for one in (sessions, *sessions.earlier)]
    attack = attacks.load("many_sessions", prior="covariance", draws=40)
    one, all_of_them = (
        error(attack.reconstruct(replace(behind[0], earlier=tuple(behind[1:count]))), truth) for count in (1, 6)
    )
    alone = error(attack.without_scores(plain), truth)
    exact = defence.startswith("scheme")
    assert all_of_them < (1e-15 if exact else 0.9 * min(one, alone))


def test_earlier_sessions_are_of_the_same_records_and_features() -> None:
    view, _ = drawn()
    fewer, narrower = drawn(n=20)[0], drawn(d=5)[0]
    for other in (fewer, narrower):
        with pytest.raises(attacks.ViewError, match="same 30 records and 6 passive features"):
            replace(view, earlier=(other,))
