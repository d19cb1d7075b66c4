"""A shelf in the real tables: counted, sold from and filled while a rule evaluates it."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, time, timedelta

import msgspec
from cassandra.cluster import Session

from runtime.registry.sources import FAMILIES, SALES
from serving.storage.tables import Activity, ViewRow
from tally.alerts.tick import SpeedEpoch, Tick
from tally.config.settings import Settings
from tally.events.identity import partition_number
from tally.families.family import Family
from tally.families.generation import Generation
from tally.time.instants import format_utc, from_millis
from tally.time.windows import WINDOW_MILLIS
from tests.support.clients.producers import connected_producer
from tests.support.questions.stock_world import receipt, sales_rows, shelf
from tests.support.serving.serving_tables import insert_world
from tests.support.serving.serving_world import PARTITIONS, Stored, World

INVENTORY = FAMILIES["inventory"]
BOTH = (INVENTORY, SALES)
LATER = timedelta(days=1)


@dataclass
class Shelves:
    """The articles of a store by quarter hours, of which the first is `first` (ms since 1970)."""

    settings: Settings
    session: Session
    first: int
    store: str = "367"
    rows: list[Stored] = field(default_factory=list)
    told: int = 0
    flips: int = 0

    def __post_init__(self) -> None:
        day_before = from_millis(self.first).date() - 2 * LATER
        active = [(one, Activity(self.store, day_before, day_before)) for one in BOTH]
        insert_world(self.session, World(activity=active))

    def text(self, number: int) -> str:
        """When a quarter hour begins, UTC."""
        start = from_millis(self.first + number * WINDOW_MILLIS)
        return start.replace(tzinfo=None).isoformat()

    def write(self, number: int, article: str, *events: tuple[int, int]) -> None:
        """A document, by second of its quarter hour what it says, as the speed layer has it."""
        row = shelf(self.text(number), article, *events, store=self.store, generation=None)
        self._come(INVENTORY, number, World(rows=[row]))

    def sell(self, number: int, **sold: int) -> None:
        """A receipt, as the speed layer and the stored receipts have it."""
        made = receipt(self.text(number), 1000 + number, self.store, **sold)
        rows = sales_rows([made], generation=None)
        self._come(SALES, number, World(rows=rows, receipts=[made]))

    def rebuild(self, until: int) -> None:
        """A generation of both families serves all of it before that quarter hour."""
        self.flips += 1
        rows = [replace(one, row=_of_generation(one), generation=self.flips) for one in self.rows]
        pointers = [(family, one) for family in BOTH for one in self._generations(until, family)]
        insert_world(self.session, World(rows=rows, pointers=pointers))

    def tick(self, now: int) -> None:
        """It is that quarter hour, and all that had come before it was read."""
        self.told += 1
        reached = self.first + now * WINDOW_MILLIS
        tick = Tick(
            n=self.told,
            at=reached + 1000,
            through={one.name: reached for one in BOTH},
            epoch={one.name: SpeedEpoch(one.epoch) for one in BOTH},
            flips={one.name: self.flips for one in BOTH},
            rules_until=1,
        )
        producer = connected_producer(self.settings)
        for number in range(PARTITIONS):
            producer.produce("ticks", tick.value, str(number), number)
        assert producer.flush(30) == 0

    def _come(self, family: Family, number: int, world: World) -> None:
        # A rebuild has every row that the speed layer has had.
        self.rows += world.rows
        insert_world(self.session, world)
        update = {
            "family": family.name,
            "store_id": self.store,
            "window_start": format_utc(from_millis(self.first + number * WINDOW_MILLIS)),
        }
        producer = connected_producer(self.settings)
        place = partition_number(self.store, PARTITIONS)
        producer.produce("view-updates", msgspec.json.encode(update), self.store, place)
        assert producer.flush(30) == 0

    def _generations(self, until: int, family: Family) -> Iterator[Generation]:
        end = from_millis(self.first + until * WINDOW_MILLIS)
        # A count may lie on the day before.
        day = from_millis(self.first).date() - LATER
        pinned = dict.fromkeys(range(PARTITIONS), 0)
        while (start := datetime.combine(day, time(), UTC)) < end:
            through = dict.fromkeys(pinned, end)
            covered = min(end, start + LATER)
            yield Generation(
                *(day, self.flips, family.epoch, start, covered),
                *(self.flips, end, pinned, through),
            )
            day += LATER


def _of_generation(stored: Stored) -> ViewRow:
    return stored.row._replace(excluded=tuple(part.zero for part in stored.family.parts))
