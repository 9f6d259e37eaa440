"""What could stop a party's first session, found before it: certificates, disk, peers, versions and clocks."""

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from plumbline.terminal import shown
from services.common.certificates import CertificateError
from services.common.errors import OutOfOrder
from services.common.identity import Role
from services.common.run_folder import RunFolder
from services.common.settings import Settings
from services.common.state_folder import StateError, StateFolder, StateInUse
from services.network.bootstrap import make_transport
from services.network.credentials import read_credentials
from services.network.examination import PeerFacts, examine
from services.network.proxies import proxy_of
from services.network.transport import Transport, check_listen, is_serving
from services.network.versions import WIRE_VERSION, check_wire_version

# A model takes kilobytes, and so does a session's record: with less room than this something else fills the disk.
_LEAST_FREE_MEGABYTES = 200
# Certificates made on a machine are valid from five minutes before; a minute leaves time to mend it.
_MOST_SECONDS_APART = 60.0

Subject = Literal["certificates", "address", "disk", "peer", "versions", "clock"]
Level = Literal["ok", "note", "wrong"]


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        subject: what.
        party: whom it is about.
        level: ok; note, which a person should read; wrong, which stops a session.
        words: what was found and, unless it is ok, what to do.
    """

    subject: Subject
    party: str
    level: Level
    words: str


def check_party(settings: Settings, role: Role) -> Iterator[Finding]:
    """Look at everything that a service with these settings needs; a finding for each thing, as it is found.

    Peers are asked at the same time, about 5 s at most. The service itself may be running.
    """
    transport = make_transport(settings, role)
    name = transport.identity.name
    credentials = _certificates(transport)
    yield credentials
    yield from _disk(settings, transport)
    if credentials.level == "wrong":
        yield Finding("peer", name, "note", "Nobody was called: that needs certificates. Mend them, then look again.")
        return
    yield _own_address(settings, transport)
    peers = {peer: address for peer, address in settings.peers.items() if peer != name}
    if not peers:
        yield Finding("peer", name, "note", "PLUMBLINE_PEERS names nobody, so nobody was called.")
        return
    with ThreadPoolExecutor(len(peers)) as threads:
        answers = threads.map(lambda peer: examine(transport, peers[peer], peer), peers)
        for peer, facts in zip(peers, answers, strict=True):
            yield from _peer(peer, peers[peer], facts)


def _certificates(transport: Transport) -> Finding:
    name = transport.identity.name
    if transport.certificates is None:
        return Finding("certificates", name, "note", "INSECURE: no TLS and no checked identities. For tests only.")
    try:
        credentials = read_credentials(transport.certificates, transport.identity)
    except CertificateError as error:
        return Finding("certificates", name, "wrong", str(error))
    until = f"{transport.certificates.certificate} is valid until {credentials.expires:%Y-%m-%d %H:%M} UTC"
    if credentials.expires_soon:
        advice = f"{until}: run `plumbline certs --renew` where the authority is, and copy the new pair here."
        return Finding("certificates", name, "note", advice)
    return Finding("certificates", name, "ok", f"{until}, and its key is private.")


def _disk(settings: Settings, transport: Transport) -> Iterator[Finding]:
    name = transport.identity.name
    if settings.state_dir is None:
        yield Finding("disk", name, "note", "No PLUMBLINE_STATE_DIR: what is trained here ends with its process.")
    else:
        try:
            StateFolder(settings.state_dir, transport.identity).close()
        except StateInUse:
            yield _room(settings.state_dir, name, "is in use by this party's process")
        except StateError as error:
            yield Finding("disk", name, "wrong", str(error))
        else:
            yield _room(settings.state_dir, name, "can be written")
    if settings.run_dir is not None:
        try:
            RunFolder(settings.run_dir).check(name)
        except ValueError as error:
            yield Finding("disk", name, "wrong", str(error))
        else:
            yield _room(settings.run_dir, name, "can be written")


def _room(folder: Path, name: str, what: str) -> Finding:
    free = shutil.disk_usage(folder).free // 1_000_000
    if free < _LEAST_FREE_MEGABYTES:
        return Finding("disk", name, "wrong", f"{folder} has {free:,} MB left: make room, or choose another folder.")
    return Finding("disk", name, "ok", f"{folder} {what}, and has {free:,} MB left.")


def _own_address(settings: Settings, transport: Transport) -> Finding:
    name, (host, _, port) = transport.identity.name, settings.listen.rpartition(":")
    here = f"127.0.0.1:{port}" if host in ("0.0.0.0", "[::]") else settings.listen  # noqa: S104 - compared, not bound
    with transport.dial(here, name) as channel:
        if is_serving(channel):
            return Finding("address", name, "ok", f"This party serves on {settings.listen}.")
    try:
        check_listen(settings.listen)
    except OSError as error:
        return Finding("address", name, "wrong", str(error))
    return Finding("address", name, "ok", f"{settings.listen} is free for this party, which isn't running.")


def _peer(peer: str, address: str, facts: PeerFacts) -> Iterator[Finding]:
    proxy = proxy_of(address)
    if facts.trouble:
        proxy_words = "" if proxy is None or proxy.variable in facts.trouble else f" {proxy.words(peer)}"
        yield Finding("peer", peer, "wrong", f"{shown(facts.trouble)} It was called at {address}.{proxy_words}")
        return
    by = "" if proxy is None else f", by the proxy {proxy.address} that {proxy.variable} names"
    yield Finding("peer", peer, "ok", f"{peer} answers at {address}{by}.")
    try:
        check_wire_version(peer, facts.wire)
    except OutOfOrder as error:
        yield Finding("versions", peer, "wrong", str(error))
    else:
        release = shown(facts.release or "unknown")
        yield Finding(
            "versions", peer, "ok", f"{peer} runs release {release}, which speaks wire {WIRE_VERSION} as here."
        )
    yield _clock(peer, facts)


def _clock(peer: str, facts: PeerFacts) -> Finding:
    if facts.seconds_ahead is None:
        sentence = f"{peer} doesn't tell the time, so clocks weren't compared: compare `date -u` at both by hand."
        return Finding("clock", peer, "note", sentence)
    apart = abs(facts.seconds_ahead)
    side = "ahead of" if facts.seconds_ahead > 0 else "behind"
    if apart - facts.seconds_unsure > _MOST_SECONDS_APART:
        sentence = (
            f"{peer}'s clock is {apart:,.0f} s {side} this machine's: set both by a time server (NTP), or certificates "
            "that are valid at one are not at the other."
        )
        return Finding("clock", peer, "wrong", sentence)
    sentence = f"{peer}'s clock and this machine's agree within {apart + facts.seconds_unsure:.1f} s."
    return Finding("clock", peer, "ok", sentence)
