"""The evaluation of the defences: page and files, command, matrix without federations, adaptive adversaries, cost."""

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from typer.testing import CliRunner

pytest.importorskip("torch")

import attacks
import defences
from defences import DefenceError, NoiseSource, ScoreContext, TrainingTerms
from defences.dp_noise import DpNoise
from plumbline.cli import app
from plumbline.figures.defences import matrix as defences_matrix
from plumbline.figures.defences import study as evaluation
from plumbline.figures.defences.adaptive import Ask, adaptive_adversaries
from plumbline.figures.defences.advice import advice
from plumbline.figures.defences.against_predictions import PSI
from plumbline.figures.defences.cost import UNDEFENDED, WIDE, _live_rows, _notes, _summary, _Trial
from plumbline.figures.defences.matrix import matrix_section, print_matrix
from plumbline.figures.defences.page import frame_table, write_defences
from plumbline.figures.defences.study import SECTIONS, run_defences
from plumbline.figures.page.elements import PageTable
from plumbline.figures.page.section import Plot, Section
from plumbline.figures.simulation.live import LiveRun, residual_integer_bits
from vfl.arrays import FloatArray
from vfl.learning import confidence_scores

SETTINGS = {"seed": 3, "quick": False, "versions": {"numpy": "2"}}


def fake_section(name: str, rows: int = 4) -> Section:
    data = pd.DataFrame(
        {
            "defence": ["one", "one", "two", "two"][:rows],
            "case": ["a", "b", "b", "b"][:rows],
            "kl": [0.012345, np.inf, np.nan, 2e-30][:rows],
            "records": [1000, 2, 3, 4][:rows],
        }
    )
    svg = f'<?xml version="1.0"?>\n<svg><text>{name}</text></svg>'
    return Section(
        name, f"Title of {name}", data, data, (Plot(f"{name}-one", svg, "A <caption>."),), ("A note & more.",)
    )


# --- page and files -----------------------------------------------------------------------------------------------


def test_files_hold_what_the_sections_have_and_are_the_same_every_time(tmp_path: Path) -> None:
    sections = {"first": fake_section("first"), "second": fake_section("second", 2)}
    written = []
    for number in range(2):
        page = write_defences(tmp_path / str(number), sections, SETTINGS)
        written.append({path.name: path.read_bytes() for path in page.parent.iterdir()})
    assert written[0] == written[1]
    assert set(written[0]) == {
        "defences.html",
        "defences.json",
        *(f"defences-{name}{end}" for name in sections for end in (".parquet", "-one.svg")),
    }
    for name, section in sections.items():
        pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "0" / f"defences-{name}.parquet"), section.data)
        assert written[0][f"defences-{name}-one.svg"].decode() == section.plots[0].svg
    first = json.loads(written[0]["defences.json"])["sections"]["first"]
    assert first["settings"] == SETTINGS
    assert first["notes"] == ["A note & more."]
    assert [row["kl"] for row in first["summary"]] == [0.012345, None, None, 2e-30]
    assert first["plots"] == [{"file": "defences-first-one.svg", "caption": "A <caption>."}]


def test_the_page_is_self_contained_and_shows_every_part(tmp_path: Path) -> None:
    html = write_defences(tmp_path, {"first": fake_section("first")}, SETTINGS).read_text()
    for words in ("Title of first", "A note &amp; more.", "A &lt;caption&gt;.", "<svg><text>first", "0.0123", "Seed 3"):
        assert words in html
    for outside in ("<script", "src=", "<link", "<?xml", str(tmp_path)):
        assert outside not in html
    assert "quick run" not in html
    quick = write_defences(tmp_path, {"first": fake_section("first")}, {**SETTINGS, "quick": True}).read_text()
    assert "a quick run" in quick


