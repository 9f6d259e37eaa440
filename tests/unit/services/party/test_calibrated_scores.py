"""Calibrated scores in a whole federation: what they are worth, what is told, and where there are none."""

import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import defences
from services.active.outcomes import JobOutcomes
from services.common.errors import InvalidMessage, OutOfOrder
from services.common.learner_calls import LearnerFailed
from services.common.run_folder import RunFolder
from services.common.state_folder import StateInMemory
from services.exchange.opening_ledger import LEDGER, opened_in
from services.party.equation_count import EquationCount
from services.passive.party import PassiveParty
from tests.harness.parties import House, data_of, house, small_settings
from tests.harness.restarts import town
from vfl.data import load_dataset
from vfl.learning import LinearPart, log_loss
from vfl.learning.calibration import Calibration
from vfl.learning.score_quality import area_under_curve

TERMS: Mapping[str, Any] = {
    "cipher": "plain",
    "steps": "plain",
    "calibrated": False,
    "epochs": 3,
    "batch_size": 40,
    "learning_rate": 0.5,
    "validation_fraction": 0.2,
    "test_fraction": 0.3,
}


@contextmanager
def federation(folder: Path, dataset: str = "breast_cancer", **further: Any) -> Iterator[House]:
    """Two parties with half of a bundled table's columns each, in [0, 1]."""
    table = load_dataset(dataset, None)
    least, most = table.features.min(axis=0), table.features.max(axis=0)
    features = (table.features - least) / np.where(most > least, most - least, 1.0)
    half = features.shape[1] // 2
    terms = {**TERMS, **further.pop("terms", {})}
    active = data_of(features[:, :half], labels=[str(label) for label in table.labels], has_bias=True)
    passive = [data_of(features[:, half:])]
    with house(folder, active=active, passive=passive, settings=small_settings(**terms), **further) as home:
        yield home


def told_of(home: House) -> tuple[float, float]:
    """The test records' log loss and AUC."""
    tested = home.tested()
    return log_loss(tested.scores, tested.labels), area_under_curve(tested.scores, tested.labels)


def weights_of(home: House) -> dict[str, Any]:
    return {name: RunFolder(home.folder).part(name)["weights"] for name in ("active", "passive")}


@pytest.mark.parametrize("dataset", ["breast_cancer", "digits"])
@pytest.mark.parametrize("terms", [{}, {"patience": 2, "epochs": 6}], ids=["fixed epochs", "early stopping"])
def test_calibrated_scores_lose_less_and_rank_records_as_before(
    tmp_path: Path, dataset: str, terms: dict[str, Any]
) -> None:
    with federation(tmp_path, dataset, terms=terms) as home:
        home.train()
        before, ranked = told_of(home)
        trained = weights_of(home)
        assert "calibration" not in home.record()
        home.train(calibrated=True)
        after, still = told_of(home)
        record, passive = home.record()["calibration"], home.record("passive")["calibration"]
        calibrated = weights_of(home)
    assert after < before - 0.005
    if dataset == "breast_cancer":
        assert still == ranked
    # Of more classes an intercept each may change which of two comes first.
    assert still == pytest.approx(ranked, abs=0.003)
    assert record["loss"] < min(one.validation_loss for one in RunFolder(tmp_path).record("active").epochs or ())
    assert passive == {"slope": record["slope"]}
    np.testing.assert_allclose(calibrated["passive"], record["slope"] * trained["passive"], rtol=1e-14)
    np.testing.assert_allclose(calibrated["active"][:-1], record["slope"] * trained["active"][:-1], rtol=1e-14)
    assert math.log2(record["slope"]) * 32 == pytest.approx(round(math.log2(record["slope"]) * 32))


def test_an_encrypted_training_is_calibrated_to_the_same_scores(tmp_path: Path) -> None:
    tested = []
    for cipher in ({"cipher": "plain"}, {"cipher": "paillier", "key_bits": 512}):
        terms: dict[str, Any] = {"calibrated": True, "epochs": 1, **cipher}
        with federation(tmp_path / str(cipher["cipher"]), terms=terms) as home:
            home.train()
            assert home.record()["calibration"]["slope"] > 1
            tested.append(home.tested().scores)
    np.testing.assert_allclose(tested[0], tested[1], atol=1e-5)


@pytest.mark.parametrize(
    ("terms", "further", "why"),
    [
        pytest.param({"validation_fraction": 0.08}, {}, "takes 50 validation records, and there are 4", id="few"),
        pytest.param(
            {},
            {"score_defences": [defences.load("score_rounding", decimals=2)]},
            r"are defended \(score_rounding\)",
            id="defended scores",
        ),
        pytest.param({"protocol": "shared", "cipher": "paillier", "serving": "shared"}, {}, "stay shared", id="shared"),
        pytest.param(
            {"protocol": "shared", "cipher": "paillier", "patience": 1, "opening": "always"},
            {},
            "set patience to 0",
            id="validated on shares",
        ),
    ],
)
def test_where_no_slope_can_be_fitted_scores_are_as_trained_and_the_record_says_why(
    tmp_path: Path, terms: dict[str, Any], further: dict[str, Any], why: str
) -> None:
    short = {**terms, "epochs": 1, "batch_size": 200}
    if short.get("cipher") == "paillier":
        short |= {"key_bits": 512}
    with federation(tmp_path, terms=short, **further) as home:
        home.train(calibrated=True)
        for name in ("active", "passive"):
            record = home.record(name)["calibration"]
            assert record.keys() == {"reason"}
            assert re.search(why, record["reason"])


