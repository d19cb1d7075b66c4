"""The contents of Kafka: committed records, counted by reading them, and the dead letters."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from runtime.kafka.reader import read_to_end
from runtime.records.dead_letter import read_letters
from tally.config.settings import Settings


@dataclass(frozen=True)
class OffsetSpan:
    """Offsets [first, until) of one partition, and how many committed records Kafka keeps there."""

    first: int
    until: int
    committed: int


@dataclass(frozen=True)
class DeadLetterOrigin:
    """One dead letter: its reason, and the coordinates of the original record."""

    reason: str
    topic: str
    partition: int
    offset: int


def count_committed_records(
    settings: Settings, topic: str, until: Mapping[int, int]
) -> dict[int, OffsetSpan]:
    """The committed records before the given offsets that Kafka still keeps, by partition.

    They are counted by reading; transaction markers do not count.
    """
    counts: Counter[int] = Counter()
    firsts: dict[int, int] = {}
    for message in read_to_end(settings, [topic]):
        partition, offset = int(message.partition() or 0), int(message.offset() or 0)
        if offset < until.get(partition, 0):
            counts[partition] += 1
            # The offset of the first record read: Kafka's first offset may be a transaction marker,
            # and the first record then lies after it.
            firsts.setdefault(partition, offset)
    return {
        partition: OffsetSpan(firsts.get(partition, end), end, counts[partition])
        for partition, end in until.items()
    }


def dead_letters(settings: Settings) -> set[DeadLetterOrigin]:
    """The distinct dead letters: a duplicate has the same coordinates and reason."""
    return {
        DeadLetterOrigin(letter.reason, *letter.place)
        # Iterated lazily, so that the payloads of the originals are not all in memory together.
        for letter in read_letters(settings)
    }
