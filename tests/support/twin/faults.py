"""What goes wrong on the way from a twin store: outages of its line, and devices whose clocks are
wrong."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import NamedTuple

from ingest.senders.twin.people import make_random
from ingest.senders.twin.sensors import SensorMessage
from ingest.senders.twin.stream import SentMessage
from tally.time.instants import format_utc, parse_instant


class Outage(NamedTuple):
    """No message gets through between the instants (seconds since 1970); then all come at once."""

    begin: float
    end: float


def hold_up(found: Sequence[SentMessage], outage: Outage, seed: int) -> list[SentMessage]:
    """The messages of a store as they arrive when its line has an outage, ordered by time."""
    held_up = [*_delay(found, outage, seed)]
    return sorted(held_up, key=lambda sent: (sent.send_at, sent.message.identity))


def _delay(found: Sequence[SentMessage], outage: Outage, seed: int) -> Iterator[SentMessage]:
    times = Counter(sent.message.identity for sent in found)
    for sent in found:
        if not outage.begin <= sent.send_at < outage.end:
            yield sent
            continue
        chance = make_random(seed, sent.message.identity, sent.send_at, "outage")
        at = outage.end + chance.uniform(0, 60)
        yield sent._replace(send_at=at)
        # A message that waited is sent once more: the device does not know how much has arrived.
        if times[sent.message.identity] == 1:
            yield sent._replace(send_at=at + chance.uniform(0, 300))


def with_clock(message: SensorMessage, fast: timedelta) -> SensorMessage:
    """The message of a device whose clock is ahead by `fast`; a negative value is behind."""
    fields = json.loads(message.body)
    shown = parse_instant(fields["happened_at"], "/happened_at") + fast
    fields["happened_at"] = format_utc(shown)
    return message._replace(identity=f"{message.identity}/{fast}", body=json.dumps(fields).encode())
