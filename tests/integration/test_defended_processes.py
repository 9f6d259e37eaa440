"""Defences where they sit: processes over mTLS, the attack on, the defence off and on, and what stops a service."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from typer.testing import CliRunner

from plumbline.audit.request import AuditRequest
from plumbline.audit.run import run_audit
from plumbline.cli import app
from plumbline.federation import Federation, FederationFailed
from services.common.run_folder import RunFolder
from services.common.settings import PREFIX

SMALL = {"steps": "plain", "key_bits": 512, "allow_insecure_keys": True, "epochs": 2, "batch_size": 64}
SMALL |= {"validation_fraction": 0.0}
# 511 bits hold seven sums of 64 bits: 105 equations for 15 columns, of 88 to 92 rows.
ATTACKED = {**SMALL, "packing": False, "batch_size": 100, "learning_rate": 0.1}
# INSECURE, for the study of Algorithm 2.
WHOLE_ANSWERS = {**ATTACKED, "truncate_answers": False}
BOTH_ATTACKS = {"attacks": ("half_star", "auxiliary_ciphertext"), "adversary": "passive"}


def audit(folder: Path, settings: dict[str, Any], **request: Any) -> tuple[Path, dict[str, Any], str]:
    """Run an audit on breast_cancer; returns its folder, its results and what it printed."""
    output = io.StringIO()
    run = run_audit(
        AuditRequest.of(data="breast_cancer", runs=folder, settings=settings, verbosity="verbose", **request),
        Console(file=output, width=200),
    )
    return run, json.loads((run / "results.json").read_text()), output.getvalue()


def weights_of(run: Path) -> bytes:
    """The trained weights of both parties."""
    return b"".join(
        np.load(run / "parties" / f"{name}-weights.npz")["weights"].tobytes() for name in ("active", "passive")
    )


def reconstruction(results: dict[str, Any]) -> dict[str, Any]:
    """What the active party's half_star found, which knows of no defence."""
    (found,) = (finding for finding in results["attacks"] if finding["attack"] == "half_star")
    assert found["mse"] is not None, found["reason"]
    return dict(found)


def labels(results: dict[str, Any]) -> dict[str, Any]:
    """What the passive party's auxiliary_ciphertext found."""
    (found,) = results["training_attacks"]
    return dict(found)


@pytest.fixture(scope="module")
def undefended(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], str]:
    """Both parties attack, neither defends."""
    return audit(tmp_path_factory.mktemp("undefended"), WHOLE_ANSWERS, **BOTH_ATTACKS)


@pytest.fixture(scope="module")
def defended(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], str]:
    """Every service defends: both parties their answers, the passive one its parameters, the coordinator the scores."""
    return audit(
        tmp_path_factory.mktemp("defended"),
        {**ATTACKED, "defence_options": {"score_scheme1": {"alpha": 9.0}}},
        defences=("response_truncation", "feature_transform", "score_scheme1", "score_scheme3"),
        **BOTH_ATTACKS,
    )


# -- the attack on, the defence off and on ----------------------------------------------------------------------------


def test_each_service_applies_what_sits_with_it(
    undefended: tuple[Path, dict[str, Any], str], defended: tuple[Path, dict[str, Any], str]
) -> None:
    run, results, printed = defended
    assert undefended[1]["defences"] == {}
    assert results["defences"] == {
        "coordinator": ["score_scheme1", "score_scheme3"],
        "active": ["response_truncation"],
        "passive": ["response_truncation", "feature_transform"],
    }
    assert all(name in printed for name in ("score_scheme1, score_scheme3", "response_truncation, feature_transform"))
    report = (run / "report.html").read_text()
    assert all(name in report for name in ("score_scheme1", "feature_transform", "response_truncation"))


