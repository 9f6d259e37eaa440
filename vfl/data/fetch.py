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
    if entry.archive.endswith("/"):
        files = [f"{name}.gz" for name in entry.files]
        contents = {name: _download(entry.archive + name, opener, progress) for name in files}
    else:
        data = _download(entry.archive, opener, progress)
        contents = {name: _member(data, name, entry.archive) for name in entry.files}
    for (name, content), digest in zip(contents.items(), entry.sha256, strict=False):
        _check(name, content, digest)
    return contents


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


def _check(name: str, content: bytes, expected: str) -> None:
    if (digest := hashlib.sha256(content).hexdigest()) != expected:
        raise FetchError(
            f"{name} has SHA-256 {digest}, expected {expected}: "
            "the download was damaged or the publisher changed the file; nothing was replaced."
        )


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
