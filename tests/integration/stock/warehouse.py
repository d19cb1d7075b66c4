"""Topics of a test's own for stock, what is sent there and what comes of it, by plain loops."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple
from uuid import uuid4

from confluent_kafka.admin import NewTopic

from ingest.installation.arrival import Arrival, Rules
from ingest.sources.inventory.contract import normalise as normalised_line
from ingest.sources.sales.contract import normalise as normalised_receipt
from inventory.movements.movement import StockMovement, decode_movement
from inventory.movements.step import MOVEMENTS, SEEN
from inventory.sync.engine import CALLS, TICKS
from ops.provision import topic_configuration
from runtime.connect import kafka_admin
from runtime.kafka.reader import read_to_end
from tally.config.settings import Settings
from tests.support.sources.canonical import Canonical, send
from tests.support.sources.purchases import Lane, SentPurchase

RECEIPTS, DOCUMENTS = "sales", "inventory"
# Later than everything that is sent.
ARRIVED = datetime(2026, 12, 24, tzinfo=UTC)


class HeardMovements(NamedTuple):
    """What a reader has of the movements."""

    movements: list[StockMovement]

    def partial(self) -> list[str]:
        """Events of which it has some movements, and not each of them once."""
        groups: dict[str, list[int]] = defaultdict(list)
        of = {}
        for one in self.movements:
            groups[one.receipt].append(one.index)
            of[one.receipt] = one.of
        return [
            receipt
            for receipt, indices in groups.items()
            if sorted(indices) != [*range(1, of[receipt] + 1)]
        ]

    def twice(self) -> int:
        """How many movements it has more than once."""
        return sum(times > 1 for times in Counter(m.movement_id for m in self.movements).values())

    def levels(self) -> dict[Lane, int]:
        """Thousandths of each article in the end."""
        told: dict[Lane, list[StockMovement]] = defaultdict(list)
        for one in self.movements:
            told[one.store_id, one.item_id].append(one)
        found = {}
        for lane, mine in told.items():
            level = 0
            for one in sorted(mine, key=lambda one: (one.happened_at, one.delta_milli is not None)):
                level = level + one.delta_milli if one.delta_milli is not None else _counted(one)
            found[lane] = level
        return found


def _counted(one: StockMovement) -> int:
    assert one.counted_milli is not None
    return one.counted_milli


@dataclass
class Warehouse:
    """The topics of one test, whose names begin with `prefix`."""

    settings: Settings
    prefix: str

    def send(self, sent: Sequence[SentPurchase]) -> None:
        """Messages as the normaliser writes them, documents first."""
        documents = (one for one in sent if one.is_document)
        receipts = (one for one in sent if not one.is_document)
        send(self.settings, self.prefix + DOCUMENTS, map(self._normalised, documents))
        send(self.settings, self.prefix + RECEIPTS, map(self._normalised, receipts))

    def heard(self, isolation: str = "read_committed") -> HeardMovements:
        """What a reader has who begins at the first movement and reads to the end."""
        options = {"isolation.level": isolation}
        messages = read_to_end(self.settings, [self.prefix + MOVEMENTS], options)
        return HeardMovements([decode_movement(bytes(one.value() or b"")) for one in messages])

    def kept(self, topic: str) -> dict[bytes, bytes]:
        """The newest value of each key of a topic; deleted ones are left out."""
        found: dict[bytes, bytes] = {}
        for message in read_to_end(self.settings, [self.prefix + topic]):
            found[bytes(message.key() or b"")] = bytes(message.value() or b"")
        return {key: value for key, value in found.items() if value}

    def _normalised(self, one: SentPurchase) -> Canonical:
        arrival, rules = Arrival(ARRIVED, 0, 0), Rules.from_settings(self.settings)
        if one.is_document:
            return normalised_line(one.body, arrival, rules)
        return normalised_receipt(one.body, arrival, rules)


@contextmanager
def new_warehouse(settings: Settings) -> Iterator[Warehouse]:
    """A warehouse with new topics, gone after the block."""
    prefix = f"test-{uuid4().hex}-"
    kinds = {
        **dict.fromkeys((RECEIPTS, DOCUMENTS, MOVEMENTS), "canonical"),
        **dict.fromkeys((SEEN, CALLS, TICKS), "compacted"),
    }
    admin = kafka_admin(settings)
    asked = [
        NewTopic(prefix + name, settings.partitions, 1, config=topic_configuration(kind, settings))
        for name, kind in kinds.items()
    ]
    for made in admin.create_topics(asked).values():
        made.result(30)
    yield Warehouse(settings, prefix)
    for gone in admin.delete_topics([prefix + name for name in kinds]).values():
        gone.result(30)
