"""Downloading of public data sets: raw files are fetched over https and checked before they are put in place.

bank, adult, satellite, pendigits, grid, robot and drive (all 58,509 rows) come as zip archives from UCI. mnist01 comes
as the four original idx files from the mirror that PyTorch's data sets use. credit comes from OpenML, because UCI
offers only a format (.xls) that nothing here reads; it is written in the layout of the well-known CSV export.
"""

from __future__ import annotations

import hashlib
import io
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import urlsplit

from vfl.data.catalogue import dataset, load_dataset
from vfl.data.datasets import Dataset, DatasetError

if TYPE_CHECKING:
    import pandas as pd

Progress = Callable[[int, int | None], None]
"""Called with the bytes of the current download received so far and expected (None where it is not told)."""
Opener = Callable[[str], IO[bytes]]

_TIMEOUT_SECONDS = 60
_CHUNK_BYTES = 1 << 18
# Several times the largest real one (drive): a longer answer is not the data set.
_LARGEST_DOWNLOAD_BYTES = 1 << 28
_UCI = "https://archive.ics.uci.edu/static/public"
_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist"


class FetchError(ValueError):
    """A download failed or delivered something else; the message says what to do.

    Examples:
        >>> from pathlib import Path
        >>> def offline(address):
        ...     raise OSError("no network")
        >>> fetch("bank", Path("data"), opener=offline)
        Traceback (most recent call last):
            ...
        vfl.data.fetch.FetchError: Cannot download https://... (no network): check the network connection ...
    """


@dataclass(frozen=True)
class _File:
    """A raw file: its name in the data set's folder and the SHA-256 of its bytes, where one is published."""

    name: str
    sha256: str | None = None


@dataclass(frozen=True)
class _Archive:
    """A zip archive (of zip archives, for bank) at a URL, and the files to take from it."""

    url: str
    files: tuple[_File, ...]


