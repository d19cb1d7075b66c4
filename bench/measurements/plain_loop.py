"""A peer without Spark: `python -m bench.measurements.plain_loop` counts sales in one plain
process.

The process is Python and crash-safe. It uses confluent-kafka and cassandra-driver, with its state
in Cassandra: a typical first design. It counts what the speed layer counts for one family, with the
same rows, batches and register, and commits its offsets after all writes are acknowledged; after a
restart it reads the events of a window from Cassandra. It has no floor, no check of lost records,
no announcements and no lateness: the events of a window are kept for ever. One process reads all
partitions.
"""

import sys
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from hashlib import sha256
from threading import Event

import msgspec
from cassandra.cluster import Session
from cassandra.concurrent import execute_concurrent_with_args
from cassandra.query import BoundStatement
from confluent_kafka import Consumer, Message, TopicPartition

from runtime.cassandra.writes import binder, prepare_idempotent, write_groups
from runtime.connect import CQL_DATE_ZERO, cassandra_session, kafka_consumer
from runtime.process.job import run_until_stopped, signal_ready
from runtime.registry.sources import SALES
from speed_layer.state.sink import insert_statement, seconds_to_live
from tally.algebra.merge import register
from tally.config.settings import Settings
from tally.families.family import TOTAL_DIM, TOTAL_DIM_VALUE
from tally.time.windows import WINDOW_MILLIS

GROUP, AT_ONCE, WAIT_SECONDS = "plain-loop", 10_000, 0.2
DAY = 86_400_000
_STATE = (
    "CREATE TABLE IF NOT EXISTS plain_state (store_id text, start bigint, ids blob, sums blob,"
    " PRIMARY KEY (store_id, start))"
)
LoopKey = tuple[str, int]


class Sale(msgspec.Struct):
    """The fields of a canonical receipt that are counted."""

    store_id: str
    event_id: str
    happened_at: str
    currency: str
    receipts: int
    gross_minor: int
    discounts_minor: int
    returns_minor: int
    voids_minor: int
    units_milli: int
    returned_receipts: int
    non_sales_minor: int
    rounding_minor: int = 0


class LoopWindow:
    """The events of a window, and the sums of its parts by currency."""

    def __init__(self, ids: bytes = b"", sums: bytes = b"") -> None:
        places = range(0, len(ids), 16)
        self.ids = {ids[place : place + 16] for place in places}
        self.sums: dict[str, list[int]] = {}
        if sums:
            self.sums = msgspec.msgpack.decode(sums)

    def add(self, sale: Sale) -> bool:
        """Add the sale; returns whether it was new to the window."""
        identity = sha256(sale.event_id.encode()).digest()[:16]
        if identity in self.ids:
            return False
        self.ids.add(identity)
        sums = self.sums.setdefault(sale.currency, [0] * len(SALES.parts))
        for place, part in enumerate(SALES.part_names):
            sums[place] += getattr(sale, part)
        return True


class PlainLoop:
    """The loop that reads, counts, writes and commits."""

    def __init__(self, settings: Settings, session: Session) -> None:
        session.execute(_STATE)
        self._settings, self._session = settings, session
        self._consumer: Consumer = kafka_consumer(settings, GROUP, {"enable.partition.eof": True})
        self._consumer.assign(
            [TopicPartition(SALES.topic, number) for number in range(settings.partitions)]
        )
        self._decoder = msgspec.json.Decoder(Sale)
        self._windows: dict[LoopKey, LoopWindow] = {}
        self._insert = binder(
            prepare_idempotent(session, insert_statement(SALES, settings.keyspace))
        )
        self._store_state = binder(
            prepare_idempotent(
                session,
                "INSERT INTO plain_state (store_id, start, ids, sums)"
                # The write time is the number of events, as in the rows: the newer state wins.
                " VALUES (?, ?, ?, ?) USING TIMESTAMP ?",
            )
        )
        self._find = prepare_idempotent(
            session, "SELECT ids, sums FROM plain_state WHERE store_id = ? AND start = ?"
        )
        self._store_progress = prepare_idempotent(
            session,
            "INSERT INTO speed_progress (family, partition, until)"
            " VALUES ('sales', ?, ?) USING TIMESTAMP ?",
        )

    def run_once(self) -> None:
        """Count the new records, write them, and commit after all writes are acknowledged."""
        found = self._consumer.consume(AT_ONCE, WAIT_SECONDS)
        if not found:
            return
        # First the rows, then the state, then the offsets: after a kill in between, the loop reads
        # records again that the state already has.
        changed = self._count([message for message in found if message.error() is None])
        write_groups(self._session, self._rows(changed))
        write_groups(self._session, self._states(changed))
        reached = {message.partition() or 0: _next_offset(message) for message in found}
        places = [TopicPartition(SALES.topic, number, until) for number, until in reached.items()]
        self._consumer.commit(offsets=places, asynchronous=False)
        write_groups(
            self._session,
            (
                [
                    self._store_progress.bind((place.partition, place.offset, place.offset)),
                ]
                for place in places
            ),
        )

    def _count(self, messages: Sequence[Message]) -> set[LoopKey]:
        sales = [self._decoder.decode(message.value() or b"") for message in messages]
        keys = [(sale.store_id, _start(sale)) for sale in sales]
        self._load({key for key in keys if key not in self._windows})
        sold = zip(keys, sales, strict=True)
        return {key for key, sale in sold if self._windows[key].add(sale)}

    def _load(self, keys: set[LoopKey]) -> None:
        ordered = sorted(keys)
        for key, (_, found) in zip(
            ordered, execute_concurrent_with_args(self._session, self._find, ordered), strict=True
        ):
            row = found.one()
            self._windows[key] = LoopWindow(row.ids, row.sums) if row else LoopWindow()

    def _rows(self, changed: set[LoopKey]) -> Iterator[list[BoundStatement]]:
        now = time.time()
        for store, start in sorted(changed):
            window = self._windows[store, start]
            events, ttl = (
                len(window.ids),
                seconds_to_live(start, self._settings.speed_retention_days, now),
            )
            day = start // DAY + CQL_DATE_ZERO
            rows = [
                (currency, TOTAL_DIM, TOTAL_DIM_VALUE, events, *sums, SALES.epoch)
                for currency, sums in window.sums.items()
            ]
            yield [
                self._insert(
                    (store, day, start, *row, register(SALES.epoch, events), ttl),
                )
                for row in rows
            ]

    def _states(self, changed: set[LoopKey]) -> Iterator[list[BoundStatement]]:
        for store, start in sorted(changed):
            window = self._windows[store, start]
            state = b"".join(window.ids), msgspec.msgpack.encode(window.sums)
            yield [self._store_state((store, start, *state, len(window.ids)))]


def _next_offset(message: Message) -> int:
    # The end of a partition lies after the marker of its last transaction, which is no message.
    return (message.offset() or 0) + (message.error() is None)


def _start(sale: Sale) -> int:
    at = int(datetime.fromisoformat(sale.happened_at).timestamp() * 1000)
    return at - at % WINDOW_MILLIS


def main() -> int:
    """Run the loop; returns 0 after SIGTERM."""

    def work(stopped: Event) -> None:
        settings = Settings.load()
        with cassandra_session(settings) as session:
            loop = PlainLoop(settings, session)
            signal_ready(settings)
            while not stopped.is_set():
                loop.run_once()

    return run_until_stopped("plain loop", work)


if __name__ == "__main__":
    sys.exit(main())
