"""Which addresses a webhook is called at: none inside, in whatever form it is written."""

import asyncio
import socket
from ipaddress import ip_address
from typing import Any

import pytest

from runtime.outbound.addresses import is_public, parse_networks, parse_url, resolve_callable
from tally.errors import AddressRefused, BadSettings

INSIDE = (
    *("0.0.0.0", "10.0.0.1", "100.64.0.1", "127.0.0.1", "127.255.255.254", "169.254.169.254"),
    *("172.16.0.1", "172.31.255.255", "192.0.0.8", "192.0.2.1", "192.88.99.1", "192.168.1.1"),
    *("198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "240.0.0.1", "255.255.255.255"),
    *("::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254"),
    *("64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "100::1", "2001::1"),
    *("2001:db8::1", "2002:7f00:1::", "2002:c0a8:101::1", "fc00::1", "fd00:ec2::254"),
    *("fe80::1", "fec0::1", "ff02::1", "::ffff:0:127.0.0.1", "4000::1"),
)
OUTSIDE = (
    *("1.1.1.1", "93.184.216.34", "172.32.0.1", "100.128.0.1", "192.169.0.1"),
    *("2606:4700:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"),
)
# Hosts as they stand in a URL, which are all this machine or a service of a cloud.
HOSTILE_HOSTS = (
    *("localhost", "LOCALHOST", "127.0.0.1", "127.1", "2130706433", "017700000001", "0x7f000001"),
    *("0177.0.0.1", "0x7f.0.0.1", "127.0.1", "0", "0.0.0.0", "169.254.169.254", "2852039166"),
    *("0xa9fea9fe", "0251.0376.0251.0376", "[::1]", "[::]", "[::ffff:127.0.0.1]"),
    *("[::ffff:7f00:1]", "[0:0:0:0:0:ffff:a9fe:a9fe]", "[64:ff9b::7f00:1]", "[fe80::1]"),
    *("127.0.0.1.", "１２７.0.0.1", "①②⑦.0.0.1", "10.0.0.1", "192.168.0.1", "[fd00:ec2::254]"),
    *("localhost.", "127.0.0.1%2f", "127。0。0。1", "[::ffff:0:127.0.0.1]", "[fe80::1%25lo]"),
    *("127.00000.0.1", "00000177.1", "0x7F.1", "4294967297", "256.256.256.256", "[::127.0.0.1]"),
    *("[2002:7f00:1::]", "[64:ff9b::a9fe:a9fe]", "[0000:0000::0001]", "%31%32%37.0.0.1"),
)
NO_URLS = (
    *("", "tablet.example", "//tablet.example/", "ftp://tablet.example/", "file:///etc/passwd"),
    *("gopher://127.0.0.1:6379/_x", "javascript:alert(1)", "https://", "https:///path"),
    *("https://user@tablet.example/", "https://a:b@tablet.example/", "https://x/#fragment"),
    *("https://tablet.example\r\nhost: other/", "https://tablet.example/\x00", "https://[::1"),
    *("https://tablet.example:99999/", "https://tablet.example:port/", "https://x/" + "p" * 2_000),
    *("https://127.0.0.1@evil.example/", "https://evil.example\\@127.0.0.1/"),
    # With an address no look-up fails for the port.
    *("https://1.1.1.1:65536/", "https://1.1.1.1:99999/", "https://1.1.1.1:0/"),
)


def found(url: str, allowed: str = "") -> list[str]:
    """The addresses that the URL may be called at."""
    addresses = resolve_callable(parse_url(url), parse_networks(allowed))
    return [str(one) for one in asyncio.run(addresses)]


@pytest.mark.parametrize("address", INSIDE)
def test_an_address_that_is_not_of_the_public_internet_is_found(address: str) -> None:
    assert not is_public(ip_address(address))


@pytest.mark.parametrize("address", OUTSIDE)
def test_an_address_of_the_public_internet_may_be_called(address: str) -> None:
    assert is_public(ip_address(address))


@pytest.mark.parametrize("host", HOSTILE_HOSTS)
def test_a_host_inside_is_not_called_however_it_is_written(host: str) -> None:
    # Some of these are no host at all for the look-up, or for the URL.
    with pytest.raises((AddressRefused, OSError, UnicodeError)):
        found(f"https://{host}/alerts")


@pytest.mark.parametrize("url", NO_URLS)
def test_a_url_that_is_none_for_a_webhook_is_refused(url: str) -> None:
    with pytest.raises(AddressRefused):
        parse_url(url)


@pytest.mark.parametrize("host", ["127.0.0.1", "2130706433", "[::ffff:127.0.0.1]", "localhost"])
def test_this_machine_may_be_called_where_that_is_allowed(host: str) -> None:
    assert {"127.0.0.1", "::ffff:7f00:1"} & {*found(f"https://{host}/", "127.0.0.0/8")}


def test_plain_http_goes_to_this_machine_alone() -> None:
    assert found("http://127.0.0.1:8000/", "127.0.0.0/8") == ["127.0.0.1"]
    for url, allowed in (
        ("http://127.0.0.1/", ""),
        ("http://1.1.1.1/", "127.0.0.0/8"),
        ("http://10.0.0.1/", "10.0.0.0/8"),
    ):
        with pytest.raises(AddressRefused):
            found(url, allowed)


def test_a_network_of_ones_own_may_be_called_where_it_is_named() -> None:
    assert found("https://10.20.1.1/", "10.20.0.0/16, fd00::/8") == ["10.20.1.1"]
    with pytest.raises(AddressRefused):
        found("https://10.21.1.1/", "10.20.0.0/16")


def test_of_a_name_that_is_here_and_there_only_what_is_outside_is_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    places = ("10.0.0.1", "::ffff:169.254.169.254", "1.1.1.1", "fe80::1%eth0", "127.0.0.1")
    real = socket.getaddrinfo
    looked_up = [one for place in places for one in _place(real, place)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_args, **_more: looked_up)

    assert found("https://both.test/") == ["1.1.1.1"]


def _place(real: Any, address: str) -> list[Any]:
    if "%" in address:
        kind = socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP
        return [(*kind, "", (address, 443, 0, 2))]
    return list(real(address, 443, type=socket.SOCK_STREAM))


@pytest.mark.parametrize("text", ["10.0.0.1/8", "everything", "10.0.0.0/33", "::/129"])
def test_networks_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(BadSettings, match="TALLY_WEBHOOK_NETWORKS"):
        parse_networks(text)
