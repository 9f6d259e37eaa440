"""What a release consists of, made from the last commit alone: wheel, sdist, bill of materials and checksums.

    python -m scripts.release [--out dist]

Everything is made twice, in two folders, and must come out the same to the byte: whoever has the commit, the compiler
and the package index's answer of that day can make it again and compare.
"""

import argparse
import hashlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUMS = "SHA256SUMS"
_UV = (sys.executable, "-m", "uv")
_SHOWN_LINES = 20


class ReleaseFailed(Exception):
    """What stands against a release, in a sentence."""


def release(root: Path, out: Path) -> list[Path]:
    """Make the files of a release of ``root``'s last commit, and put them into ``out``.

    Raises:
        ReleaseFailed: where something isn't committed, can't be built, or differs between two builds.
    """
    if changed := _run("looking for changes", "git", "-C", str(root), "status", "--porcelain").decode().strip():
        raise ReleaseFailed(f"These aren't committed, and a release is made of commits:\n{changed}")
    with tempfile.TemporaryDirectory(prefix="plumbline-release-") as scratch:
        first, second = (_made(root, Path(scratch, name)) for name in ("first", "second"))
        if different := [name for name in sorted(first.keys() | second.keys()) if first.get(name) != second.get(name)]:
            raise ReleaseFailed(f"Two builds differ in {', '.join(different)}: nobody could make this release again.")
    out.mkdir(parents=True, exist_ok=True)
    for name, content in first.items():
        (out / name).write_bytes(content)
    sums = "".join(f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in sorted(first.items()))
    (out / SUMS).write_text(sums)
    return [*(out / name for name in sorted(first)), out / SUMS]


def _made(root: Path, folder: Path) -> dict[str, bytes]:
    """The files of a release by name, built in a folder of their own."""
    tree, built = folder / "tree", folder / "built"
    packed = _run("reading the commit", "git", "-C", str(root), "archive", "HEAD")
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        # Early releases of Python 3.11 have no filters.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(tree)  # noqa: S202 - what git packed of this repository
    # The moment that archives carry, in place of that of the build.
    moment = _run("reading the commit's time", "git", "-C", str(root), "log", "-1", "--format=%ct").decode().strip()
    environment = {**os.environ, "SOURCE_DATE_EPOCH": moment}
    _run("building", *_UV, "build", "--quiet", "--out-dir", str(built), str(tree), environment=environment)
    # What an installation gets today, each with its hashes.
    resolved = folder / "requirements.txt"
    compile_ = (*_UV, "pip", "compile", "--quiet", "--generate-hashes", "--no-header", "--no-annotate")
    _run("resolving", *compile_, "--output-file", str(resolved), str(tree / "pyproject.toml"))
    listing = (sys.executable, "-m", "cyclonedx_py", "requirements", "--output-reproducible", "--short-PURLs")
    options = ("--pyproject", str(tree / "pyproject.toml"), "--output-file", str(built / "plumbline.cdx.json"))
    _run("listing what it is made of", *listing, *options, str(resolved))
    return {path.name: path.read_bytes() for path in built.iterdir() if not path.name.startswith(".")}


def _run(doing: str, *command: str, environment: dict[str, str] | None = None) -> bytes:
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    if done.returncode:
        words = "\n".join(done.stderr.decode(errors="replace").splitlines()[-_SHOWN_LINES:])
        raise ReleaseFailed(f"No release: {doing} failed.\n{words}")
    return done.stdout


def main() -> int:
    """Print the files of the release; 1 without one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="folder for the files")
    try:
        files = release(ROOT, parser.parse_args().out)
    except ReleaseFailed as failed:
        print(failed, file=sys.stderr)
        return 1
    for path in files:
        print(f"{path}  {path.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
