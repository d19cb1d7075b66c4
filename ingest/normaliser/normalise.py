"""Raw record to canonical record or dead letter.

The function that the normaliser gives to the processor loop.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from ingest.normaliser.arrival import Arrival, Rules
from ingest.normaliser.dead_letter import dead_letter
from ingest.normaliser.interval import normalised_interval
from ingest.normaliser.receipt import normalised_receipt
from ingest.normaliser.repeats import Repeats
from runtime.processor.record import Input, Output
from schemas import loader
from tally.errors import RejectedEvent
from tally.events import CanonicalInterval, CanonicalReceipt
from tally.instants import from_millis, parse_instant
from tally.partitions import partition_of

Conversion = Callable[[bytes | None, Arrival, Rules], CanonicalReceipt | CanonicalInterval]

# By canonical topic, which is also the view family.
CONVERSIONS: dict[str, Conversion] = {"sales": normalised_receipt, "traffic": normalised_interval}
# Numbers of unknown fields are written as they were read.
_ENCODER = msgspec.json.Encoder(decimal_format="number")


class _Stamp(msgspec.Struct):
    happened_at: str


_STAMP = msgspec.json.Decoder(_Stamp)


def raw_topics() -> dict[str, str]:
    """Raw topic to its canonical topic, from schemas/topics.yaml."""
    return {entry["raw"]: name for name, entry in loader.topics().items() if "raw" in entry}


@dataclass(frozen=True)
class Normaliser:
    """The normaliser's rules, its raw topics and the canonical topics' partition count."""

    rules: Rules
    partitions: int
    topics: dict[str, str]
    repeats: Repeats = field(default_factory=Repeats)

    def process(self, record: Input) -> Sequence[Output]:
        """The canonical record, keyed by the store and in its partition, or the dead letter."""
        arrival = Arrival(from_millis(record.timestamp_ms), record.partition, record.offset)
        family = self.topics[record.topic]
        try:
            event = CONVERSIONS[family](record.value, arrival, self.rules)
        except RejectedEvent as error:
            return (dead_letter(record, error, self.rules.digest_key),)
        if self.repeats.seen(event.fingerprint):
            event = msgspec.structs.replace(event, repeat=True)
        store = event.store_id
        return (
            Output(
                family, store.encode(), _ENCODER.encode(event), partition_of(store, self.partitions)
            ),
        )

    def forget(self) -> None:
        """No record counts as written: the processor begins again at the committed positions."""
        self.repeats.forget()

    def event_time(self, record: Input) -> float | None:
        """happened_at in seconds since 1970.

        None if it cannot be read or lies in the future, for that record becomes a dead letter.
        """
        try:
            stamp = _STAMP.decode(record.value or b"")
            instant = parse_instant(stamp.happened_at, "/happened_at")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, RejectedEvent):
            return None
        if instant - from_millis(record.timestamp_ms) > self.rules.future_tolerance:
            return None
        return instant.timestamp()
