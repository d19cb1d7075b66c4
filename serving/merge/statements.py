"""The CQL of every read; docs/reading-with-cql.md shows the same statements to people."""

from tally.families import Family

POINTER_COLUMNS = "day, generation, covered_until, flipped_at, pinned, through"
POINTERS = f"SELECT {POINTER_COLUMNS} FROM batch_pointer WHERE family = ? AND day >= ? AND day <= ?"
POINTER_HISTORY = f"SELECT {POINTER_COLUMNS} FROM batch_pointer_history WHERE family = ? AND day = ?"
MASTER_PROGRESS = "SELECT day, partition, until FROM master_progress WHERE family = ? AND day = ?"
SPEED_PROGRESS = "SELECT partition, until FROM speed_progress WHERE family = ?"
SPEED_LATE = "SELECT dropped FROM speed_late WHERE family = ? AND recorded_at > ?"
ACTIVE_STORES = "SELECT store_id, first_day, last_day FROM store_activity WHERE family = ?"
ACTIVE_STORE = "SELECT store_id FROM store_activity WHERE family = ? AND store_id = ?"
NODE = "SELECT release_version FROM system.local"
_WINDOWS = "AND window_start >= ? AND window_start < ?"


def speed_rows(family: Family, counter: bool = False) -> str:
    """Windows of one (store, day) of the speed layer; `counter`: of the tests' wrong sink, which has no epoch."""
    table = f"{family.speed_table}_counter" if counter else family.speed_table
    columns = _quoted(state_columns(family) if not counter else state_columns(family)[:-1])
    return f"SELECT {columns} FROM {table} WHERE store_id = ? AND day = ? {_WINDOWS}"


def batch_rows(family: Family) -> str:
    """Windows of one (store, day) of one generation."""
    columns = _quoted((*state_columns(family), *family.excluded_parts))
    return f"SELECT {columns} FROM {family.batch_table} WHERE store_id = ? AND day = ? AND generation = ? {_WINDOWS}"


def state_columns(family: Family) -> tuple[str, ...]:
    """Columns of a window's row in the order in which they are read; `epoch` last."""
    return ("window_start", *family.axes, "dim", "events", *family.parts, "epoch")


def _quoted(names: tuple[str, ...]) -> str:
    # `entries` is a reserved word of CQL.
    return ", ".join(f'"{name}"' for name in names)