def test_what_another_run_measured_stays_on_the_page_as_it_was(tmp_path: Path) -> None:
    # Once: the second run left nothing but its own section.
    first = replace(fake_section("first"), advice=PageTable("Held.", ("against", "use"), [("label_recovery", "more")]))
    write_defences(tmp_path, {"first": first}, {**SETTINGS, "made": "2026-01-02 03:04"})
    before = json.loads((tmp_path / "defences.json").read_text())["sections"]["first"]
    other = fake_section("second")
    write_defences(tmp_path, {"second": other}, {**SETTINGS, "quick": True, "made": "2026-05-06 07:08"})
    stored = json.loads((tmp_path / "defences.json").read_text())["sections"]
    assert list(stored) == ["first", "second"]
    assert stored["first"] == before
    html = (tmp_path / "defences.html").read_text()
    # Infinity isn't lost on the way.
    assert html.count("∞") == 2
    parts = html[: html.index('id="first"')], html[html.index('id="first"') : html.index('id="second"')]
    assert "What to use against what" in parts[0]
    assert "label_recovery" in parts[0]
    assert "a full run, made 2026-01-02 03:04" in parts[1]
    assert "quick" not in parts[1]
    assert "a quick run" in html[html.index('id="second"') :]
    # The same section again replaces itself, drawings included.
    again = replace(other, plots=(replace(other.plots[0], name="second-two"),), title="Another title")
    write_defences(tmp_path, {"second": again}, SETTINGS)
    html = (tmp_path / "defences.html").read_text()
    assert "Title of first" in html
    assert "Another title" in html
    assert "Title of second" not in html
    assert {path.name for path in tmp_path.glob("*.svg")} == {"defences-first-one.svg", "defences-second-two.svg"}


@pytest.mark.parametrize("stored", ['{"sections": {"matrix": {"title": "old"}}}', "{}", "[", '{"sections": [1]}'])
def test_a_page_of_another_version_is_refused_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored: str
) -> None:
    monkeypatch.setattr(evaluation, "_function", lambda name: pytest.fail("something ran"))
    (tmp_path / "defences.json").write_text(stored)
    with pytest.raises(ValueError, match="choose another folder with --out"):
        run_defences(tmp_path, None, sections=["cost"], console=Console(file=io.StringIO()))
    assert (tmp_path / "defences.json").read_text() == stored


def test_a_page_whose_drawings_are_gone_is_refused_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation, "_function", lambda name: pytest.fail("something ran"))
    write_defences(tmp_path, {"first": fake_section("first")}, SETTINGS)
    (tmp_path / "defences-first-one.svg").unlink()
    with pytest.raises(ValueError, match=r"its drawings are gone.* choose another folder with --out"):
        run_defences(tmp_path, None, sections=["cost"], console=Console(file=io.StringIO()))


@pytest.mark.parametrize("place", ["a file", "/proc/nowhere", "/proc"])
def test_a_place_that_cannot_be_written_to_is_refused_in_a_sentence_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setattr(evaluation, "_function", lambda name: pytest.fail("something ran"))
    out = tmp_path / place
    if place == "a file":
        out.write_text("")
    refused = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["figures", "defences", "--out", str(out)])
    assert refused.exit_code == 2
    assert f"Cannot use {out} (" in refused.output
    assert "Errno" not in refused.output
    assert "choose a place that you can write to" in refused.output


def test_a_wide_table_has_its_first_columns_between_the_rows() -> None:
    frame = pd.DataFrame({"set": ["s"] * 3, "way": ["v", "v", "w"], "start": list("aab"), "x": list("cdd")})
    table = frame_table(frame.assign(**{f"number {number}": 1.5 for number in range(9)}))
    assert table.headings[:3] == ("start", "x", "number 0")
    assert table.right == set(range(2, 11))
    numbers = ("1.500",) * 9
    assert table.rows == [("s, v",), ("a", "c", *numbers), ("", "d", *numbers), ("s, w",), ("b", "d", *numbers)]