def test_reconstruction_gets_worse_and_the_model_does_not(
    undefended: tuple[Path, dict[str, Any], str], defended: tuple[Path, dict[str, Any], str]
) -> None:
    off, on = reconstruction(undefended[1]), reconstruction(defended[1])
    # The auditor's truth is that of the untransformed features.
    assert on["half"] == off["half"]
    assert off["mse"]["mean"] < off["half"] < on["mse"]["mean"]
    # The defences don't touch training, and the attack has a session of its own.
    assert weights_of(defended[0]) == weights_of(undefended[0])
    assert abs(defended[1]["accuracy"] - undefended[1]["accuracy"]) < 0.1
    off_scores, on_scores = (
        np.load(run / "parties/active-test-scores.npz")["scores"] for run in (undefended[0], defended[0])
    )
    assert (on_scores.argmax(axis=1) == off_scores.argmax(axis=1)).mean() > 0.9
    assert np.abs(on_scores - off_scores).max() > 0.05


def test_algorithm_2_reads_all_labels_off_the_wire_and_of_truncated_answers_a_part_in_each_epoch(
    undefended: tuple[Path, dict[str, Any], str], defended: tuple[Path, dict[str, Any], str]
) -> None:
    off, on = labels(undefended[1]), labels(defended[1])
    assert (off["success"], off["resolved"], off["by_epoch"][0]) == (1.0, 1.0, 1.0)
    # 30 of 87 or 88 records of a batch in each of two epochs, none of them twice.
    assert on["success"] == on["resolved"] == pytest.approx(60 / 87, abs=0.01)
    assert on["by_epoch"] == pytest.approx([30 / 87] * 2, abs=0.01)
    sizes = [results["bytes_by_message"]["Ask: AnswerPart"] for results in (undefended[1], defended[1])]
    assert sizes[1] < 0.25 * sizes[0]


def test_at_2048_bits_truncated_answers_tell_every_label_where_the_guard_counts_enough_equations(
    tmp_path: Path,
) -> None:
    """One packed answer of 15 sums tells 26 residuals to the last bit and five bits of another."""
    settings = {"steps": "plain", "epochs": 1, "batch_size": 27, "validation_fraction": 0.0}
    _, results, _ = audit(tmp_path, settings, attacks=("auxiliary_ciphertext",), adversary="passive")
    found = labels(results)
    assert (found["success"], found["resolved"], found["reason"]) == (1.0, 1.0, "")
    (channel,) = [one for one in results["channels"] if one["key_holder"] == "active"]
    assert channel["rows"] <= channel["equations"] == 27
    assert channel["answer_bits"] == channel["sums"] * channel["sum_bits"], "they were cut"
    # Training went on with what was read.
    assert results["malicious"]["accuracy"] > 0.6


def test_the_guard_warns_of_what_the_attack_did_and_where_nothing_is_spare_of_labels_only(
    undefended: tuple[Path, dict[str, Any], str], defended: tuple[Path, dict[str, Any], str]
) -> None:
    assert sum("truncate_answers=true at" in warning for warning in undefended[1]["warnings"]) == 2
    assert sum(warning.startswith("INSECURE: truncate_answers=false") for warning in undefended[1]["warnings"]) == 2
    assert "It can put 240 equations into them" in " ".join(undefended[2].split())
    # 15 answers of a residual and a part each, for 88 rows: labels of up to 120 follow.
    (warning,) = [warning for warning in defended[1]["warnings"] if "equations" in warning]
    assert warning.startswith("passive could learn labels of active's records from the answers of one step. ")
    assert "It can put 30 equations into them, and a batch has 87 records" in warning
    assert "labels follow from fewer equations than records" in warning
    assert [channel["spare_bits"] for channel in defended[1]["channels"]] == [0, 0]
    for run, printed, cut in ((undefended[0], undefended[2], False), (defended[0], defended[2], True)):
        for words in (" ".join(printed.split()), (run / "report.html").read_text()):
            assert ("cut to their honest width; " in words, "INSECURE: whole" in words) == (cut, not cut)


def test_dp_noise_leaves_algorithm_2_guessing(tmp_path: Path, undefended: tuple[Path, dict[str, Any], str]) -> None:
    _, results, printed = audit(
        tmp_path,
        {**WHOLE_ANSWERS, "residual_integer_bits": 8, "defence_options": {"dp_noise": {"sigma": 20.0}}},
        defences=("dp_noise",),
        **BOTH_ATTACKS,
    )
    # All equations are there, and the sign of a noisy share tells Phi(2 / 20) = 54 % of 455 labels, give or take 2 %.
    found = labels(results)
    assert found["resolved"] == 1.0
    assert all(0.4 < success < 0.7 for success in found["by_epoch"])
    assert labels(undefended[1])["by_epoch"][0] == 1.0
    for party in ("active", "passive"):
        assert results["predictions"][party][0]["sigma"] == 20.0
        assert f"dp_noise at {party} expects: sigma 20" in printed


