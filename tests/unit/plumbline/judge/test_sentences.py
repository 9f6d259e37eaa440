"""The sentence for each kind of run, what is red and what is not measured, and words that nobody's names can break."""

import unicodedata
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import attacks
from attacks import Conduct
from attacks.base import NEEDS
from attacks.registry import REPLACING
from plumbline.judge.answer import Answer, listed, short
from plumbline.judge.federation_part import LevelVerdict
from plumbline.judge.findings import Findings, read_findings
from plumbline.judge.labels import RarestLabel
from plumbline.judge.lights import LEAST_RECORDS, light_of, light_of_training, worst
from plumbline.judge.measures import Interval
from plumbline.judge.sentences import answer_of
from plumbline.judge.training import TrainingFinding
from plumbline.telling.document import Light
from plumbline.telling.numbers import percent
from services.common.run_folder import RunFolder
from services.common.run_records import FAILED, NOT_APPLICABLE, PartyRecord
from tests.harness.judged_runs import (
    NAMES,
    Feature,
    add_attempts_on_ciphertexts,
    add_label_attack,
    add_outcome,
    outcome,
    typed,
    write_run,
)
from vfl.arrays import FloatArray

COUNT = 100
RNG = np.random.default_rng(5)
NAMED = ("nr.employed", "emp.var.rate", "age")
PASSIVE = typed([Feature(RNG.random(COUNT), name, scale=100) for name in NAMED])
TRUTH = PASSIVE.features
MEAN = np.broadcast_to(TRUTH.mean(axis=0), TRUTH.shape)


def told(*shares: float) -> FloatArray:
    """Estimates that remove these shares of each column's distance to its mean."""
    return TRUTH + (1 - np.array(shares)) * (MEAN - TRUTH)


def answer(run: RunFolder, *passive: str) -> Answer:
    return read_findings(run, passive or ("passive",), "run", titles=NAMES).answer


def attacked(path: Path, *shares: float, cipher: str = "paillier", wrong: int | None = None) -> Answer:
    run = write_run(path, {"passive": PASSIVE}, [outcome("ls")], estimates={"ls": told(*shares)}, cipher=cipher)
    run = run if wrong is None else add_label_attack(run, wrong)
    return answer(run if cipher == "plain" else add_attempts_on_ciphertexts(run))


# So many wrong labels of 100 show that nothing was told; with 50 chance could hide a tenth.
SAFELY = 80
JOIN = "If fintech joins with these 3 columns, bank can reconstruct"
SAFE = ". No label attack did a tenth better than guessing."


@pytest.mark.parametrize(
    ("shares", "words", "light"),
    [
        ((1, 0.9, 0), "2 of them far better than it could guess (“nr.employed”, “emp.var.rate”)", "red"),
        ((1, 1, 1), "all of them far better than it could guess (“nr.employed”, “emp.var.rate”, “age”)", "red"),
        ((0, 0.2, 0), "1 of them somewhat better than it could guess (“emp.var.rate”)", "amber"),
        (
            (0, 0.2, 1),
            "2 of them better than it could guess: 1 far better (“age”), 1 somewhat better (“emp.var.rate”)",
            "red",
        ),
        ((0, 0, 0), "none of them a tenth better than it could guess", "green"),
    ],
)
def test_what_columns_give_away(tmp_path: Path, shares: tuple[float, ...], words: str, light: Light) -> None:
    found = attacked(tmp_path, *shares, wrong=SAFELY)
    assert found.sentence == f"{JOIN} {words}{SAFE}"
    assert [one.light for one in found.parties] == ["green", light]
    assert (found.light, found.parties[1].title) == (light, "fintech")


def test_labels_told_to_a_passive_party_are_the_active_partys_risk(tmp_path: Path) -> None:
    found = attacked(tmp_path, 0, 0, 0, wrong=3)
    assert found.sentence == (
        f"{JOIN} none of them a tenth better than it could guess. fintech can tell 97 % of the labels that were "
        "trained on, 50 % by guessing."
    )
    assert [one.light for one in found.parties] == ["red", "green"]
    assert found.labels == (
        "labels: the federation gives passive 94 % (87 to 100) of what was unknown at level marginals, by "
        "label_recovery.",
    )
    assert found.largest_part == pytest.approx(0.94)


