"""What the brokers are told of each topic, by its kind: partitions, and how long they keep what."""

from tally.settings import Settings

HOUR_MILLISECONDS = 3_600_000
CHRONICLE = "chronicle"
# Who reads alerts may be away so long: behind it a subscriber is told of a gap.
ALERTS_HOURS = 30 * 24
# Dead letters: longer than anybody is away who could mend what they name, and no more than a disk
# can spare, however many somebody sends.
LETTERS_HOURS = 90 * 24
LETTERS_BYTES = 2**30
_LEAST_SEGMENT = 60_000
# Above the largest body the gateway takes: what is too large for Tally becomes a dead letter, not
# an error of the sender's.
MAX_MESSAGE_BYTES = 6_291_456
# Above it, or a file would have no room for a batch.
_LEAST_SEGMENT_BYTES = 8 * 2**20


def partition_count(kind: str, settings: Settings) -> int:
    """How many partitions a topic of this kind has."""
    # What holds is the first record of all: between two partitions there is no first.
    return 1 if kind == CHRONICLE else settings.partitions


def topic_configuration(kind: str, settings: Settings) -> dict[str, str]:
    """Broker configuration, by name, of a topic by its kind.

    Of a compacted topic the last record of each key stays, of a chronicle and of a durable topic
    every record; canonical ones keep some hours, the clock's one; letters as long, and as many, as
    the constants above say.
    """
    # Raw topics have none: their records are deleted by who has read them, never by the clock
    # alone.
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
        # One copy may be away: were all needed, each restart of a broker would stop every producer.
        "min.insync.replicas": str(max(1, settings.replication - 1)),
    }
    # The time of arrival is the broker's: a till's clock must not decide what is in the future.
    if kind not in ("durable", "letters"):
        configuration["message.timestamp.type"] = "LogAppendTime"
    if kind == "letters":
        configuration |= _letters_room(settings)
    if kind == "raw":
        configuration["segment.ms"] = str(_raw_segment(settings))
    if kind == "compacted":
        # Nothing of the file that is written to is ever compacted.
        configuration |= {"cleanup.policy": "compact", "segment.ms": str(HOUR_MILLISECONDS)}
    return configuration


def _letters_room(settings: Settings) -> dict[str, str]:
    """Bytes that each partition of the letters keeps, all of them together at most LETTERS_BYTES.

    Only whole files are deleted, and never the one that is written to: two of them are beyond what
    is kept. Of very many partitions the least file alone is more.
    """
    share = LETTERS_BYTES // settings.partitions
    segment = max(_LEAST_SEGMENT_BYTES, share // 16)
    return {
        "segment.bytes": str(segment),
        "retention.bytes": str(max(segment, share - 2 * segment)),
    }


def _raw_segment(settings: Settings) -> int:
    """Milliseconds after which a raw topic begins a new file.

    Only whole files leave the disk, and they hold people's data.
    """
    return max(_LEAST_SEGMENT, min(HOUR_MILLISECONDS, settings.raw_retention_seconds * 1000))
