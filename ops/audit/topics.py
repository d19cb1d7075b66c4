"""What Kafka itself holds: committed records counted by reading them, and the dead letters."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from runtime.dead_letter import read_letters
from runtime.reading import read_to_end
from tally.settings import Settings


@dataclass(frozen=True)
class OffsetSpan:
    """Offsets [first, until) of one partition, and how many committed records Kafka keeps of it."""

    first: int
    until: int
    committed: int


@dataclass(frozen=True)
class DeadLetterOrigin:
    """One dead letter: why, and the coordinates of the original."""

    reason: str
    topic: str
    partition: int
    offset: int


def committed_spans(
    settings: Settings, topic: str, until: Mapping[int, int]
) -> dict[int, OffsetSpan]:
    """By partition the committed records before the given offsets that Kafka still keeps.

    They are counted by reading; markers do not count.
    """
    counts: Counter[int] = Counter()
    firsts: dict[int, int] = {}
    for message in read_to_end(settings, [topic]):
        partition, offset = int(message.partition() or 0), int(message.offset() or 0)
        if offset < until.get(partition, 0):
            counts[partition] += 1
            # The first record that comes: where Kafka's first offset is a marker's, that one lies
            # behind it.
            firsts.setdefault(partition, offset)
    return {
        partition: OffsetSpan(firsts.get(partition, end), end, counts[partition])
        for partition, end in until.items()
    }


def dead_letters(settings: Settings) -> set[DeadLetterOrigin]:
    """Every dead letter once: a repeat has the same coordinates and reason."""
    return {
        DeadLetterOrigin(letter.reason, *letter.place)
        # One after the other: what was kept of the originals need not lie in memory together.
        for letter in read_letters(settings)
    }
