"""What is refused before TLS begins, in one sentence, and files that are renewed while a party runs."""

import datetime
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from plumbline.federation import Federation
from services.common.certificates import CertificateError, CertificateFiles, create_authority, issue_certificate
from services.common.identity import Identity, Role
from services.common.meters import TrafficMeter
from services.network.credentials import RenewedCredentials, read_credentials
from services.network.transport import Transport
from tests.harness.connections import NAMELESS, make_certificates

PASSIVE = Identity(Role.PASSIVE, "passive")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificates(tmp_path_factory.mktemp("certs"))


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "certs"))


def take_pair_of(folder: Path, name: str) -> None:
    for ending in ("crt", "key"):
        shutil.copy(folder / f"{name}.{ending}", folder / f"passive.{ending}")


def take_new_authority(folder: Path) -> None:
    for ending in ("crt", "key"):
        (folder / f"ca.{ending}").unlink()
    create_authority(folder)


def protect_with_password(folder: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    (folder / "passive.key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )


def expire(folder: Path) -> None:
    issue_certificate(folder, PASSIVE, days=-0.001)


UNUSABLE: dict[str, tuple[Callable[[Path], object], str]] = {
    "readable by the group": (lambda folder: (folder / "passive.key").chmod(0o640), "chmod 600 .*passive.key$"),
    "readable by all": (lambda folder: (folder / "passive.key").chmod(0o604), "chmod 600 .*passive.key$"),
    "another key": (
        lambda folder: shutil.copy(folder / "active.key", folder / "passive.key"),
        r"passive.key is not the key of .*passive.crt: ",
    ),
    "another party's pair": (
        lambda folder: take_pair_of(folder, "active"),
        r"passive.crt is the certificate of plumbline://active/active, and this party is plumbline://passive/passive: ",
    ),
    "a stranger's pair": (
        lambda folder: take_pair_of(folder, NAMELESS),
        "passive.crt is the certificate of https://example.org/, and this party is",
    ),
    "the authority's": (lambda folder: take_pair_of(folder, "ca"), "passive.crt is no certificate of a party"),
    "another authority": (take_new_authority, r"passive.crt is not signed by .*ca.crt: "),
    "no key": (lambda folder: (folder / "passive.key").write_bytes(b"key"), "passive.key holds no private key"),
    "a password": (protect_with_password, "passive.key holds no private key, or one with a password"),
    "no certificate": (lambda folder: (folder / "ca.crt").write_bytes(b""), "ca.crt holds no certificate"),
    "expired": (expire, "passive.crt has expired"),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_a_pair_that_does_not_fit_is_refused_in_one_sentence(folder: Path, name: str) -> None:
    spoil, words = UNUSABLE[name]
    files = CertificateFiles.of(folder, "passive")
    assert read_credentials(files, PASSIVE).key == (folder / "passive.key").read_bytes()
    spoil(folder)
    transport = Transport(PASSIVE, files, TrafficMeter())
    for use in (lambda: transport.dial("127.0.0.1:1", "active"), lambda: transport.serve("127.0.0.1:0", [], {}, [])):
        with pytest.raises(CertificateError, match=words) as error:
            use()
        assert "\n" not in str(error.value)
        assert "another process" not in str(error.value)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda folder: (folder / "operator.key").chmod(0o644), "chmod 600 .*operator.key"),
        (lambda folder: shutil.copy(folder / "active.crt", folder / "operator.crt"), "this party is plumbline://oper"),
    ],
)
def test_an_operators_client_checks_its_pair_too(folder: Path, spoil: Callable[[Path], object], words: str) -> None:
    spoil(folder)
    with pytest.raises(CertificateError, match=words):
        Federation.connect("127.0.0.1:1", folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a file to root")
def test_a_key_of_roots_may_be_shown_to_the_services_group(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Kubernetes mounts a secret, for who isn't root; the rule is PostgreSQL's."""
    files = CertificateFiles.of(folder, "passive")
    files.key.chmod(0o440)
    with pytest.raises(CertificateError, match="chmod 600"):
        read_credentials(files, PASSIVE)
    monkeypatch.setattr(os, "geteuid", lambda: 10_001)
    read_credentials(files, PASSIVE)
    for mode in (0o444, 0o460, 0o450):
        files.key.chmod(mode)
        with pytest.raises(CertificateError, match="chmod 600"):
            read_credentials(files, PASSIVE)
    files.key.chmod(0o440)
    os.chown(files.key, 10_002, 10_001)
    with pytest.raises(CertificateError, match="chmod 600"):
        read_credentials(files, PASSIVE)


def test_one_authority_of_a_bundle_is_enough(folder: Path) -> None:
    """While an authority is replaced, parties have certificates of both."""
    files = CertificateFiles.of(folder, "passive")
    before = files.authority.read_bytes()
    take_new_authority(folder)
    files.authority.write_bytes(files.authority.read_bytes() + before)
    assert read_credentials(files, PASSIVE).authority.count(b"BEGIN CERTIFICATE") == 2


def test_a_company_may_sign_through_an_authority_between(folder: Path) -> None:
    files = CertificateFiles.of(folder, "passive")
    root = ec.generate_private_key(ec.SECP256R1())
    between = serialization.load_pem_private_key((folder / "ca.key").read_bytes(), password=None)
    assert isinstance(between, ec.EllipticCurvePrivateKey)
    party = files.certificate.read_bytes()
    old = x509.load_pem_x509_certificate(files.authority.read_bytes())
    vouched = authority_certificate(old.subject, between.public_key(), x509.Name([]), root)
    files.authority.write_bytes(authority_certificate(x509.Name([]), root.public_key(), x509.Name([]), root))
    with pytest.raises(CertificateError, match="is not signed by"):
        read_credentials(files, PASSIVE)
    files.certificate.write_bytes(party + vouched)
    assert read_credentials(files, PASSIVE).certificate == party + vouched


def authority_certificate(
    subject: x509.Name, key: ec.EllipticCurvePublicKey, issuer: x509.Name, signer: ec.EllipticCurvePrivateKey
) -> bytes:
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(signer, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM)


# -- files that change ------------------------------------------------------------------------------------------------


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def look(renewed: RenewedCredentials, clock: Clock) -> object:
    clock.now += 1.0
    return renewed.present()


def test_new_files_are_taken_and_old_ones_are_the_same_object(folder: Path, clock: Clock) -> None:
    files = CertificateFiles.of(folder, "passive")
    renewed = RenewedCredentials(files, PASSIVE, clock)
    first = renewed.present()
    assert look(renewed, clock) is first
    issue_certificate(folder, PASSIVE)
    assert renewed.present() is first, "files are looked at once a second"
    second = look(renewed, clock)
    assert second == read_credentials(files, PASSIVE) != first
    assert look(renewed, clock) is second


@pytest.mark.parametrize("name", sorted(set(UNUSABLE) - {"another authority"}))
def test_files_that_can_not_be_used_leave_those_before_and_one_line(
    folder: Path, clock: Clock, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    renewed = RenewedCredentials(CertificateFiles.of(folder, "passive"), PASSIVE, clock)
    first = renewed.present()
    UNUSABLE[name][0](folder)
    assert [look(renewed, clock) for _ in range(5)] == [first] * 5
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "those before stay: " in caplog.text
    for path in (folder / "passive.crt", folder / "passive.key"):
        path.unlink()
    assert look(renewed, clock) is first
    take_new_authority(folder)
    issue_certificate(folder, PASSIVE)
    assert look(renewed, clock) is not first


def test_a_mode_that_is_put_right_is_enough(folder: Path, clock: Clock) -> None:
    renewed = RenewedCredentials(CertificateFiles.of(folder, "passive"), PASSIVE, clock)
    first = renewed.present()
    issue_certificate(folder, PASSIVE)
    (folder / "passive.key").chmod(0o644)
    assert look(renewed, clock) is first
    (folder / "passive.key").chmod(0o600)
    assert look(renewed, clock) is not first


def test_what_can_not_be_used_from_the_start_is_an_error_each_time(folder: Path, clock: Clock) -> None:
    renewed = RenewedCredentials(CertificateFiles.of(folder, "passive"), PASSIVE, clock)
    (folder / "passive.key").chmod(0o644)
    for _ in range(2):
        with pytest.raises(CertificateError, match="chmod 600"):
            renewed.present()
    (folder / "passive.key").chmod(0o600)
    assert renewed.present() is renewed.present()


@pytest.mark.parametrize(("days", "lines"), [(13.9, 1), (14.1, 0)])
def test_the_log_says_two_weeks_ahead_and_once_a_day_that_a_certificate_expires(
    folder: Path, clock: Clock, caplog: pytest.LogCaptureFixture, days: float, lines: int
) -> None:
    issue_certificate(folder, PASSIVE, days=days)
    renewed = RenewedCredentials(CertificateFiles.of(folder, "passive"), PASSIVE, clock)
    for _ in range(3):
        renewed.present()
        look(renewed, clock)
    assert caplog.text.count("passive.crt expires on ") == lines
    clock.now += 24 * 3600
    renewed.present()
    assert caplog.text.count("passive.crt expires on ") == 2 * lines
