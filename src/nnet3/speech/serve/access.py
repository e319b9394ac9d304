"""AccessRules: the pages of browsers, the names of the server, and the number of clients of an address to be let in."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterable

from websockets.datastructures import Headers

from nnet3.base.options.serve import ServeOptions

_OWN = ("127.0.0.1", "::/64")  # of programs of this machine, among them what hands on for others
_NETWORK_OF_A_HOST = 64  # bits of an IPv6 address: whoever has one of a network has all of it
_DEFAULT_PORTS = {"http": "80", "https": "443"}


class AccessRules:
    """The rules by which a server lets clients in.

    A browser tells the asking page (Origin) and the server's name as the browser knows it (Host). The page is to be a
    page of the server itself or of `allow_origin`. The name is to be an address, localhost, the server's own name or a
    name in `allow_origin`: else the owner of any name could let the name lead here and then ask as a page of the server
    itself. Programs say no Origin, and may connect under any name.
    """

    def __init__(self, options: ServeOptions):
        allowed = [each.strip().rstrip("/") for each in options.allow_origin.split(",") if each.strip()]
        self._allows_all = "*" in allowed
        self._origins = {_with_port(each) for each in allowed}
        self._names = {"localhost", options.host.lower(), *(_name(each.partition("://")[2]) for each in allowed)}
        self._most = options.max_per_address

    def refusal(self, headers: Headers, is_connection: bool) -> str | None:
        """Returns why a request is refused, for a WebSocket or a page; None if it is not."""
        hosts, origins = headers.get_all("Host"), headers.get_all("Origin")
        if self._allows_all or (is_connection and not origins):
            return None
        if len(hosts) > 1 or len(origins) > 1:
            return "a request has one Host and one Origin"
        origin = _with_port(origins[0]) if origins else ""
        if origin in self._origins:
            return None
        if hosts and not self._is_own(_name(hosts[0])):
            return f"this server does not go by the name {hosts[0]!r:.80}: --allow-origin says which names it has"
        if origin and (not hosts or origin not in {_with_port(f"{scheme}://{hosts[0]}") for scheme in _DEFAULT_PORTS}):
            return f"pages of {origins[0]!r:.80} may not connect: --allow-origin says which may"
        return None

    def is_full(self, address: str, others: Iterable[str]) -> bool:
        """Returns True if an address has its most connections; `others` are the addresses of all there are."""
        network = _network(address)
        return network not in _OWN and 0 < self._most <= Counter(map(_network, others))[network]

    def _is_own(self, name: str) -> bool:
        return name in self._names or name.endswith(".localhost") or _is_address(name)


def _with_port(origin: str) -> str:
    """Returns an origin with its port; a browser leaves out the scheme's default port."""
    scheme, _, host = origin.lower().partition("://")
    port = host.rpartition(":")[2]
    return (
        f"{scheme}://{host}" if port.isdecimal() and host != port else f"{scheme}://{host}:{_DEFAULT_PORTS.get(scheme)}"
    )


def _name(host: str) -> str:
    """Returns `NAME` of `NAME:PORT`, and an address of version 6 without its brackets."""
    name, colon, port = host.lower().rpartition(":")
    return (name if colon and port.isdecimal() else host.lower()).strip("[]").rstrip(".")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _network(address: str) -> str:
    """Returns an address's owner: the address itself in version 4, its network in version 6."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address) or parsed.is_link_local:
        return address
    mapped = parsed.ipv4_mapped
    return str(mapped or ipaddress.ip_network((parsed.packed, _NETWORK_OF_A_HOST), strict=False))
