"""Generate the Python stubs next to their .proto files, or check that the committed ones are current.

python -m protos.generate [--check]
"""

import sys
import tempfile
from importlib.resources import files
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
VERSION = Path("protos/v1")


def generate(target: Path) -> None:
    """Write the stubs of every .proto below ``target``; raises SystemExit when protoc refuses one."""
    plugins = Path(sys.executable).parent
    sources = sorted((ROOT / VERSION).glob("*.proto"))
    status = protoc.main(
        [
            "protoc",
            f"--proto_path={ROOT}",
            f"--proto_path={files('grpc_tools') / '_proto'}",
            f"--plugin=protoc-gen-mypy={plugins / 'protoc-gen-mypy'}",
            f"--plugin=protoc-gen-mypy_grpc={plugins / 'protoc-gen-mypy_grpc'}",
            f"--python_out={target}",
            f"--grpc_python_out={target}",
            f"--mypy_out=quiet:{target}",
            f"--mypy_grpc_out=quiet:{target}",
            *(str(source) for source in sources),
        ]
    )
    if status:
        raise SystemExit("protoc refused the protos; its message is above.")


def stale(target: Path) -> list[str]:
    """Names of the committed stubs that differ from those under ``target``, missing ones included."""
    fresh = {path.name: path.read_bytes() for path in (target / VERSION).iterdir()}
    return sorted(
        name
        for name, content in fresh.items()
        if not (ROOT / VERSION / name).exists() or (ROOT / VERSION / name).read_bytes() != content
    )


def main(arguments: list[str]) -> None:
    """Write the stubs, or with --check refuse stale ones."""
    if arguments == ["--check"]:
        with tempfile.TemporaryDirectory() as folder:
            generate(Path(folder))
            if names := stale(Path(folder)):
                raise SystemExit(f"Stubs differ from the protos: {', '.join(names)}. Run `make protos` and commit.")
    elif not arguments:
        generate(ROOT)
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
