"""The end offsets up to which an audit counts.

They are read first, so records that arrive during the audit make no difference.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from cassandra.cluster import Session

from runtime.connect import NORMALISER_GROUP, UNCOMMITTED, kafka_consumer
from runtime.kafka.offsets import TopicOffsets, find_unread, flatten_offsets
from runtime.kafka.topics import PartitionId, read_ends, read_group_positions
from runtime.records.dead_letter import TOPIC as DEAD_LETTERS
from runtime.registry.sources import FAMILIES
from schemas.loader import topics
from tally.config.settings import Settings

_TIMEOUT_SECONDS = 30.0
_POLL_SECONDS = 0.5
# Added to the time between two appends to the master: it covers the normaliser's transaction and
# the append itself.
_GRACE_SECONDS = 30.0


@dataclass(frozen=True)
class Cut:
    """End offsets of the raw topics at one moment, and of the canonical topics after it.

    The canonical ends are read once the normaliser has passed the raw ones.
    """

    raw: TopicOffsets
    canonical: TopicOffsets


def take_cut(settings: Settings, session: Session) -> Cut:
    """The cut of now, returned once the master holds all of it.

    After a timeout it is returned anyway: records that are still missing then are a difference.
    """
    deadline = time.monotonic() + settings.ingest_trigger_seconds + _GRACE_SECONDS
    # The ends are read one after the other: if all were read at one moment, records on their way
    # through the normaliser would be in neither ledger.
    raw = _ends(settings, [topics()[family]["raw"] for family in FAMILIES])
    _wait_until_read(raw, lambda: _normaliser_positions(settings, raw), deadline)
    # The normaliser has written these by now; readers of committed records may see them later.
    written = _ends(settings, [*FAMILIES, DEAD_LETTERS], UNCOMMITTED)
    _wait_until_read(written, lambda: flatten_offsets(_ends(settings, written)), deadline)
    canonical = {family: written[family] for family in FAMILIES}
    _wait_until_read(canonical, lambda: _master_positions(session), deadline)
    return Cut(raw, canonical)


def _wait_until_read(
    ends: TopicOffsets, read: Callable[[], Mapping[PartitionId, int]], deadline: float
) -> None:
    while find_unread(flatten_offsets(ends), read()) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)


def _ends(
    settings: Settings, names: Iterable[str], overrides: Mapping[str, str] | None = None
) -> TopicOffsets:
    """The end offset of each partition: the first offset that a reader cannot have yet.

    Readers see committed records, unless the consumer's overrides change the isolation level.
    """
    with kafka_consumer(settings, "audit", overrides) as consumer:
        return read_ends(consumer, names, _TIMEOUT_SECONDS)


def _normaliser_positions(settings: Settings, raw: TopicOffsets) -> Mapping[PartitionId, int]:
    # This consumer uses the group's name without joining it: its partitions stay assigned.
    with kafka_consumer(settings, NORMALISER_GROUP) as consumer:
        return read_group_positions(consumer, flatten_offsets(raw), _TIMEOUT_SECONDS)


def _master_positions(session: Session) -> Mapping[PartitionId, int]:
    rows = session.execute("SELECT family, partition, until FROM master_position")
    return {(row.family, row.partition): row.until for row in rows}