_ARCHIVES = {
    "bank": _Archive(
        f"{_UCI}/222/bank+marketing.zip",
        (_File("bank-additional-full.csv", "74adfc578bf77a7ff4bb1ba4a9f8709d9e3c6907342959c2c8416847e0afb4d8"),),
    ),
    "adult": _Archive(
        f"{_UCI}/2/adult.zip",
        (
            _File("adult.data", "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d"),
            _File("adult.test", "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05"),
        ),
    ),
    "satellite": _Archive(
        f"{_UCI}/146/statlog+landsat+satellite.zip",
        (
            _File("sat.trn", "e896dc88a960fa2404160fc4c3cb3dc53fcf4afd80ba920bf2d261bd42d12613"),
            _File("sat.tst", "4b9167b8a92baafafed7c8809aef86d0683a5e685c19d98d119fa6974f0f2479"),
        ),
    ),
    "pendigits": _Archive(
        f"{_UCI}/81/pen+based+recognition+of+handwritten+digits.zip",
        (
            _File("pendigits.tra", "e2b9eb9f0d0467e2b64a4816a3420edf2b8043447576f4b84337aba44a9f97d3"),
            _File("pendigits.tes", "8bd03229c5c5291fefe43e45465dd948d2645bf23328b9d993e0b777666b2015"),
        ),
    ),
    "grid": _Archive(
        f"{_UCI}/471/electrical+grid+stability+simulated+data.zip",
        (_File("Data_for_UCI_named.csv", "7afc3154fed9cd65258b3403b60381fe6b0d832bf817a1ea4866395d05a84a83"),),
    ),
    "robot": _Archive(
        f"{_UCI}/194/wall+following+robot+navigation+data.zip",
        (_File("sensor_readings_24.data", "6e9728dedef8b35e31ba0be11aea85aa53bd248ab33652777df81b95a4cc8c00"),),
    ),
    "drive": _Archive(
        f"{_UCI}/325/dataset+for+sensorless+drive+diagnosis.zip",
        (_File("Sensorless_drive_diagnosis.txt"),),
    ),
}
_MNIST_FILES = (
    _File("train-images-idx3-ubyte.gz", "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
    _File("train-labels-idx1-ubyte.gz", "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
    _File("t10k-images-idx3-ubyte.gz", "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
    _File("t10k-labels-idx1-ubyte.gz", "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
)
_CREDIT_COLUMNS = [
    "LIMIT_BAL",
    "SEX",
    "EDUCATION",
    "MARRIAGE",
    "AGE",
    "PAY_0",
    *(f"PAY_{month}" for month in range(2, 7)),
    *(f"BILL_AMT{month}" for month in range(1, 7)),
    *(f"PAY_AMT{month}" for month in range(1, 7)),
]


def fetch(
    name: str,
    data_dir: Path,
    progress: Progress | None = None,
    *,
    opener: Opener | None = None,
    openml_frame: Callable[[int], pd.DataFrame] | None = None,
) -> list[Path]:
    """Download a data set's raw files to `data_dir/<folder>/`, replacing older ones.

    The files are checked against their published SHA-256 where there is one, then loaded as the catalogue will load
    them, and only then moved into place. An interrupted or failed run leaves what was there before.

    Args:
        name: of a data set in the catalogue.
        data_dir: where data sets' folders lie.
        progress: is told about each download.
        opener: replaces the network in tests.
        openml_frame: replaces OpenML in tests.

    Returns:
        Paths of the files; empty for data sets that come with scikit-learn.

    Raises:
        DatasetNotFound: for an unknown name.
        FetchError: without a network, or for a download that is not the published file.
    """
    entry = dataset(name)
    if not entry.files:
        return []
    opened = opener or open_https
    folder = data_dir / entry.folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Beside the final place: a rename within one file system is atomic.
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=data_dir) as scratch:
            staged = Path(scratch) / entry.folder
            staged.mkdir()
            for file_name, content in _contents(entry, opened, openml_frame or _openml_frame, progress).items():
                (staged / file_name).write_bytes(content)
            load_dataset(name, Path(scratch))
            return [path.replace(folder / path.name) for path in sorted(staged.iterdir())]
    except DatasetError as error:
        raise FetchError(f"What was downloaded for {name} is not the data set: {error}") from error
    except OSError as error:
        raise FetchError(
            f"Cannot write to {folder} ({error.strerror}): choose a directory you can write to."
        ) from error


def open_https(url: str) -> IO[bytes]:
    """Open a URL, refusing anything but https, in redirects as well.

    Raises:
        FetchError: for another scheme, or where the server doesn't answer.
    """
    if urlsplit(url).scheme != "https":
        raise FetchError(f"Refusing to download {url}: use an https address.")
    response: IO[bytes] = urllib.request.build_opener(_HttpsRedirects).open(url, timeout=_TIMEOUT_SECONDS)
    return response


class _HttpsRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        if urlsplit(newurl).scheme != "https":
            raise FetchError(f"{req.host} redirects to an address without https: download the files by hand.")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _contents(
    entry: Dataset, opener: Opener, openml_frame: Callable[[int], pd.DataFrame], progress: Progress | None
) -> dict[str, bytes]:
    """Get the data set's raw files by name, checked."""
    if entry.name == "credit" and entry.openml is not None:
        return {entry.files[0]: _credit_csv(openml_frame(entry.openml))}
    if entry.name == "mnist01":
        return {
            file.name: _verified(file, _download(f"{_MNIST}/{file.name}", opener, progress)) for file in _MNIST_FILES
        }
    archive = _ARCHIVES[entry.folder]
    data = _download(archive.url, opener, progress)
    return {file.name: _verified(file, _member(data, file.name, archive.url)) for file in archive.files}


def _download(url: str, opener: Opener, progress: Progress | None) -> bytes:
    try:
        with opener(url) as response:
            length = getattr(response, "headers", {}).get("Content-Length")
            total = int(length) if length and length.isdigit() else None
            received = bytearray()
            while chunk := response.read(_CHUNK_BYTES):
                received += chunk
                if len(received) > _LARGEST_DOWNLOAD_BYTES:
                    raise FetchError(f"{url} delivers far more than the data set: check the address by hand.")
                if progress:
                    progress(len(received), total)
    except urllib.error.HTTPError as error:
        raise FetchError(f"{url} answered {error.code}: try later, or download the file by hand.") from error
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise FetchError(
            f"Cannot download {url} ({reason}): check the network connection and the proxy settings, "
            "or put the raw files into the data directory by hand."
        ) from error
    if total is not None and len(received) != total:
        raise FetchError(f"The download of {url} broke off after {len(received)} of {total} bytes: try again.")
    return bytes(received)


def _member(data: bytes, name: str, url: str) -> bytes:
    """Read the file of this name (in any folder) from a zip archive or from an archive within it."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = [member for member in archive.infolist() if not member.is_dir()]
            for member in members:
                if member.file_size > _LARGEST_DOWNLOAD_BYTES:
                    raise FetchError(f"The archive {url} unpacks to far more than the data set: check it by hand.")
                # __MACOSX holds resource forks under the same names.
                if Path(member.filename).name == name and "__MACOSX" not in member.filename:
                    return archive.read(member)
            for member in members:
                if member.filename.endswith(".zip"):
                    try:
                        return _member(archive.read(member), name, url)
                    except _NoSuchMemberError:
                        continue
    except (zipfile.BadZipFile, EOFError, NotImplementedError) as error:
        raise FetchError(f"{url} did not deliver a readable zip archive ({error}): try again later.") from error
    raise _NoSuchMemberError(f"The archive {url} holds no {name}: its publisher changed it; get the file by hand.")


class _NoSuchMemberError(FetchError):
    pass


def _verified(file: _File, content: bytes) -> bytes:
    digest = hashlib.sha256(content).hexdigest()
    if file.sha256 is not None and digest != file.sha256:
        raise FetchError(
            f"{file.name} has SHA-256 {digest}, expected {file.sha256}: "
            "the download was damaged or the publisher changed the file; nothing was replaced."
        )
    return content


def _openml_frame(number: int) -> pd.DataFrame:
    """Download a data set of OpenML, all columns, target last; scikit-learn checks the sum that OpenML states."""
    import sklearn.datasets

    try:
        with tempfile.TemporaryDirectory() as cache:
            bunch = sklearn.datasets.fetch_openml(data_id=number, as_frame=True, data_home=cache, parser="auto")
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise FetchError(
            f"Cannot download data set {number} from OpenML ({reason}): check the network connection and the "
            "proxy settings, or put the raw files into the data directory by hand."
        ) from error
    frame: pd.DataFrame = bunch.data.assign(**{"default.payment.next.month": bunch.target})
    return frame


def _credit_csv(frame: pd.DataFrame) -> bytes:
    """OpenML's credit table (columns x1 to x23 and the target) in the layout of the CSV export."""
    columns = [*_CREDIT_COLUMNS, "default.payment.next.month"]
    frame = frame.drop(columns=[name for name in frame.columns if str(name).lower() == "id"])
    if frame.shape[1] != len(columns):
        raise FetchError(f"OpenML's credit table has {frame.shape[1]} columns, expected {len(columns)}.")
    try:
        table = frame.set_axis(columns, axis="columns").astype(float).astype(int)
    except (ValueError, TypeError) as error:
        raise FetchError("OpenML's credit table holds something else than numbers: get the file by hand.") from error
    table.insert(0, "ID", range(1, len(table) + 1))
    return table.to_csv(index=False).encode()
