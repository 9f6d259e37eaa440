"""What is asked of a run: sets side by side, the search, and what can't be asked, each in a sentence."""

import json
from dataclasses import replace
from pathlib import Path
from shutil import copytree

import pytest
from typer.testing import CliRunner

from plumbline.audit import candidates
from plumbline.audit.clear_run import obstacles, run_in_one_place
from plumbline.audit.folder import AuditFolder, read_what_if
from plumbline.audit.plan import AuditPlan, ClearPlan
from plumbline.audit.request import AuditRequest
from plumbline.audit.tables import JoinedTables
from plumbline.cli import app
from plumbline.federation import FederationFailed
from plumbline.job_progress import RunProgress
from plumbline.judge.column_sets import Change
from plumbline.judge.findings import Findings, read_findings
from plumbline.what_if import asking
from plumbline.what_if.asking import Question, ask, confirmed, named_changes
from plumbline.what_if.simulated_sets import UP_TO_HEADLINE, AuditedRun, audited_run, simulated
from tests.harness.simulated_run import simulated_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> AuditFolder:
    return simulated_run(tmp_path_factory.mktemp("tables"))


def asked(run: AuditFolder, *sets: str) -> Question:
    return Question(tuple(tuple(one.split(",")) for one in sets), confirms=False, workers=1)


def test_sets_stand_side_by_side_and_are_part_of_the_report(run: AuditFolder) -> None:
    found = ask(run, asked(run, "debt", "debt=bins2,town"), RunProgress())
    assert found.whole.part > 0.5
    assert [one.title for one in found.asked] == ["without debt", "without town; debt as bins2"]
    without, coarser = found.asked
    assert {one.column for one in without.columns} == {"age", "town"}
    assert without.auc < 0.65 < coarser.auc
    (debt,) = [one.part for one in coarser.columns if one.column == "debt"]
    # Half a column's range is told, in place of all of it.
    assert debt is not None
    assert 0.3 < debt < found.whole.part
    # Simulated twice, by a run of the same terms: the same numbers.
    assert found.whole.columns == found.run.columns
    assert found.whole.auc == found.run.auc
    assert read_what_if(run) == found
    assert json.loads(run.results.read_text())["what_if"]["asked"][0]["changes"][0]["column"] == "debt"
    assert "without town; debt as bins2" in run.report.read_text()


def test_labels_that_an_adversary_of_training_knows_are_nothing_to_sets_of_columns(run: AuditFolder) -> None:
    audited = audited_run(run.path)
    adversary = replace(audited.plan.request.adversary, attacks=("half_star", "own_part"), known_labels=3)
    request = replace(audited.plan.request, adversary=adversary)
    known = replace(audited, plan=replace(audited.plan, request=request))
    assert simulated(known, (), ("half_star",)) == simulated(audited, (), ("half_star",))


def test_the_search_leaves_out_what_leaks(run: AuditFolder) -> None:
    found = ask(run, asked(run), RunProgress())
    assert {one.changes[0].column for one in found.without} == {"debt", "age", "town"}
    assert found.frontier[1].changes == (Change("passive", "debt"),)
    assert [one.changes[0].kind for one in found.coarser] == ["bins2", "bins4", "bins10", "round4", "round10"]
    assert found.chosen is not None
    assert Change("passive", "debt") in found.chosen.changes


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (["dept"], r"No passive party has a column 'dept' in this run\. Did you mean 'debt'"),
        (["debt=bins3"], r"no passive party has a column 'debt=bins3'.*bins2, bins4, bins10, round4, round10"),
        (["*"], "passive would have no column left, and a party without any can't take part"),
        (["balance"], "No passive party has a column 'balance'"),
    ],
)
def test_a_set_that_can_t_be_is_refused(run: AuditFolder, names: list[str], reason: str) -> None:
    with pytest.raises(ValueError, match=f"(?i){reason}"):
        named_changes(audited_run(run.path), names)


def test_names_patterns_and_parties_mean_columns(run: AuditFolder) -> None:
    audited = audited_run(run.path)
    assert named_changes(audited, ["passive:d*", "age=round4", "age"]) == (
        Change("passive", "age", "drop"),
        Change("passive", "debt", "drop"),
    )
    assert audited.plan.levels == UP_TO_HEADLINE


def copied(run: AuditFolder, folder: Path) -> AuditFolder:
    return AuditFolder(Path(copytree(run.path, folder / "run")))


def test_categories_can_t_become_coarser(run: AuditFolder, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'town' is of categories, and only numbers, dates and codes become coarser"):
        ask(copied(run, tmp_path), asked(run, "town=bins2"), RunProgress())


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("", None, "has no audit.toml, which says what it was made from|has no audit.toml, which says what to judge"),
        ("fintech.csv", "gone.csv", "can't be simulated without the tables that it was made from.*Put them where"),
        ("fintech.csv", "bank.csv", "can't be simulated without the tables|made from other tables"),
        ("[settings]", '[settings]\nlearner = "network"', "can't be simulated"),
        ('label = "default"', "label = 7", "audit.toml"),
    ],
)
def test_a_run_that_can_t_be_simulated_says_why(
    run: AuditFolder, tmp_path: Path, old: str, new: str | None, reason: str
) -> None:
    again = copied(run, tmp_path)
    file = again.path / "audit.toml"
    text = file.read_text()
    if new is None:
        file.unlink()
    else:
        assert old in text
        file.write_text(text.replace(old, new))
    with pytest.raises(ValueError, match=rf"(?s){reason}"):
        ask(again, asked(run, "debt"), RunProgress())