def test_the_bare_label_and_rotated_parameters_leave_the_adversary_worse_off_than_guessing_one_half(
    tmp_path: Path, undefended: tuple[Path, dict[str, Any], str]
) -> None:
    run, results, _ = audit(
        tmp_path,
        {**ATTACKED, "defence_options": {"class_label": {"remainder": 0.1}}},
        attacks=("half_star",),
        defences=("parameter_rotation", "class_label"),
    )
    assert results["defences"] == {"coordinator": ["class_label"], "passive": ["parameter_rotation"]}
    found = reconstruction(results)
    assert found["mse"]["mean"] > found["half"] > reconstruction(undefended[1])["mse"]["mean"]
    assert weights_of(run) == weights_of(undefended[0])
    assert results["accuracy"] == undefended[1]["accuracy"]
    delivered = np.load(run / "parties/active-test-scores.npz")["scores"]
    np.testing.assert_allclose(np.unique(delivered), [0.1, 0.9])


def test_noise_that_would_overflow_is_refused_before_training_in_words_that_reach_the_operator(tmp_path: Path) -> None:
    with pytest.raises(
        FederationFailed, match=r"(active|passive): dp_noise .*fixed point ends at 128.*residual_integer"
    ):
        audit(
            tmp_path,
            {**SMALL, "defence_options": {"dp_noise": {"sigma": 50.0}}},
            defences=("dp_noise",),
        )
    (run,) = tmp_path.iterdir()
    logs = "".join(path.read_text() for path in (run / "logs").glob("*.log"))
    assert "Traceback" not in logs
    assert "Stage: training" not in logs


def test_a_repeated_question_gets_the_same_noise_over_the_wire() -> None:
    generator = np.random.default_rng(1)
    ids = [f"c{number:02d}" for number in range(40)]
    active = pd.DataFrame({"id": ids, "a": generator.random(40), "b": generator.random(40)})
    active["default"] = np.arange(40) % 2
    passive = pd.DataFrame({"id": ids, "c": generator.random(40), "d": generator.random(40)})
    settings = {**SMALL, "epochs": 1, "batch_size": 8, "guard": "off"}
    with Federation.local(
        active=active, passive=[passive], label="default", defences=["score_noise"], settings=settings
    ) as federation:
        federation.train()
        first = federation.predict(ids).drop(columns="error")
        again = federation.predict(ids[::-1]).drop(columns="error").loc[ids]
    np.testing.assert_allclose(again, first, atol=1e-9)
    # An untrained model's scores are near 1/2; noise of 0.1 is not.
    assert first.to_numpy().std() > 0.05


# -- services that don't start ----------------------------------------------------------------------------------------

PEERS = "coordinator=127.0.0.1:1,active=127.0.0.1:2,passive=127.0.0.1:3"
OF_ROLE = {
    "coordinator": {},
    "active": {"data": "breast_cancer", "share": "1/2"},
    "passive": {"data": "breast_cancer", "share": "2/2"},
}


