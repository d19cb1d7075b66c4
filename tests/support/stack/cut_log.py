"""A Kafka log that has lost its end, as after a loss of power."""

from pathlib import Path

_OFFSET_AND_LENGTH = 12


def cut(log: Path, records: int) -> None:
    """Only the first batches of a log stay; each batch holds one record, and the broker does not
    run."""
    content, end = log.read_bytes(), 0
    for _ in range(records):
        end += _OFFSET_AND_LENGTH + int.from_bytes(
            content[end + 8 : end + _OFFSET_AND_LENGTH], "big"
        )
    assert end < len(content)
    log.write_bytes(content[:end])
