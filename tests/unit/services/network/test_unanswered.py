"""What gRPC says of a connection, in words for a person. The details are as grpcio 1.85 gives them."""

import pytest

from services.network.unanswered import CUT, is_cut, why_unreachable

FAILED = "failed to connect to all addresses; last error: {}: ipv4:127.0.0.1:1: "
TLS = (
    FAILED.format("UNKNOWN")
    + "Tls handshake failed (TSI_PROTOCOL_FAILURE): SSL_ERROR_SSL: error:1000007d:SSL routines:"
)


@pytest.mark.parametrize(
    ("details", "words"),
    [
        (FAILED.format("UNKNOWN") + "Failed to connect to remote host: Connection refused", "nothing listens"),
        (TLS + "OPENSSL_internal:CERTIFICATE_VERIFY_FAILED: certificate has expired: OK", "has expired"),
        (TLS + "OPENSSL_internal:CERTIFICATE_VERIFY_FAILED: unable to get local issuer", "not of this federation's"),
        (FAILED.format("UNKNOWN") + "Custom verification check failed with error", "another party answers"),
        (TLS + "OPENSSL_internal:WRONG_VERSION_NUMBER: Invalid certificate", "doesn't speak TLS"),
        (FAILED.format("UNAVAILABLE") + "Socket closed", "ends every connection"),
        (FAILED.format("UNAVAILABLE") + "Handshake read failed (recvmsg:Connection reset by peer (104))", "ends every"),
        (FAILED.format("UNAVAILABLE") + "Handshake read failed (Endpoint closing)", "it hangs, or the network"),
        (FAILED.format("INTERNAL") + "Failed parsing HTTP/2 (Expected SETTINGS frame)", "no service of Plumbline"),
        ("errors resolving no.such.host:1: [field:hostname lookup error]", "its address can't be found"),
        ("Socket closed", CUT),
        ("Stream removed (recvmsg:Connection reset by peer (104))", CUT),
        ("Stream removed", CUT),
        ("ping timeout", "swallows what is sent"),
        ("something new", "there is no connection to it"),
        ("", "there is no connection to it"),
    ],
)
def test_each_way_to_fail_has_a_sentence_that_says_what_to_look_at(details: str, words: str) -> None:
    meaning = why_unreachable(details)
    assert words in meaning
    assert meaning.endswith(".")
    for jargon in ("UNAVAILABLE", "SSL", "ipv4", "errno", "127.0.0.1"):
        assert jargon not in meaning


def test_a_partys_own_words_are_not_taken_for_the_transports() -> None:
    assert is_cut("Stream removed")
    assert not is_cut("Unexpected TypeError: the service's log has the rest.")
    assert not is_cut("")
