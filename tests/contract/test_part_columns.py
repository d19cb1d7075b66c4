"""Spark's folds of the parts give the values of their Python, and so do both layers: the batch
layer folds in Spark, the speed layer in Python."""

import random
from collections import defaultdict
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tally.algebra.level import Level
from tally.algebra.parts import (
    MAX_PART,
    Count,
    Histogram,
    KeyedSpans,
    KeyedSum,
    Max,
    Min,
    Sum,
    Uniques,
)
from tally.families.epochs import RaisedEpoch
from tally.families.family import Family

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTS = (
    Sum("total"),
    Count("count"),
    Min("least"),
    Max("most"),
    Uniques("visitors"),
    Histogram("waits"),
    KeyedSum("seconds"),
    KeyedSpans("spans"),
    Level("pieces"),
)
FAMILY = Family("made", axes=("zone",), parts=PARTS, epoch=1)
WINDOWS = [datetime(2026, 11, 23, 10, tzinfo=UTC), datetime(1999, 12, 31, 23, 45, tzinfo=UTC)]


class Told(NamedTuple):
    """One record, with what it brings to each part."""

    event_id: str
    happened_at: datetime
    offset: int
    excluded: bool
    zone: str
    brought: tuple[int, ...]


def records(seed: int, count: int) -> list[Told]:
    """Records of two windows; a third of them come again, as they were or with other content."""
    draw, told = random.Random(seed), list[Told]()
    for offset in range(count):
        at = draw.choice(WINDOWS) + timedelta(milliseconds=draw.randrange(900_000) // 300 * 300)
        size = draw.choice([40, 10**6, MAX_PART])
        brought = tuple(
            draw.randint(-size if part.name != "visitors" else 0, size) for part in PARTS
        )
        event_id = f"event-{draw.randrange(count * 2 // 3)}"
        told.append(Told(event_id, at, offset, draw.random() < 0.1, draw.choice("ab"), brought))
    return told


def by_hand(told: list[Told]) -> dict[tuple[datetime, str], tuple[Any, ...]]:
    """Events, and by part the value and what was excluded of it, by window and zone."""
    first: dict[tuple[datetime, str], Told] = {}
    for one in told:
        first.setdefault((_window(one), one.event_id), one)
    events, rows = defaultdict[datetime, int](int), defaultdict[Any, list[Told]](list)
    for (window, _), one in first.items():
        events[window] += 1
        rows[window, one.zone].append(one)
    return {
        key: (
            events[key[0]],
            *(_value(place, some, excluded=False) for place in range(len(PARTS))),
            *(_value(place, some, excluded=True) for place in range(len(PARTS))),
        )
        for key, some in rows.items()
    }


def _window(one: Told) -> datetime:
    return next(start for start in WINDOWS if start <= one.happened_at < start + timedelta(hours=1))


def _value(place: int, some: list[Told], excluded: bool) -> Any:
    chosen = [one for one in some if one.excluded is excluded]
    return PARTS[place].fold(
        [_millis(one.happened_at) for one in chosen], [one.brought[place] for one in chosen]
    )


def _millis(instant: datetime) -> int:
    return round(instant.timestamp() * 1000)


def folded(
    spark: "SparkSession", told: list[Told], family: Family = FAMILY
) -> dict[tuple[datetime, str], tuple[Any, ...]]:
    """The rows of both transforms of tally/spark/frames.py."""
    from pyspark.sql import functions as F

    from tally.spark.frames import members_per_window, window_rows

    names = ", ".join(f"{part} bigint" for part in family.part_names)
    columns = "store_id string, event_id string, happened_at timestamp, offset bigint,"
    events = spark.createDataFrame(
        [("s", *one[:4], one.zone, *one.brought) for one in told],
        f"{columns} excluded boolean, zone string, {names}",
    )
    rows = window_rows(members_per_window(events, family), family)
    return {
        (datetime.fromtimestamp(row.start, UTC), row.zone): (
            row.events,
            *(_plain(row[name]) for name in (*family.part_names, *family.exclusion_columns)),
        )
        for row in rows.withColumn("start", F.unix_seconds("window_start")).collect()
    }


def _plain(value: Any) -> Any:
    return (
        [[*one] if isinstance(one, tuple) else one for one in value]
        if isinstance(value, list)
        else value
    )


def test_spark_folds_every_part_to_the_value_of_its_python(spark: "SparkSession") -> None:
    told = records(seed=7, count=400)

    found, expected = folded(spark, told), by_hand(told)

    assert found == expected
    print(f"{len(expected)} rows of {len(told)} records compared, {len(PARTS)} parts each")


def test_planted_wrong_fold_is_found(spark: "SparkSession", monkeypatch: Any) -> None:
    from tally.spark import part_columns

    monkeypatch.setitem(part_columns.FOLDS, Max, part_columns.FOLDS[Min])
    told = records(seed=8, count=60)

    # A family's columns are built once: of another name they are built now.
    assert folded(spark, told, replace(FAMILY, name="planted")) != by_hand(told)


def test_speed_layer_holds_what_the_batch_layer_folds(spark: "SparkSession") -> None:
    from speed_layer.state.partition_windows import Window
    from speed_layer.state.records import ID_TYPE, Records

    told = [one._replace(excluded=False) for one in records(seed=9, count=300)]
    found: dict[tuple[datetime, str], tuple[Any, ...]] = {}
    for start in WINDOWS:
        some = [one for one in told if _window(one) == start]
        window = Window()
        given = Records(
            np.zeros(len(some), np.int64),
            ["s"],
            np.array([_millis(one.happened_at) for one in some], np.int64),
            np.array([one.event_id.rjust(16).encode() for one in some], ID_TYPE),
            np.array(["ab".index(one.zone) for one in some], np.int64),
            [("a",), ("b",)],
            np.array([one.brought for one in some], np.int64),
            PARTS,
        )
        # In many small lots, as micro-batches cut them.
        for begin in range(0, len(some), 7):
            window.add(given, np.arange(begin, min(begin + 7, len(some))))
        found |= {
            (start, axes[0]): (window.events, *values) for axes, values in window.values.items()
        }

    assert found == {key: row[: len(PARTS) + 1] for key, row in folded(spark, told).items()}


def test_raised_days_bear_the_higher_epoch(spark: "SparkSession") -> None:
    from tally.spark.frames import members_per_window, window_rows

    raised = RaisedEpoch(date(1999, 12, 1), date(1999, 12, 31), 5)
    family = Family("made", ("zone",), (Sum("total"),), epoch=2, raised=(raised,))
    events = spark.createDataFrame(
        [("s", f"e{number}", at, number, "a", 1) for number, at in enumerate(WINDOWS)],
        "store_id string, event_id string, happened_at timestamp, offset bigint, zone string,"
        " total bigint",
    )

    rows = window_rows(members_per_window(events, family), family).collect()

    assert {row.day: row.epoch for row in rows} == {date(2026, 11, 23): 2, date(1999, 12, 31): 5}
