"""What DuckDB makes of a master dataset, unreadable rows, odd years and repeated coordinates
among it."""

import json
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from ops.audit.against_master import compare_values
from ops.audit.master import Fates, Master, OffsetSpan
from runtime.registry.sources import SALES, TRAFFIC
from tally.algebra.level import Level
from tally.algebra.merge import Axes, Parts
from tally.algebra.parts import (
    MAX_PART,
    Count,
    Histogram,
    KeyedSpans,
    KeyedSum,
    Max,
    Min,
    Part,
    Sum,
    Uniques,
)
from tally.config.settings import Settings
from tally.events.identity import digest_text, sensor_key
from tally.families.family import Family
from tests.support.sources.canonical import Canonical, interval, receipt

MONDAY = datetime(2017, 3, 6, 10, tzinfo=UTC)
MONDAY_MILLIS = 1_488_794_400_000
TODAY = datetime.now(UTC).replace(hour=10, minute=1, second=0, microsecond=0)
YEAR_1 = datetime(1, 1, 1, 12, tzinfo=UTC)
Row = dict[str, object]


def row(
    offset: int, record: Canonical | None, value: str | None = None, source: str = "sales"
) -> Row:
    happened_at = datetime.fromisoformat(record.happened_at) if record else None
    return {
        "source": source,
        "event_date": (happened_at or MONDAY).date(),
        "store_id": record.store_id if record else None,
        "event_id": record.event_id if record else None,
        "happened_at": happened_at,
        "fingerprint": record.fingerprint if record else None,
        "partition": 0,
        "offset": offset,
        "value": msgspec.json.encode(record).decode() if record else value,
    }


FIRST = receipt("1", 1, MONDAY, 100)
ROWS = [
    row(0, FIRST),
    row(1, FIRST),
    row(2, receipt("1", 1, MONDAY, 111)),
    row(2, receipt("1", 1, MONDAY, 111)),
    row(3, receipt("1", 2, MONDAY, 50, "EUR")),
    row(4, receipt("1", 3, TODAY, 7)),
    row(5, receipt("1", 4, YEAR_1, 1)),
    row(6, None, None),
    row(7, None, "{no json"),
    row(8, None, "[" * 2000),
    row(9, receipt("1", 1, TODAY, 100)),
    row(0, interval("1", "door", MONDAY, 3), source="traffic"),
]


def opened(home: Path, rows: list[Row]) -> Master:
    schema = pa.schema(
        {
            **dict.fromkeys(
                ("source", "store_id", "event_id", "fingerprint", "value"), pa.string()
            ),
            "event_date": pa.date32(),
            "happened_at": pa.timestamp("us", "UTC"),
            "partition": pa.int32(),
            "offset": pa.int64(),
        }.items()
    )
    settings = Settings(home=home)
    write_deltalake(
        str(settings.master_path),
        pa.Table.from_pylist(rows, schema=schema),
        partition_by=["source", "event_date"],
    )
    return Master(settings)


@pytest.fixture
def master(tmp_path: Path) -> Master:
    return opened(tmp_path, ROWS)


def test_dataset_that_nothing_has_reached_yet_has_no_records(tmp_path: Path) -> None:
    empty = opened(tmp_path, [])

    assert (
        empty.fates("sales", {0: OffsetSpan(0, 9, 9)}),
        empty.rows("sales", {0: OffsetSpan(0, 9, 9)}),
    ) == (
        {},
        {},
    )
    assert (
        empty.count_canonical_by_raw("sales", {0: OffsetSpan(0, 9, 9)}),
        empty.window_events("sales"),
        empty.window_values(SALES),
    ) == ({}, {}, {})


@pytest.mark.parametrize("home", ["a home", "größe", "it's", "50+ & #1?", "*"])
def test_home_may_have_any_name(tmp_path: Path, home: str) -> None:
    assert opened(tmp_path / home, ROWS).rows("sales", {0: OffsetSpan(0, 10, 10)}) == {0: 11}


