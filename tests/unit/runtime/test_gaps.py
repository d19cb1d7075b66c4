"""Accepted gaps: the one reader of their table, and what is shown of them."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

from cassandra.cluster import Session

from runtime.records.gaps import AcceptedGap, read_gaps
from tally.time.instants import format_utc

# The driver returns instants without a zone, in UTC.
FIRST, LAST, NOTED = (datetime(2026, 3, 2, hour) for hour in (8, 9, 10))
ROWS: list[tuple[Any, ...]] = [
    ("sales", 1, 5, 9, FIRST, LAST, NOTED, "the disk"),
    ("posTransactionTopic", 0, 7, 8, FIRST, LAST, NOTED, "deleted"),
    ("sales", 0, 5, 9, FIRST, LAST, None, None),
]
SESSION = cast(Session, SimpleNamespace(execute=lambda _statement: ROWS))


def test_gaps_are_read_in_order_with_instants_in_utc() -> None:
    found = read_gaps(SESSION)

    assert [(gap.topic, gap.partition) for gap in found] == [
        ("posTransactionTopic", 0),
        ("sales", 0),
        ("sales", 1),
    ]
    assert {gap.first_arrival for gap in found} == {FIRST.replace(tzinfo=UTC)}
    assert [gap.is_raw for gap in found] == [True, False, False]


def test_gaps_of_other_topics_are_left_out() -> None:
    assert [gap.topic for gap in read_gaps(SESSION, ["sales"])] == ["sales", "sales"]
    assert read_gaps(SESSION, []) == []


def test_shown_gap_has_its_instants_as_text_and_not_when_it_was_noted() -> None:
    first, last, noted = (at.replace(tzinfo=UTC) for at in (FIRST, LAST, NOTED))

    assert AcceptedGap("sales", 1, 5, 9, first, last, noted, "the disk").to_fields(format_utc) == {
        "topic": "sales",
        "partition": 1,
        "from_offset": 5,
        "until_offset": 9,
        "first_arrival": "2026-03-02T08:00:00.000Z",
        "last_arrival": "2026-03-02T09:00:00.000Z",
        "reason": "the disk",
    }
