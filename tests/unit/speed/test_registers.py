import re
from datetime import UTC, datetime

import pytest

from runtime.registry.sources import FAMILIES
from schemas.loader import table_statements
from speed_layer.receipts import COLUMNS, TABLE
from speed_layer.state.sink import (
    LAST_EXPIRY,
    LONGEST_TTL_SECONDS,
    insert_statement,
    row_columns,
    seconds_to_live,
)
from tally.algebra.merge import register
from tally.config.settings import Settings
from tally.families.family import Family

DAY = 86_400
WINDOW_END = 900


def columns_of(table: str) -> set[str]:
    """Column names of a table as its file in schemas/views says."""
    statement = next(text for text in table_statements() if text.split("(")[0].split()[-1] == table)
    lines = statement.split("(", 1)[1].split("PRIMARY KEY")[0].split("\n")
    return {found[1] for line in lines if (found := re.match(r'\s*"?(\w+)"?\s+\w', line))}


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES.keys())
def test_insert_sets_every_column_of_the_speed_table(family: Family) -> None:
    assert set(row_columns(family)) == columns_of(family.speed_table)


def test_insert_of_receipts_sets_every_column() -> None:
    assert set(COLUMNS) == columns_of(TABLE)


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES.keys())
def test_insert_carries_its_own_timestamp_and_time_to_live(family: Family) -> None:
    assert insert_statement(family, "tally").endswith("USING TIMESTAMP ? AND TTL ?")


def test_register_orders_by_epoch_then_by_events() -> None:
    ascending = [(1, 0), (1, 1), (1, 2**40 - 1), (2, 0), (2, 7)]

    assert sorted(ascending, key=lambda pair: register(*pair)) == ascending


NOW = datetime.now(UTC)
AGES = [
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(2000, 2, 29, 23, 45, tzinfo=UTC),
    datetime(2017, 9, 19, 12, tzinfo=UTC),
    NOW,
]


def millis(instant: datetime) -> int:
    """Milliseconds since 1970, on the minute."""
    return int(instant.timestamp()) // 60 * 60_000


@pytest.mark.parametrize("window", AGES, ids=lambda instant: str(instant.year))
@pytest.mark.parametrize("days", [1, Settings().speed_retention_days, 7300])
def test_row_of_any_age_written_now_lives_as_long_as_cassandra_can_store(
    window: datetime, days: int
) -> None:
    now = NOW.timestamp()
    lives = seconds_to_live(millis(window), days, now)

    assert 0 < lives <= LONGEST_TTL_SECONDS and now + lives <= LAST_EXPIRY < 2**31 - 2
    assert lives >= days * DAY - 60 or now + lives > LAST_EXPIRY - 60


def test_row_of_an_open_window_lives_from_the_windows_end() -> None:
    assert seconds_to_live(0, retention_days=1, now_seconds=WINDOW_END - 10) == DAY + 10


def test_row_of_a_closed_window_lives_from_its_writing() -> None:
    assert seconds_to_live(0, retention_days=1, now_seconds=WINDOW_END + 400 * DAY) == DAY


@pytest.mark.parametrize(
    "now",
    [
        datetime(2036, 12, 31, tzinfo=UTC),
        datetime(2037, 12, 31, tzinfo=UTC),
        datetime(2038, 1, 18, tzinfo=UTC),
    ],
)
def test_near_the_last_expiry_that_cassandra_stores_rows_end_there(now: datetime) -> None:
    assert (
        now.timestamp()
        + seconds_to_live(millis(now), retention_days=400, now_seconds=now.timestamp())
        == LAST_EXPIRY
    )


@pytest.mark.parametrize(
    "now", [datetime(2038, 1, 19, tzinfo=UTC), datetime(2050, 1, 1, tzinfo=UTC)]
)
def test_beyond_it_rows_are_written_without_an_end(now: datetime) -> None:
    assert seconds_to_live(millis(now), retention_days=400, now_seconds=now.timestamp()) == 0


def test_time_to_live_never_exceeds_what_cassandra_takes() -> None:
    assert (
        seconds_to_live(4_000_000_000_000, retention_days=7300, now_seconds=0)
        == LONGEST_TTL_SECONDS
    )
