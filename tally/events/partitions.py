"""The partition of a store's records, which is the same in each canonical topic."""

from zlib import crc32


def partition_number(store_id: str, partitions: int) -> int:
    """Canonical partition of a store, 0 to partitions - 1: crc32 of the UTF-8 id, modulo the count.

    Set explicitly by the normaliser, because client libraries hash keys differently.
    >>> partition_number("367", 4)
    1
    """
    # Clients' own hashes differ, and the records of a store in two partitions have no order.
    return crc32(store_id.encode()) % partitions