def test_tables_show_a_group_once_and_numbers_short() -> None:
    table = frame_table(fake_section("x").data)
    assert table.rows == [
        ("one", "a", "0.0123", "1,000"),
        ("", "b", "∞", "2"),
        ("two", "b", "", "3"),
        ("", "", "0", "4"),
    ]
    assert table.right == {2, 3}
    frame = pd.DataFrame({"x": [0.5, 12.345, 1234.5, 2e-5, -0.25, 3.0e7], "ok": [True, False] * 3})
    assert [row[0] for row in frame_table(frame).rows] == ["0.5000", "12.3", "1,234", "2.0e-05", "-0.2500", "3.0e+07"]
    assert frame_table(frame).rows[1][1] == "no"
    errors = pd.DataFrame({"set_name": ["a"], "x_y": [0.5], "x_y_se": [0.01], "b_c, d": [1], "z_se": [0.25]})
    assert frame_table(errors).rows == [("a", "0.5000 ± 0.0100", "1", "0.2500")]
    assert frame_table(errors).headings == ("set name", "x y", "b_c, d", "z se")


def test_chosen_sections_run_in_order_with_the_arguments_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[tuple[str, dict[str, Any]]] = []

    def function_of(name: str) -> Any:
        def run(data_dir: Path | None, **arguments: Any) -> Section:
            called.append((name, arguments))
            assert data_dir == tmp_path
            return fake_section(name)

        return run

    monkeypatch.setattr(evaluation, "_function", function_of)
    console = Console(file=io.StringIO(), width=200)
    page = run_defences(
        tmp_path / "out", tmp_path, seed=7, quick=True, sections=["scores", "cost", "scores"], console=console
    )
    assert called == [(name, {"seed": 7, "quick": True}) for name in ("scores", "cost")]
    content = json.loads((page.parent / "defences.json").read_text())
    assert list(content["sections"]) == ["scores", "cost"]
    assert all(section["settings"]["seed"] == 7 for section in content["sections"].values())
    assert isinstance(console.file, io.StringIO)
    assert f"Report: {page}" in console.file.getvalue()


def test_what_is_done_stays_when_a_later_section_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(data_dir: Path | None, **arguments: Any) -> Section:
        if (tmp_path / "defences.html").exists():
            raise RuntimeError("stopped")
        return fake_section("cost")

    monkeypatch.setattr(evaluation, "_function", lambda name: run)
    with pytest.raises(RuntimeError, match="stopped"):
        run_defences(tmp_path, None, sections=["cost", "scores"], console=Console(file=io.StringIO()))
    assert list(json.loads((tmp_path / "defences.json").read_text())["sections"]) == ["cost"]


@pytest.mark.parametrize(("sections", "message"), [(["matrix", "costs"], "no section 'costs'"), ([], "No section")])
def test_bad_sections_are_refused_before_anything_runs(tmp_path: Path, sections: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message) as refused:
        run_defences(tmp_path / "out", None, sections=sections, console=Console(file=io.StringIO()))
    assert all(name in str(refused.value) for name in SECTIONS)
    assert not (tmp_path / "out").exists()


def test_every_section_is_there() -> None:
    for name in SECTIONS:
        assert callable(evaluation._function(name))


def test_the_command_has_an_example_and_says_which_sections_there_are(tmp_path: Path) -> None:
    runner = CliRunner(env={"COLUMNS": "200"})
    shown = runner.invoke(app, ["figures", "defences", "--help"])
    assert shown.exit_code == 0
    assert "Example: plumbline figures defences --section matrix" in shown.output
    refused = runner.invoke(app, ["figures", "defences", "--section", "price", "--out", str(tmp_path / "out")])
    assert refused.exit_code == 2
    assert "no section 'price'" in refused.output
    assert "matrix, cost, noise" in refused.output
    assert not (tmp_path / "out").exists()


# --- matrix -------------------------------------------------------------------------------------------------------


def federations(*, quick: bool) -> pd.DataFrame:
    """What ``training_rows`` gives, made up."""
    shared = {"phase": "training", "dataset": "breast_cancer", "case": "live", "options": "defaults", "reason": ""}
    shared |= {"adversary": "unaware", "status": "measured"}
    measured = [("none", "label_recovery", 1.0), ("dp_noise", "label_recovery", 0.5), ("none", "feature_order", 0.8)]
    return pd.DataFrame(
        [
            {**shared, "defence": defence, "attack": attack, "right": right, "right_undefended": 1.0, "answered": 1.0}
            for defence, attack, right in measured
        ]
    )


