"""Up to where an audit counts: ends that are read first.

So what arrives meanwhile makes no difference.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from cassandra.cluster import Session

from runtime.connect import NORMALISER_GROUP, UNCOMMITTED, kafka_consumer
from runtime.dead_letter import TOPIC as DEAD_LETTERS
from runtime.offsets import TopicOffsets
from runtime.sources import FAMILIES
from runtime.topics import committed_positions, ends
from schemas.loader import topics
from tally.settings import Settings

_TIMEOUT_SECONDS = 30.0
_LOOK_EVERY_SECONDS = 0.5
# Beside the time between two appends to the master: the normaliser's transaction, the append
# itself.
_PATIENCE_SECONDS = 30.0


@dataclass(frozen=True)
class Cut:
    """Ends of the raw topics at one moment, and ends of the canonical topics after it.

    Those are read once the normaliser had passed the raw ones.
    """

    raw: TopicOffsets
    canonical: TopicOffsets


def settled_cut(settings: Settings, session: Session) -> Cut:
    """The cut of now, when the master holds all of it.

    After a while it is returned without: what is missing then is a difference.
    """
    deadline = time.monotonic() + settings.ingest_trigger_seconds + _PATIENCE_SECONDS
    # One after the other: of all ends at one moment, what is on its way through the normaliser
    # would be in neither ledger.
    raw = _ends(settings, [topics()[family]["raw"] for family in FAMILIES])
    _wait(lambda: _is_reached(raw, _normalised(settings, raw)), deadline)
    # What the normaliser has written by then: readers of committed records may see it later.
    written = _ends(settings, [*FAMILIES, DEAD_LETTERS], UNCOMMITTED)
    _wait(lambda: _is_reached(written, _ends(settings, written)), deadline)
    canonical = {family: written[family] for family in FAMILIES}
    _wait(lambda: _is_reached(canonical, _held(session)), deadline)
    return Cut(raw, canonical)


def _wait(condition: Callable[[], bool], deadline: float) -> None:
    while not condition() and time.monotonic() < deadline:
        time.sleep(_LOOK_EVERY_SECONDS)


def _is_reached(ends: TopicOffsets, reached: TopicOffsets) -> bool:
    return all(
        reached.get(topic, {}).get(number, 0) >= end
        for topic, of in ends.items()
        for number, end in of.items()
    )


def _ends(
    settings: Settings, names: Iterable[str], overrides: Mapping[str, str] | None = None
) -> TopicOffsets:
    """First offset by partition that a reader cannot have yet: of committed records, or as the
    overrides of the consumer say."""
    with kafka_consumer(settings, "audit", overrides) as consumer:
        return ends(consumer, names, _TIMEOUT_SECONDS)


def _normalised(settings: Settings, raw: TopicOffsets) -> TopicOffsets:
    lanes = [(topic, number) for topic, of in raw.items() for number in of]
    reached: dict[str, dict[int, int]] = {}
    # By the group's name, and no member of it: its partitions stay where they are.
    with kafka_consumer(settings, NORMALISER_GROUP) as consumer:
        for part in committed_positions(consumer, lanes, _TIMEOUT_SECONDS):
            reached.setdefault(part.topic, {})[part.partition] = max(0, part.offset)
    return reached


def _held(session: Session) -> TopicOffsets:
    reached: dict[str, dict[int, int]] = {}
    for row in session.execute("SELECT family, partition, until FROM master_position"):
        reached.setdefault(row.family, {})[row.partition] = row.until
    return reached
