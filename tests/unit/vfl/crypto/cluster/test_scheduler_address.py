"""Which clusters a party may use is settled before anything starts, in sentences."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.harness.dask_certificates import make_dask_certificates, settings_of_client
from vfl.crypto.cluster import ClusterRefused, check_cluster
from vfl.crypto.cluster.scheduler_address import is_safe

dask = pytest.importorskip("dask", reason="needs the extra dask")
pytest.importorskip("distributed", reason="needs the extra dask")
REMOTE = "tls://cluster.example:8786"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_dask_certificates(tmp_path / "certificates")


def check_with(variables: Mapping[str, str], address: str = REMOTE) -> None:
    # Dask reads its variables once, when it is imported.
    with dask.config.set(dask.config.collect_env({**os.environ, **variables})):
        check_cluster(address)


@pytest.mark.parametrize(
    "address", ["tcp://127.0.0.1:8786", "tcp://127.8.9.10:1", "tcp://[::1]:8786", "tcp://localhost:8786"]
)
def test_loopback_needs_no_certificate(address: str) -> None:
    check_cluster(address)
    assert is_safe(address)


@pytest.mark.parametrize(
    "address",
    [
        "tcp://10.0.0.1:8786",
        "tcp://0.0.0.0:8786",
        "tcp://cluster.example:8786",
        "tcp://[::]:8786",
        "tcp://127.0.0.1.example:8786",
        "tcp://localhost.example:8786",
    ],
)
def test_anything_else_without_tls_is_refused(address: str) -> None:
    with pytest.raises(ClusterRefused, match=r"without TLS, and Dask's messages are code.*Use tls://HOST:PORT"):
        check_cluster(address)
    assert not is_safe(address)


@pytest.mark.parametrize(
    "address",
    [
        "http://127.0.0.1:8786",
        "ws://127.0.0.1:8786",
        "inproc://x/1",
        "127.0.0.1:8786",
        "tcp://127.0.0.1",
        "tcp://127.0.0.1:0",
        "tcp://127.0.0.1:99999",
        "tls://user@host:8786",
        "tls://:8786",
        "tcp://127.0.0.1:8786/x",
        "tcp://127.0.0.1:8786\n",
        "",
    ],
)
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ClusterRefused, match="no address of a Dask scheduler: give it as tls://HOST:PORT"):
        check_cluster(address)


def test_good_certificates_pass(folder: Path) -> None:
    check_with(settings_of_client(folder))


@pytest.mark.parametrize("missing", ["CA_FILE", "CLIENT__CERT"])
def test_tls_without_a_client_certificate_is_refused_with_the_settings(folder: Path, missing: str) -> None:
    variables = {name: value for name, value in settings_of_client(folder).items() if not name.endswith(missing)}
    with pytest.raises(ClusterRefused, match=r"needs a certificate.*Set DASK_DISTRIBUTED__COMM__TLS__CA_FILE"):
        check_with(variables)


@pytest.mark.parametrize("name", ["CA_FILE", "CLIENT__CERT", "CLIENT__KEY"])
def test_a_missing_file_is_named_with_its_setting(folder: Path, name: str) -> None:
    variables = settings_of_client(folder)
    setting = f"DASK_DISTRIBUTED__COMM__TLS__{name}"
    Path(variables[setting]).unlink()
    with pytest.raises(ClusterRefused, match=rf"{setting} names .*, which can't be read: No such file"):
        check_with(variables)


def test_a_key_of_another_certificate_is_refused(folder: Path, tmp_path: Path) -> None:
    other = make_dask_certificates(tmp_path / "others")
    variables = settings_of_client(folder) | {
        "DASK_DISTRIBUTED__COMM__TLS__CLIENT__KEY": str(other / "client.key"),
    }
    with pytest.raises(ClusterRefused, match="can't be used together"):
        check_with(variables)


def test_a_key_in_a_variable_is_refused_without_being_shown(folder: Path) -> None:
    secret = (folder / "client.key").read_text()
    variables = settings_of_client(folder) | {"DASK_DISTRIBUTED__COMM__TLS__CLIENT__KEY": secret}
    with pytest.raises(ClusterRefused, match="name a file") as refused:
        check_with(variables)
    assert secret.splitlines()[1] not in str(refused.value)


def test_an_expired_certificate_is_refused_with_its_date(tmp_path: Path) -> None:
    folder = make_dask_certificates(tmp_path, days=0.01)
    with pytest.raises(ClusterRefused, match=r"expired on \d{4}-\d{2}-\d{2}: make a new one"):
        check_with(settings_of_client(folder))


def test_without_the_extra_it_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vfl.crypto.cluster.scheduler_address.find_spec", lambda _: None)
    with pytest.raises(ClusterRefused, match=r"pip install 'plumbline\[dask\]'"):
        check_cluster("tcp://127.0.0.1:8786")
