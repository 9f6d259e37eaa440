"""The command ``plumbline``: every way in which it can end has a sentence and a status."""

import os
import sys
import tempfile
import traceback

_UNEXPECTED, _MENDABLE = 1, 2
# What a shell says of a command that Ctrl-C has ended.
_INTERRUPTED = 130


def main() -> None:
    """Enter from the installed command."""
    try:
        # Here, so that Ctrl-C while it loads ends it without a traceback.
        from plumbline.cli import app, usage_error

        try:
            status = app(prog_name="plumbline", standalone_mode=False)
        except Exception as error:
            if (message := usage_error(error)) is None:
                raise
            # Without words it was help, which has been shown.
            if message:
                _say(message)
            status = _MENDABLE
        sys.exit(status if isinstance(status, int) else 0)
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    except BrokenPipeError:
        # Who read along has gone, as `plumbline attacks | head` does; nothing is left to be flushed at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(_UNEXPECTED)
    except Exception as error:
        _say(f"This should not have happened ({type(error).__name__}). {_details(error)}")
        sys.exit(_UNEXPECTED)


def _details(error: Exception) -> str:
    """Put the traceback where a person finds it, and say where."""
    # A service's log is what its owner reads; a run that failed has noted where its own is.
    if "--verbose" in sys.argv or "serve" in sys.argv[1:2]:
        traceback.print_exc()
        return "The lines above say where."
    if notes := getattr(error, "__notes__", None):
        return str(notes[-1])
    descriptor, path = tempfile.mkstemp(prefix="plumbline-error-", suffix=".txt")
    with os.fdopen(descriptor, "w") as file:
        traceback.print_exc(file=file)
    return f"The details are in {path}: look there, or send it to who maintains Plumbline."


def _say(message: str) -> None:
    sys.stderr.write(f"plumbline: {message}\n")


if __name__ == "__main__":
    main()
