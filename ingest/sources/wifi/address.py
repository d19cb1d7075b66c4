"""Reads the addresses of devices, and classifies them by whether they may be made up.

No address leaves the gateway.
"""

import re
from typing import Any

from tally.errors import RejectedEvent
from tally.people.visit_parts import MacClass

_PLAIN = re.compile(r"[0-9a-f]{12}", re.ASCII)
# Bits of the first octet: the address is a group's; or it is local, not given by the maker.
_GROUP, _LOCAL = 0x01, 0x02


def parse_address(value: Any, at: str) -> bytes:
    """The 6 bytes of an address in any of its spellings.

    Raises RejectedEvent: wrong_type, out_of_range. Its message does not show the address.
    """
    if not isinstance(value, str):
        raise RejectedEvent("wrong_type", at, f"{at}: a device's address as text is wanted")
    digits = value.casefold().translate({ord(sign): None for sign in ":-."})
    if _PLAIN.fullmatch(digits) is None:
        raise RejectedEvent("out_of_range", at, f"{at}: is no address of 6 octets")
    address = bytes.fromhex(digits)
    if address[0] & _GROUP:
        raise RejectedEvent("out_of_range", at, f"{at}: is the address of a group, not a device's")
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
