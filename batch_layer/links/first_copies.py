"""The index of first copies: a B-tree of LMDB beside the master dataset, one for each family.

An entry is found by the store's lane and a hash of the receipt's name, so that one look-up finds
the copies, the versions and the voids of a receipt. Lanes never change: a sample of lanes is a
sample of stores. The index follows from the master dataset, which rebuilds it where it is lost.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Self
from zlib import crc32

import lmdb
import msgspec

from batch_layer.links.header import RecordHeader

LANES = 256
# Address space and no memory: an index of some billions of receipts is no larger.
_MAP_BYTES = 1 << 42
# Days before 1970 sort before the others.
_DAY_ZERO = 1 << 31
_MEMBERS, _CALLED, _UNTIL = b"members", b"called", b"until"
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(RecordHeader).decode


class FirstCopyIndex:
    """The index of one family; it is changed by one process, and read by any."""

    def __init__(self, environment: lmdb.Environment) -> None:
        self._environment = environment
        self._members, self._called, self._until = (
            environment.open_db(name) for name in (_MEMBERS, _CALLED, _UNTIL)
        )

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Iterator[Self]:
        """Open the index in this folder within the block; it is made where it is missing."""
        path.mkdir(parents=True, exist_ok=True)
        with lmdb.open(str(path), map_size=_MAP_BYTES, max_dbs=3) as environment:
            yield cls(environment)

    def until(self) -> dict[int, int]:
        """The first offset that is not in the index, by partition."""
        with self._environment.begin(self._until) as transaction:
            return {
                int.from_bytes(number): int.from_bytes(offset)
                for number, offset in transaction.cursor()
            }

    @contextmanager
    def changing(self) -> Iterator["FirstCopiesChange"]:
        """A transaction: what is put within the block is there after it, or nothing of it."""
        with self._environment.begin(write=True) as transaction:
            yield FirstCopiesChange(
                transaction.cursor(self._members),
                transaction.cursor(self._called),
                transaction.cursor(self._until),
            )


class FirstCopiesChange:
    """The first copies within one transaction."""

    def __init__(
        self,
        members: "lmdb.Cursor[bytes]",
        called: "lmdb.Cursor[bytes]",
        until: "lmdb.Cursor[bytes]",
    ) -> None:
        self._members, self._called, self._until = members, called, until

    def members(self, store_id: str, receipt: str) -> Mapping[str, RecordHeader]:
        """The first copies of the events of a receipt, by event_id."""
        cursor, begin = self._members, _hash_name(store_id, receipt)
        found = {}
        is_there = cursor.set_range(begin)
        while is_there and cursor.key().startswith(begin):
            header = _decode(cursor.value())
            found[header.event_id] = header
            is_there = cursor.next()
        return found

    def called(self, store_id: str, name: str, days: range) -> Iterator[RecordHeader]:
        """The receipts of these days that a void may call so, ascending by day."""
        cursor, begin = self._called, _hash_name(store_id, name)
        end = begin + _day_key(days.stop)
        is_there = cursor.set_range(begin + _day_key(days.start))
        while is_there and cursor.key() < end:
            header = _decode(self._members.get(cursor.value(), b""))
            # One that an earlier copy has replaced may be called otherwise.
            if name in header.called and header.day in days:
                yield header
            is_there = cursor.next()

    def put(self, receipt: str, header: RecordHeader) -> None:
        """Add the first copy of an event, or replace one that came later."""
        event = _hash(header.event_id)
        key = _hash_name(header.store_id, receipt) + event
        self._members.put(key, _encode(header))
        for name in header.called:
            called = _hash_name(header.store_id, name) + _day_key(header.day) + event
            self._called.put(called, key)

    def put_until(self, until: Mapping[int, int]) -> None:
        """Note the first offset that is not in the index, by partition."""
        for number, offset in until.items():
            self._until.put(number.to_bytes(4), offset.to_bytes(8))


def lane_of_store(store_id: str) -> int:
    """The lane of a store, 0 to 255, for good."""
    return crc32(store_id.encode()) % LANES


def _hash_name(store_id: str, name: str) -> bytes:
    return bytes([lane_of_store(store_id)]) + _hash(f"{store_id}\0{name}", 15)


def _hash(text: str, size: int = 16) -> bytes:
    return blake2b(text.encode(), digest_size=size).digest()


def _day_key(day: int) -> bytes:
    return (day + _DAY_ZERO).to_bytes(4)