def test_only_who_knows_more_is_given_anything(tmp_path: Path) -> None:
    label = "posterior(prior=covariance)"
    outcomes = [outcome("ls"), outcome(label, level="covariance")]
    estimates = {"ls": told(0, 0, 0), label: told(0, 0, 0.9)}
    found = answer(write_run(tmp_path, {"passive": PASSIVE}, outcomes, estimates=estimates))
    assert (
        f"{JOIN} 1 of them better than it could guess once it knows how the columns vary together (“age”)."
        in found.sentence
    )
    assert (found.columns[0].column, found.columns[0].light) == ("age", "amber")


def test_nothing_measured_is_grey_and_never_green(tmp_path: Path) -> None:
    found = answer(write_run(tmp_path, {"passive": PASSIVE}))
    assert found.sentence == (
        "What bank can reconstruct of the columns of fintech was not measured: no attack on predictions was mounted. "
        "What fintech can tell of labels was not measured."
    )
    assert {found.light, *(one.light for one in found.parties)} == {"grey"}
    assert len(found.not_measured) == 3
    assert found.largest_part is None


def test_attacks_that_could_not_be_carried_out_measured_nothing(tmp_path: Path) -> None:
    outcomes = [outcome("ls", NOT_APPLICABLE, reason="ls needs scores"), outcome("gia", FAILED, reason="gia failed")]
    found = answer(write_run(tmp_path, {"passive": PASSIVE}, outcomes))
    assert "no attack on predictions could be carried out" in found.sentence
    assert "Failed, so that what they would have told is unknown: gia." in found.not_measured


def test_only_guesses_mounted_measure_nothing(tmp_path: Path) -> None:
    outcomes = [outcome("half", sees_scores=False)]
    found = answer(write_run(tmp_path, {"passive": PASSIVE}, outcomes, estimates={"half": np.full_like(TRUTH, 0.5)}))
    assert "only guesses without scores were mounted" in found.sentence
    assert {one.light for one in found.columns} == {"grey"}


def test_a_black_box_is_said_to_be_one(tmp_path: Path) -> None:
    reason = f"ls needs weights_passive: {NEEDS['prediction']['weights_passive']}"
    outcomes = [outcome("ls", NOT_APPLICABLE, reason=reason), outcome("agnostic")]
    found = answer(write_run(tmp_path, {"passive": PASSIVE}, outcomes, estimates={"agnostic": told(0, 0, 0)}))
    assert "with these 3 columns and keeps its parameters secret, bank can reconstruct none" in found.sentence


@pytest.mark.parametrize(
    ("shares", "words"),
    [
        ((0, 0, 1), "1 of them far better than it could guess (“age”)"),
        ((0, 0, 0), "none of them a tenth better than it could guess"),
    ],
)
def test_both_deployments_are_answered_where_an_attack_needs_no_parameters(
    tmp_path: Path, shares: tuple[float, ...], words: str
) -> None:
    label = "posterior(prior=imputation, parameters=kept)"
    outcomes = [replace(outcome("ls"), sees_parameters=True), replace(outcome(label), sees_parameters=False)]
    estimates = {"ls": told(0, 1, 1), label: told(*shares)}
    found = answer(write_run(tmp_path, {"passive": PASSIVE}, outcomes, estimates=estimates))
    assert found.sentence.startswith(
        "If fintech joins with these 3 columns and discloses its parameters, bank can reconstruct 2 of them far "
        "better than it could guess (“emp.var.rate”, “age”). If fintech keeps its parameters, bank can reconstruct "
        f"{words}. "
    )


