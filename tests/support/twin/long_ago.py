"""Records of a topic as a broker has them whose clock stood elsewhere when it took them.

Rules are in force from when the brokers took them, and nobody can say otherwise. For a year that is
replayed in minutes they have to have been there before it: so the broker's own files are changed
while it does not run, as a time machine would leave them.
"""

import struct
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

# Of a batch of records, bytes from its begin: its length behind that field, the checksum, what it
# is of, and the time at which the broker took all of it.
_LENGTH, _CRC, _SUMMED, _TAKEN_AT = 8, 17, 21, 35
_BEFORE_LENGTH_COUNTS = 12
# How a reader knows that the time is the broker's.
_BROKERS_TIME = 0x08
_POLYNOMIAL = 0x82F63B78


def taken_at(folder: Path, instant: datetime) -> int:
    """How many batches of a partition were taken at that instant now; its broker must be down."""
    millis, count = round(instant.timestamp() * 1000), 0
    for segment in sorted(folder.glob("*.log")):
        content = bytearray(segment.read_bytes())
        for begin, end in _batches(content):
            assert content[begin + _SUMMED + 1] & _BROKERS_TIME, f"{segment}: a sender's time"
            struct.pack_into(">q", content, begin + _TAKEN_AT, millis)
            checksum = crc32c(bytes(content[begin + _SUMMED : end]))
            struct.pack_into(">I", content, begin + _CRC, checksum)
            count += 1
        segment.write_bytes(content)
    # Made anew from what the segments say.
    for index in (*folder.glob("*.index"), *folder.glob("*.timeindex")):
        index.unlink()
    return count


def _batches(content: bytearray) -> Iterator[tuple[int, int]]:
    begin = 0
    while begin < len(content):
        (length,) = struct.unpack_from(">i", content, begin + _LENGTH)
        if not length:
            # Behind the last one a segment may be filled up with zeros.
            return
        end = begin + _BEFORE_LENGTH_COUNTS + length
        yield begin, end
        begin = end


def crc32c(content: bytes) -> int:
    """The checksum by Castagnoli's polynomial, as Kafka has it.

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    remainder = 0xFFFFFFFF
    for byte in content:
        remainder ^= byte
        for _ in range(8):
            remainder = remainder >> 1 ^ (_POLYNOMIAL if remainder & 1 else 0)
    return remainder ^ 0xFFFFFFFF