def test_each_record_within_the_span_has_one_fate(master: Master) -> None:
    assert master.fates("sales", {0: OffsetSpan(0, 10, 10)}) == {
        0: Fates(counted=4, duplicate=1, conflict=2, unreadable=3)
    }
    assert master.fates("sales", {0: OffsetSpan(1, 3, 2)}) == {
        0: Fates(counted=0, duplicate=1, conflict=1, unreadable=0)
    }
    assert master.rows("sales", {0: OffsetSpan(0, 10, 10)}) == {0: 11}


def test_canonical_records_are_told_by_the_offsets_of_their_raw_ones(master: Master) -> None:
    assert master.count_canonical_by_raw("sales", {0: OffsetSpan(0, 1, 1)}) == {0: (1, 7)}
    assert master.count_canonical_by_raw("sales", {0: OffsetSpan(1, 9, 1)}) == {}


def test_values_are_those_of_the_first_copies_by_axes(master: Master) -> None:
    def cents(window: tuple[str, datetime]) -> dict[tuple[str, ...], int]:
        return {axes: parts["gross_minor"] for axes, parts in found[window].items()}

    found = master.window_values(SALES)

    assert cents(("1", MONDAY)) == {("USD",): 100, ("EUR",): 50}
    assert cents(("1", YEAR_1)) == {("USD",): 1} and cents(("1", TODAY.replace(minute=0))) == {
        ("USD",): 7
    }
    assert master.window_events("sales")["1", TODAY.replace(minute=0)] == 2
    three = {
        "entries": 3,
        **dict.fromkeys(("exits", "passers_by", "entries_with_passers"), 0),
        "groups_in": 3,
        "observed_seconds": [[sensor_key(int(digest_text("door"), 16)), 60]],
        **dict.fromkeys(("closed_entries", "inner_entries", "shared_entries"), 0),
        **dict.fromkeys(("staff_entries", "continued", "continues"), 0),
    }
    assert master.window_values(TRAFFIC) == {("1", MONDAY): {(): three}}


def test_values_of_a_family_of_its_own_are_read_by_its_axes_and_parts(tmp_path: Path) -> None:
    family = Family("queues", axes=("queue",), parts=(Sum("waited_seconds"),), epoch=1)
    named = {"event_id": "q:1", "store_id": "1", "fingerprint": "f", "happened_at": MONDAY}
    value = '{"queue": "till 4", "waited_seconds": 90, "people": 2}'
    record = {**row(0, None, value, source="queues"), **named}

    found = opened(tmp_path, [record]).window_values(family)

    assert found == {("1", MONDAY): {("till 4",): {"waited_seconds": 90}}}


EVERY = (
    Sum("waited_seconds"),
    Count("waits"),
    Min("shortest"),
    Max("longest"),
    Uniques("persons"),
    Histogram("lengths"),
    KeyedSum("seconds"),
    KeyedSpans("spans"),
    Level("pieces"),
)
# Each side of a bucket's border, what counts as zero, and the most that a record may hold.
BORDERS = (0, 31, 32, 33, 63, 64, 65, 66, 127, 128, 1023, 1024, 10**12 - 1, MAX_PART, -1, -40)


def brought(numbers: Sequence[int], start: datetime = MONDAY, first: int = 0) -> list[Row]:
    """Records that bring these numbers to every part, one of each second copy ahead of it."""
    rows = []
    for place, number in enumerate(numbers):
        event = f"q:{start.isoformat()}:{place}"
        named = {"event_id": event, "store_id": "1", "fingerprint": event, "happened_at": start}
        value = json.dumps({"queue": "tills", **{part.name: number for part in EVERY}})
        other = json.dumps({"queue": "tills", **{part.name: 7 for part in EVERY}})
        rows += [
            {**row(first + 2 * place, None, value, source="queues"), **named},
            {**row(first + 2 * place + 1, None, other, source="queues"), **named},
        ]
    return rows


def valued(home: Path, rows: list[Row], parts: tuple[Part, ...] = EVERY) -> dict[str, Parts]:
    """The parts of the one axes value, by the text of the window's start."""
    family = Family("queues", axes=("queue",), parts=parts, epoch=1)
    found = opened(home, rows).window_values(family)
    return {start.isoformat(): values[("tills",)] for (_, start), values in found.items()}