def test_who_has_parameters_is_told_no_less_than_who_has_none(tmp_path: Path) -> None:
    # By its mean the attack with parameters is the better one, by luck with a few records; shown is the other's.
    lucky, steady = told(0, 0, 0).copy(), told(0, 0, 0).copy()
    off = np.argsort(-np.abs(TRUTH[:, 2] - MEAN[:, 2]))
    lucky[off[:20], 2] = TRUTH[off[:20], 2]
    lucky[off[20:], 2] += 0.8 * (MEAN - TRUTH)[off[20:], 2] * np.resize([1, -1], len(off) - 20)
    steady[:, 2] = told(0, 0, 0.15)[:, 2]
    label = "posterior(prior=imputation, parameters=kept)"
    outcomes = [replace(outcome("ls"), sees_parameters=True), replace(outcome(label), sees_parameters=False)]
    run = write_run(tmp_path, {"passive": PASSIVE}, outcomes, estimates={"ls": lucky, label: steady})
    found = read_findings(run, ("passive",), "run", titles=NAMES).predictions
    for with_all, without in zip(found.sources, found.kept, strict=True):
        for one, other in zip(with_all.levels, without.levels, strict=True):
            assert one.is_exposed or not other.is_exposed
    assert found.kept[2].is_exposed()


def test_what_nobody_tried_without_parameters_was_not_measured(tmp_path: Path) -> None:
    outcomes = [replace(outcome("ls"), sees_parameters=True)]
    found = answer(write_run(tmp_path, {"passive": PASSIVE}, outcomes, estimates={"ls": told(0, 0, 0)}))
    assert " What is left without its parameters was not measured. " in found.sentence


def test_what_only_who_knows_more_tried_without_parameters_is_no_word_of_safety(tmp_path: Path) -> None:
    label = "posterior(prior=imputation, parameters=kept)"
    outcomes = [
        replace(outcome("ls"), sees_parameters=True),
        replace(outcome(label, level="records"), sees_parameters=False),
    ]
    estimates = {"ls": told(0, 0, 0), label: told(0, 0, 0.9)}
    found = answer(write_run(tmp_path, {"passive": PASSIVE}, outcomes, estimates=estimates))
    assert (
        " If fintech keeps its parameters, bank can reconstruct 1 of them better than it could guess once it knows "
        "some complete records (“age”). "
    ) in found.sentence


def test_who_finds_the_rarest_class_is_not_green_where_names_are_no_better_than_a_guess(tmp_path: Path) -> None:
    run = write_run(tmp_path, {"passive": PASSIVE}, [outcome("ls")], estimates={"ls": told(0, 0, 0)})
    finding = read_findings(add_label_attack(run, SAFELY), ("passive",), "run").training[0]
    assert light_of_training(finding) == "green"
    rarest = RarestLabel(label=1, share=0.12, auc=0.9, top=12, precision=0.5, p_value=1e-4)
    assert light_of_training(replace(finding, rarest=rarest)) == "amber"
    assert light_of_training(replace(finding, rarest=replace(rarest, precision=0.7))) == "red"
    assert light_of_training(replace(finding, rarest=replace(rarest, p_value=0.02))) == "grey"
    assert light_of_training(replace(finding, rarest=replace(rarest, p_value=0.02, precision=0.2))) == "green"
    found = read_findings(run, ("passive",), "run", titles=NAMES)
    words = answer_of(found.summary, found.predictions, [replace(finding, rarest=rarest)], NAMES)
    assert (
        "Fintech can tell which records are likely of the rarest class: 50 % of those it would pick are, 12 % by "
        "guessing."
    ).lower() in words.sentence.lower()
    assert words.parties[0].light == "amber"
    assert words.largest_part == pytest.approx((0.5 - 0.12) / 0.88)
    assert "Of the 12 it holds likeliest to be of the rarest class, 50 % are (12 % of all)" in words.labels[0]


