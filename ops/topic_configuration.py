"""The configuration of each topic by its kind: partitions and retention."""

from tally.config.settings import Settings

HOUR_MILLISECONDS = 3_600_000
CHRONICLE = "chronicle"
# A subscriber of alerts may be offline this long; after that it is informed of a gap.
ALERTS_HOURS = 30 * 24
# Dead letters stay longer than any absence of the person who could fix their cause; their size is
# limited to what a disk can spare, for any number of letters.
LETTERS_HOURS = 90 * 24
LETTERS_BYTES = 2**30
_MIN_SEGMENT = 60_000
# Above the largest body that the gateway takes: a record that is too large for Tally becomes a
# dead letter, not an error of the sender.
MAX_MESSAGE_BYTES = 6_291_456
# Above MAX_MESSAGE_BYTES, else a file would have no room for a batch.
_MIN_SEGMENT_BYTES = 8 * 2**20


def partition_count(kind: str, settings: Settings) -> int:
    """How many partitions a topic of this kind has."""
    # The first record of all applies, and records of two partitions have no order.
    return 1 if kind == CHRONICLE else settings.partitions


def topic_configuration(kind: str, settings: Settings) -> dict[str, str]:
    """The broker options of a topic of this kind, by name.

    A compacted topic keeps the last record of each key, a chronicle and a durable topic keep every
    record. Canonical topics keep some hours, the clock's topic one hour, and letters the time and
    the size of the constants above.
    """
    # Raw topics have no time limit: their reader deletes the records, never the clock alone.
    hours = {
        "canonical": settings.canonical_retention_hours,
        "alerts": ALERTS_HOURS,
        "letters": LETTERS_HOURS,
        "clock": 1,
    }.get(kind)
    configuration = {
        "retention.ms": str(-1 if hours is None else hours * HOUR_MILLISECONDS),
        "retention.bytes": "-1",
        "max.message.bytes": str(MAX_MESSAGE_BYTES),
        # One replica may be down: else each restart of a broker would stop all producers.
        "min.insync.replicas": str(max(1, settings.replication - 1)),
    }
    # The broker sets the arrival time: a till's clock must not decide what is in the future.
    if kind not in ("durable", "letters"):
        configuration["message.timestamp.type"] = "LogAppendTime"
    if kind == "letters":
        configuration |= _letters_retention(settings)
    if kind == "raw":
        configuration["segment.ms"] = str(_raw_segment_milliseconds(settings))
    if kind == "compacted":
        # Kafka never compacts the active segment.
        configuration |= {"cleanup.policy": "compact", "segment.ms": str(HOUR_MILLISECONDS)}
    return configuration


def _letters_retention(settings: Settings) -> dict[str, str]:
    """The size limits of the letters' partitions: together at most LETTERS_BYTES.

    Kafka deletes only whole segments, and never the active one, so up to two segments exist beyond
    the retained bytes. With very many partitions the smallest segments alone exceed the limit.
    """
    share = LETTERS_BYTES // settings.partitions
    segment = max(_MIN_SEGMENT_BYTES, share // 16)
    return {
        "segment.bytes": str(segment),
        "retention.bytes": str(max(segment, share - 2 * segment)),
    }


def _raw_segment_milliseconds(settings: Settings) -> int:
    """Milliseconds after which a raw topic starts a new segment.

    Kafka deletes only whole segments, and they hold personal data.
    """
    return max(_MIN_SEGMENT, min(HOUR_MILLISECONDS, settings.raw_retention_seconds * 1000))
