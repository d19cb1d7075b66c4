"""Turns a raw record into canonical records or a dead letter, as a step of the processor."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from ingest.installation.arrival import Arrival, Rules
from ingest.sources.registry import Conversion, EventSplitter, conversions, event_splitters
from runtime.processor.step import Input, Output, Step
from runtime.records.dead_letter import TOPIC, Cause, UncountedRecord, encode_letter
from tally.errors import BadInstant, RejectedEvent
from tally.events.identity import partition_number
from tally.time.instants import format_utc, from_millis, parse_instant

MAX_FINGERPRINTS = 100_000


class RecentFingerprints:
    """The latest `most` fingerprints; to be forgotten when a transaction is aborted."""

    def __init__(self, most: int = MAX_FINGERPRINTS) -> None:
        self._most = most
        self._latest: dict[str, None] = {}

    def check_and_add(self, fingerprint: str) -> bool:
        """Whether the fingerprint (of identity and content) is known; it becomes the latest."""
        known = fingerprint in self._latest
        if known:
            # A message that is sent repeatedly stays known, however many others come between.
            del self._latest[fingerprint]
        elif len(self._latest) >= self._most:
            del self._latest[next(iter(self._latest))]
        self._latest[fingerprint] = None
        return known

    def forget(self) -> None:
        """Forget all fingerprints, because their records may never be committed."""
        self._latest.clear()


# Decimals of unknown fields are written as numbers, with the digits that were read.
_ENCODER = msgspec.json.Encoder(decimal_format="number")


class _Stamp(msgspec.Struct):
    happened_at: str


_STAMP = msgspec.json.Decoder(_Stamp)


@dataclass(frozen=True)
class Normaliser(Step):
    """Normalises into topics of so many `partitions`; `topics` has each raw topic's source."""

    rules: Rules
    partitions: int
    topics: Mapping[str, str]
    recent_fingerprints: RecentFingerprints = field(default_factory=RecentFingerprints)
    conversions: Mapping[str, Conversion] = field(default_factory=conversions)
    splitters: Mapping[str, EventSplitter] = field(default_factory=event_splitters)

    def process(self, record: Input) -> Sequence[Output]:
        """A record for each window of the event, in its store's partition, or the dead letter."""
        arrival = Arrival(from_millis(record.timestamp_ms), record.partition, record.offset)
        family = self.topics[record.topic]
        try:
            event = self.conversions[family](record.value, arrival, self.rules)
        except RejectedEvent as error:
            return (dead_letter(record, error, self.rules.digest_key),)
        # A duplicate is marked and not dropped: each raw record needs a canonical one, or the
        # ledger would not add up.
        if self.recent_fingerprints.check_and_add(event.fingerprint):
            event = msgspec.structs.replace(event, repeat=True)
        split = self.splitters.get(family)
        key = event.store_id.encode()
        partition = partition_number(event.store_id, self.partitions)
        return [
            Output(family, key, _ENCODER.encode(part), partition)
            for part in (split(event) if split else (event,))
        ]

    def restore(self, _state: Iterable[Input]) -> None:
        """Forget all fingerprints: they only save work for readers, and are not stored."""
        self.recent_fingerprints.forget()

    def event_time(self, record: Input) -> float | None:
        """happened_at in seconds since 1970; None if it is unreadable, or lies in the future."""
        try:
            stamp = _STAMP.decode(record.value or b"")
            instant = parse_instant(stamp.happened_at, "/happened_at")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, BadInstant):
            return None
        # Compared with the record's own arrival, never with the current time: a replay must order
        # records alike.
        if instant - from_millis(record.timestamp_ms) > self.rules.future_tolerance:
            return None
        return instant.timestamp()


def dead_letter(record: Input, error: RejectedEvent, digest_key: bytes) -> Output:
    """The dead letter of the message, with the error's reason."""
    before = dict(record.headers)
    attempts = before.get("attempts", b"")
    cause = Cause(
        error.reason,
        error.message,
        field=error.field,
        # The headers of a replayed dead letter say which attempt it is, and when the first was.
        attempts=int(attempts) + 1 if attempts.isdigit() and len(attempts) < 10 else 1,
        first_seen=_first_seen(before.get("first_seen"), record),
    )
    place = record.topic, record.partition, record.offset
    message = UncountedRecord(*place, record.key, record.value or b"")
    letter = encode_letter(message, cause, digest_key)
    return Output(TOPIC, letter.key, letter.value, headers=letter.headers)


def _first_seen(before: bytes | None, record: Input) -> str:
    try:
        # Any program may set this header, so only a valid instant is taken from it.
        text = (before or b"")[:40].decode("ascii", "replace")
        return format_utc(parse_instant(text, "first_seen"))
    except BadInstant:
        return format_utc(from_millis(record.timestamp_ms))