def test_opened_weights_are_calibrated_and_the_slope_is_counted_like_them(tmp_path: Path) -> None:
    terms = {"protocol": "shared", "cipher": "paillier", "key_bits": 512, "opening": "always", "epochs": 1}
    with federation(tmp_path, terms={**terms, "batch_size": 200}) as home:
        home.train(calibrated=True)
        assert home.record()["calibration"]["slope"] > 1
        ledger = home.active._context.state.read(LEDGER)
        assert ledger is not None
        opened = opened_in(ledger)["passive"]
        assert home.record("passive")["calibration"]["slope"] == home.record()["calibration"]["slope"]
        home.train()
        again = home.active._context.state.read(LEDGER)
        assert again is not None
        assert opened_in(again)["passive"] - opened == opened - 8


def test_a_passive_party_takes_no_other_slope_and_none_that_the_plan_doesnt_ask_for(tmp_path: Path) -> None:
    with federation(tmp_path) as home:
        passive: PassiveParty = home.passive["passive"]
        finish = passive.finish_training
        refused: list[Exception] = []

        def finishing(*arguments: Any) -> None:
            caller, session, kept, step = arguments
            calibrates = passive._session_of(caller, session).agreed().training.agreement.plan.family.calibrates()
            for wrong in (200, -129, *([] if calibrates else [1])):
                with pytest.raises(InvalidMessage) as error:
                    finish(caller, session, kept, wrong)
                refused.append(error.value)
            finish(*arguments)
            finish(*arguments)
            with pytest.raises(OutOfOrder if calibrates else InvalidMessage) as other:
                finish(caller, session, kept, step + 1)
            refused.append(other.value)

        passive.finish_training = finishing  # type: ignore[method-assign,assignment]
        home.train()
        assert [str(one) for one in refused] == [
            "A slope's step is from -128 to 127, not 200.",
            "A slope's step is from -128 to 127, not -129.",
            *["The scores of this session aren't calibrated: weights stay as they were trained."] * 2,
        ]
        refused.clear()
        home.train(calibrated=True)
        assert "Training has ended with another slope" in str(refused[-1])


def test_validated_epochs_and_the_scaled_model_are_the_same_forms(tmp_path: Path) -> None:
    """Scaled and rounded, weights of classes that are nearly the same would pass for other forms of a record."""
    with federation(tmp_path, "wine", terms={"validation_fraction": 0.3}) as home:
        home.train(calibrated=True)
        passive = home.passive["passive"]
        kept = passive._models.served
        assert kept is not None
        assert kept.model.trained is not None
        aligned = passive._context.data.aligned(kept.order, kept.model.agreement.plan)
        generator = np.random.default_rng(0)
        columns = aligned.features.shape[1]
        near = LinearPart(generator.normal(size=(columns, 1)) * (1 + 1e-5 * generator.normal(size=(columns, 3))))
        scaled = Calibration(17).part_of(near)
        most = []
        for trained in (near, None):
            count = EquationCount("passive", passive._context.data, StateInMemory(), 1.0)
            for part, before in ((near, None), (scaled, trained)):
                count.count(replace(kept.model, part=part, trained=before), aligned, kept.model.rows.validation)
            (measure,) = [one for one in count.measures() if one.name == "forms_answered"]
            most.append(max(measure.values.values()))
    assert most[0] == 2
    assert most[1] > 2, "this test needs weights that rounding tells apart"


def test_a_learner_without_class_rows_that_would_calibrate_is_refused_before_it_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LinearPart, "class_rows", None)
    with federation(tmp_path) as home:
        home.train()
        with pytest.raises(LearnerFailed, match="linear calibrates scores, and its part has no class rows"):
            home.train(calibrated=True)


def test_a_calibrated_model_and_what_was_fitted_outlive_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = np.random.default_rng(0)
    features = generator.uniform(size=(300, 6))
    labels = (features.sum(axis=1) + generator.normal(scale=0.3, size=300) > 3).astype(str).tolist()
    active = data_of(features[:, :3], labels=labels, has_bias=True)
    ids, steps = [f"id-{row}" for row in range(300)], []
    finish = PassiveParty.finish_training
    terms: dict[str, Any] = {"calibrated": True, "validation_fraction": 0.3, "resume_within": 60}
    with town(tmp_path, active=active, **terms) as home:

        def finishing(party: PassiveParty, caller: Any, session: str, kept: int, step: int) -> None:
            # As a successor of the active party would find it, which says the same again.
            outcomes = JobOutcomes(home.active._context, home.active._scoring)
            outcomes.take_up(session)
            steps.append((outcomes.calibrations[kept], step))
            finish(party, caller, session, kept, step)

        monkeypatch.setattr(PassiveParty, "finish_training", finishing)
        home.data["passive"] = data_of(features[:, 3:])
        home.restart("passive")
        home.train()
        scores = home.scores(ids)
        home.restart("passive", "active")
        np.testing.assert_array_equal(home.scores(ids), scores)
    ((fit, step),) = steps
    assert fit is not None
    assert fit.step == step != 0
    assert fit.intercepts
    assert math.isfinite(fit.loss)