@pytest.fixture(scope="module")
def matrix() -> Section:
    """The quick matrix: its predictions are real, its federations made up."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(defences_matrix, "training_rows", federations)
        return matrix_section(None, quick=True)


def chosen(section: Section, **where: object) -> pd.DataFrame:
    rows = section.data
    for column, value in where.items():
        rows = rows[rows[column] == value]
    assert len(rows)
    return rows


def test_each_pair_of_defence_and_attack_has_a_number_or_a_reason(matrix: Section) -> None:
    data = matrix.data.assign(attack=matrix.data["attack"].str.removesuffix(" from 1/2"))
    for defence in (PSI, *defences.names()):
        for attack in attacks.names():
            rows = data[(data["defence"] == defence) & (data["attack"] == attack)]
            assert len(rows), (defence, attack)
            has_number = rows["mse"].notna() | rows["right"].notna()
            assert (has_number | (rows["reason"] != "")).all(), (defence, attack)
    assert set(data["status"]) == {"measured", "unchanged", "not applicable", "refused"}
    assert (data[data["status"] != "measured"]["reason"] != "").all()


def test_alignment_and_truncation_change_no_prediction(matrix: Section) -> None:
    for defence in (PSI, "response_truncation"):
        rows = chosen(matrix, defence=defence, phase="prediction")
        assert (rows["status"] == "unchanged").all()
        pd.testing.assert_series_equal(rows["mse"], rows["mse_undefended"], check_names=False)
        assert (rows["kl"] == 0).all()


def test_what_defences_keep_is_kept(matrix: Section) -> None:
    for defence in ("score_scheme1", "score_scheme2", "score_scheme3", "class_label", "parameter_rotation"):
        rows = chosen(matrix, defence=defence, phase="prediction")
        assert (rows["model_accuracy"] == rows["model_accuracy_undefended"]).all()
    assert (chosen(matrix, defence="parameter_rotation")["interpretability"].dropna() > 0).all()
    assert (chosen(matrix, defence="score_noise", phase="prediction")["interpretability"] == 0).all()


def test_repeating_a_query_gains_nothing_and_steering_undoes_noise_and_labels(matrix: Section) -> None:
    def error(defence: str, adversary: str, attack: str = "clamped_ls") -> float:
        rows = chosen(matrix, defence=defence, options="defaults", adversary=adversary, attack=attack)
        return float(rows["mse"].iloc[0])

    noise = {words for words in chosen(matrix, defence="score_noise")["adversary"] if words != "unaware"}
    averaging = next(words for words in noise if "averages" in words)
    steering = next(words for words in noise if "steers" in words)
    assert error("score_noise", averaging) == pytest.approx(error("score_noise", "unaware"), abs=1e-12)
    status = chosen(matrix, defence="score_noise").groupby("adversary")["status"].first()
    assert (status[averaging], status[steering]) == ("measured", "refused")
    undefended = float(chosen(matrix, defence=PSI, attack="clamped_ls")["mse"].iloc[0])
    for defence in ("score_noise", "class_label", "score_rounding"):
        assert error(defence, steering) == pytest.approx(undefended, abs=0.003)
        assert error(defence, "unaware") > undefended + 0.01
    assert error("score_scheme1", "subtracts the noise") == pytest.approx(undefended, abs=1e-9)


def test_who_is_refused_is_not_the_strongest(matrix: Section) -> None:
    summary = matrix.summary.set_index("defence")
    for defence in ("score_noise", "class_label"):
        refused = chosen(matrix, defence=defence, options="defaults", status="refused")["mse"].min()
        assert summary.loc[defence, "breast_cancer, d = 15: strongest"] > refused


def test_summary_plots_and_notes(matrix: Section) -> None:
    summary = matrix.summary.set_index("defence")
    assert summary.loc["dp_noise", "labels, listening"] == 0.5
    strongest, unaware = (matrix.summary[f"breast_cancer, d = 15: {who}"] for who in ("strongest", "unaware"))
    known = strongest.notna()
    assert (strongest[known] <= unaware[known]).all()
    assert {plot.name for plot in matrix.plots} == {"breast-cancer-d-15", "training"}
    assert all("<svg" in plot.svg and plot.caption for plot in matrix.plots)
    assert any("label_recovery" in note and "50% with dp_noise" in note for note in matrix.notes)
    assert any(note.startswith("Alignment by PSI does not help") for note in matrix.notes)


def test_the_page_leads_with_what_holds_and_what_that_costs(matrix: Section) -> None:
    assert matrix.advice is not None
    rows = {row[0] or "strongest": row for row in matrix.advice.rows}
    assert len(matrix.advice.rows) == 4
    unaware = rows["reconstruction from scores by who doesn't know the defence"]
    assert unaware[1] == "breast_cancer, d = 15"
    assert unaware[2].endswith("guessing 0.097")
    noise = rows["label_recovery in training"]
    assert noise[2:5] == ("100% right", "dp_noise", "50% right")
    # No federation had anything against it.
    assert rows["feature_order in training"][3] == "none holds"


def test_of_defences_that_hold_the_cheapest_is_advised() -> None:
    def rows_of(trial: str, mse: float, kl: float, accuracy: float) -> list[dict[str, Any]]:
        shared: dict[str, Any] = {
            "phase": "prediction",
            "case": "c",
            "adversary": "unaware",
            "status": "measured",
            "trial": trial,
        }
        shared |= {"defence": trial, "kl": kl, "model_accuracy": accuracy, "model_accuracy_undefended": 0.9}
        return [{**shared, "attack": "half_star", "mse": mse}, {**shared, "attack": "half", "mse": 0.1}]

    data = pd.DataFrame(
        [
            *rows_of(PSI, 0.02, 0.0, 0.9),
            *rows_of("dear", 0.2, 0.0, 0.5),
            *rows_of("moves scores", 0.07, np.inf, 0.9),
            *rows_of("little", 0.065, 0.2, 0.9),
            *rows_of("too weak", 0.05, 0.0, 0.9),
        ]
    )
    unaware, strongest = advice(data, ["c"]).rows
    assert unaware[1:] == (
        "c",
        "error 0.020, guessing 0.100",
        "little",
        "error 0.065",
        "scores move by a KL of 0.2",
        "moves scores, dear",
    )
    assert strongest[3] == "little"
    weak, _ = advice(data[data["trial"].isin([PSI, "too weak"])], ["c"]).rows
    assert weak[3:5] == ("none holds; too weak comes closest", "error 0.050")


def test_the_console_shows_the_change_of_error(matrix: Section) -> None:
    console = Console(file=io.StringIO(), width=200)
    print_matrix(console, matrix.data)
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    assert "breast_cancer, d = 15" in shown
    line = next(line for line in shown.splitlines() if "response_truncation" in line)
    assert line.count("=") == 8


# --- adaptive adversaries -----------------------------------------------------------------------------------------


def world(k: int, d: int, seed: int = 0, records: int = 60) -> tuple[attacks.PredictionView, FloatArray]:
    """A view of undefended predictions with as many auxiliary records, and the (n + t, k) logits behind it."""
    generator = np.random.default_rng(seed)
    active, passive = generator.random((2 * records, 3)), generator.random((2 * records, d))
    own, other, bias = generator.normal(size=(k, 3)), generator.normal(size=(k, d)), generator.normal(size=k)
    logits = active @ own.T + passive @ other.T + bias
    scores = confidence_scores(logits)
    view = attacks.PredictionView(
        features_active=active[:records],
        scores=scores[:records],
        weights_active=own,
        weights_passive=other,
        bias=bias,
        auxiliary=attacks.AuxiliaryRows(active[records:], passive[records:], scores[records:]),
    )
    return view, logits


def defended(view: attacks.PredictionView, scores: FloatArray) -> attacks.PredictionView:
    """The view with other scores delivered."""
    assert view.auxiliary is not None
    return replace(view, scores=scores[: view.n], auxiliary=replace(view.auxiliary, scores=scores[view.n :]))


def told(adaptive: Any) -> FloatArray:
    """The scores of all records as an adaptive adversary has them."""
    return np.vstack([adaptive.view.scores, adaptive.view.auxiliary.scores])


def delivered(name: str, view: attacks.PredictionView, logits: FloatArray, **options: Any) -> tuple[Any, Ask]:
    """A defence, and the coordinator's answers under it."""
    defence = defences.load(name, **options)
    weights = np.asarray(view.weights_passive)
    context = ScoreContext(NoiseSource(1), weights @ weights.T)
    return defence, lambda shift: defence.protect_scores(confidence_scores(logits + shift), context)


