"""Addresses that may be called: those of the public internet, and those that a setting allows.

A channel's URL is untrusted text. Its name is looked up once, each address is checked after that,
and the call goes to the checked address: a second look-up could return another one.
"""

import asyncio
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

import httpx

from tally.errors import AddressRefused, BadSettings

CallableAddress = IPv4Address | IPv6Address
AllowedNetwork = IPv4Network | IPv6Network
# Global unicast; other IPv6 addresses are for a link, a site, a loop, or lead to an IPv4 address.
_UNICAST = IPv6Network("2000::/3")
# IPv4 addresses in the form of a translator (NAT64).
_TRANSLATED = IPv6Network("64:ff9b::/96")
_6TO4, _TEREDO = IPv6Network("2002::/16"), IPv6Network("2001::/32")
# Networks of protocols and relays; not every version of Python knows all of them.
_SPECIAL = (IPv4Network("192.0.0.0/24"), IPv4Network("192.88.99.0/24"))
MAX_URL = 2_000
# Names that are looked up concurrently; a name that hangs counts once.
_MAX_LOOKUPS = 128


def parse_networks(text: str) -> tuple[AllowedNetwork, ...]:
    """Parse the networks of a setting, separated by commas. Raises BadSettings."""
    try:
        names = (name.strip() for name in text.split(","))
        return tuple(ip_network(name) for name in names if name)
    except ValueError as error:
        fix = "write networks as 10.20.0.0/16, comma between"
        raise BadSettings(f"TALLY_WEBHOOK_NETWORKS: {error}; {fix}") from error


def is_public(address: CallableAddress) -> bool:
    """Whether an address is one of the public internet, in any of its written forms."""
    if isinstance(address, IPv4Address):
        is_special = any(address in network for network in _SPECIAL)
        is_odd = address.is_multicast or address.is_reserved or is_special
        return address.is_global and not is_odd
    inner = _extract_ipv4(address)
    if inner is not None:
        return is_public(inner)
    # The address of a tunnel does not show unambiguously in which network the tunnel ends.
    is_tunnel = address in _6TO4 or address in _TEREDO
    return address in _UNICAST and address.is_global and not is_tunnel


def _extract_ipv4(address: IPv6Address) -> IPv4Address | None:
    """The IPv4 address that an IPv6 address leads to; None if there is none."""
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address in _TRANSLATED:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return None


def parse_url(text: str) -> httpx.URL:
    """The URL, if its text allows a call; its host is not looked up. Raises AddressRefused."""
    try:
        url = httpx.URL(text)
    except (httpx.InvalidURL, ValueError, TypeError) as error:
        raise AddressRefused(f"no URL: {error}") from error
    if len(text) > MAX_URL or not text.isprintable():
        raise AddressRefused(f"no URL of {MAX_URL} characters that can be read")
    if url.scheme not in ("https", "http") or not url.host:
        raise AddressRefused("a webhook's URL begins with https:// and names a host")
    if url.port is not None and not 0 < url.port < 65_536:
        raise AddressRefused(f"port {url.port} is not between 1 and 65535")
    # User info would be sent as a password; a text like a host before an @ deceives readers.
    if url.userinfo or url.fragment:
        raise AddressRefused("a webhook's URL has no user, password or fragment")
    return url


_HostAndPort = tuple[str, int]


class HostLookups:
    """Look-ups of names, at most one under way for each: all calls to a host share it.

    A look-up that hangs cannot be cancelled and keeps its thread. As they are shared, a host that
    hangs keeps one thread, however many messages wait for it.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_MAX_LOOKUPS, "lookups")
        self._pending: dict[_HostAndPort, asyncio.Task[list[str]]] = {}

    async def find(self, host: str, port: int) -> list[str]:
        """The addresses of a host, in order. Raises OSError when the name is not known."""
        host_and_port = host, port
        if host_and_port not in self._pending:
            self._pending[host_and_port] = asyncio.create_task(self._look_up(host_and_port))
        # A cancelled caller must not cancel the look-up of the others.
        return await asyncio.shield(self._pending[host_and_port])

    async def _look_up(self, host_and_port: _HostAndPort) -> list[str]:
        try:
            loop = asyncio.get_running_loop()
            found = await loop.run_in_executor(self._threads, _resolve, host_and_port)
        finally:
            self._pending.pop(host_and_port, None)
        return [*dict.fromkeys(str(place[0]) for *_, place in found)]


def _resolve(host_and_port: _HostAndPort) -> list[tuple[Any, ...]]:
    return socket.getaddrinfo(*host_and_port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)


async def resolve_callable(
    url: httpx.URL, allowed: Sequence[AllowedNetwork], lookups: HostLookups | None = None
) -> list[CallableAddress]:
    """The addresses of the URL's host that may be called, in the order of the look-up.

    Plain http may only go to this machine, if that is allowed. Raises AddressRefused when there is
    no such address, OSError when the name is not known.
    """
    port = url.port or (443 if url.scheme == "https" else 80)
    texts = await (lookups or HostLookups()).find(url.host, port)
    # An address with a zone is link-local.
    addresses = [ip_address(text) for text in texts if "%" not in text]
    fitting = [address for address in addresses if _may_call(url, address, allowed)]
    if not fitting:
        shown = ", ".join(str(address) for address in addresses[:3])
        raise AddressRefused(f"{url.host} is at {shown}: not to be called by {url.scheme}")
    return fitting


def _may_call(url: httpx.URL, address: CallableAddress, allowed: Sequence[AllowedNetwork]) -> bool:
    plain = address if isinstance(address, IPv4Address) else _extract_ipv4(address) or address
    is_allowed = any(plain in network for network in allowed)
    if url.scheme == "http":
        return is_allowed and plain.is_loopback
    return is_allowed or is_public(address)
