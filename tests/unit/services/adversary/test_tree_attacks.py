"""Adversaries beside whole sessions of boosted trees: who listens is told bins, and who asks otherwise names them."""

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import attacks
from attacks.prediction.known_moments import known_moments
from attacks.training.chosen_gradients import ChosenGradients
from attacks.training.named_bins import NameBins
from attacks.training_attack import RequestTerms
from services.adversary.training import check_replaced
from services.common.run_folder import RunFolder
from services.common.run_records import DONE, TrainingAttackOutcome
from services.protocols.trees.tree_side import TreeSide
from tests.harness.parties import House, house, small_settings

OPTIONS = {"n_estimators": 3, "max_depth": 3, "max_bin": 6, "min_rows_of_a_node": 4, "gradient_bits": 10}


def trained(folder: Path, **mounted: Any) -> tuple[House, dict[str, TrainingAttackOutcome]]:
    settings = small_settings(
        **{
            "learner": "boosted_trees",
            "learner_options": OPTIONS,
            "epochs": 3,
            "batch_size": 0,
            "cipher": "paillier",
            "record_features": True,
        }
    )
    with house(folder, settings=settings, **mounted) as home:
        home.train()
    return home, {one.attack: one for one in RunFolder(folder).training_outcomes()}


def truth_of(home: House) -> Any:
    """The passive party's bins of the training rows, in the session's order of columns."""
    session = home.passive["passive"]._session
    assert session is not None
    assert session.joined is not None
    side = cast(TreeSide, session.joined.training.side)
    plan = side.terms.plan
    return side.half.owned.sampled_bins(plan.trained, np.arange(plan.columns[1])), plan.trained


def arrays_of(folder: Path, attack: str) -> Any:
    with np.load(folder / "attacks" / f"training-active-{attack}.npz") as arrays:
        return dict(arrays)


def test_who_follows_the_protocol_names_bins_rightly(tmp_path: Path) -> None:
    home, outcomes = trained(tmp_path, active_adversary={"named_bins": NameBins()})
    bins, (truth, _) = arrays_of(tmp_path, "named_bins")["bins_of_passive"], truth_of(home)
    assert (bins[bins >= 0] == truth[bins >= 0]).all()
    assert outcomes["named_bins"].conduct == "listens"
    assert 0 < outcomes["named_bins"].facts["cells_named"] < 1


def test_who_sends_powers_of_two_names_all_of_them_under_ciphertexts(tmp_path: Path) -> None:
    home, outcomes = trained(tmp_path, active_adversary={"chosen_gradients": ChosenGradients(prior="nothing")})
    truth, _ = truth_of(home)
    np.testing.assert_array_equal(arrays_of(tmp_path, "chosen_gradients")["bins_of_passive"], truth)
    assert outcomes["chosen_gradients"].conduct == "replaces_requests"
    assert outcomes["chosen_gradients"].facts["cells_named"] == 1.0


def test_what_is_published_makes_values_of_them(tmp_path: Path) -> None:
    moments = known_moments(np.random.default_rng(9).uniform(size=(400, 3)))
    home, outcomes = trained(
        tmp_path, moments=moments, active_adversary={"chosen_gradients": ChosenGradients(prior="marginals")}
    )
    assert outcomes["chosen_gradients"].status == DONE
    found = RunFolder(tmp_path).found_values("active", "chosen_gradients")["passive"]
    assert found.rows is not None
    _, rows = truth_of(home)
    np.testing.assert_array_equal(found.rows, rows)
    truth = RunFolder(tmp_path).features("passive").features[found.rows]
    assert ((found.values - truth) ** 2).mean() < truth.var()


class Failing(ChosenGradients):
    """One with a bug, at its second tree."""

    def ask(self, terms: RequestTerms) -> Any:
        requests, asked = super().ask(terms), super().ask(terms).asked

        def fails(step: int, request: Any) -> Any:
            if step == 1:
                raise KeyError("a bug")
            return asked(step, request)

        requests.asked = fails  # type: ignore[method-assign]
        return requests


def test_a_guests_bug_ends_no_session(tmp_path: Path) -> None:
    _, outcomes = trained(tmp_path, active_adversary={"failing": Failing(prior="nothing")})
    assert outcomes["failing"].status == "failed"
    assert "KeyError" in str(outcomes["failing"].reason)
    assert RunFolder(tmp_path).record("active").steps


def test_other_learners_have_no_such_requests_and_two_at_once_are_refused(tmp_path: Path) -> None:
    with house(
        tmp_path,
        settings=small_settings(epochs=1, cipher="plain"),
        active_adversary={"chosen_gradients": attacks.load("chosen_gradients")},
    ) as home:
        home.train()
    (outcome,) = RunFolder(tmp_path).training_outcomes()
    assert outcome.reason == "chosen_gradients is on sessions of boosted_trees, and this one trains linear."
    with pytest.raises(ValueError, match="one and other both replace requests"):
        check_replaced({"one": ChosenGradients(), "other": ChosenGradients()})