@pytest.mark.parametrize(("is_opened", "words"), [(True, "in bits: bank 48, fintech 48"), (False, "none are opened")])
def test_what_nobody_tried_on_shared_weights_is_bounded_by_what_is_opened(
    tmp_path: Path, is_opened: bool, words: str
) -> None:
    run = write_run(tmp_path, {"passive": PASSIVE}, [outcome("ls")], estimates={"ls": told(0, 0, 0)})
    record = run.record("active")
    assert record.agreement is not None
    agreement = replace(
        record.agreement,
        plan=record.agreement.plan.changed(protocol="shared"),
        parties=tuple(replace(one, opens_always=is_opened) for one in record.agreement.parties),
    )
    run.write_record("active", replace(record, agreement=agreement))
    (said,) = [one for one in answer(run).not_measured if "by replacing messages was not measured" in one]
    assert words in said
    assert ("bits" in said) == is_opened


def test_what_only_ciphertexts_tell_is_not_safe_in_the_clear(tmp_path: Path) -> None:
    found = attacked(tmp_path, 0, 0, 0, cipher="plain", wrong=SAFELY)
    assert found.sentence.endswith(" Training was not encrypted (INSECURE).")
    (left_out,) = found.not_measured
    assert "auxiliary_ciphertext" in left_out
    assert "randomiser_channel" in left_out
    assert [one.light for one in found.parties] == ["grey", "grey"]
    assert found.light == "grey"
    assert all(one.words.endswith(" What only ciphertexts can tell was not measured.") for one in found.parties)
    safe = attacked(tmp_path / "paillier", 0, 0, 0, wrong=SAFELY)
    assert (safe.light, safe.not_measured) == ("green", ())


def test_who_was_tried_as_honest_only_leaves_nobody_green(tmp_path: Path) -> None:
    run = write_run(tmp_path, {"passive": PASSIVE}, [outcome("ls")], estimates={"ls": told(0, 0, 0)})
    found = answer(add_label_attack(run, SAFELY))
    assert [one.light for one in found.parties] == ["grey", "grey"]
    assert found.parties[0].words.endswith(" What fintech can tell by other messages was not measured.")
    assert found.parties[1].words.endswith(" What bank can tell by other messages was not measured.")
    assert "bank and fintech" in found.not_measured[0]
    add_outcome(
        run, "passive", "auxiliary_ciphertext(iota=2)", NOT_APPLICABLE, reason="it can't work with these numbers"
    )
    add_outcome(run, "active", "auxiliary_ciphertext", FAILED, reason="auxiliary_ciphertext failed with KeyError")
    failed = answer(run)
    assert [one.light for one in failed.parties] == ["green", "grey"]
    assert "Failed, so that what they would have told is unknown: auxiliary_ciphertext." in failed.not_measured


@pytest.mark.parametrize(("conduct", "light"), [("replaces_messages", "green"), ("listens", "grey"), (None, "grey")])
def test_an_attack_of_another_package_is_an_attempt_as_its_run_says(
    tmp_path: Path, conduct: Conduct | None, light: str
) -> None:
    """No matter whether it is installed where the run is judged."""
    run = write_run(tmp_path, {"passive": PASSIVE}, [outcome("ls")], estimates={"ls": told(0, 0, 0)})
    for party in ("active", "passive"):
        add_outcome(add_label_attack(run, SAFELY), party, "of_another_package", conduct=conduct)
    found = answer(run)
    assert [one.light for one in found.parties] == [light, light]
    assert any("by replacing messages was not measured" in one for one in found.not_measured) == (light == "grey")


def test_labels_are_safe_only_from_parties_that_were_tried(tmp_path: Path) -> None:
    parties = {"passive-1": typed([Feature(TRUTH[:, 0], "pay")]), "passive-2": typed([Feature(TRUTH[:, 1], "pay")])}
    run = add_label_attack(write_run(tmp_path, parties), SAFELY, party="passive-1")
    active = answer(add_attempts_on_ciphertexts(run), *parties).parties[0]
    assert (active.light, active.words.partition(". ")[2]) == (
        "grey",
        "What passive-2 can tell of them was not measured.",
    )
    assert answer(add_label_attack(run, SAFELY, party="passive-2"), *parties).parties[0].light == "green"