def serve(role: str, **settings: str) -> tuple[int, str]:
    """Start a service that should not start; its status and its words."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(PREFIX)}
    chosen = {"transport": "insecure", "listen": "127.0.0.1:0", "peers": PEERS, **OF_ROLE[role], **settings}
    environment |= {PREFIX + key.upper(): value for key, value in chosen.items()}
    done = subprocess.run(
        [sys.executable, "-m", "plumbline", "serve", role], env=environment, capture_output=True, text=True, timeout=60
    )
    return done.returncode, " ".join(done.stderr.split())


@pytest.mark.parametrize("role", ["coordinator", "active", "passive"])
def test_an_unknown_defence_stops_every_service_with_the_list_of_known_ones(role: str) -> None:
    status, words = serve(role, defences="half_moon")
    assert status == 2
    assert "Unknown defence 'half_moon'. Known: class_label, discrete_gradients, dp_noise, dp_sgd," in words
    assert "Traceback" not in words


@pytest.mark.parametrize(
    ("role", "settings", "sentence"),
    [
        (
            "coordinator",
            {"defences": "class_label,purification"},
            "class_label and purification both replace the scores: choose one of them.",
        ),
        ("passive", {"defences": "parameter_rotation"}, "discloses none (black box): set PLUMBLINE_DISCLOSE=true"),
        (
            "active",
            {"defences": "dp_noise", "defence_options": '{"dp_noise": {"epsilon": -1.5}}'},
            "epsilon",
        ),
    ],
)
def test_contradictions_and_options_out_of_range_stop_a_service_with_a_sentence(
    role: str, settings: dict[str, str], sentence: str
) -> None:
    status, words = serve(role, **settings)
    assert status == 2
    assert sentence in words
    assert "Traceback" not in words


# -- the command ------------------------------------------------------------------------------------------------------


def refuse(tmp_path: Path, *arguments: str) -> str:
    """What ``plumbline audit`` says when it refuses; nothing may be left of the run."""
    done = CliRunner().invoke(app, ["audit", "--data", "breast_cancer", "--runs", str(tmp_path / "runs"), *arguments])
    assert done.exit_code == 2, done.output
    assert not (tmp_path / "runs").exists()
    return " ".join(done.output.split())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--defences", "half_moon"], "Unknown defence 'half_moon'. Known: class_label,"),
        (["--defences", "class_label,class_label"], "Each defence is named once: got class_label, class_label."),
        (["--defences", "class_label,purification"], "both replace the scores: choose one of them."),
        (["--defences", "dp_sgd"], "dp_sgd trains models in the lab: give --hidden"),
        (
            ["--defences", "class_label", "--set", 'defence_options={"score_noise": {"sigma": 1}}'],
            "defence_options names score_noise, which defences doesn't",
        ),
        (
            ["--defences", "score_noise", "--set", 'defence_options={"score_noise": {"sigma": -1}}'],
            "Expected sigma to be a positive number, got -1.",
        ),
        (
            ["--defences", "score_noise", "--set", 'defence_options={"score_noise": {"strength": 1}}'],
            "score_noise can't take strength",
        ),
    ],
)
def test_the_audit_refuses_before_anything_is_started(tmp_path: Path, arguments: list[str], sentence: str) -> None:
    assert sentence in refuse(tmp_path, *arguments)


@pytest.mark.parametrize("request_of", [{}, {"attacks": ("half_star",), "black_box": True}])
def test_the_audit_refuses_to_rotate_what_it_doesnt_disclose(request_of: dict[str, Any]) -> None:
    request = AuditRequest.of(data="breast_cancer", defences=("parameter_rotation",), **request_of)
    with pytest.raises(ValueError, match="parameter_rotation"):
        request.recipe(request.tables.party_settings).checked()


def test_spaces_around_names_and_an_empty_list_are_no_defence(tmp_path: Path) -> None:
    assert "Unknown defence 'half_moon'" in refuse(tmp_path, "--defences", " class_label , half_moon ")


def test_rounded_scores_of_trees_are_all_that_the_label_party_is_told(tmp_path: Path) -> None:
    trees = {"n_estimators": 3, "max_depth": 3, "max_bin": 8, "gradient_bits": 12}
    settings = {"learner": "boosted_trees", "learner_options": trees, "key_bits": 512, "allow_insecure_keys": True}
    run, _, _ = audit(tmp_path, settings, defences=("score_rounding",), attacks=("half",))
    folder = RunFolder(run / "parties")
    agreement = folder.record("active").agreement
    assert agreement is not None
    assert (agreement.score_defences, agreement.answers) == (("score_rounding",), "scores")
    scores = folder.delivered_scores(agreement).scores
    assert scores.shape == (len(scores), 2)
    np.testing.assert_allclose(scores, np.round(scores, 2), atol=1e-12)
    assert len(np.unique(scores)) > 2
