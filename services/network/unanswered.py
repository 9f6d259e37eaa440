"""Why a call got no answer, in words for a person: what gRPC says of a connection, translated."""

# What a killed process, a stopped one and a pulled cable look like.
CUT = "its process has ended or the network to it is cut."

_CUT_SIGNS = (
    "stream removed",
    "socket closed",
    "connection reset",
    "broken pipe",
    "rst_stream",
    "goaway",
    "recvmsg",
    "end of file",
    "transport closed",
)
# What gRPC, and a look at the certificate, say where one of this authority names somebody else.
_OTHER_NAMES = ("verification check failed", "hostname mismatch")
_REFUSED = "connection refused"
# Said of attempts to connect. The first that fits counts.
_MEANINGS = (
    (_REFUSED, "nothing listens at its address. Check that it runs, and the address."),
    ("certificate has expired", "its certificate has expired. Make new ones with `plumbline certs`."),
    *((sign, "another party answers at its address. Check the address.") for sign in _OTHER_NAMES),
    (
        "certificate_verify_failed",
        "the certificate shown there is not of this federation's authority. Check the address and the certificates.",
    ),
    ("alert_certificate", "it refuses this party's certificate. Check that both are of the same authority."),
    ("unknown_ca", "it refuses this party's certificate. Check that both are of the same authority."),
    ("wrong_version_number", "what listens there doesn't speak TLS. Check the address and PLUMBLINE_TRANSPORT."),
    ("ssl_error", "what listens there doesn't speak TLS as it should. Check the address and the certificates."),
    ("http proxy returned", "the proxy on the way lets nobody through to it."),
    ("failed parsing http", "what listens there is no service of Plumbline. Check the address."),
    ("errors resolving", "its address can't be found. Check the address."),
    ("network is unreachable", "there is no way to its address. Check the address and the network."),
    ("no route", "there is no way to its address. Check the address and the network."),
    # Its own end: nothing came back in the time of an attempt.
    ("endpoint closing", "it hangs, or the network swallows what is sent to it. Check that it runs, and the network."),
    ("timed out", "the network swallows what is sent to it. Check the address and the network."),
    ("ping timeout", "the network swallows what is sent to it. Check the network."),
    (
        "look at the server's certificate",
        "its certificate can't be compared with the list of revoked ones (ca.crl), so nothing is sent to it. Check "
        "that it runs, and who answers at its address.",
    ),
)
_AT_ONCE = (
    "what listens at its address ends every connection. Check the address, that both certificates are of one "
    "authority, and PLUMBLINE_TRANSPORT."
)
_UNKNOWN = "there is no connection to it. Check that it runs, its address and the certificates."


def why_unreachable(details: str) -> str:
    """Say, without its subject, what the transport's words on a connection mean."""
    lowered = details.lower()
    for sign, meaning in _MEANINGS:
        if sign in lowered:
            return meaning
    if is_cut(details):
        return _AT_ONCE if lowered.startswith("failed to connect") else CUT
    return _UNKNOWN


def is_another_party(details: str) -> bool:
    """Tell whether these are the transport's words on a party of this federation that isn't the one dialled."""
    lowered = details.lower()
    return any(sign in lowered for sign in _OTHER_NAMES)


def is_nobody(details: str) -> bool:
    """Tell whether these are the transport's words on an address where nothing listens."""
    return _REFUSED in details.lower()


def is_cut(details: str) -> bool:
    """Tell whether these are the transport's words on a connection that ended, and not those of a party."""
    lowered = details.lower()
    return any(sign in lowered for sign in _CUT_SIGNS)
