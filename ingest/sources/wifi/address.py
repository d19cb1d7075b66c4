"""Reads and classifies the addresses of devices; no address leaves the gateway."""

import re
from typing import Any

from ingest.contract.wire import field_error
from tally.people.visits import MacClass

_PLAIN = re.compile(r"[0-9a-f]{12}", re.ASCII)
# Bits of the first octet: the address is a group's; or it is local, not given by the maker.
_GROUP, _LOCAL = 0x01, 0x02


def parse_address(value: Any, at: str) -> bytes:
    """The 6 bytes of an address, however spelled. Raises RejectedEvent, which does not show it."""
    if not isinstance(value, str):
        raise field_error("wrong_type", at, "a device's address as text is wanted")
    digits = value.casefold().translate({ord(sign): None for sign in ":-."})
    if _PLAIN.fullmatch(digits) is None:
        raise field_error("out_of_range", at, "is no address of 6 octets")
    address = bytes.fromhex(digits)
    if address[0] & _GROUP:
        raise field_error("out_of_range", at, "is the address of a group, not a device's")
    return address


def classify_address(address: bytes, is_associated: bool) -> MacClass:
    """The class of a device by its address.

    >>> classify_address(bytes.fromhex("3c0000000001"), False)
    'fixed'
    >>> classify_address(bytes.fromhex("da0000000002"), True)
    'random_associated'
    """
    if not address[0] & _LOCAL:
        return "fixed"
    return "random_associated" if is_associated else "random_probe"
