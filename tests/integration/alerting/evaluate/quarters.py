"""Some quarter hours of some stores, as the speed layer and then a rebuild have them: put into the
real tables and told by ticks, and what a reader of rules would expect of them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from functools import cached_property
from typing import NamedTuple

import msgspec
from cassandra.cluster import Session
from confluent_kafka import Producer

from alerting.rules.rule import Rule, Threshold
from runtime.registry.sources import SALES
from serving.storage.tables import Activity
from tally.alerts.message import Alert
from tally.alerts.tick import SpeedEpoch, Tick
from tally.config.settings import Settings
from tally.events.identity import partition_number
from tally.families.generation import Generation
from tally.time.instants import format_utc, from_millis, parse_instant, to_millis
from tally.time.windows import WINDOW_MILLIS
from tests.support.clients.producers import connected_producer
from tests.support.serving.serving_tables import insert_world
from tests.support.serving.serving_world import PARTITIONS, World, sale

HIGH, LOW = 5, 2
BUSY = Rule(
    rule_id="busy",
    metric="transactions",
    condition=Threshold(">=", Decimal(HIGH)),
    clear=Threshold("<=", Decimal(LOW)),
    delay=0,
)
SILENT = Rule(rule_id="silent", kind="silence", family="sales", on_silence="raise", delay=0)
RULES = (BUSY, SILENT)
LATER = timedelta(days=1)
# So many events every row of a rebuild has had: more than any speed row.
MANY = 100


class Expected(NamedTuple):
    """An alert by what it is of, the window by its number."""

    rule_id: str
    store_id: str
    edge: str
    window: int


@dataclass
class Quarters:
    """Receipts by store and quarter hour from `first` (ms since 1970) on; 0: not one record."""

    settings: Settings
    session: Session
    first: int
    speed: dict[str, Sequence[int]]
    batch: dict[str, Sequence[int]]
    told: int = 0
    rules: int = len(RULES)
    flips: int = field(default=0, init=False)
    # By store and quarter hour, as the generations before have it.
    served: dict[tuple[str, int], int] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        day_before = from_millis(self.first).date() - 2 * LATER
        active = [(SALES, Activity(one, day_before, day_before)) for one in self.speed]
        insert_world(self.session, World(activity=active))

    @cached_property
    def producer(self) -> Producer:
        """One for all: each takes half a second before it sends."""
        return connected_producer(self.settings)

    @property
    def count(self) -> int:
        """How many quarter hours there are."""
        return max(map(len, self.speed.values()))

    def window(self, number: int) -> int:
        """Start of a quarter hour in ms since 1970."""
        return self.first + number * WINDOW_MILLIS

    def sell(self, number: int, *, with_hints: bool = True) -> None:
        """The speed layer has counted the quarter hour, and says so or does not."""
        rows = []
        for store, counts in self.speed.items():
            if counts[number]:
                rows.append(sale(store, self._text(number), counts[number], 100))
            update = {
                "family": "sales",
                "store_id": store,
                "window_start": format_utc(from_millis(self.window(number))),
            }
            if with_hints:
                place = partition_number(store, PARTITIONS)
                self.producer.produce("view-updates", msgspec.json.encode(update), store, place)
        insert_world(self.session, World(rows=rows))
        assert self.producer.flush(30) == 0

    def rebuild(self, until: int | None = None) -> None:
        """A generation serves all of them, or those before one."""
        self.flips += 1
        covered = self.count if until is None else until
        end = from_millis(self.window(covered))
        rows = [
            sale(store, self._text(number), MANY, 100, receipts=count, generation=self.flips)
            for store, counts in self.batch.items()
            for number, count in enumerate(counts[:covered])
            if count
        ]
        pointers = [(SALES, one) for one in self._generations(end)]
        insert_world(self.session, World(rows=rows, pointers=pointers))
        self._restate(covered)

    def tick(self, now: int, through: int | None = None) -> None:
        """All partitions are told that it is that quarter hour, and how far was read."""
        self.told += 1
        reached = self.window(now if through is None else through)
        tick = Tick(
            n=self.told,
            at=self.window(now) + 1000,
            through={"sales": reached},
            epoch={"sales": SpeedEpoch(SALES.epoch)},
            flips={"sales": self.flips},
            rules_until=self.rules,
        )
        for number in range(PARTITIONS):
            self.producer.produce("ticks", tick.value, str(number), number)
        assert self.producer.flush(30) == 0

    def provisional(self) -> dict[Expected, str]:
        """By alert its state before any rebuild."""
        alerts = (one for store in self.speed for one in _alerts(store, self.speed[store]))
        return dict.fromkeys(alerts, "provisional")

    def settled(self) -> dict[Expected, str]:
        """By alert its last state, of those that were told before the rebuild and of its own."""
        settled = (
            one for store in self.batch for one in _alerts(store, self.batch[store], settled=True)
        )
        return dict.fromkeys(self.provisional(), "retracted") | dict.fromkeys(settled, "confirmed")

    def _restate(self, covered: int) -> None:
        """Notices of what the generation changed: a rebuild keeps them until they are sent."""
        served = {
            (store, number): count
            for store, counts in self.batch.items()
            for number, count in enumerate(counts[:covered])
        }
        for (store, number), before in self.served.items():
            if served.get((store, number), before) != before:
                start = format_utc(from_millis(self.window(number)))
                told = {"family": "sales", "store_id": store, "window_start": start}
                place = partition_number(store, PARTITIONS)
                self.producer.produce("restatements", msgspec.json.encode(told), store, place)
        self.served |= served
        assert self.producer.flush(30) == 0

    def _text(self, number: int) -> str:
        return from_millis(self.window(number)).replace(tzinfo=None).isoformat()

    def _generations(self, end: datetime) -> Iterator[Generation]:
        day = from_millis(self.first).date()
        while (start := datetime.combine(day, time(), UTC)) < end:
            until = min(end, start + LATER)
            pinned = dict.fromkeys(range(PARTITIONS), 0)
            through = dict.fromkeys(pinned, end)
            yield Generation(
                day, self.flips, SALES.epoch, start, until, self.flips, end, pinned, through
            )
            day += LATER


def _alerts(store: str, counts: Sequence[int], *, settled: bool = False) -> Iterator[Expected]:
    """Raises and clears of both rules, by the words of docs/alerts.md and by no shared code."""
    is_busy = is_silent = False
    for number, count in enumerate(counts):
        # Without a record nobody knows yet that nothing was sold, but for who waits for silence.
        if count >= HIGH and not is_busy:
            yield Expected("busy", store, "raise", number)
        if is_busy and count <= LOW and (count or settled):
            yield Expected("busy", store, "clear", number)
        if is_silent != (count == 0):
            yield Expected("silent", store, "clear" if count else "raise", number)
        is_busy = count >= HIGH or (is_busy and not (count <= LOW and (count or settled)))
        is_silent = count == 0


def last_states(night: Quarters, alerts: Iterable[Alert]) -> dict[Expected, str]:
    """By alert the state of its last message; the messages are in their order."""
    found: dict[Expected, str] = {}
    for one in alerts:
        start = to_millis(parse_instant(one.window.start, "start"))
        number = (start - night.first) // WINDOW_MILLIS
        found[Expected(one.rule_id, one.store_id, one.edge, number)] = one.state
    return found
