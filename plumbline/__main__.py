"""The command ``plumbline``."""

import sys

# What a shell says of a command that Ctrl-C has ended.
_INTERRUPTED = 130


def main() -> None:
    """Entry point of the installed command."""
    try:
        # Here, so that Ctrl-C while it loads ends it without a traceback.
        from plumbline.cli import app

        app()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
