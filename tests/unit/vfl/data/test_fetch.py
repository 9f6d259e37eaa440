"""Fetching: unpacking, checking and placing, without a network."""

from __future__ import annotations

import gzip
import hashlib
import importlib
import io
import os
import urllib.error
import urllib.request
import zipfile
from dataclasses import replace
from email.message import Message
from pathlib import Path
from typing import IO

import numpy as np
import pandas as pd
import pytest

from vfl.data import DATASETS, DatasetNotFound, load_dataset
from vfl.data.fetch import FetchError, Opener, fetch, open_https

# As an attribute of the package the name is the function.
fetching = importlib.import_module("vfl.data.fetch")

ROBOT = "".join(
    ",".join(["1.5"] * 24 + [turn]) + "\n"
    for turn in ["Move-Forward", "Sharp-Right-Turn", "Slight-Right-Turn", "Slight-Left-Turn"] * 1_364
).encode()


def zipped(files: dict[str, bytes]) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return target.getvalue()


class Server:
    """Stands in for the network: hands out the same bytes for every URL and remembers the URLs."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.urls: list[str] = []

    def __call__(self, url: str) -> IO[bytes]:
        self.urls.append(url)
        return io.BytesIO(self.content)


@pytest.fixture
def robot_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the made-up robot rows pass as the published ones."""
    made_up = replace(DATASETS["robot"], sha256=(hashlib.sha256(ROBOT).hexdigest(),))
    monkeypatch.setitem(DATASETS, "robot", made_up)


@pytest.mark.usefixtures("robot_sum")
@pytest.mark.parametrize(
    "content",
    [
        zipped({"sensor_readings_24.data": ROBOT}),
        zipped({"readme.txt": b"", "a/b/": b"", "a/b/sensor_readings_24.data": ROBOT}),
        zipped({"__MACOSX/sensor_readings_24.data": b"x", "sensor_readings_24.data": ROBOT}),
        zipped({"other.zip": zipped({"x": b""}), "inner.zip": zipped({"d/sensor_readings_24.data": ROBOT})}),
        zipped({"../../sensor_readings_24.data": ROBOT}),
    ],
)
def test_archives_are_unpacked_and_loadable(tmp_path: Path, content: bytes) -> None:
    server = Server(content)
    seen: list[tuple[int, int | None]] = []
    target = tmp_path / "data"
    paths = fetch("robot", target, lambda *at: seen.append(at), opener=server)
    assert paths == [target / "robot" / "sensor_readings_24.data"]
    assert server.urls == ["https://archive.ics.uci.edu/static/public/194/wall+following+robot+navigation+data.zip"]
    assert seen[-1] == (len(content), None)
    assert load_dataset("robot", target).features.shape == (5_456, 24)
    assert [path.name for path in target.iterdir()] == ["robot"]
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


@pytest.mark.usefixtures("robot_sum")
def test_from_a_local_file(tmp_path: Path) -> None:
    archive = tmp_path / "robot.zip"
    archive.write_bytes(zipped({"sensor_readings_24.data": ROBOT}))
    sizes: list[int | None] = []

    def opener(_: str) -> IO[bytes]:
        response: IO[bytes] = urllib.request.urlopen(archive.as_uri())  # noqa: S310 - a file of this test
        return response

    fetch("robot", tmp_path / "data", lambda _done, total: sizes.append(total), opener=opener)
    assert set(sizes) == {archive.stat().st_size}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (zipped({"sensor_readings_24.data": ROBOT}), "expected 6e9728de.*nothing was replaced"),
        (zipped({"readme.txt": b""}), "holds no sensor_readings_24.data"),
        (b"<html>moved</html>", "readable zip"),
        (zipped({"sensor_readings_24.data": ROBOT})[:-30], "readable zip"),
    ],
)
def test_other_contents_replace_nothing(tmp_path: Path, content: bytes, message: str) -> None:
    old = tmp_path / "robot" / "sensor_readings_24.data"
    old.parent.mkdir()
    old.write_bytes(b"old")
    with pytest.raises(FetchError, match=message):
        fetch("robot", tmp_path, opener=Server(content))
    assert old.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["robot"]


def test_contents_that_do_not_load_are_refused(tmp_path: Path) -> None:
    # drive has no published sum: what is downloaded must at least have its rows and columns.
    content = zipped({"Sensorless_drive_diagnosis.txt": b"1 2 3\n"})
    with pytest.raises(FetchError, match="What was downloaded for drive is not the data set"):
        fetch("drive", tmp_path, opener=Server(content))
    assert list((tmp_path / "drive").iterdir()) == []


def test_drive_is_fetched_in_full_and_preferred_to_the_sample(tmp_path: Path) -> None:
    def rows(each: int) -> bytes:
        return "".join(f"{'0.5 ' * 48}{label}\n" for label in range(1, 12) for _ in range(each)).encode()

    (tmp_path / "drive").mkdir()
    (tmp_path / "drive" / "Sensorless_drive_diagnosis_sample2200.txt").write_bytes(rows(200))
    assert len(load_dataset("drive", tmp_path).features) == 2_200
    fetch("drive", tmp_path, opener=Server(zipped({"Sensorless_drive_diagnosis.txt": rows(5_319)})))
    table = load_dataset("drive", tmp_path)
    assert len(table.features) == 58_509
    assert not any("sample" in note for note in table.notes)