def test_shared_weights_are_not_simulated() -> None:
    request = AuditRequest.of(data="breast_cancer", attacks=("half",), settings={"protocol": "shared"})
    recipe = request.recipe(request.tables.party_settings).checked()
    (reason,) = obstacles(ClearPlan(request, recipe, UP_TO_HEADLINE))
    assert reason.startswith("it trains on shared weights")


def test_a_run_that_did_not_get_as_far_and_tables_that_changed_are_told(run: AuditFolder, tmp_path: Path) -> None:
    half = copied(run, tmp_path / "half")
    facts = json.loads(half.config.read_text())
    del facts["seconds"]
    half.config.write_text(json.dumps(facts))
    with pytest.raises(ValueError, match="has no results to report on: it didn't get as far"):
        ask(half, asked(run, "debt"), RunProgress())
    other = copied(run, tmp_path / "other")
    table = Path(audited_run(run.path).plan.request.tables.passive[0])
    (tmp_path / "fintech.csv").write_text(table.read_text().replace(",a\n", ",b\n"))
    file = other.path / "audit.toml"
    file.write_text(file.read_text().replace(str(table), str(tmp_path / "fintech.csv")))
    with pytest.raises(ValueError, match="was made from other tables than those that stand in their place now"):
        ask(other, asked(run, "debt"), RunProgress())
    other.what_if.write_text("{")
    with pytest.raises(ValueError, match=r"`plumbline whatif` writes it again\."):
        read_what_if(other)


def test_the_command_says_the_same_in_words_and_as_json(run: AuditFolder) -> None:
    options = ["whatif", str(run.path), "--set", "debt", "--set", "debt=bins2,town", "--no-confirm", "--workers", "1"]
    told = CliRunner(env={"COLUMNS": "200"}).invoke(app, options)
    assert told.exit_code == 0, told.output
    assert "Sets side by side (SIMULATED)" in told.stdout
    assert "without town; debt as bins2" in told.stdout
    document = json.loads(CliRunner().invoke(app, [*options, "--json"]).stdout)
    assert [len(one["columns"]) for one in document["asked"]] == [2, 2]
    assert document["report"] == str(run.report)
    refused = CliRunner().invoke(app, ["whatif", str(run.path), "--set", "*"])
    assert refused.exit_code == 2
    assert "passive would have no column left" in refused.stderr


def test_what_confirms_a_set_is_a_federation_of_its_columns(
    run: AuditFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def simulates(plan: AuditPlan, title: str, tables: JoinedTables, folder: AuditFolder) -> Findings:
        place = AuditFolder(folder.path / "place")
        run_in_one_place(ClearPlan(plan.request, plan.recipe, plan.levels, plan.limit), tables, place)
        return read_findings(place.parties, plan.request.tables.passive_names, title)

    monkeypatch.setattr(asking, "measured_federation", simulates)
    # A data set is dealt out whole: parties are given files in its place.
    settings = {"epochs": 2, "most_equations": 0.05}
    request = AuditRequest.of(data="breast_cancer", attacks=("half_star",), cipher="plain", settings=settings)
    recipe = request.recipe(request.tables.party_settings).checked()
    plan = ClearPlan(request, recipe, UP_TO_HEADLINE)
    (tmp_path / "dealt").mkdir()
    dealt = AuditedRun(AuditFolder(tmp_path / "dealt"), plan, JoinedTables(recipe.parties), "")
    for one, names in (
        (audited_run(copied(run, tmp_path).path), "debt=bins2,town"),
        (dealt, "worst area,*error=round4"),
    ):
        changes = named_changes(one, names.split(","))
        expected = simulated(one, changes, ("half_star",))
        found = confirmed(one, changes)
        assert {part.column for part in found.columns} == {part.column for part in expected.columns}
        assert found.changes == expected.changes
        assert found.auc == pytest.approx(expected.auc, abs=1e-12)


def test_where_the_confirming_federation_fails_the_simulation_stays_and_so_do_the_logs(
    run: AuditFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(plan: AuditPlan, tables: JoinedTables, folder: AuditFolder, progress: RunProgress) -> None:
        (folder.path / "active.log").write_text("why")
        raise FederationFailed(f"active hangs; see {folder.path / 'active.log'}.")

    monkeypatch.setattr(candidates, "run_federation", fails)
    mine = copied(run, tmp_path)
    with pytest.raises(FederationFailed, match=r"What was simulated is in .*report\.html.*active hangs") as failed:
        ask(mine, Question((("debt",),), workers=1), RunProgress())
    assert Path(str(failed.value).split("see ")[1].rstrip(".")).read_text() == "why"
    assert "Sets side by side" in mine.report.read_text()
    assert json.loads((mine.path / "whatif.json").read_text())["asked"]
