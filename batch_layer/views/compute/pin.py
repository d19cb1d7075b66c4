"""The pin of a rebuild: its input.

It is one version of the master dataset, and the instant up to which that version is complete. The
oldest record that has arrived and is in no generation yet bounds what a generation may claim.

A record waits in one of three places: in the raw topic, before the normaliser; in the canonical
topic, in a transaction whose end has not reached its partition; or in the canonical topic, before
the master ingest.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import msgspec
from confluent_kafka import Message
from deltalake import DeltaTable

from batch_layer.master.extent import load_extent
from batch_layer.master.positions import read_bounds_by_topic
from runtime.connect import NORMALISER_GROUP, kafka_consumer
from runtime.kafka.offsets import Offsets, find_unread
from runtime.kafka.reader import first_records, read_until
from runtime.kafka.topics import Bounds, read_topic_bounds, read_topic_positions
from schemas.loader import topics
from tally.config.settings import Settings
from tally.errors import TallyError
from tally.families.family import Family
from tally.families.generation import Generation
from tally.time.instants import from_millis
from tally.time.windows import EPOCH

BoundsByPartition = Mapping[int, Bounds]
# Longer than the normaliser's transactions may last.
TIMEOUT_SECONDS = 30.0
POLL_SECONDS = 0.1
# The arrival of records that Kafka no longer keeps is unknown: nothing is claimed.
UNKNOWN_PAST = EPOCH


@dataclass(frozen=True)
class Pin:
    """A version of the master dataset and its extent, by partition of the family's topic.

    until: the first offset not in it; through: the instant up to which every record that had
    arrived is in it.
    """

    version: int
    until: Mapping[int, int]
    through: Mapping[int, datetime]

    def with_earlier(self, published: Iterable[Generation]) -> "Pin":
        """This pin with the claims of published generations whose offsets are no later.

        Every record in such a generation is also in this pin.
        """
        earlier = [pointer.through for pointer in published if pointer.is_within(self.until)]
        through = {
            number: max([instant, *(claims[number] for claims in earlier if number in claims)])
            for number, instant in self.through.items()
        }
        return replace(self, through=through)


def pin_master(settings: Settings, family: Family, now: datetime) -> Pin:
    """Pin the newest version, with the extent of the family's records.

    now: by the brokers' clock, read before this call. Raises TallyError when there is no master
    dataset, or Kafka does not answer.
    """
    path, topic = settings.master_path, family.topic
    if not DeltaTable.is_deltatable(str(path)):
        raise TallyError(f"no master dataset in {path}; start its ingest with `tally up master`")
    # The places are read in the order in which a record travels, so that none slips from one place
    # to the next unseen: a record that had arrived until `now` waits before the normaliser, or in
    # an open transaction, or lies before the stable ends of the canonical topic.
    waiting = oldest_raw(settings, topics()[topic]["raw"]) or now
    retained, still_open = stable_offsets(settings, topic)
    # Read after the ends of the topics: the master can only have advanced since.
    table = DeltaTable(str(path))
    version = table.version()
    until = load_extent(table, [topic]).until.get(topic, {})
    # A transaction that does not end hides the records behind it: nothing is claimed for its
    # partition.
    oldest_unread = oldest_canonical(settings, topic, until, retained)
    oldest_unread |= dict.fromkeys(still_open, UNKNOWN_PAST)
    # The oldest waiting record of all places decides.
    through = {number: min(now, waiting, oldest_unread.get(number, now)) for number in retained}
    return Pin(version, {number: until.get(number, 0) for number in retained}, through)


def oldest_raw(settings: Settings, topic: str) -> datetime | None:
    """Arrival of the oldest record of a raw topic that the normaliser has not passed.

    None if there is none. The ends are read before the normaliser's positions: a record that is not
    found here, and had arrived before this call, has been written to the canonical topic or to the
    dead letters. Raises KafkaException, or StackError, when Kafka does not answer.
    """
    # The consumer has the group's name but never joins it, so no partitions are reassigned.
    with kafka_consumer(settings, NORMALISER_GROUP) as consumer:
        kept = read_topic_bounds(consumer, topic, TIMEOUT_SECONDS)
        reached = read_topic_positions(consumer, topic, TIMEOUT_SECONDS)
    behind = find_unread(_ends(kept), reached)
    if any(at < kept[number].earliest for number, at in behind.items()):
        return UNKNOWN_PAST
    places = [(topic, number, at) for number, at in behind.items()]
    found = first_records(settings, places, TIMEOUT_SECONDS).values()
    # A place has no record (None) where only transaction markers follow.
    arrivals = [from_millis(first.timestamp()[1]) for first in found if first is not None]
    return min(arrivals, default=None)


def stable_offsets(settings: Settings, topic: str) -> tuple[BoundsByPartition, set[int]]:
    """First offset kept and last stable offset by partition, and the partitions still open.

    They are read once every transaction that was open at the call has ended. A partition is still
    open if a transaction in it stayed open for longer than brokers allow.

    The end of a transaction is written to its partitions one after the other. Example: a
    transaction with records at offset 11 of partition 0 and at 7 of partition 1, whose commit is
    under way at the call:

        looked at             | partition 0 | partition 1 | waited for
        ends, at the call     | 12          | 8           |
        stable ends, at once  | 11          | 7           | 0 and 1
        stable ends, later    | 13          | 7           | 1; the marker of 0 lies at 12
        stable ends, later    | 13          | 9           | none: ({0: (0, 13), 1: (0, 9)}, set())

    With the offsets of the third row a generation would count one half of a transaction and claim
    to have the other half up to the same instant.
    """
    written = read_bounds_by_topic(settings, [topic], "read_uncommitted")[topic]
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while True:
        kept = read_bounds_by_topic(settings, [topic])[topic]
        still_open = {*find_unread(_ends(written), _ends(kept))}
        if not still_open or time.monotonic() > deadline:
            return kept, still_open
        time.sleep(POLL_SECONDS)


def oldest_canonical(
    settings: Settings, topic: str, until: Mapping[int, int], kept: BoundsByPartition
) -> dict[int, datetime]:
    """Earliest arrival (UTC) of the records beyond those held, by partition of a canonical topic.

    Partitions without such records are absent. until: first offset not held, by partition; kept:
    the offsets that stable_offsets() returns. Raises KafkaException, or StackError, when Kafka does
    not answer.
    """
    found: dict[int, datetime] = {}
    for number, start in find_unread(_ends(kept), until).items():
        if start < kept[number].earliest:
            found[number] = UNKNOWN_PAST
            continue
        messages = read_until(settings, (topic, number), kept[number].end, start)
        if earliest := min(map(_arrival, messages), default=None):
            found[number] = earliest
    return found


class _Arrived(msgspec.Struct):
    received_at: datetime


_decode_arrival = msgspec.json.Decoder(_Arrived).decode


def _arrival(message: Message) -> datetime:
    """When the message's event arrived; for an unreadable record all that is known is the broker's
    timestamp."""
    committed_at = from_millis(message.timestamp()[1])
    try:
        received_at = _decode_arrival(message.value() or b"").received_at.astimezone(UTC)
    except (msgspec.DecodeError, OverflowError, ValueError):
        return committed_at
    # Never later than the broker's timestamp, even if the record states a later one: the claim
    # that this arrival bounds may be too modest, and never too bold.
    return max(EPOCH, min(received_at, committed_at))


def _ends(bounds: BoundsByPartition) -> Offsets:
    return {number: end for number, (_, end) in bounds.items()}