def raises(error: Exception) -> Opener:
    def opener(_: str) -> IO[bytes]:
        raise error

    return opener


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (urllib.error.URLError("Name or service not known"), "not known.*check the network connection"),
        (TimeoutError("timed out"), "timed out.*check the network"),
        (urllib.error.HTTPError("https://x", 404, "Not Found", Message(), None), "answered 404"),
    ],
)
def test_no_network(tmp_path: Path, error: Exception, message: str) -> None:
    with pytest.raises(FetchError, match=message):
        fetch("grid", tmp_path, opener=raises(error))
    with pytest.raises(FetchError, match=message):
        fetch("mnist01", tmp_path, opener=raises(error))


def test_no_network_for_openml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sklearn.datasets

    def unreachable(**_: object) -> None:
        raise urllib.error.URLError("Name or service not known")

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", unreachable)
    with pytest.raises(FetchError, match=r"data set 42477 from OpenML \(Name or service not known\)"):
        fetch("credit", tmp_path)


def test_download_that_breaks_off(tmp_path: Path) -> None:
    class Short(io.BytesIO):
        headers = {"Content-Length": "100"}  # noqa: RUF012 - as in a response

    with pytest.raises(FetchError, match="broke off after 3 of 100 bytes"):
        fetch("grid", tmp_path, opener=lambda _: Short(b"abc"))


def test_download_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "_LARGEST_DOWNLOAD_BYTES", 1_000)
    with pytest.raises(FetchError, match="far more than the data set"):
        fetch("grid", tmp_path, opener=Server(b"x" * 2_000))
    with pytest.raises(FetchError, match="unpacks to far more"):
        fetch("grid", tmp_path, opener=Server(zipped({"Data_for_UCI_named.csv": b"x" * 2_000})))


@pytest.mark.parametrize("url", ["http://example.org/x.zip", "file:///etc/hostname", "ftp://example.org/x"])
def test_only_https(url: str) -> None:
    with pytest.raises(FetchError, match="https"):
        open_https(url)


def test_redirects_to_plain_http_are_refused() -> None:
    request = urllib.request.Request("https://example.org/x")
    handler = fetching._HttpsRedirects()
    with pytest.raises(FetchError, match="without https"):
        handler.redirect_request(request, io.BytesIO(), 302, "Found", Message(), "http://example.org/x")
    followed = handler.redirect_request(request, io.BytesIO(), 302, "Found", Message(), "https://example.org/y")
    assert followed is not None


def test_every_source_is_https_and_every_raw_data_set_has_one() -> None:
    for entry in DATASETS.values():
        if entry.files and entry.name not in ("credit", "mnist01"):
            assert entry.archive.startswith(f"https://archive.ics.uci.edu/static/public/{entry.uci}/")
        assert len(entry.sha256) in (0, len(entry.files))
    assert DATASETS["mnist01"].archive.startswith("https://")


def test_bundled_data_sets_need_no_fetching(tmp_path: Path) -> None:
    assert fetch("wine", tmp_path, opener=raises(AssertionError("no download"))) == []


def test_unknown_name(tmp_path: Path) -> None:
    with pytest.raises(DatasetNotFound):
        fetch("nothing", tmp_path)


def test_directory_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FetchError, match="choose a directory you can write to"):
        fetch("grid", tmp_path / "file", opener=Server(b""))


@pytest.mark.parametrize("with_id", [False, True])
def test_credit_from_openml_is_written_as_the_csv_export(tmp_path: Path, with_id: bool) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.integers(-2, 500_000, (30_000, 23)), columns=[f"x{i}" for i in range(1, 24)])
    truth = frame.to_numpy(float)
    if with_id:
        frame.insert(0, "ID", range(30_000))
    frame["y"] = pd.Categorical(np.where(np.arange(30_000) < 6_636, "1", "0"))
    numbers: list[int] = []

    def openml_frame(number: int) -> pd.DataFrame:
        numbers.append(number)
        return frame

    fetch("credit", tmp_path, openml_frame=openml_frame)
    table = load_dataset("credit", tmp_path)
    np.testing.assert_array_equal(table.features, truth)
    assert table.labels[:6_636].tolist() == [1] * 6_636
    assert numbers == [42_477]


def test_credit_of_another_shape(tmp_path: Path) -> None:
    with pytest.raises(FetchError, match="3 columns, expected 24"):
        fetch("credit", tmp_path, openml_frame=lambda _: pd.DataFrame(np.zeros((2, 3)), columns=list("abc")))


@pytest.fixture(scope="module")
def raw_data() -> Path:
    """Read before conftest.py drops all settings from the environment of a test."""
    value = os.environ.get("PLUMBLINE_DATA_DIR")
    if not value:
        pytest.skip("set PLUMBLINE_DATA_DIR to the directory of the raw data sets")
    return Path(value)


def test_real_files_pass_the_published_sums(tmp_path: Path, raw_data: Path) -> None:
    for name in ("bank", "adult", "satellite", "pendigits", "grid", "robot", "mnist01"):
        entry = DATASETS[name]
        contents = {}
        for file in entry.files:
            path = raw_data / entry.folder / file
            packed = path.with_name(f"{path.name}.gz")
            contents[file] = path.read_bytes() if path.is_file() else gzip.decompress(packed.read_bytes())

        def opener(url: str, folder: str = entry.folder, files: dict[str, bytes] = contents) -> IO[bytes]:
            if url.endswith(".gz"):
                return (raw_data / folder / url.rsplit("/", 1)[1]).open("rb")
            return io.BytesIO(zipped(files))

        fetch(name, tmp_path, opener=opener)
        assert load_dataset(name, tmp_path).features.shape[1] == entry.features