def test_an_attack_that_failed_leaves_nobody_green(tmp_path: Path) -> None:
    outcomes = [outcome("ls"), outcome("gia", FAILED, reason="gia failed")]
    run = write_run(tmp_path, {"passive": PASSIVE}, outcomes, estimates={"ls": told(0, 0, 0)})
    found = answer(add_attempts_on_ciphertexts(add_label_attack(run, SAFELY)))
    assert [one.light for one in found.parties] == ["green", "grey"]
    assert found.parties[1].words.endswith(" Not known, for it failed: gia.")


def test_who_knows_more_and_finds_nothing_says_nothing_of_who_knows_less(tmp_path: Path) -> None:
    label = "posterior(prior=covariance)"
    outcomes, estimates = [outcome(label, level="covariance")], {label: told(0, 0, 0)}
    found = answer(write_run(tmp_path, {"passive": PASSIVE}, outcomes, estimates=estimates))
    assert {one.light for one in found.columns} == {"grey"}
    assert "was not measured: only attacks that know more than means and frequencies were mounted" in found.sentence


def test_whether_a_value_is_there_is_part_of_the_answer(tmp_path: Path) -> None:
    gaps = (np.arange(COUNT) % 3 == 0).astype(np.float64)
    pay = Feature(TRUTH[:, 0], "pay")
    own = typed([pay, Feature(gaps, "pay", "missing", name="pay is missing"), Feature(TRUTH[:, 1], "age")])
    estimate = np.column_stack([MEAN[:, 0], gaps, MEAN[:, 1]])
    found = answer(write_run(tmp_path, {"passive": own}, [outcome("ls")], estimates={"ls": estimate}))
    assert "1 of them better than it could guess, but only whether a value is there (“pay”)." in found.sentence
    assert found.parties[1].words == (
        "Of its 2 columns, bank can reconstruct 1 of them better than it could guess, but only whether a value is "
        "there (“pay”)."
    )
    assert found.parties[1].light == "amber"


def test_what_became_a_code_or_nothing_is_said_and_never_green(tmp_path: Path) -> None:
    """Amounts with a currency nobody knows are a code by frequency, or left out: neither says that they are safe."""
    limit = Feature(np.arange(COUNT) % 5 / 4, "limit", "code", scale=4.0)
    own = replace(typed([limit, Feature(TRUTH[:, 1], "age")]), dropped=np.array(["iban", "note"]))
    estimate = np.column_stack([np.full(COUNT, 0.5), MEAN[:, 1]])
    found = answer(write_run(tmp_path, {"passive": own}, [outcome("ls")], estimates={"ls": estimate}))
    assert (
        "If fintech joins with these 2 columns (2 more left out), bank can reconstruct none of them" in found.sentence
    )
    assert "Not measured as a number, but as a code: “limit”." in found.sentence
    lights = {one.column: one.light for one in found.columns}
    assert lights == {"age": "green", "limit": "grey"}
    assert found.parties[1].light == "grey"
    assert any("not measured as a number" in one.sentence for one in found.columns)


def test_a_published_column_is_no_secret_and_a_sensitive_one_comes_first(tmp_path: Path) -> None:
    own = replace(PASSIVE, roles=np.array(["public", "", "sensitive"]))
    found = answer(write_run(tmp_path, {"passive": own}, [outcome("ls")], estimates={"ls": told(1, 1, 0.9)}))
    assert [(one.column, one.role, one.light) for one in found.columns] == [
        ("age", "sensitive", "red"),
        ("emp.var.rate", "", "red"),
        ("nr.employed", "public", "grey"),
    ]
    assert "Of 1 sensitive column, 1 can be told better than by guessing: “age”." in found.sentence
    assert "Nothing is left to give away of “nr.employed”." in found.sentence
    assert found.columns[2].sentence == "nr.employed (public): published"
    assert found.columns[0].sentence.startswith("age (sensitive): ")


def test_a_sensitive_column_that_nobody_tells_is_said_to_be_safe(tmp_path: Path) -> None:
    own = replace(PASSIVE, roles=np.array(["", "", "sensitive"]))
    found = answer(write_run(tmp_path, {"passive": own}, [outcome("ls")], estimates={"ls": told(1, 0, 0)}))
    assert "Of 1 sensitive column, none can be told." in found.sentence


