"""This release beside an earlier one, as processes: what docs/how-to/versions.md says of the pair is what happens."""

import io
import re
import subprocess
import tarfile
import time
from pathlib import Path

import pytest

from plumbline.federation import Federation, FederationFailed
from plumbline.processes import LocalProcesses
from services.common.errors import InvalidMessage
from services.common.settings import settings_of
from services.common.state_folder import SCHEMA
from services.network.transport import is_serving
from services.network.versions import WIRE_VERSION
from tests.harness.processes import QUICK, dial, local_processes

ROOT = Path(__file__).parents[2]
# Of version 1 of the wire.
EARLIER = "7a5e8cc3d4"
PARTIES = ("coordinator", "active", "passive")
START_SECONDS = 60.0
# Of another tree's code: nothing that has imported this one's may be forked.
COLD = True


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    """The tree of the earlier release, from the repository's history."""
    packed = subprocess.run(["git", "-C", str(ROOT), "archive", EARLIER], capture_output=True, check=False)
    if packed.returncode:
        pytest.skip(f"no {EARLIER} in the history here: {packed.stderr.decode(errors='replace').strip()}")
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        # Early releases of Python 3.11 have no filters.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(tmp_path / "earlier")  # noqa: S202 - what git packed of this repository
    return tmp_path / "earlier"


def run(processes: LocalProcesses, tree: Path, *names: str) -> None:
    """Start parties, again where they run, with the code of this tree; returns when they serve."""
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(tree)
        patched.setenv("PYTHONPATH", str(tree))
        for name in names:
            if name in processes._running:
                processes.process(name).terminate()
                processes.process(name).wait()
            processes.start_party(name)
    deadline = time.monotonic() + START_SECONDS
    for name in names:
        with dial(processes, "operator", name) as channel:
            while not is_serving(channel):
                processes.check()
                assert time.monotonic() < deadline, processes.last_words(name)
                time.sleep(0.1)


def test_an_earlier_release_is_refused_in_words_and_its_model_is_served_by_this_one(
    tmp_path: Path, earlier: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes = local_processes(tmp_path, data="breast_cancer", **QUICK)
    # Settings that the earlier release hasn't got.
    newer = {"resume_within", "least_ids", "most_sums", "most_equations"}
    given = {name: dict(own.given()) for name, own in processes.settings.items()}
    processes.settings = {
        name: settings_of({key: value for key, value in own.items() if key not in newer}) for name, own in given.items()
    }
    monkeypatch.setattr(processes, "start_party", lambda _: None)
    processes.start()
    monkeypatch.undo()
    try:
        run(processes, earlier, *PARTIES)
        with Federation.connect(processes.addresses["active"], processes.certificates) as federation:
            # It has trained; what it says of itself afterwards is another release's.
            with pytest.raises(InvalidMessage, match=r"runs an older version of Plumbline. Run one version everywhere"):
                federation.train()
            run(processes, ROOT, "coordinator", "passive")
            with pytest.raises(FederationFailed, match="active speaks version 1 of Plumbline's wire, its peer version"):
                federation.train()
            run(processes, ROOT, "active")
            scores = federation.predict(["r000001", "r000005"])
            assert (scores["error"] == "").all()
    finally:
        processes.stop()


def test_the_table_ends_with_what_this_release_speaks() -> None:
    page = (ROOT / "docs/how-to/versions.md").read_text()
    rows = re.findall(r"^\| .*? \| (\d+) \| (\d+) \|", page, re.MULTILINE)
    assert rows[-1] == (str(WIRE_VERSION), str(SCHEMA))
