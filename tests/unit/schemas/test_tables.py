import pytest

from runtime.registry.sources import FAMILIES
from tally.algebra.level import Level
from tally.algebra.parts import Count, Histogram, KeyedSpans, KeyedSum, Max, Min, Part, Sum
from tally.families.family import Family
from tests.unit.schemas.cql import Table, table_of, tables

BY_FAMILY = pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
WINDOW_KEY = {"store_id": "text", "day": "date"}


@BY_FAMILY
def test_a_speed_table_has_the_columns_of_its_family(family: Family) -> None:
    table = tables()[family.speed_table]

    assert table.columns == {**WINDOW_KEY, **row_columns(family)}
    assert (table.partition_key, table.clustering_key) == (("store_id", "day"), family.row_key)


@BY_FAMILY
def test_a_batch_table_has_versions_by_generation_and_what_was_excluded(
    family: Family,
) -> None:
    table = tables()[family.batch_table]

    excluded = {f"excluded_{part.name}": type_of(part) for part in family.parts}
    assert table.columns == {
        **WINDOW_KEY,
        "generation": "bigint",
        **row_columns(family),
        **excluded,
    }
    assert (table.partition_key, table.clustering_key) == (
        ("store_id", "day"),
        (*family.row_key, "generation"),
    )


@BY_FAMILY
def test_view_tables_use_a_compaction_that_bears_logical_timestamps(family: Family) -> None:
    for name in (family.speed_table, family.batch_table):
        options = tables()[name].options
        assert options.endswith("compaction = {'class': 'UnifiedCompactionStrategy'}")
        assert options.startswith("CLUSTERING ORDER BY") == (name == family.batch_table)


def test_receipts_are_kept_by_day_and_store_newest_first() -> None:
    table = tables()["raw_pos_transaction_byday"]

    assert table.partition_key == ("year_day", "operation_id")
    assert table.clustering_key == (
        "happened_at",
        "vendor_fiscal_module",
        "transaction_id",
        "numbering_epoch",
        "event_id",
    )
    assert table.options.startswith("CLUSTERING ORDER BY (happened_at DESC,")
    assert table.columns["transactions"] == "frozen<list<text>>"


def test_all_pointers_of_a_family_lie_in_one_partition() -> None:
    pointer = tables()["batch_pointer"]

    assert (pointer.partition_key, pointer.clustering_key) == (("family",), ("day",))
    assert {name for name, kind in pointer.columns.items() if kind.endswith("static")} == {
        "last_token",
        "flip_token",
        "recorded_token",
    }


def test_no_table_holds_a_counter_or_a_collection_that_a_repeated_write_would_change() -> None:
    kinds = {kind for table in tables().values() for kind in table.columns.values()}

    assert [
        kind for kind in kinds if "counter" in kind or kind.startswith(("list", "set", "map"))
    ] == []


def test_every_key_column_is_a_column() -> None:
    for table in tables().values():
        assert {*table.partition_key, *table.clustering_key} <= set(table.columns), table.name


def test_a_statement_is_read_as_a_table() -> None:
    statement = """CREATE TABLE IF NOT EXISTS t (
            a text, "b" frozen<map<int, bigint>>, PRIMARY KEY ((a), b))
        WITH compaction = {'class': 'X'}"""

    assert table_of(statement) == Table(
        "t",
        {"a": "text", "b": "frozen<map<int, bigint>>"},
        ("a",),
        ("b",),
        "compaction = {'class': 'X'}",
    )


def type_of(part: Part) -> str:
    if isinstance(part, Histogram | KeyedSum | KeyedSpans | Level):
        return "frozen<list<frozen<tuple<bigint, bigint>>>>"
    return "bigint" if isinstance(part, Sum | Count | Min | Max) else "frozen<list<bigint>>"


def row_columns(family: Family) -> dict[str, str]:
    """Columns that a view row of either layer has, in order."""
    return {
        "window_start": "timestamp",
        **dict.fromkeys(family.axes, "text"),
        "dim": "text",
        "dim_value": "text",
        "events": "bigint",
        **{part.name: type_of(part) for part in family.parts},
        "epoch": "int",
    }
