"""Which addresses may be called: those of the public internet, and what a setting allows.

A channel's URL is anybody's text. Its name is looked up once, each address is looked at after that,
and the call goes to that very address: a second look-up could be answered otherwise.
"""

import asyncio
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import Any

import httpx

from tally.errors import AddressRefused, BadSettings

CallableAddress = IPv4Address | IPv6Address
AllowedNetwork = IPv4Network | IPv6Network
# Global unicast; all else of IPv6 is for a link, a site, a loop, or leads to an address of IPv4.
_UNICAST = IPv6Network("2000::/3")
# Addresses of IPv4 as a translator writes them.
_TRANSLATED = IPv6Network("64:ff9b::/96")
_6TO4, _TEREDO = IPv6Network("2002::/16"), IPv6Network("2001::/32")
# Of protocols and relays; not all of them are known to every version of Python.
_SPECIAL = (IPv4Network("192.0.0.0/24"), IPv4Network("192.88.99.0/24"))
_LOW = 0xFFFFFFFF
MOST_URL = 2_000
# Names that are looked up at once; a name that hangs counts once.
_MOST_LOOKUPS = 128


def allowed_networks(text: str) -> tuple[AllowedNetwork, ...]:
    """The networks that a setting names, comma between. Raises BadSettings."""
    try:
        named = (one.strip() for one in text.split(","))
        return tuple(ip_network(one) for one in named if one)
    except ValueError as error:
        raise BadSettings(
            f"TALLY_WEBHOOK_NETWORKS: {error}; write networks as 10.20.0.0/16, comma between"
        ) from error


def is_public(address: CallableAddress) -> bool:
    """Whether an address is one of the public internet, in whatever form it is written."""
    if isinstance(address, IPv4Address):
        is_special = any(address in network for network in _SPECIAL)
        is_odd = address.is_multicast or address.is_reserved or is_special
        return address.is_global and not is_odd
    inner = _inner(address)
    if inner is not None:
        return is_public(inner)
    # Where a tunnel ends, and in whose network, its address does not say in one way only.
    is_tunnel = address in _6TO4 or address in _TEREDO
    return address in _UNICAST and address.is_global and not is_tunnel


def _inner(address: IPv6Address) -> IPv4Address | None:
    """The address of IPv4 that one of IPv6 leads to."""
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address in _TRANSLATED:
        return IPv4Address(int(address) & _LOW)
    return None


def checked_url(text: str) -> httpx.URL:
    """The URL, if it is one that may be called, whatever its host turns out to be.

    Raises AddressRefused.
    """
    try:
        url = httpx.URL(text)
    except (httpx.InvalidURL, ValueError, TypeError) as error:
        raise AddressRefused(f"no URL: {error}") from error
    if len(text) > MOST_URL or not text.isprintable():
        raise AddressRefused(f"no URL of {MOST_URL} characters that can be read")
    if url.scheme not in ("https", "http") or not url.host:
        raise AddressRefused("a webhook's URL begins with https:// and names a host")
    # A user would go out as a password; what looks like a host before an @ deceives who reads it.
    if url.userinfo or url.fragment:
        raise AddressRefused("a webhook's URL has no user, password or fragment")
    return url


_HostAndPort = tuple[str, int]


class HostLookups:
    """Look-ups of names, at most one under way for each: all calls to a host share it.

    A look-up that hangs cannot be cancelled and keeps its thread. Shared, a host that hangs keeps
    one thread, however many messages wait for it.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_MOST_LOOKUPS, "lookups")
        self._under_way: dict[_HostAndPort, asyncio.Task[list[str]]] = {}

    async def find(self, host: str, port: int) -> list[str]:
        """The addresses of a host, in the order of the answer.

        Raises OSError when the name is not known.
        """
        asked = host, port
        if asked not in self._under_way:
            self._under_way[asked] = asyncio.create_task(self._look_up(asked))
        # Whoever waits no longer takes it from none of the others.
        return await asyncio.shield(self._under_way[asked])

    async def _look_up(self, asked: _HostAndPort) -> list[str]:
        try:
            found = await asyncio.get_running_loop().run_in_executor(self._threads, _found, asked)
        finally:
            self._under_way.pop(asked, None)
        return [*dict.fromkeys(str(place[0]) for *_, place in found)]


def _found(asked: _HostAndPort) -> list[tuple[Any, ...]]:
    return socket.getaddrinfo(*asked, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)


async def callable_addresses(
    url: httpx.URL, allowed: Sequence[AllowedNetwork], lookups: HostLookups | None = None
) -> list[CallableAddress]:
    """The addresses of the URL's host that may be called, in the order of the look-up.

    Plain http goes to this machine alone, if that is allowed. Raises AddressRefused when there is
    none, OSError when the name is not known.
    """
    port = url.port or (443 if url.scheme == "https" else 80)
    texts = await (lookups or HostLookups()).find(url.host, port)
    # One with a zone is of a link.
    addresses = [ip_address(text) for text in texts if "%" not in text]
    fitting = [address for address in addresses if _may_call(url, address, allowed)]
    if not fitting:
        told = ", ".join(str(address) for address in addresses[:3])
        raise AddressRefused(f"{url.host} is at {told}: not to be called by {url.scheme}")
    return fitting


def _may_call(url: httpx.URL, address: CallableAddress, allowed: Sequence[AllowedNetwork]) -> bool:
    plain = address if isinstance(address, IPv4Address) else _inner(address) or address
    is_allowed = any(plain in network for network in allowed)
    if url.scheme == "http":
        return is_allowed and plain.is_loopback
    return is_allowed or is_public(address)