def test_a_column_of_a_few_huge_values_is_not_green_where_all_others_are_told(tmp_path: Path) -> None:
    cells = RNG.random(COUNT) / 100
    cells[0] = 1.0
    own, judged = typed([Feature(cells, "income", scale=1e6)]), np.arange(1, COUNT)
    estimates = {"ls": cells[judged, None] + 1e-5}
    found = answer(write_run(tmp_path, {"passive": own}, [outcome("ls")], judged=judged, estimates=estimates))
    assert "can reconstruct it far better than it could guess on a log scale (“income”)." in found.sentence
    assert found.columns[0].light == "red"
    assert "; on a log scale over 99 % (100 to 100) of what was unknown;" in found.columns[0].sentence
    assert "100 % of records read nearly exactly" in found.columns[0].sentence


def test_a_person_under_several_ids_judges_once(tmp_path: Path) -> None:
    cells = np.repeat(RNG.random((COUNT // 4, 2)), 4, axis=0)
    own, estimates = typed([Feature(cells[:, 0], "income", scale=1e6)]), {"ls": cells[:, :1]}
    run = write_run(tmp_path, {"passive": own}, [outcome("ls")], estimates=estimates, active=cells)
    found = answer(run)
    assert [one.light for one in found.columns] == ["grey"]
    assert f"{COUNT} test records, {COUNT // 4} distinct, are too few to judge, {LEAST_RECORDS} are" in found.sentence


@pytest.mark.parametrize("count", [1, 2, 10, LEAST_RECORDS - 1])
@pytest.mark.parametrize("share", [0.0, 0.9])
def test_few_records_say_nothing(tmp_path: Path, count: int, share: float) -> None:
    judged = np.arange(count)
    estimates = {"ls": told(share, share, share)[judged]}
    run = write_run(tmp_path, {"passive": PASSIVE}, [outcome("ls")], judged=judged, estimates=estimates)
    found = answer(run)
    assert {one.light for one in found.columns} == {"grey"}
    assert f"{count} distinct, are too few to judge, {LEAST_RECORDS} are needed" in found.sentence
    assert f"{count} records are too few to say more" in found.columns[0].sentence


def test_few_known_records_say_nothing_of_who_knows_some(tmp_path: Path) -> None:
    lights = []
    for count in (19, 20):
        known, judged = np.arange(count), np.arange(count, COUNT)
        estimates = {"ls": told(0, 0, 0)[judged]}
        folder, mounted = tmp_path / str(count), [outcome("ls")]
        found = answer(
            write_run(folder, {"passive": PASSIVE}, mounted, judged=judged, estimates=estimates, known=known)
        )
        lights.append({one.light for one in found.columns})
        is_few = "19 known records are too few to say more, 20 are needed" in found.columns[0].sentence
        assert is_few == (count == 19)
    assert lights[0] == {"grey"}
    assert "green" in lights[1]


def test_insecure_settings_are_said(tmp_path: Path) -> None:
    run = write_run(tmp_path, {"passive": PASSIVE}, [outcome("ls")], estimates={"ls": told(0, 0, 0)})
    record = run.record("active")
    warned = PartyRecord(**{**vars(record), "warnings": ("INSECURE: rerandomise=off",)})
    run.write_record("active", warned)
    assert answer(run).sentence.endswith(" Settings were insecure, see the warnings.")


def test_several_passive_parties_are_told_apart(tmp_path: Path) -> None:
    parties = {"passive-1": typed([Feature(TRUTH[:, 0], "pay")]), "passive-2": typed([Feature(TRUTH[:, 1], "pay")])}
    run = write_run(tmp_path, parties, [outcome("ls")], estimates={"ls": told(0, 1, 0)[:, :2]})
    add_attempts_on_ciphertexts(run)
    found = read_findings(run, tuple(parties), "run", titles={"passive-1": "shop", "passive-2": "lab"}).answer
    assert found.sentence.startswith(
        "If shop and lab join with these 2 columns, the active party can reconstruct 1 of them far better than it "
        "could guess (“pay” of lab)."
    )
    assert [one.light for one in found.parties] == ["grey", "green", "red"]
    assert (
        found.parties[1].words
        == "Of its 1 column, the active party can reconstruct nothing of it a tenth better than it could guess."
    )


def verdict(low: float, mean: float) -> tuple[LevelVerdict, ...]:
    part = Interval(mean, low, min(1.0, mean + 0.1))
    return tuple(
        LevelVerdict(level, "its mean", 0.1, "ls", 0.1 * (1 - mean), part)
        for level in ("nothing", "marginals", "covariance", "records")
    )


@pytest.mark.parametrize(
    ("low", "mean", "light"),
    [
        (0.3, 0.5, "red"),
        (0.3, 0.499, "amber"),
        (0.01, 0.1, "amber"),
        (0.01, 0.09, "grey"),
        (0.0, 0.6, "grey"),
        (0.0, 0.01, "grey"),
        (0.0, 0.0, "grey"),
        (-0.2, -0.01, "green"),
    ],
)
def test_thresholds_of_lights(low: float, mean: float, light: Light) -> None:
    assert light_of(verdict(low, mean)) == light


@pytest.mark.parametrize(
    ("kind", "success", "resolved", "light"),
    [
        ("readings", 1.0, 0.5, "red"),
        ("readings", 1.0, 0.49, "amber"),
        ("features", 1.0, 0.04, "green"),
        ("products", 1.0, 1.0, "amber"),
        ("", float("nan"), float("nan"), "grey"),
    ],
)
def test_thresholds_of_what_training_gives_away(kind: str, success: float, resolved: float, light: Light) -> None:
    finding = TrainingFinding("a", "active", "", 0.1, kind, success, resolved, peers=("passive",))
    assert light_of_training(finding) == light


@pytest.mark.parametrize(
    ("lights", "light"),
    [(("green", "grey"), "grey"), (("grey", "amber"), "amber"), (("amber", "red"), "red"), ((), "grey")],
)
def test_what_was_not_measured_comes_before_what_is_safe(lights: tuple[Light, ...], light: Light) -> None:
    assert worst(lights) == light


@pytest.mark.parametrize(
    ("share", "words"), [(0, "0 %"), (0.001, "under 1 %"), (0.744, "74 %"), (0.999, "over 99 %"), (1, "100 %")]
)
def test_shares_round_to_nothing_and_everything_only_when_they_are(share: float, words: str) -> None:
    assert percent(share) == words


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Findings:
    run = write_run(
        tmp_path_factory.mktemp("run"), {"passive": PASSIVE}, [outcome("ls")], estimates={"ls": told(1, 1, 0)}
    )
    return read_findings(add_label_attack(run, 3), ["passive"], "run")


@given(names=st.lists(st.text(max_size=60), min_size=3, max_size=3), title=st.text(max_size=80))
def test_no_name_breaks_the_words(judged: Findings, names: list[str], title: str) -> None:
    sources = tuple(replace(one, column=name) for one, name in zip(judged.predictions.sources, names, strict=True))
    predictions = replace(judged.predictions, sources=sources)
    found = answer_of(judged.summary, predictions, judged.training, {"passive": title, "active": title})
    everything = [found.sentence, *(one.words for one in found.parties), *(one.sentence for one in found.columns)]
    for words in everything:
        assert all(letter.isprintable() or unicodedata.category(letter) == "Zs" for letter in words)
    assert max(map(len, found.sentences)) < 400
    assert "2 of them" in found.sentence
    assert all(f"“{short(name)}”" in found.sentence for name in names[:2])


def test_a_reader_is_told_to_mount_attacks_that_replace_messages() -> None:
    replacing = [name for name in attacks.names() if attacks.spec_of(name).conduct == "replaces_messages"]
    assert replacing == sorted(REPLACING)


@given(st.lists(st.text(max_size=100), max_size=30))
def test_lists_of_names_stay_short(names: list[str]) -> None:
    assert len(listed(names)) < 5 * 42 + 20
