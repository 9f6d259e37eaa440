"""What commands say and take, each in a process of its own that has everything imported: forked from one that is warm.

python -m tests.harness.judged_commands < commands.json
"""

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

# A command that takes longer, of the processor or waiting, is ended by the kernel.
_MOST_SECONDS, _MOST_WAITING = 30, 60

_WARM = (
    "plumbline.report.party_report",
    "plumbline.audit.run",
    "plumbline.audit.past_runs",
    "plumbline.audit.watching.observer",
    "plumbline.cli",
    "sklearn.linear_model",
    "sklearn.metrics",
)


@dataclass(frozen=True)
class Said:
    """How one command went.

    Attributes:
        status: its exit status; negative for a signal.
        output: what it printed, on both streams.
        seconds: of the processor.
        peak: bytes of its largest resident size.
    """

    status: int
    output: str
    seconds: float
    peak: int


def said(warm: Sequence[str], commands: Sequence[Sequence[str]]) -> list[Said]:
    """Run commands of ``plumbline``, one after another, after one that does all that they may."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.harness.judged_commands"],
        input=json.dumps([warm, *commands]),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [Said(**one) for one in json.loads(done.stdout)]


def _run(arguments: list[str]) -> None:
    """Be the command; or, for ``observe``, the auditor of a compose federation that has found a model served."""
    if arguments[0] == "observe":
        from tests.harness.observed import observe

        sys.exit(observe(*map(Path, arguments[1:])))
    from plumbline.__main__ import main

    sys.argv = ["plumbline", *arguments]
    main()


def _forked(arguments: list[str]) -> Said:
    with tempfile.TemporaryFile() as output:
        if not (child := os.fork()):
            status = 0
            try:
                signal.alarm(_MOST_WAITING)
                resource.setrlimit(resource.RLIMIT_CPU, (_MOST_SECONDS, _MOST_SECONDS))
                for stream in (1, 2):
                    os.dup2(output.fileno(), stream)
                _run(arguments)
            except SystemExit as end:
                status = end.code if isinstance(end.code, int) else 1
            except BaseException:
                traceback.print_exc()
                status = 70
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)
        _, ended, usage = os.wait4(child, 0)
        output.seek(0)
        words = output.read().decode(errors="replace")
    return Said(os.waitstatus_to_exitcode(ended), words, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def _main() -> list[dict[str, Any]]:

    os.environ["COLUMNS"] = "300"
    warm, *commands = json.load(sys.stdin)
    # Here and not in a child: what it imports, the children have.
    with redirect_stdout(sys.stderr), suppress(SystemExit):
        _run(warm)
    return [asdict(_forked(one)) for one in commands]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_main()))
