"""The CQL of the reads, by family; docs/reading-with-cql.md shows the same by hand."""

from tally.families import Family
from tally.settings import Settings

POINTER_COLUMNS = "day, generation, epoch, table_version, covered_until, flipped_at, pinned, through"
PUBLISHED = f"SELECT {POINTER_COLUMNS} FROM batch_pointer WHERE family = ? AND day >= ? AND day <= ?"
HISTORY = f"SELECT {POINTER_COLUMNS} FROM batch_pointer_history WHERE family = ? AND day IN ?"
MASTER_UNTIL = "SELECT day, partition, until FROM master_progress WHERE family = ? AND day IN ?"
SPEED_UNTIL = "SELECT partition, until FROM speed_progress WHERE family = ?"
LATE = "SELECT SUM(dropped) FROM speed_late WHERE family = ? AND recorded_at > ?"
ACTIVITY = "SELECT store_id, first_day, last_day FROM store_activity WHERE family = ?"


def speed_statement(family: Family, settings: Settings) -> str:
    """Speed rows of one store on some days: key, events, parts, then epoch."""
    # Negative control of the tests: the counter table has no epoch, all its rows are of the family's.
    if settings.sink_register == "counter":
        return f"SELECT {_columns(family)} FROM {family.speed_table}_counter WHERE store_id = ? AND day IN ?"
    return f"SELECT {_columns(family)}, epoch FROM {family.speed_table} WHERE store_id = ? AND day IN ?"


def batch_statement(family: Family) -> str:
    """Batch rows of one store and generation on some days: key, events, parts, epoch, then excluded parts."""
    excluded = ", ".join(family.excluded_parts)
    return f"SELECT {_columns(family)}, epoch, {excluded} FROM {family.batch_table} WHERE store_id = ? AND day IN ? AND generation = ?"


def _columns(family: Family) -> str:
    # Quoted: `entries` is a reserved word of CQL.
    return ", ".join(f'"{name}"' for name in (*family.row_key, "events", *family.parts))
