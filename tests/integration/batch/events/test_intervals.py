"""Intervals of counters in a rebuild: of any length, on any grid, sent twice, out of order and
corrected, the rows are those of the last versions, and each interval's shares add up to it."""

import random
from collections import Counter
from datetime import datetime, timedelta
from typing import TypeAlias

from msgspec.structs import replace
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from batch_layer.views.compute.classification import classify_records, window_members
from ingest.sources.traffic.contract import CanonicalInterval, shares
from runtime.registry.sources import TRAFFIC
from tally.algebra.parts import KeyedSpans
from tally.events.identity import fingerprint, version_id
from tally.spark.frames import window_rows
from tally.time.instants import parse_instant
from tally.time.windows import window_start
from tests.integration.batch.test_fates import MASTER, MONDAY, at, master_row, millis
from tests.support.sources.canonical import interval

COUNTERS, INTERVALS = 12, 40
# Seconds: those of common counters, and any others.
LENGTHS = (60, 300, 600, 900, 3600, 420, 1020, 2580)


def counted(chance: random.Random) -> list[list[CanonicalInterval]]:
    """Of each interval its versions, the one that counts last; a counter each store."""
    found = []
    for number in range(COUNTERS):
        seconds, begin = chance.choice(LENGTHS), chance.randrange(900)
        for place in range(INTERVALS):
            start = at(MONDAY, 6) + timedelta(seconds=begin + place * seconds)
            count = chance.choice([1, 1, 1, 2, 3])
            # A corrected one may be of another length.
            lengths = [seconds, chance.choice(LENGTHS), chance.choice(LENGTHS)]
            versions = [_version(number, start, lengths[one], one, chance) for one in range(count)]
            found.append(versions)
    return found


def _version(
    number: int, start: datetime, seconds: int, revision: int, chance: random.Random
) -> CanonicalInterval:
    persons = chance.randrange(40)
    plain = interval(f"s{number}", "door", start, persons)
    event_id = version_id(plain.event_id, revision)
    return replace(
        plain,
        event_id=event_id,
        fingerprint=fingerprint([event_id, seconds, persons]),
        interval_seconds=seconds,
        exits=chance.randrange(40),
    )


# Store, and the start of a window in milliseconds.
Key: TypeAlias = tuple[str, int]


def by_window(last: list[CanonicalInterval]) -> dict[Key, tuple[int, int]]:
    """Persons in and out of each store's windows."""
    entries, exits = Counter[Key](), Counter[Key]()
    for whole in last:
        for share in shares(whole):
            start = window_start(parse_instant(share.happened_at, ""))
            entries[share.store_id, millis(start)] += share.entries
            exits[share.store_id, millis(start)] += share.exits
    busy = (key for key in entries if entries[key] or exits[key])
    return {key: (entries[key], exits[key]) for key in busy}


def test_rows_are_those_of_the_last_versions_in_any_order(spark: SparkSession) -> None:
    chance = random.Random(46)
    versions = counted(chance)
    records = [share for each in versions for one in each for share in shares(one)]
    records += chance.sample(records, 60)
    chance.shuffle(records)
    master = spark.createDataFrame(
        [master_row(offset, one) for offset, one in enumerate(records)], MASTER
    )

    rows = window_rows(window_members(master, classify_records(master), TRAFFIC), TRAFFIC).select(
        "store_id", F.unix_millis("window_start").alias("start"), "entries", "exits"
    )
    found = {
        (row.store_id, row.start): (row.entries, row.exits)
        for row in rows.collect()
        if row.entries or row.exits
    }

    expected = by_window([each[-1] for each in versions])
    assert found == expected
    # A planted wrong one is found: the first version of an interval that has three.
    wrong = [each[0] if len(each) == 3 else each[-1] for each in versions]
    assert found != by_window(wrong)
    print(f"{len(expected)} windows of {len(versions)} intervals compared, 0 differ")


def test_another_length_is_a_conflict_in_every_quarter_hour(spark: SparkSession) -> None:
    start, chance = at(MONDAY, 10), random.Random(1)
    lengths = [900, 3600, 900]
    told = [_version(1, start, seconds, 0, chance) for seconds in lengths]
    told[2] = told[0]
    # The other way around: nothing of the shorter one counts.
    other = [_version(2, start, seconds, 0, chance) for seconds in (3600, 420)]
    records = [share for one in (*told, *other) for share in shares(one)]
    master = spark.createDataFrame(
        [master_row(offset, one) for offset, one in enumerate(records)], MASTER
    )

    fates = classify_records(master)
    rows = window_rows(window_members(master, fates, TRAFFIC), TRAFFIC)

    found = [row.fate for row in fates.orderBy("offset").collect()]
    assert found == ["counted", *["conflict"] * 4, "duplicate", *["counted"] * 4, "conflict"]
    by_store = rows.groupBy("store_id").agg(F.sum("entries").alias("entries"))
    sums = {row.store_id: row.entries for row in by_store.collect()}
    assert sums == {"s1": told[0].entries, "s2": other[0].entries}


def test_seconds_that_are_told_twice_are_one(spark: SparkSession) -> None:
    start = at(MONDAY, 10)
    told = [
        interval("1", "door", start, 3),
        # A heartbeat over the same minute and the four after it.
        replace(
            interval("1", "door", start, 0),
            event_id="traffic-heartbeat:1:door:x",
            interval_seconds=300,
            observed_seconds=interval("1", "door", start, 0).observed_seconds + 240,
        ),
    ]
    master = spark.createDataFrame(
        [master_row(offset, one) for offset, one in enumerate(told)], MASTER
    )

    rows = window_rows(window_members(master, classify_records(master), TRAFFIC), TRAFFIC)
    (value,) = [row.observed_seconds for row in rows.select("observed_seconds").collect()]

    assert [*KeyedSpans.seconds_by_key(value).values()] == [300]
