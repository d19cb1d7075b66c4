"""The header of a record: what the fates of records on other days depend on."""

import re

import msgspec

from tally.events.identity import REFERENCE, event_id
from tally.events.receipt_rules import ChainPosition, parse_chain_position

_ZEROS = re.compile(r":0+([0-9]+)\Z")


class RecordHeader(msgspec.Struct, frozen=True, array_like=True):
    """A readable record without its contents.

    day: that of happened_at (UTC, days since 1970); happened_at, committed_at: microseconds since
    1970; names: its reference and transaction number, by which a void may call it.
    """

    store_id: str
    event_id: str
    fingerprint: str
    day: int
    happened_at: int
    committed_at: int
    partition: int
    offset: int
    names: tuple[str, ...] = ()

    @property
    def place(self) -> tuple[int, int]:
        """Partition and offset."""
        return self.partition, self.offset

    @property
    def position(self) -> ChainPosition:
        """Its place in the chain of its receipt."""
        return parse_chain_position(self.event_id)

    @property
    def called(self) -> list[str]:
        """The names by which a void without its identity calls it; none for a void."""
        if self.position.is_void:
            return []
        return [event_id(REFERENCE, self.store_id, name) for name in dict.fromkeys(self.names)]


def strip_zeros(name: str) -> str:
    """The name of a receipt without leading zeros in its number.

    >>> strip_zeros("pos:1:1:0:0042")
    'pos:1:1:0:42'
    """
    return _ZEROS.sub(r":\1", name)
