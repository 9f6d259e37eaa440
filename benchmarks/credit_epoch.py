"""One epoch of credit (27,000 training rows, batch 256, 2,048 bit) in a federation of three processes over mTLS.

    PLUMBLINE_DATA_DIR=data python -m benchmarks.credit_epoch

Prints seconds per epoch, the split by stage, the pace from first to last, and the peak memory of each process.
"""

import tempfile
from pathlib import Path

from rich.console import Console

from plumbline.audit.request import AuditRequest
from plumbline.audit.run import run_audit


def main() -> None:
    """Run it; the audit prints what was measured."""
    with tempfile.TemporaryDirectory() as runs:
        request = AuditRequest(
            data="credit",
            cipher="paillier",
            runs=Path(runs),
            settings={
                "epochs": 1,
                "batch_size": 256,
                "missing_fraction": 0.0,
                "validation_fraction": 0.0,
                "test_fraction": 0.1,
            },
        )
        run_audit(request, Console())


if __name__ == "__main__":
    main()
