"""Measure every subject of `plumbline bench`, write benchmarks/results and make docs/benchmarks.md: `make benchmarks`.

    python -m benchmarks.everything [SUBJECT ...]

About ten minutes on two quiet cores. Each subject is a process of its own.
"""

import subprocess
import sys

from benchmarks.page import PAGE, RESULTS, page_of, read_results
from vfl.cores import available_cores

# Beyond each subject's defaults.
_OPTIONS = {
    "he": ("--scaling", "--workers", str(available_cores())),
    "psi": ("--whole", "300000", "--whole", "1000000", "--workers", str(available_cores())),
    "federation": (),
    "predict": (),
    "attacks": ("--repetitions", "2"),
}


def main() -> None:
    """Measure, one subject after the other."""
    subjects = sys.argv[1:] or list(_OPTIONS)
    if unknown := set(subjects) - set(_OPTIONS):
        sys.exit(f"There is no subject {', '.join(sorted(unknown))}: choose from {', '.join(_OPTIONS)}.")
    for subject in subjects:
        command = [sys.executable, "-m", "plumbline", "bench", subject, *_OPTIONS[subject], "--out", str(RESULTS)]
        subprocess.run(command, check=True)  # noqa: S603
    PAGE.write_text(page_of(read_results()))


if __name__ == "__main__":
    main()
