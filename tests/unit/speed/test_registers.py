import re

import pytest

from schemas.loader import table_statements
from speed_layer.receipts import COLUMNS, TABLE
from speed_layer.sink.rows import LONGEST_TTL_SECONDS, insert_statement, register, row_columns, seconds_to_live
from tally.families import FAMILIES, Family

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


def test_row_lives_from_its_windows_end_for_the_retention() -> None:
    assert seconds_to_live(0, retention_days=1, now_seconds=WINDOW_END + 10) == DAY - 10


def test_row_older_than_the_retention_has_no_time_to_live() -> None:
    assert seconds_to_live(0, retention_days=1, now_seconds=WINDOW_END + DAY) == 0


def test_time_to_live_never_exceeds_what_cassandra_takes() -> None:
    assert seconds_to_live(4_000_000_000_000, retention_days=7300, now_seconds=0) == LONGEST_TTL_SECONDS