@pytest.mark.parametrize("k", [2, 5])
@pytest.mark.parametrize("name", ["score_scheme1", "score_scheme3"])
def test_schemes_without_a_secret_come_off_exactly(name: str, k: int) -> None:
    view, logits = world(k, 6)
    defence, ask = delivered(name, view, logits)
    scores = ask(np.zeros_like(logits))
    assert np.abs(scores - confidence_scores(logits)).max() > 0.05
    (adaptive,) = adaptive_adversaries(defence, defended(view, scores), ask, 0)
    np.testing.assert_allclose(told(adaptive), confidence_scores(logits), atol=1e-9)


def test_scheme_2_comes_off_but_for_decisions_that_were_raised() -> None:
    view, logits = world(5, 6)
    defence, ask = delivered("score_scheme2", view, logits, alpha=25.0)
    scores = ask(np.zeros_like(logits))
    (adaptive,) = adaptive_adversaries(defence, defended(view, scores), ask, 0)
    before, error = (np.abs(seen - confidence_scores(logits)).max(axis=1) for seen in (scores, told(adaptive)))
    ordered = np.sort(np.log(scores), axis=1)
    raised = np.abs(ordered[:, -1] - ordered[:, -2] - defence.delta) < 1e-6
    assert 0 < raised.sum() < len(raised)
    assert error[~raised].max() < 1e-9
    assert error[raised].mean() < before[raised].mean() / 2


