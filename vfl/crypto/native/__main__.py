"""Builds the native kernel in place: python -m vfl.crypto.native."""

import sys

from vfl.crypto.native.build import CompilationFailed, build


def main() -> int:
    """Compile the library and say where it is; 1 when it can't be."""
    try:
        print(build())  # noqa: T201
    except CompilationFailed as failed:
        warning = f"The native kernel was not built: {failed}. The portable one runs in its place, more slowly."
        print(warning, file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