@pytest.mark.parametrize("numbers", [BORDERS, (5,), (3, 3, 3), tuple(range(70, 30, -1))])
def test_each_part_is_what_its_kind_makes_of_the_first_copies(
    tmp_path: Path, numbers: Sequence[int]
) -> None:
    [found] = valued(tmp_path, brought(numbers)).values()

    at = [MONDAY_MILLIS] * len(numbers)
    assert found == {part.name: part.fold(at, numbers) for part in EVERY}


def test_parts_of_two_windows_are_apart(tmp_path: Path) -> None:
    later = MONDAY + timedelta(minutes=15)

    found = valued(tmp_path, [*brought((5, 9)), *brought((40,), later, first=100)])

    assert found[MONDAY.isoformat()]["persons"] == [5, 9]
    at = [MONDAY_MILLIS + 900_000]
    assert found[later.isoformat()] == {part.name: part.fold(at, [40]) for part in EVERY}


def test_of_more_different_ones_than_are_kept_the_smallest_are_kept(tmp_path: Path) -> None:
    numbers = [37 * place % 4099 for place in range(Uniques.SKETCH_SIZE + 100)]

    [found] = valued(tmp_path, brought(numbers)).values()

    assert found["persons"] == sorted(numbers)[: Uniques.SKETCH_SIZE]


def test_a_sum_beyond_the_bound_of_the_pipeline_is_told_as_it_is(tmp_path: Path) -> None:
    rows = brought([2**62, 2**62, 2**62])

    [found] = valued(tmp_path, rows, (Sum("waited_seconds"),)).values()

    assert found == {"waited_seconds": 3 * 2**62}


def test_values_of_lists_are_compared_whatever_the_driver_makes_their_pairs_of() -> None:
    family = Family("queues", axes=(), parts=EVERY[3:], epoch=1)
    parts: Parts = {"longest": 0, "persons": [1, 2], "lengths": [[5, 2], [64, 1]]}
    equal: Parts = {**parts, "lengths": [(5, 2), (64, 1)]}
    other: Parts = {"persons": [1, 3], "lengths": [(5, 2), (64, 2)]}
    expected: dict[tuple[str, datetime], dict[Axes, Parts]] = {("1", MONDAY): {(): parts}}

    assert compare_values(family, expected, {("1", MONDAY): {(): equal}}).ok

    found = compare_values(family, expected, {("1", MONDAY): {(): other}}).differences
    assert [(one.metric, one.expected, one.got) for one in found] == [
        ("longest", 0, None),
        ("persons", [1, 2], [1, 3]),
        ("lengths", [[5, 2], [64, 1]], [[5, 2], [64, 2]]),
    ]


def test_a_part_that_a_side_lacks_is_the_zero_of_its_kind_there() -> None:
    family = Family("queues", axes=(), parts=EVERY, epoch=1)
    zeros = {part.name: part.zero for part in EVERY}

    assert compare_values(family, {("1", MONDAY): {(): zeros}}, {("1", MONDAY): {}}).ok


def test_pins_leave_out_what_a_generation_does_not_include(master: Master) -> None:
    pins = {(MONDAY.date(), 0): 3, (date(2017, 3, 7), 0): 9}

    assert master.window_events("sales", pins) == {("1", MONDAY): 1}
    assert {
        axes: parts["gross_minor"]
        for axes, parts in master.window_values(SALES, pins)["1", MONDAY].items()
    } == {("USD",): 100}
    assert master.window_events("sales", {}) == {}


def test_one_part_too_much_in_one_currency_is_a_difference(master: Master) -> None:
    expected = master.window_values(SALES)
    served = {
        **expected,
        ("1", MONDAY): {
            **expected["1", MONDAY],
            ("EUR",): {**expected["1", MONDAY]["EUR",], "gross_minor": 51},
        },
    }

    found = compare_values(SALES, expected, served)

    assert compare_values(SALES, expected, expected).ok
    assert found.totals["gross_minor"] == 51 + sum(
        parts["gross_minor"]
        for key, values in expected.items()
        for axes, parts in values.items()
        if (key, axes) != (("1", MONDAY), ("EUR",))
    )
    assert [(one.metric, one.expected, one.got) for one in found.differences] == [
        ("gross_minor EUR", 50, 51)
    ]