@pytest.mark.parametrize(("name", "tolerance"), [("class_label", 0.25), ("score_rounding", 0.1), ("score_noise", 0.35)])
def test_steering_reads_logits_through_labels_rounding_and_noise(name: str, tolerance: float) -> None:
    view, logits = world(4, 6)
    defence, ask = delivered(name, view, logits)
    found = adaptive_adversaries(defence, defended(view, ask(np.zeros_like(logits))), ask, 0)[-1]
    assert "steers" in found.words
    errors = np.log(told(found)) - logits
    errors -= errors.mean(axis=1, keepdims=True)
    assert np.abs(errors).mean() < tolerance / 2
    assert np.abs(errors).max() < 2 * tolerance


def test_parameters_are_regressed_and_signs_are_tried() -> None:
    view, logits = world(3, 4)
    disclosed = replace(view, weights_passive=-np.asarray(view.weights_passive))
    _, ask = delivered("class_label", view, logits)
    guessed, regressed = adaptive_adversaries(defences.load("parameter_rotation"), disclosed, ask, 0)
    assert guessed.view is not None
    np.testing.assert_array_equal(np.asarray(guessed.view.weights_passive), view.weights_passive)
    assert regressed.view is not None
    found = np.diff(np.asarray(regressed.view.weights_passive), axis=0)
    np.testing.assert_allclose(found, np.diff(np.asarray(view.weights_passive), axis=0), atol=1e-9)
    undone = adaptive_adversaries(defences.load("feature_transform", kind="negate"), disclosed, ask, 0)[0]
    assert undone.view is not None
    np.testing.assert_array_equal(np.asarray(undone.view.weights_passive), view.weights_passive)
    assert not adaptive_adversaries(defences.load("response_truncation"), view, ask, 0)


def test_features_trained_on_in_the_negative_come_back() -> None:
    view, logits = world(4, 2)
    weights, bias = np.asarray(view.weights_passive), np.asarray(view.bias)
    # What a party that trains on 1 - x discloses for the same scores.
    seen = replace(view, weights_passive=-weights, bias=bias + weights.sum(axis=1))
    defence = defences.load("feature_transform", kind="negate", at="training")
    undone = adaptive_adversaries(defence, seen, lambda shift: confidence_scores(logits + shift), 0)[0]
    assert undone.view is not None
    expected = attacks.load("half_star").reconstruct(view)
    np.testing.assert_allclose(attacks.load("half_star").reconstruct(undone.view), expected, atol=1e-9)


