"""The CQL of the reads by family; docs/reading-with-cql.md shows the same reads by hand."""

from collections.abc import Iterator
from datetime import UTC, date, datetime

from runtime.records.gaps import SELECT_GAPS
from runtime.registry.sources import FAMILIES
from tally.families.family import Family
from tally.families.generation import GENERATION_COLUMNS, RANGE_COLUMNS

CURRENT_GENERATIONS = (
    f"SELECT {GENERATION_COLUMNS} FROM batch_pointer WHERE family = ? AND day >= ? AND day <= ?"
)
NEWEST = "SELECT generation FROM batch_pointer WHERE family = ? AND day >= ? AND day <= ?"
# The maps of a pointer are long and every generation has a row here, so an answer of now reads only
# which generation covered what.
COVERINGS = f"SELECT {RANGE_COLUMNS} FROM batch_pointer_history WHERE family = ? AND day IN ?"
HISTORY = f"SELECT {GENERATION_COLUMNS} FROM batch_pointer_history WHERE family = ? AND day IN ?"
MASTER_UNTIL = "SELECT day, partition, until FROM master_progress WHERE family = ? AND day IN ?"
MASTER_CURRENT = "SELECT current_at FROM master_current WHERE family = ?"
FINDINGS = (
    "SELECT day, till_id, records, conflicts, accepted"
    " FROM till_finding WHERE family = ? AND day IN ? AND store_id = ?"
)
ANSWERED_SPANS = (
    "SELECT day, generation, since, until FROM answered_span"
    " WHERE store_id = ? AND family = ? AND day IN ?"
)
GAPS = f"{SELECT_GAPS} WHERE topic IN ?"
SPEED_UNTIL = "SELECT partition, until FROM speed_progress WHERE family = ?"
LATE_RECORDS = "SELECT dropped FROM speed_late WHERE family = ? AND recorded_at > ? LIMIT ?"
ACTIVITY = "SELECT store_id, first_day, last_day FROM store_activity WHERE family = ?"
STORE_ACTIVITY = "SELECT first_day, last_day FROM store_activity WHERE family = ? AND store_id = ?"
# The filter is within a partition, and the limit applies after it: of 10,000 values 1,001 took 8
# ms, and all of them 135 (measured). A span whose first or last day has not arrived is no match.
AXIS_VALUES = (
    "SELECT store_id, value FROM store_axis"
    " WHERE family = ? AND axis = ? AND store_id IN ? AND first_day <= ? AND last_day >= ?"
    " PER PARTITION LIMIT ? ALLOW FILTERING"
)
ALERTS_RAISED = "SELECT message FROM alerts_byday WHERE store_id IN ? AND day = ?"
ALERTS_OPEN = "SELECT message FROM alerts_open WHERE store_id IN ?"
ALERT_LIFE = "SELECT message FROM alert_life WHERE alert_id = ?"
BASELINE = (
    "SELECT first_day, made_at, days FROM baseline_snapshot"
    " WHERE series = 'nightly' AND first_day <= ? LIMIT 1"
)

# A partition is a UTC day of one store. The asked span is read and not the whole day, for the days
# of a store begin at its own midnight.
_FROM_DAY = "FROM raw_pos_transaction_byday WHERE year_day = ? AND operation_id = ?"
_HEAD = "event_id, source_offset, happened_at"
RECEIPT_HEADS = f"SELECT {_HEAD} {_FROM_DAY} AND happened_at >= ? AND happened_at < ? LIMIT ?"
RECEIPT_VOIDS = f"SELECT {_HEAD} {_FROM_DAY} AND kind = 'void' LIMIT ? ALLOW FILTERING"
RECEIPTS = (
    f"SELECT event_id, source_offset, kind, currency, transactions {_FROM_DAY}"
    " AND happened_at >= ? AND happened_at <= ?"
)


def speed_statement(family: Family) -> str:
    """The speed rows of one store on some days: key, events, parts, then epoch."""
    return (
        f"SELECT {_columns(family)}, epoch"
        f" FROM {family.speed_table} WHERE store_id = ? AND day IN ?"
    )


def batch_statement(family: Family) -> str:
    """The batch rows of one store and generation on some days.

    Their columns are key, events, parts, epoch, then excluded parts.
    """
    excluded = ", ".join(family.exclusion_columns)
    return (
        f"SELECT {_columns(family)}, epoch, {excluded}"
        f" FROM {family.batch_table} WHERE store_id = ? AND day IN ? AND generation = ?"
    )


def span_statement(family: Family) -> str:
    """As batch_statement, for the windows that begin between two instants."""
    return f"{batch_statement(family)} AND window_start >= ? AND window_start < ?"


def probe_queries() -> Iterator[tuple[str, tuple[object, ...]]]:
    """A read of each table that answers come from, with values that no row of it has.

    The pointers are not among them, for they are read SERIAL.
    """
    absent, day = "-", date(1970, 1, 1)
    yield COVERINGS, (absent, [day])
    yield MASTER_UNTIL, (absent, [day])
    yield MASTER_CURRENT, (absent,)
    yield FINDINGS, (absent, [day], absent)
    yield ANSWERED_SPANS, (absent, absent, [day])
    yield GAPS, ([absent],)
    yield SPEED_UNTIL, (absent,)
    yield LATE_RECORDS, (absent, datetime.now(UTC), 1)
    yield STORE_ACTIVITY, (absent, absent)
    yield AXIS_VALUES, (absent, absent, [absent], day, day, 1)
    yield RECEIPT_VOIDS, (absent, absent, 1)
    yield ALERTS_RAISED, ([absent], day)
    yield ALERTS_OPEN, ([absent],)
    yield ALERT_LIFE, (absent,)
    yield BASELINE, (day,)
    for family in FAMILIES.values():
        yield speed_statement(family), (absent, [day])
        yield batch_statement(family), (absent, [day], 0)


def _columns(family: Family) -> str:
    # Quoted, for `entries` is a reserved word of CQL.
    return ", ".join(f'"{name}"' for name in (*family.row_key, "events", *family.part_names))
