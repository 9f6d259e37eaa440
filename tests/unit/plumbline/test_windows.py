"""On Windows every module can be imported, and the command says in one sentence that it needs WSL."""

import subprocess
import sys

import pytest

# Windows as far as it matters to an import: its name, and the modules, functions and signals that it lacks. Other
# people's packages were loaded before, for Linux: only ours are loaded anew.
AS_IF_ON_WINDOWS = """
import importlib, os, pkgutil, signal, sys

OURS = ("attacks", "defences", "plumbline", "services", "vfl")
MODULES = ("fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty")
FUNCTIONS = ("chown", "fork", "geteuid", "getuid", "killpg", "mkfifo", "sched_getaffinity", "setsid", "uname")
SIGNALS = ("SIGALRM", "SIGCONT", "SIGHUP", "SIGKILL", "SIGSTOP", "SIGUSR1", "alarm", "pthread_kill", "pthread_sigmask")

def import_ours():
    for package in OURS:
        for found in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            importlib.import_module(found.name)

import_ours()
for name in [name for name in sys.modules if name.partition(".")[0] in OURS]:
    del sys.modules[name]
sys.platform = "win32"
sys.modules.update(dict.fromkeys(MODULES))
for owner, names in ((os, FUNCTIONS), (signal, SIGNALS)):
    for name in names:
        delattr(owner, name)
import_ours()

from plumbline.__main__ import main
for arguments in (["audit", "--data", "breast_cancer"], ["serve", "active"]):
    sys.argv = ["plumbline", *arguments]
    try:
        main()
    except SystemExit as end:
        print(arguments[0], end.code)
"""


@pytest.mark.slow("a fresh process imports every module")
def test_every_module_can_be_imported_and_the_command_asks_for_wsl() -> None:
    done = subprocess.run(
        [sys.executable, "-c", AS_IF_ON_WINDOWS], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.stdout.splitlines() == ["audit 2", "serve 2"], done.stderr
    sentence = "plumbline: Windows lacks what Plumbline needs: run it inside WSL (`wsl --install`)."
    assert done.stderr.splitlines() == [sentence] * 2
