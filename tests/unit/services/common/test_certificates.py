"""Certificates: who a party is, who may read its key, and errors that name the remedy."""

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from hypothesis import given
from hypothesis import strategies as st

from services.common.certificates import (
    CertificateError,
    CertificateFiles,
    create_authority,
    create_federation_certificates,
    issue_certificate,
    renew_certificates,
    revoke_certificates,
)
from services.common.identity import Identity, Role, role_of
from services.common.meters import TrafficMeter
from services.network.credentials import read_credentials
from services.network.transport import Transport

PASSIVE = Identity(Role.PASSIVE, "bank")
NAMES = ["coordinator", "active", "bank", "operator"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("certs")
    create_federation_certificates(made, [Identity(role_of(name), name) for name in NAMES])
    return made


@pytest.mark.parametrize("name", NAMES)
def test_a_certificate_carries_role_and_name_and_is_signed_by_the_authority(folder: Path, name: str) -> None:
    certificate = x509.load_pem_x509_certificate((folder / f"{name}.crt").read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    (uri,) = names.get_values_for_type(x509.UniformResourceIdentifier)
    assert Identity.parse(uri) == Identity(role_of(name), name)
    assert names.get_values_for_type(x509.DNSName) == [f"{name}.plumbline.internal"]
    authority = x509.load_pem_x509_certificate((folder / "ca.crt").read_bytes())
    certificate.verify_directly_issued_by(authority)
    assert certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca is False


@pytest.mark.parametrize("name", ["ca", *NAMES])
def test_private_keys_are_readable_by_their_owner_only(folder: Path, name: str) -> None:
    assert stat.S_IMODE((folder / f"{name}.key").stat().st_mode) == 0o600


def test_a_new_key_does_not_inherit_the_mode_of_the_file_it_replaces(tmp_path: Path) -> None:
    create_authority(tmp_path)
    (tmp_path / "bank.key").write_bytes(b"old")
    (tmp_path / "bank.key").chmod(0o644)
    issue_certificate(tmp_path, PASSIVE)
    assert stat.S_IMODE((tmp_path / "bank.key").stat().st_mode) == 0o600


@pytest.fixture
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.mark.parametrize("umask", [0, 0o022, 0o277], indirect=True)
@pytest.mark.usefixtures("umask")
def test_nobody_else_enters_the_folder_or_reads_a_key_whatever_the_umask(tmp_path: Path) -> None:
    certs = tmp_path / "above" / "certs"
    create_federation_certificates(certs, [PASSIVE])
    assert stat.S_IMODE(certs.stat().st_mode) == 0o700
    assert {path.name for path in certs.iterdir() if not stat.S_IMODE(path.stat().st_mode) & 0o077} >= {
        "ca.key",
        "bank.key",
    }
    # Of an earlier release.
    for change in (renew_certificates, lambda folder: revoke_certificates(folder, ["bank"])):
        certs.chmod(0o755)
        change(certs)
        assert stat.S_IMODE(certs.stat().st_mode) == 0o700


def test_a_folder_of_other_files_that_others_may_enter_is_refused_and_an_empty_one_is_closed(tmp_path: Path) -> None:
    for folder, file in ((tmp_path / "home", "letter.txt"), (tmp_path / "empty", "")):
        folder.mkdir()
        folder.chmod(0o755)
        if file:
            (folder / file).write_text("")
    with pytest.raises(CertificateError, match=r"may enter .*home, which holds other files: give a folder .* --out"):
        create_authority(tmp_path / "home")
    assert [path.name for path in (tmp_path / "home").iterdir()] == ["letter.txt"]
    assert stat.S_IMODE((tmp_path / "home").stat().st_mode) == 0o755
    create_authority(tmp_path / "empty")
    assert stat.S_IMODE((tmp_path / "empty").stat().st_mode) == 0o700


def test_an_authority_is_never_overwritten(tmp_path: Path) -> None:
    create_authority(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(CertificateError, match="holds an authority already"):
        create_federation_certificates(tmp_path, [PASSIVE])
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_no_certificate_without_an_authority(tmp_path: Path) -> None:
    with pytest.raises(CertificateError, match="Run `plumbline certs` first"):
        issue_certificate(tmp_path, PASSIVE)


def test_renewing_signs_new_pairs_for_all_by_the_same_authority(folder: Path, tmp_path: Path) -> None:
    certs = Path(shutil.copytree(folder, tmp_path / "certs"))
    before = {path.name: path.read_bytes() for path in certs.iterdir()}
    assert renew_certificates(certs, days=3) == sorted(NAMES)
    after = {path.name: path.read_bytes() for path in certs.iterdir()}
    assert {name for name in after if after[name] == before.get(name)} == {"ca.crt", "ca.key"}
    assert set(after) == set(before)
    for name in NAMES:
        read_credentials(CertificateFiles.of(certs, name), Identity(role_of(name), name))


def test_there_is_nothing_to_renew_without_a_pair_or_an_authority(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(CertificateError, match="nothing to renew"):
        renew_certificates(tmp_path)
    shutil.copy(folder / "bank.key", tmp_path)
    with pytest.raises(CertificateError, match="Run `plumbline certs` first"):
        renew_certificates(tmp_path)


@pytest.mark.parametrize("missing", ["ca.crt", "bank.crt", "bank.key"])
def test_a_missing_file_is_named_with_the_remedy(folder: Path, tmp_path: Path, missing: str) -> None:
    for name in {"ca.crt", "bank.crt", "bank.key"} - {missing}:
        shutil.copy(folder / name, tmp_path)
    transport = Transport(PASSIVE, CertificateFiles.of(tmp_path, "bank"), TrafficMeter())
    with pytest.raises(CertificateError, match=rf"{missing} .*point PLUMBLINE_CERTS to this party"):
        transport.dial("127.0.0.1:1", "active")
    with pytest.raises(CertificateError, match=rf"{missing} .*point PLUMBLINE_CERTS to this party"):
        transport.serve("127.0.0.1:0", [], {}, [])


def test_a_damaged_certificate_is_not_blamed_on_the_address(folder: Path, tmp_path: Path) -> None:
    # Once: "Cannot listen on 127.0.0.1:0. Is another process there? Choose a free address".
    for name in ("ca.crt", "bank.crt", "bank.key"):
        shutil.copy(folder / name, tmp_path)
    (tmp_path / "bank.crt").write_bytes(b"not a certificate")
    transport = Transport(PASSIVE, CertificateFiles.of(tmp_path, "bank"), TrafficMeter())
    with pytest.raises((ValueError, OSError)) as error:
        transport.serve("127.0.0.1:0", [], {}, [])
    assert "bank.crt" in str(error.value) or "certificate" in str(error.value)
    assert "Is another process there" not in str(error.value)


def test_a_taken_address_is_named_with_the_remedy(folder: Path) -> None:
    transport = Transport(PASSIVE, CertificateFiles.of(folder, "bank"), TrafficMeter())
    server, port = transport.serve("127.0.0.1:0", [], {}, [])
    try:
        with pytest.raises(
            OSError, match=f"Cannot listen on 127.0.0.1:{port}: another process is there.*PLUMBLINE_LISTEN"
        ):
            transport.serve(f"127.0.0.1:{port}", [], {}, [])
    finally:
        server.stop(None).wait()


@pytest.mark.parametrize("address", ["192.0.2.1:0", "no.such.host.invalid:0"])
def test_an_address_that_is_none_of_this_machine_blames_no_other_process(folder: Path, address: str) -> None:
    # Once: "Is another process there?" for each.
    transport = Transport(PASSIVE, CertificateFiles.of(folder, "bank"), TrafficMeter())
    with pytest.raises(OSError, match=r"Cannot listen on .*PLUMBLINE_LISTEN") as error:
        transport.serve(address, [], {}, [])
    assert "process" not in str(error.value)


@pytest.mark.parametrize(
    "address", ["nonsense", "127.0.0.1", "127.0.0.1:https", "127.0.0.1:99999", "127.0.0.1:-1", ":0"]
)
def test_what_is_no_address_is_said_in_one_sentence(folder: Path, address: str) -> None:
    # Once: "Servname not supported for ai_socktype"; for 99999 it listened on port 65535.
    transport = Transport(PASSIVE, CertificateFiles.of(folder, "bank"), TrafficMeter())
    with pytest.raises(OSError, match=f"^Cannot listen on {address}: it is no HOST:PORT, .*PLUMBLINE_LISTEN"):
        transport.serve(address, [], {}, [])


@given(name=st.from_regex(r"[a-z][a-z0-9-]{0,20}", fullmatch=True))
def test_an_identity_survives_its_uri(name: str) -> None:
    identity = Identity(role_of(name), name)
    assert Identity.parse(identity.uri) == identity


@pytest.mark.parametrize(
    "uri",
    ["", "active", "plumbline://", "plumbline://active", "plumbline://active/", "https://active/x", "plumbline://x/y"],
)
def test_what_is_no_identity_is_refused(uri: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - Role's own words or Identity's
        Identity.parse(uri)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["active", "active"], "Two parties are called 'active'"),
        (["a b/c"], "Expected names of letters, digits, '-', '_' and '.', got 'a b/c'"),
        ([""], "Expected names of letters"),
        (["x" * 65], "Expected names of letters"),
    ],
)
def test_names_that_cant_be_used_are_refused_before_anything_is_written(
    tmp_path: Path, names: list[str], words: str
) -> None:
    # Once: two certificates of one name, and a folder with half of a federation's.
    folder = tmp_path / "certs"
    with pytest.raises(CertificateError, match=words):
        create_federation_certificates(folder, [Identity(Role.PASSIVE, name) for name in names])
    assert not folder.exists()