# --- cost ---------------------------------------------------------------------------------------------------------


def run_of(milliseconds: float, sent: int) -> LiveRun:
    steps = [{"step": step, "encrypt": milliseconds / 2e3, "product": milliseconds / 2e3} for step in range(3)]
    records = {party: {"steps": [*steps, {"step": 3, "wait": 9.0}]} for party in ("active", "passive")}
    return LiveRun({"bytes_by_message": {"SendResiduals: X": sent, "Align: Y": 7}}, records)


def test_costs_are_ratios_to_the_undefended_run_of_the_same_round() -> None:
    plain, truncated = _Trial(UNDEFENDED), _Trial("response_truncation", "response_truncation")
    runs = [(0, plain, run_of(100, 50)), (0, truncated, run_of(110, 40))]
    runs += [(1, plain, run_of(200, 50)), (1, truncated, run_of(200, 40)), (1, _Trial(WIDE), run_of(300, 50))]
    live = _live_rows(runs)
    assert list(live["iteration_ms"]) == pytest.approx([100, 100, 110, 110, 200, 200, 200, 200, 300, 300])
    assert list(live["iteration_ratio"]) == pytest.approx([1, 1, 1.1, 1.1, 1, 1, 1, 1, 1.5, 1.5])
    assert set(live["bytes"]) == {57, 47}
    own = pd.DataFrame([{"trial": "response_truncation", "defence": "response_truncation", "own_ms": 3.0}])
    summary = _summary(live, own).set_index("defence")
    row = summary.loc["response_truncation"]
    assert row["ratio"] == pytest.approx(1.05)
    assert row["fastest ratio"] == pytest.approx(1.1)
    assert summary.loc[WIDE, "fastest ratio"] == pytest.approx(3)
    assert row["bytes ratio"] == pytest.approx(0.8)
    assert row["own share of training"] == pytest.approx(3 / 150)
    assert row["target"] == "below 1%: not met"


def test_times_next_to_a_single_undefended_run_are_not_compared() -> None:
    # Once: the quick run said that a defence made training faster.
    runs = [(0, _Trial(UNDEFENDED), run_of(100, 50)), (0, _Trial(WIDE), run_of(90, 60))]
    runs += [(0, _Trial("response_truncation", "response_truncation"), run_of(80, 40))]
    live = _live_rows(runs)
    names = ["response_truncation", "dp_sgd"]
    own = pd.DataFrame({"trial": names, "defence": names, "own_ms": [0.3, np.nan], "iteration_ratio": [np.nan, 2.5]})
    summary = _summary(live, own)
    assert not {"ratio", "fastest ratio"} & set(summary)
    assert list(summary["target"]) == ["", "", "too few runs to compare", "lab only"]
    notes = _notes(live, own, summary, 9)
    assert notes[0].startswith("Too few runs to compare")
    assert "of the time" not in " ".join(notes)
    assert any("1.20 of the bytes" in note for note in notes)
    assert any("dp_sgd takes 2.5 times" in note for note in notes)


@pytest.mark.parametrize("epochs", [1, 40])
def test_the_fixed_point_for_noise_is_the_smallest_that_holds_it(epochs: int) -> None:
    plan: dict[str, Any] = {"epochs": epochs, "steps": 6 * epochs, "rows": 64, "learning_rate": 0.5}
    bits = residual_integer_bits({}, least=4, **plan)

    def check(limit: float) -> None:
        for role in ("active", "passive"):
            DpNoise().check(TrainingTerms(role=role, residual_limit=limit, **plan))

    check(2.0**bits)
    with pytest.raises(DefenceError):
        check(2.0 ** (bits - 1))
    with pytest.raises(DefenceError, match="residual_integer_bits"):
        residual_integer_bits({"sigma": 1e9}, **plan)
