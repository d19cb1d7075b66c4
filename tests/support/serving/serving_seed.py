"""A made-up chain of three stores for looking at the dashboard: `TALLY_HOME=… python -m
tests.support.serving.serving_seed`.

Nine weeks of sales around a change of clocks: rebuilt up to three days before the end, then speed
rows, one day of nothing.
"""

import random
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

from ops import provision
from runtime.connect import cassandra_session
from runtime.registry.sources import SALES
from serving.storage.tables import Activity, ViewRow
from tally.config.settings import Settings
from tally.families.generation import Generation
from tests.support.serving.serving_tables import insert_world
from tests.support.serving.serving_world import PARTITIONS, Stored, World

STORES = ("367", "406", "1024")
LAST = date(2017, 11, 12)
DAYS = [LAST - timedelta(days=back) for back in range(62, -1, -1)]
REBUILT, SILENT = DAYS[:-3], DAYS[-2]
GENERATION = 7
# Shoppers by hour of the day, from opening at 8 to closing at 21.
BUSY = {8: 2, 9: 4, 10: 6, 11: 8, 12: 9, 13: 7, 14: 5, 15: 6, 16: 8, 17: 11, 18: 12, 19: 8, 20: 4}


def world(seed: int = 1) -> World:
    """The chain's tables; the same for the same seed."""
    chance = random.Random(seed)  # shapes, not secrets
    made = World(
        rows=[
            row
            for store in STORES
            for day in DAYS
            if day != SILENT
            for row in _sales(chance, store, day)
        ]
    )
    made.pointers = [(SALES, _flip(day)) for day in REBUILT]
    made.speed = [(SALES, partition, 40_000) for partition in range(PARTITIONS)]
    made.activity = [(SALES, Activity(store, DAYS[0], LAST)) for store in STORES]
    return made


def _sales(chance: random.Random, store: str, day: date) -> Iterator[Stored]:
    weight = (0.5 + STORES.index(store)) * (
        1.6 if day.weekday() == 5 else 0.4 if day.weekday() == 6 else 1.0
    )
    generation = GENERATION if day in REBUILT else None
    for hour, shoppers in BUSY.items():
        for minute in (0, 15, 30, 45):
            receipts = max(0, round(chance.gauss(shoppers * weight / 4, 1)))
            start = datetime(day.year, day.month, day.day, hour, minute, tzinfo=UTC)
            gross = sum(chance.randrange(150, 6_500) for _ in range(receipts))
            parts = (receipts, gross, gross // 40, 0, receipts * chance.randrange(1_000, 9_000))
            row = ViewRow(
                start,
                ("USD",),
                SALES.epoch,
                receipts,
                parts,
                () if generation is None else (0,) * len(SALES.parts),
            )
            if receipts:
                yield Stored(SALES, store, row, generation)


def _flip(day: date) -> Generation:
    flipped = datetime.combine(
        REBUILT[-1] + timedelta(days=1), datetime.min.time(), UTC
    ) + timedelta(hours=2)
    everywhere, start = range(PARTITIONS), datetime.combine(day, datetime.min.time(), UTC)
    pinned, through = dict.fromkeys(everywhere, 39_000), dict.fromkeys(everywhere, flipped)
    return Generation(
        day, GENERATION, 1, start, start + timedelta(days=1), 12, flipped, pinned, through
    )


def main() -> int:
    """Exit code 0 once the tables hold the chain."""
    settings = Settings.load()
    provision.create_tables(settings)
    with cassandra_session(settings) as session:
        insert_world(session, world())
    print(f"seeded {', '.join(STORES)} from {DAYS[0]} to {LAST} at {settings.cassandra}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
