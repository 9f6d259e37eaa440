"""The HTTP proxy that gRPC takes for a connection, unless the peer is on this machine: read as gRPC reads it."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

# In gRPC's order; the first that is set counts.
_VARIABLES, _EXEMPTING = ("grpc_proxy", "https_proxy", "http_proxy"), ("no_grpc_proxy", "no_proxy")


@dataclass(frozen=True)
class Proxy:
    """A proxy that this process was told to take.

    Attributes:
        address: HOST:PORT, without the user and the password that may stand before it.
        variable: which names it.
    """

    address: str
    variable: str

    def words(self, peer: str) -> str:
        """Say to a person by what a connection to ``peer`` goes, and what to do where it shouldn't."""
        exempting = next((name for name in _EXEMPTING if os.environ.get(name)), _EXEMPTING[-1])
        return (
            f"The connection to {peer} goes by the proxy {self.address}, which {self.variable} names: put the host of "
            f"{peer} into {exempting}, or have the proxy let it through."
        )


def is_loopback(address: str) -> bool:
    """Tell whether HOST:PORT is on this machine, where no proxy is on the way."""
    host = _host_of(address)
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost" or host.endswith(".localhost")


def proxy_of(address: str, environment: Mapping[str, str] | None = None) -> Proxy | None:
    """Find the proxy of a connection to HOST:PORT; None where it goes straight."""
    variables, host = os.environ if environment is None else environment, _host_of(address)
    if is_loopback(address) or not (proxy := _named(variables)):
        return None
    exempt = next((variables[name] for name in _EXEMPTING if variables.get(name)), "")
    return None if any(_is_within(host, one.strip()) for one in exempt.split(",")) else proxy


def proxy_in(details: str) -> Proxy | None:
    """Find the proxy that the transport's words on a failed connection are about; None where they are of none."""
    proxy = _named(os.environ)
    if proxy is None:
        return None
    port = proxy.address.rpartition(":")[2]
    return proxy if "http proxy" in details.lower() or f":{port}:" in details else None


def _named(variables: Mapping[str, str]) -> Proxy | None:
    for name in _VARIABLES:
        if url := variables.get(name, "").strip():
            with suppress(ValueError):
                parts = urlsplit(url if "://" in url else f"http://{url}")
                return Proxy(f"{parts.hostname}:{parts.port or 80}", name)
            return Proxy("that can't be read", name)
    return None


def _host_of(address: str) -> str:
    return address.rpartition(":")[0].strip("[]").lower()


def _is_within(host: str, exempt: str) -> bool:
    """Tell whether a host ends as an entry of no_proxy does, or is an address within its range."""
    if not exempt:
        return False
    with suppress(ValueError):
        return ipaddress.ip_address(host) in ipaddress.ip_network(exempt, strict=False)
    return host.endswith(exempt.lower())
