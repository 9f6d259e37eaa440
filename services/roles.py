"""What each role requires of its settings before it starts: for whoever starts services of any role."""

from importlib.util import find_spec

from services.common.identity import Role, role_of
from services.common.settings import Settings, SettingsError
from vfl.crypto.ciphers import Paillier


def check_role(settings: Settings, role: Role) -> None:
    """Raise SettingsError for settings that don't fit the role."""
    {Role.COORDINATOR: _check_coordinator, Role.ACTIVE: _check_active, Role.PASSIVE: _check_passive}[role](settings)


def _check_coordinator(settings: Settings) -> None:
    if settings.data:
        raise SettingsError("PLUMBLINE_DATA is a party's: the coordinator holds no data. Unset it.")
    if settings.name not in ("", Role.COORDINATOR):
        raise SettingsError("PLUMBLINE_NAME: the coordinator is called coordinator. Unset it.")


def _check_active(settings: Settings) -> None:
    if settings.share and not settings.share.startswith("1/"):
        raise SettingsError("PLUMBLINE_SHARE: the active party takes share 1/N, which has the labels.")
    _check_party(settings)
    if not settings.passive_peers():
        raise SettingsError("PLUMBLINE_PEERS names no passive party: add NAME=HOST:PORT for each.")
    if settings.name not in ("", Role.ACTIVE):
        raise SettingsError("PLUMBLINE_NAME: the active party is called active. Unset it.")


def _check_passive(settings: Settings) -> None:
    # Imported late, here and below, so that a coordinator doesn't load what a party needs.
    from vfl.data import DATASETS

    if settings.data in DATASETS and (not settings.share or settings.share.startswith("1/")):
        raise SettingsError("PLUMBLINE_SHARE: a passive party takes share 2/N or later; share 1 has the labels.")
    if settings.label_column:
        raise SettingsError(
            "PLUMBLINE_LABEL_COLUMN is the active party's: a passive party never holds labels. Unset it."
        )
    _check_party(settings)
    if Role.ACTIVE not in settings.peers:
        raise SettingsError("PLUMBLINE_PEERS names no active party: add active=HOST:PORT.")
    if settings.name and role_of(settings.name) is not Role.PASSIVE:
        raise SettingsError(f"PLUMBLINE_NAME={settings.name} is another role's name. Choose one such as passive-1.")


def _check_party(settings: Settings) -> None:
    if not settings.data:
        raise SettingsError(
            "PLUMBLINE_DATA is not set: give a .csv or .parquet file, a database URL or a data set's name."
        )
    if Role.COORDINATOR not in settings.peers:
        raise SettingsError("PLUMBLINE_PEERS names no coordinator: add coordinator=HOST:PORT.")
    if settings.kernel == "phe":
        _check_reference(settings)
    if settings.kernel == "native":
        _check_native()


def _check_native() -> None:
    from vfl.crypto.kernels import kernel_named

    try:
        kernel_named("native")
    except (RuntimeError, ValueError) as error:
        raise SettingsError(f"PLUMBLINE_KERNEL=native: {error}") from error


def _check_reference(settings: Settings) -> None:
    plan = settings.plan()
    if reason := plan.training.refusal(plan, settings):
        raise SettingsError(reason)
    if settings.packing and isinstance(plan.encryption, Paillier):
        raise SettingsError(
            "PLUMBLINE_KERNEL=phe has one value in a ciphertext: set PLUMBLINE_PACKING=off here and at every other "
            "party."
        )
    if find_spec("phe") is None:
        raise SettingsError("PLUMBLINE_KERNEL=phe needs python-paillier: pip install 'plumbline[phe]'.")
