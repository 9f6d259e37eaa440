"""What a worker of a cluster is asked to run: the only function that a party ever sends there."""

from importlib.metadata import PackageNotFoundError, version

from vfl.crypto.product_jobs import ProductJob, compute_product


class WorkerDiffers(RuntimeError):
    """A worker has another version than the party that asks it."""


def installed_version() -> str:
    """Find the version of Plumbline that is installed where this runs."""
    try:
        return version("plumbline")
    except PackageNotFoundError:
        return "none"


def answers_of(asked_by: str, job: bytes) -> bytes:
    """Compute the answers of a job for a party of version ``asked_by``; raises WorkerDiffers where it isn't this."""
    if asked_by != installed_version():
        raise WorkerDiffers(installed_version())
    there = ProductJob.from_bytes(job)
    return there.answers_to_bytes(compute_product(there))
