"""Every certificate against every call: only the roles that a call is for get past the gate, whatever they send."""

import datetime
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from plumbline.federation import Federation
from services.common.certificates import create_federation_certificates, issue_certificate
from services.common.identity import Identity, Role, role_of
from tests.harness.hostile import PROCESSES, assert_sound, pem_of
from tests.harness.processes import quick_federation
from tests.harness.wire_fuzz import Call, calls_at, status_of

Code = grpc.StatusCode
# Who each call is for. A call that isn't here fails the test: say whom it is for.
ALLOWED: dict[str, set[str]] = {
    "Coordinator/OpenSession": {"active"},
    "Coordinator/GetSession": {"active", "passive"},
    "Coordinator/JoinSession": {"active", "passive"},
    "Coordinator/NoteLedger": {"active", "passive"},
    "Coordinator/SubmitPartialScores": {"passive"},
    "Coordinator/Score": {"active"},
    "Coordinator/ServeModel": {"active"},
    "Coordinator/EndSession": {"active", "passive"},
    "Messages/ShowKey": {"active", "passive"},
    "Messages/Ask": {"active", "passive"},
    "Messages/Send": {"active", "passive"},
}
OF_A_SERVICE = {"Active": {"operator", "active"}, "Passive": {"active"}}

IDENTIFIED = ("operator", "coordinator", "active", "passive", "stranger")
NO_IDENTITY = ("auditor", "nameless")
NO_CONNECTION = ("expired", "other authority", "self-signed", "nobody")
REFUSALS = {Code.PERMISSION_DENIED, Code.UNAUTHENTICATED}


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    with quick_federation(tmp_path_factory.mktemp("federation")) as running:
        yield running
        assert_sound(running.processes)


def sign(folder: Path, names: list[str], *, days: int = 1, self_signed: bool = False) -> tuple[bytes, bytes]:
    """A certificate as our own command would never make it, and its key, in PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    signer, issuer = key, x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "x")])
    if not self_signed:
        read = serialization.load_pem_private_key((folder / "ca.key").read_bytes(), None)
        assert isinstance(read, ec.EllipticCurvePrivateKey)
        signer = read
        issuer = x509.load_pem_x509_certificate((folder / "ca.crt").read_bytes()).subject
    now = datetime.datetime.now(datetime.UTC)
    shown: list[x509.GeneralName] = [x509.UniformResourceIdentifier(name) for name in names]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "x")]))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=10))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName(shown or [x509.DNSName("x")]), critical=False)
        .sign(signer, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return certificate.public_bytes(serialization.Encoding.PEM), private


def pair_of(caller: str, folder: Path, scratch: Path) -> tuple[bytes | None, bytes | None]:
    """Certificate and key of a caller, in PEM; None for nobody."""
    if caller in ("operator", "coordinator", "active", "passive"):
        return pem_of(folder, caller)[1:]
    if caller == "stranger":
        # A passive party of the same authority that no session knows.
        files = issue_certificate(folder, Identity(Role.PASSIVE, "stranger"))
        return files.certificate.read_bytes(), files.key.read_bytes()
    if caller == "other authority":
        create_federation_certificates(scratch / "other", [Identity(Role.OPERATOR, "operator")])
        return pem_of(scratch / "other", "operator")[1:]
    names = {
        "auditor": ["plumbline://auditor/auditor"],
        "nameless": [],
        "expired": ["plumbline://operator/operator"],
        "self-signed": ["plumbline://active/active"],
    }
    if caller == "nobody":
        return None, None
    return sign(folder, names[caller], days=-1 if caller == "expired" else 1, self_signed=caller == "self-signed")


def allowed_to(call: Call) -> set[str]:
    service = call.service.rpartition(".")[2]
    roles = OF_A_SERVICE.get(service) or ALLOWED.get(f"{service}/{call.name}")
    assert roles is not None, f"Say in this file whom {call.path} is for."
    return roles


def answers_of(federation: Federation, caller: str, scratch: Path) -> dict[tuple[str, Call], tuple[Code, str]]:
    """How every call at every process ends for a caller who sends an empty message."""
    certificates = federation.processes.certificates
    certificate, key = pair_of(caller, certificates, scratch)
    credentials = grpc.ssl_channel_credentials((certificates / "ca.crt").read_bytes(), key, certificate)
    found = {}
    for callee in PROCESSES:
        options = [
            ("grpc.ssl_target_name_override", Identity(role_of(callee), callee).host_name),
            ("grpc.use_local_subchannel_pool", 1),
        ]
        with grpc.secure_channel(federation.processes.addresses[callee], credentials, options) as channel:
            for call in calls_at(callee):
                found[callee, call] = status_of(channel, call, [_harmless(call)], timeout=20)
    return found


def _harmless(call: Call) -> bytes:
    """A message that begins nothing, so that who may send it is answered at once."""
    message = call.request()
    if call.name == "Train":
        message.plan.SetInParent()  # type: ignore[attr-defined]
    return message.SerializeToString()


@pytest.mark.parametrize("caller", IDENTIFIED)
def test_a_certificate_of_the_federation_opens_the_calls_of_its_role_only(
    federation: Federation, tmp_path: Path, caller: str
) -> None:
    role = str(role_of(caller))
    for (callee, call), (code, words) in answers_of(federation, caller, tmp_path).items():
        refused = code in REFUSALS
        assert refused == (role not in allowed_to(call)), f"{caller} at {callee}, {call.path}: {code} {words}"
        assert code not in (Code.INTERNAL, Code.UNKNOWN, Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED), (call, code, words)
        # To end a session that isn't there changes nothing.
        if caller == "stranger" and call.name != "EndSession":
            assert code is not Code.OK, f"{call.path} answers who is in no session"


@pytest.mark.parametrize("caller", NO_IDENTITY)
def test_a_certificate_that_names_no_role_opens_nothing(federation: Federation, tmp_path: Path, caller: str) -> None:
    answers = answers_of(federation, caller, tmp_path)
    assert {code for code, _ in answers.values()} == {Code.UNAUTHENTICATED}


@pytest.mark.parametrize("caller", NO_CONNECTION)
def test_without_a_valid_certificate_there_is_not_even_a_connection(
    federation: Federation, tmp_path: Path, caller: str
) -> None:
    answers = answers_of(federation, caller, tmp_path)
    assert {code for code, _ in answers.values()} == {Code.UNAVAILABLE}
