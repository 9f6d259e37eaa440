"""What one party may know, read from its own folder alone: of a session that was really run, and hostile files."""

import json
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from plumbline.cli import app
from plumbline.report.party_report import PartyView, read_party, write_party_report
from services.common.run_files import RunFolderError
from services.common.run_folder import RunFolder
from services.common.run_records import Estimates, PartyRecord, PredictionAttackOutcome
from tests.harness.parties import house, party_data, small_settings

PARTIES = ("active", "passive")


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Each party's own folder of one encrypted session."""
    together = tmp_path_factory.mktemp("session")
    settings = small_settings(disclose=True)
    with house(together, settings=settings, passive_settings=settings) as home:
        home.train()
    folders = {}
    for party in PARTIES:
        folders[party] = together / party
        folders[party].mkdir()
        for file in together.glob(f"{party}*.*"):
            shutil.move(file, folders[party])
    return folders


def copied(folder: Path, to: Path) -> RunFolder:
    return RunFolder(Path(shutil.copytree(folder, to / folder.name)))


def page_of(view: PartyView, folder: Path) -> str:
    write_party_report(folder / "report.html", view)
    return (folder / "report.html").read_text()


class Tags(HTMLParser):
    """Opens and closes tags as they come; void ones never close."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        assert not [name for name, _ in attrs if name.startswith("on")]
        if tag not in ("meta", "link", "br", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_active_party_reads_what_its_model_is_worth(own: dict[str, Path], tmp_path: Path) -> None:
    view = read_party(RunFolder(own["active"]))
    tested = RunFolder(own["active"]).delivered_scores(view.agreement)
    assert view.quality is not None
    right = tested.scores.argmax(axis=1) == tested.labels
    assert view.quality.accuracy == pytest.approx(right.mean())
    assert view.sentence.startswith(f"active trained with passive on {view.agreement.training_rows} records, and")
    page = page_of(view, tmp_path)
    assert "mounted no attack on scores" in page
    figure, _, carried = view.quality.area_words.partition(" (")
    assert f"<dd>{figure}<small>({carried} of {view.quality.test_rows}</small></dd>" in page.replace("\n", "")
    tags = Tags()
    tags.feed(page)
    assert not tags.open
    assert tags.seen.count("script") == 1, "the elements' own, which the page's policy names by its hash"


def test_a_passive_party_reads_what_its_own_parameters_tell(own: dict[str, Path], tmp_path: Path) -> None:
    view = read_party(RunFolder(own["passive"]))
    weights = RunFolder(own["passive"]).weights("passive").weights[:, 0]
    # One equation theta x = z: of a feature, it fixes the square of its part of theta's direction.
    expected = dict(zip(("f0", "f1", "f2"), weights**2 / (weights**2).sum(), strict=True))
    assert {one.name: one.share for one in view.told} == pytest.approx(expected)
    assert [one.name for one in view.told] == sorted(expected, key=expected.__getitem__, reverse=True)
    assert view.known_directions == 1
    assert view.sentence.startswith("Each scored record tells active 1 equation about 3 features of passive's. ")
    page = page_of(view, tmp_path)
    assert "passive disclosed its parameters" in page
    assert "AUC" not in page


def test_a_black_box_tells_no_equation(own: dict[str, Path], tmp_path: Path) -> None:
    view = read_party(RunFolder(own["passive"]))
    closed = replace(view, record=replace(view.record, discloses=False))
    assert closed.sentence.startswith("passive tells active no parameters: ")
    assert "what disclosing its parameters would tell" in page_of(closed, tmp_path)


def test_as_many_equations_as_features_are_all_of_the_table(own: dict[str, Path], tmp_path: Path) -> None:
    folder = copied(own["passive"], tmp_path)
    folder.write_part("passive", {"weights": np.array([[1.0, 0, 0], [0, 2, 0]])}, np.array(["a", "b"]))
    view = read_party(folder)
    assert view.known_directions == 2
    assert [one.share for one in view.told] == pytest.approx([1, 1])
    assert view.sentence == (
        "active can compute every feature of passive's from a record's scores and the disclosed parameters."
    )


def test_an_attack_claims_what_it_says_of_itself_and_no_more(own: dict[str, Path], tmp_path: Path) -> None:
    folder = copied(own["active"], tmp_path)
    rows, estimate = np.array([3, 5]), np.array([[0.2, 0.4], [0.6, 0.8]])
    arrays = {
        "posterior": estimate,
        "low: posterior": estimate - 0.1,
        "high: posterior": estimate + 0.05,
        "withheld: posterior": np.full((2, 2), 0.5),
        "half_star": estimate,
    }
    folder.write_estimates(0, Estimates(rows, arrays))
    outcomes = [
        PredictionAttackOutcome(attack=name, batch=0, records=2, status="done", level="nothing", seconds=1)
        for name in ("posterior", "half_star")
    ]
    shut = PredictionAttackOutcome(
        attack="<b>ls</b>", batch=0, records=2, status="not applicable", reason="Black <i>box</i>.", seconds=0
    )
    later = replace(outcomes[0], batch=1)
    folder.write_prediction_outcomes([*outcomes, shut, later])
    view = read_party(folder)
    assert [(one.outcome.attack, one.width, one.moved) for one in view.claims] == [
        ("posterior", pytest.approx(0.15), pytest.approx(0.2)),
        ("half_star", None, None),
        ("<b>ls</b>", None, None),
    ]
    assert "claims to know a value of another party's to within 0.15 of a range of 1" in view.sentence
    assert "only an auditor can say whether it does" in view.sentence
    page = page_of(view, tmp_path)
    assert "&lt;b&gt;ls&lt;/b&gt;" in page
    assert "<i>box" not in page


def test_training_attacks_of_a_party_stand_in_its_own_report(tmp_path: Path) -> None:
    from attacks import load

    settings = small_settings(truncate_answers=False)
    rows = [party_data(rows=range(60), columns=1)]
    attack = {"feature_order": load("feature_order")}
    with house(tmp_path, settings=settings, passive=rows, active_adversary=attack) as home:
        home.train()
    for file in tmp_path.glob("passive*"):
        file.unlink()
    view = read_party(RunFolder(tmp_path))
    assert [one.attack for one in view.on_training] == ["feature_order"]
    assert "Attacks on training that active mounted" in page_of(view, tmp_path)


@pytest.mark.parametrize("party", PARTIES)
def test_the_command_says_the_sentence_and_where_the_page_is(own: dict[str, Path], tmp_path: Path, party: str) -> None:
    folder = copied(own[party], tmp_path).path
    view = read_party(RunFolder(folder))
    done = CliRunner().invoke(app, ["report", "--from", str(folder)])
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [view.sentence, f"Report: {folder / 'report.html'}"]
    assert (folder / "report.html").stat().st_mode & 0o777 == 0o600
    # A page that lies in the folder is no record: the second time is as the first.
    done = CliRunner().invoke(app, ["report", "--json", "--from", str(folder)])
    content = json.loads(done.stdout)
    assert content["sentence"] == view.sentence
    assert len(content["told"]) == len(view.told)
    done = CliRunner().invoke(app, ["report", "--from", str(tmp_path / "none")])
    assert done.exit_code == 2
    assert "holds no party's record: name the folder" in done.stderr


def test_a_folder_that_is_no_single_partys_says_what_to_name(own: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match=r"holds no party's record: name the folder .*PLUMBLINE_RUN_DIR"):
        read_party(RunFolder(tmp_path))
    both = copied(own["active"], tmp_path)
    shutil.copy(own["passive"] / "passive.json", both.path)
    with pytest.raises(RunFolderError, match=r"holds the records of active, passive: .*`plumbline report RUN`"):
        read_party(both)
    idle = RunFolder(tmp_path / "idle")
    idle.write_record("passive", PartyRecord(bytes_by_message={}, peak_memory_bytes=1))
    with pytest.raises(RunFolderError, match=r"passive's record in .* tells of no session"):
        read_party(idle)
