"""tally/spark/frames.py against the rule in plain Python, for histories that Hypothesis makes up;
many in each Spark job."""

from collections.abc import Sequence

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from runtime.registry.sources import SALES
from tally.spark.frames import members_per_window, window_rows
from tests.integration.speed.query import NOON
from tests.support.oracles.first_by_offset import Sale, Totals, window_totals

sales = st.builds(
    Sale,
    identity=st.integers(0, 3),
    currency=st.sampled_from(["EUR", "USD"]),
    cents=st.integers(0, 500),
)
histories = st.lists(st.lists(sales, min_size=1, max_size=8), min_size=30, max_size=60)
SCHEMA = (
    "store_id string, event_id string, happened_at timestamp, offset bigint, currency string,"
    f" {', '.join(f'{part} bigint' for part in SALES.part_names)}"
)
# Of the parts behind receipts and gross.
REST = (0,) * (len(SALES.parts) - 2)
slow = settings(
    max_examples=6,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def computed(
    spark: SparkSession, logs: Sequence[Sequence[Sale]], excluded: bool = False
) -> list[tuple[int, Totals]]:
    """What the transforms make of each log, given in reverse order: (events, (receipts, cents)
    by currency)."""
    records = [
        (str(store), str(sale.identity), NOON, offset, sale.currency, 1, sale.cents, *REST)
        for store, log in enumerate(logs)
        for offset, sale in enumerate(log)
    ]
    events = spark.createDataFrame(records[::-1], SCHEMA)
    marked = events.selectExpr("*", "true AS excluded") if excluded else events
    found: list[tuple[int, Totals]] = [(0, {}) for _ in logs]
    prefix = "excluded_" if excluded else ""
    for row in window_rows(members_per_window(marked, SALES), SALES).collect():
        totals = found[int(row.store_id)][1] | {
            row.currency: (row[f"{prefix}receipts"], row[f"{prefix}gross_minor"])
        }
        found[int(row.store_id)] = (row.events, totals)
    return found


@slow
@given(logs=histories)
def test_rows_are_the_totals_of_the_first_copies_by_offset(
    speed_spark: SparkSession, logs: list[list[Sale]]
) -> None:
    assert computed(speed_spark, logs) == [window_totals(log) for log in logs]


@slow
@given(logs=histories)
def test_excluded_events_count_as_events_and_fill_only_the_excluded_columns(
    speed_spark: SparkSession, logs: list[list[Sale]]
) -> None:
    assert computed(speed_spark, logs, excluded=True) == [window_totals(log) for log in logs]
