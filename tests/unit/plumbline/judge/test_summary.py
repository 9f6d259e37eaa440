"""What a report says of a defence's prediction."""

from dataclasses import asdict

from defences import TrainingTerms, load
from plumbline.judge.summary import assumptions, expectations
from services.common.run_records import DefencePrediction

TERMS = TrainingTerms(role="active", epochs=2, steps=12, rows=64, learning_rate=0.5, residual_limit=4096.0)


def predicted(**terms: float | str) -> DefencePrediction:
    changed = TrainingTerms(**{**asdict(TERMS), **terms})
    return DefencePrediction("dp_noise", asdict(load("dp_noise").prediction(changed)))


def test_numbers_come_with_their_names_also_those_one_level_down() -> None:
    numbers = dict(expectations(predicted()))
    assert float(numbers["sigma"]) > 0
    assert numbers["epsilon"] == "0.5"
    assert "note" not in numbers
    worth = {name: float(numbers[f"epsilon of {name}"]) for name in ("one epoch", "the run", "all parties")}
    assert (
        worth["one epoch"] < worth["the run"] == 0.5 < worth["all parties"] < float(numbers["epsilon of ten sessions"])
    )


def test_a_passive_partys_expectations_claim_no_protection_of_labels() -> None:
    assert {"first step success", "best success"} <= set(dict(expectations(predicted())))
    own = dict(expectations(predicted(role="passive")))
    assert not {"first step success", "best success"} & set(own)
    assert own["sigma"] == own["sigma passive"]


def test_what_a_session_violates_stands_before_what_is_assumed() -> None:
    assumed = assumptions(predicted())
    assert any("||x|| <= 1" in text for text in assumed)
    broken = assumptions(predicted(row_norm=3.0))
    assert broken[1:] == assumed
    assert "up to 3 long" in broken[0]
