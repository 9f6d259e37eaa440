"""The auditor of a federation in containers: it watches, joins the parties' folders, and reports a session once."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from plumbline.audit.watching import observer
from plumbline.audit.watching.observer import ObservationFailed, RunEntry, WatchPages, joined, report, watched
from plumbline.federation import FederationFailed
from plumbline.federation_status import FederationStatus, JobStatus
from plumbline.judge.findings import read_findings
from services.common.agreement import TrainingPlan
from services.common.run_files import RunFolderError
from services.common.settings import settings_of
from tests.harness.parties import house, small_settings

ROOT = Path(__file__).parents[5]
TRAINING = FederationStatus(
    stage="training",
    failure="",
    obstacle="",
    session_id="",
    parties=(),
    aligned_rows=55,
    job=JobStatus(1, 10),
    test=None,
    class_names=(),
    warnings=("INSECURE: <b>keys</b>.",),
    own_plan=TrainingPlan(),
)

# Of parties that mount nothing, and of those whose passive party listens in training.
SILENT, LISTENED = settings_of({}), settings_of({"attacks": ("label_recovery",), "disclose": True})


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observer, "_SECONDS_BETWEEN_LOOKS", 0.0)
    monkeypatch.setattr(observer, "_PATIENCE", 0.0)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[Path]]:
    """A trained session's id, and each party's own folder, features included."""
    together = tmp_path_factory.mktemp("session")
    settings = small_settings(cipher="plain", record_features=True)
    with house(together, settings=settings, passive_settings=settings) as home:
        home.train()
        session_id = home.active.session_id
    folders = [together / party for party in ("active", "passive")]
    for folder in folders:
        folder.mkdir()
        for file in together.glob(f"{folder.name}*.*"):
            shutil.move(file, folder)
    return session_id, folders


class Answers:
    """A federation whose answers are given beforehand; a text is a refusal."""

    def __init__(self, *answers: FederationStatus | str) -> None:
        self._answers: Iterator[FederationStatus | str] = iter(answers)

    def status(self) -> FederationStatus:
        answer = next(self._answers)
        if isinstance(answer, str):
            raise FederationFailed(answer)
        return answer


def served(session_id: str) -> FederationStatus:
    return replace(TRAINING, stage="serving", job=None, session_id=session_id)


def shown(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "status.json").read_text())
    return content


def test_what_the_federation_is_at_is_shown_until_it_serves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[dict[str, Any]] = []

    class Noting(WatchPages):
        def show(self, *arguments: Any, **options: Any) -> None:
            super().show(*arguments, **options)
            seen.append(shown(tmp_path))

    times = iter(range(0, 1_000, 10))
    federation: Any = Answers("active does not answer: \x1b[2Jgone.", TRAINING, served("abc"))
    status, seconds = watched(federation, Noting(tmp_path), clock=lambda: float(next(times)))
    assert status.stage == "serving"
    assert seconds > 0
    assert seen[0]["lines"] == ["active does not answer: \\x1b[2Jgone."]
    assert seen[1]["lines"] == ["training: step 1 of 10", "55 records are aligned."]
    assert seen[1]["trouble"] == ["INSECURE: <b>keys</b>."]
    assert not seen[1]["is_over"]
    # The page itself says the same to who has no scripts, and obeys none of it.
    page = (tmp_path / "index.html").read_text()
    assert "training: step 1 of 10" in page
    assert "&lt;b&gt;keys" in page
    assert "training: step 1 of 10" in capsys.readouterr().out


def test_losses_are_kept_as_they_are_seen_and_drawn_once_there_are_two(tmp_path: Path) -> None:
    charts: list[bool] = []

    class Noting(WatchPages):
        def show(self, *arguments: Any, **options: Any) -> None:
            super().show(*arguments, **options)
            charts.append("<svg" in (tmp_path / "index.html").read_text())

    looks = [
        replace(TRAINING, job=JobStatus(epoch * 10, 40, epoch, 4, loss))
        for epoch, loss in ((0, None), (1, 0.6), (1, 0.6), (2, 0.4))
    ]
    federation: Any = Answers(*looks, served("abc"))
    watched(federation, Noting(tmp_path))
    assert charts == [False, False, False, True]
    assert shown(tmp_path)["losses"] == {"1": 0.6, "2": 0.4}
    assert '<progress max="40" value="20"' in (tmp_path / "index.html").read_text()


def test_a_model_from_before_was_not_watched(tmp_path: Path) -> None:
    federation: Any = Answers(served("abc"))
    assert watched(federation, WatchPages(tmp_path))[1] == 0


def test_a_failed_job_ends_the_watch_in_the_partys_words(tmp_path: Path) -> None:
    federation: Any = Answers(TRAINING, replace(TRAINING, stage="failed", failure="No id in common."))
    with pytest.raises(ObservationFailed, match=r"^The job failed: No id in common\.$"):
        watched(federation, WatchPages(tmp_path))


def test_a_session_is_judged_once_from_every_partys_folder(
    session: tuple[str, list[Path]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session_id, folders = session
    pages = WatchPages(tmp_path)
    report(served(session_id), 12.0, pages, folders, settings=SILENT)
    page = pages.report_of(session_id)
    assert session_id[:8] in page.read_text()
    (run,) = pages.runs()
    assert run.session == session_id[:8]
    assert run.accuracy is not None
    assert shown(tmp_path) == {
        "lines": ["serving", "55 records are aligned."],
        "trouble": ["INSECURE: <b>keys</b>."],
        "is_over": True,
        "reports": 1,
        "job": None,
        "losses": {},
    }
    assert f'href="runs/{session_id[:8]}/report.html"' in (tmp_path / "index.html").read_text()

    def never(*_: object) -> None:
        raise AssertionError("it is judged already")

    monkeypatch.setattr(observer, "_judge", never)
    report(served(session_id), 0.0, WatchPages(tmp_path), folders, settings=SILENT)


@pytest.mark.parametrize(
    ("named", "disclose", "missing", "kept"),
    [
        ((), True, "half, half_star, label_recovery, ls, method_of_moments, posterior", None),
        ((), False, "half, label_recovery, method_of_moments", "half_star"),
        (("half", "method_of_moments"), True, "half_star, label_recovery, ls, posterior", "method_of_moments"),
    ],
)
def test_what_an_audit_would_have_mounted_is_said(
    session: tuple[str, list[Path]], tmp_path: Path, named: tuple[str, ...], disclose: bool, missing: str, kept: str
) -> None:
    session_id, folders = session
    (tmp_path / "all").mkdir()
    folder = joined(folders, tmp_path / "all")
    findings = read_findings(folder, ["passive"], "demo")
    said = list(observer.unmounted(findings, settings_of({"attacks": named, "disclose": disclose})))
    names = (
        said[0]
        .removeprefix("Not mounted, though an audit would: ")
        .removesuffix(". PLUMBLINE_ATTACKS doesn't name them.")
    )
    assert set(missing.split(", ")) <= set(names.split(", "))
    assert kept not in names.split(", ")
    assert "who know the columns' means or covariances was not measured" in said[-2]
    assert "several sessions about the same records" in said[-1]
    report(served(session_id), 1.0, WatchPages(tmp_path / "pages"), folders, settings_of({"attacks": named}))
    page = WatchPages(tmp_path / "pages").report_of(session_id).read_text()
    assert "plumbline audit does" in page
    assert observer.LESS_THAN_AN_AUDIT in page


_APPLICABLE_WITHOUT_TORCH = """
import sys
from importlib.abc import MetaPathFinder

