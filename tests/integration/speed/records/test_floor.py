"""A query that begins anew knows no old watermark: without a floor it would write windows of
which it sees only the tail."""

from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from runtime.registry.sources import SALES, TRAFFIC
from speed_layer.checkpoint_files import (
    StartPosition,
    load_start_position,
    resolve_start_position,
)
from speed_layer.floor import compute_floor, latest_below
from speed_layer.job import parse_starting_offsets
from speed_layer.session import Driver, StartOptions
from speed_layer.state.records import parse_reports
from speed_layer.views import QUERY
from tally.errors import TallyError
from tally.events.identity import partition_number
from tally.families.family import Family
from tests.integration.speed.query import NOON, WEEK, SpeedQuery

OLD = NOON - WEEK
OLD_END = OLD + timedelta(minutes=15)


def master_of(spark: SparkSession, *records: tuple[int, int, datetime]) -> DataFrame:
    """Master records: partition, offset, happened_at."""
    rows = [
        Row(source="sales", partition=partition, offset=offset, happened_at=at)
        for partition, offset, at in records
    ]
    return spark.createDataFrame(
        rows, "source string, partition int, offset bigint, happened_at timestamp"
    )


def old_query_and_one_begun_at_offset_3(query: SpeedQuery, second: SpeedQuery) -> list[int]:
    """The history of a store that flushes late receipts: old1@0, late2@1, x@2, late3@3, late4@4;
    below_floor of the second query.

    The first query ends with {old1, late2}: x has closed the window for the others. The second,
    which has not seen x, would end with {late3, late4}.
    """
    old = [
        query.sale(number, OLD, cents=cents)
        for number, cents in ((1, 1), (2, 1), (3, 450), (5, 450))
    ]
    query.batches([old[0]], [old[1], query.sale(4)], old[2:])
    return [sum(report.below_floor for report in parse_reports(second.run()))]


def offset_3(query: SpeedQuery) -> dict[int, int]:
    """The starting offsets of a query that begins there in the store's partition."""
    return {
        partition: 3 * (partition == partition_number(query.store, query.settings.partitions))
        for partition in range(4)
    }


def test_query_begun_anew_leaves_windows_below_its_floor_alone(
    query: SpeedQuery, elsewhere: Path
) -> None:
    floor = NOON + timedelta(minutes=15)

    below = old_query_and_one_begun_at_offset_3(
        query, query.anew(elsewhere, starting=offset_3(query), floor=floor)
    )

    assert (query.totals(), below) == ([(2, 2), (1, 100)], [2])


def test_negative_control_without_a_floor_two_unequal_sets_tie_and_the_row_is_wrong(
    query: SpeedQuery, elsewhere: Path
) -> None:
    old_query_and_one_begun_at_offset_3(
        query, query.anew(elsewhere, starting=offset_3(query), floor=None)
    )

    # 2 events, but of the other set: Cassandra keeps the larger value of each cell on a tie.
    assert query.totals() == [(2, 900), (1, 100)]


def test_latest_record_below_the_starting_offsets_is_found_in_all_partitions(
    speed_spark: SparkSession,
) -> None:
    master = master_of(speed_spark, (0, 0, OLD), (0, 1, OLD - WEEK), (0, 2, NOON), (1, 7, NOON))

    assert latest_below(master, {0: 2, 1: 7}) == OLD


def test_nothing_below_the_starting_offsets_is_found(speed_spark: SparkSession) -> None:
    assert latest_below(master_of(speed_spark, (0, 3, NOON)), {0: 3}) is None


def resolve_position(
    query: SpeedQuery, given: str, earliest: dict[int, int], *families: Family
) -> StartPosition:
    """The start position of the query of these families, of sales alone if none is named."""
    start_options = StartOptions(compute_floor, partial(parse_starting_offsets, given))
    driver, named = (
        Driver(query.spark, query.session, query.settings, start_options),
        families or (SALES,),
    )
    return resolve_start_position(
        driver, QUERY, named, {family.topic: earliest for family in named}
    )


def test_start_position_looks_the_floor_up_in_the_master_and_is_kept_with_the_checkpoint(
    query: SpeedQuery,
) -> None:
    # In one file, across the offset at which the query begins.
    master_of(query.spark, (0, 0, OLD), (0, 1, NOON)).coalesce(1).write.format("delta").partitionBy(
        "source"
    ).save(str(query.settings.master_path))
    query.session.execute(
        "INSERT INTO master_position (family, partition, until) VALUES ('sales', 0, 2)"
    )

    position = resolve_position(query, '{"sales": {"0": 1}}', dict.fromkeys(range(4), 0))

    assert (
        position
        == StartPosition({"sales": {0: 1, 1: 0, 2: 0, 3: 0}}, {"sales": OLD_END})
        == load_start_position(query.checkpoint)
    )


def test_past_that_the_master_does_not_hold_is_refused(query: SpeedQuery) -> None:
    with pytest.raises(
        TallyError, match=r"sales partition 3: .* offset 9 .* master dataset holds them up to 0"
    ):
        resolve_position(query, "{}", {0: 0, 1: 0, 2: 0, 3: 9})


def test_begun_query_keeps_its_floor_whatever_the_topic_holds_now(query: SpeedQuery) -> None:
    first = resolve_position(query, "{}", dict.fromkeys(range(4), 0))
    query.send(query.sale(1))
    query.run()

    assert resolve_position(query, '{"sales": {"0": 5}}', {0: 5, 1: 5, 2: 5, 3: 5}) == first
    assert first == StartPosition({"sales": dict.fromkeys(range(4), 0)}, {"sales": None})


def test_family_that_a_begun_query_has_not_had_begins_where_its_topic_does(
    query: SpeedQuery,
) -> None:
    first = resolve_position(query, "{}", dict.fromkeys(range(4), 0))
    query.send(query.sale(1))
    query.run()

    both = resolve_position(
        query, '{"traffic": {"0": 5}}', dict.fromkeys(range(4), 0), SALES, TRAFFIC
    )

    zeros = dict.fromkeys(range(4), 0)
    assert both == StartPosition(
        {**first.offsets, "traffic": zeros}, {"sales": None, "traffic": None}
    )
    assert load_start_position(query.checkpoint) == both