class NoTorch(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            raise ImportError(name)

sys.meta_path.insert(0, NoTorch())
from attacks import Scenario
from plumbline.audit.plan import applicable
print(*applicable(Scenario(passive_features=15))[0], sep=",")
"""


def test_the_demo_in_containers_mounts_what_an_audit_of_it_does_as_far_as_its_image_allows() -> None:
    command = [sys.executable, "-c", _APPLICABLE_WITHOUT_TORCH]
    applicable = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout.strip()
    default = re.search(r"\$\{PLUMBLINE_ATTACKS-([^}]*)\}", (ROOT / "docker-compose.yml").read_text())
    assert default is not None
    assert re.sub(r"\\\n *", "", default[1]) == applicable


@pytest.mark.parametrize(
    ("session_id", "folders", "awaits", "words"),
    [
        ("another", slice(None), False, "don't hold the session of the model that is served"),
        ("", slice(1), False, "give the auditor every party's folder"),
        ("", slice(None), True, "passive wrote nothing of its attacks on training"),
    ],
)
def test_what_is_missing_is_named_and_not_judged(
    session: tuple[str, list[Path]], tmp_path: Path, session_id: str, folders: slice, awaits: bool, words: str
) -> None:
    of_session, all_folders = session
    settings = LISTENED if awaits else SILENT
    with pytest.raises(ObservationFailed, match=words):
        report(served(session_id or of_session), 0, WatchPages(tmp_path), all_folders[folders], settings)
    assert not list(tmp_path.rglob("report.html"))


@pytest.mark.parametrize("session_id", ["", "../../x", "/x", "a/../../b"])
def test_a_session_that_the_active_party_made_up_leads_nowhere(tmp_path: Path, session_id: str) -> None:
    with pytest.raises(ValueError, match="no coordinator has made"):
        report(served(session_id), 0, WatchPages(tmp_path / "deep" / "pages"), [], settings=SILENT)
    assert not list(tmp_path.rglob("x*"))
    assert not list(tmp_path.rglob("runs"))


def test_features_that_nobody_recorded_are_named(session: tuple[str, list[Path]], tmp_path: Path) -> None:
    """Only an auditor may have them, and only where the parties say so."""
    session_id, folders = session
    copies = [Path(shutil.copytree(folder, tmp_path / folder.name)) for folder in folders]
    assert (copies[1] / "passive-features.npz").exists()
    (copies[1] / "passive-features.npz").write_bytes(b"broken")
    (copies[0] / "attacks").mkdir()
    (copies[0] / "attacks" / "outcomes.json").write_text(
        '[{"schema": 1, "attack": "half", "batch": 0, "records": 1, "status": "done", "seconds": 1}]'
    )
    with pytest.raises(RunFolderError):
        report(served(session_id), 0, WatchPages(tmp_path / "pages"), copies, settings=SILENT)
    assert WatchPages(tmp_path / "pages").runs() == []


def test_joined_folders_hold_what_is_whole_of_each_party_and_change_with_it(tmp_path: Path) -> None:
    for name in ("active", "passive"):
        (tmp_path / name / "attacks").mkdir(parents=True)
        (tmp_path / name / f"{name}.json").write_text("{}")
        (tmp_path / name / f".{name}.json.x.unfinished").write_text("{")
        (tmp_path / name / "attacks" / f"training-{name}.json").write_text("[]")
    into = tmp_path / "joined"
    into.mkdir()
    parts = [tmp_path / "active", tmp_path / "passive", tmp_path / "nobody"]
    joined(parts, into)
    (tmp_path / "active" / "active.json").write_text("new")
    folder = joined(parts, into)
    found = {file.relative_to(into).as_posix() for file in folder.path.rglob("*") if file.is_file()}
    assert found == {
        "active.json",
        "passive.json",
        "attacks/training-active.json",
        "attacks/training-passive.json",
    }
    assert (folder.path / "active.json").read_text() == "new"


def test_without_an_operators_certificate_the_page_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PLUMBLINE_CERTS", str(tmp_path / "none"))
    pages = tmp_path / "pages"
    pages.mkdir()
    assert observer.main(["--address", "127.0.0.1:1", "--pages", str(pages), str(tmp_path)]) == 1
    assert "There is no operator's certificate in" in capsys.readouterr().err
    assert shown(pages)["lines"][0].startswith("There is no operator's certificate in")
    assert shown(pages)["is_over"]


def test_the_list_has_the_newest_report_first(tmp_path: Path) -> None:
    pages = WatchPages(tmp_path)
    for hour in (3, 11, 7):
        session = f"{hour:08}"
        pages.add(session, RunEntry(session, f"2026-01-01T{hour:02}", "Nothing.", "green", None))
    assert [int(run.session) for run in pages.runs()] == [11, 7, 3]
