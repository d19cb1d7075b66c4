"""What a rebuild notes beside the rows, in registers that every run may write again.

Stores' days, currencies, tills, the ledger.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cassandra.cluster import Session
from cassandra.concurrent import execute_concurrent_with_args

from batch_layer.views.check import Checked
from runtime.connect import CQL_DATE_ZERO
from tally.families import Family


def note_days(session: Session, family: Family, checked: Checked) -> None:
    """First and last day of each store, and of each of its currencies.

    Two registers by day number (the earlier first day and the later last day win).
    """
    _note(
        session,
        "store_activity",
        ("store_id",),
        [(family.name, store, *span) for store, span in checked.stores.items()],
    )
    found = [
        (family.name, store, name, *span)
        for store, spans in checked.currencies.items()
        for name, span in spans.items()
    ]
    _note(session, "store_currency", ("store_id", "currency"), found)


def _note(
    session: Session, table: str, keys: Sequence[str], found: Sequence[tuple[Any, ...]]
) -> None:
    for column, sign, place in (("first", -1, -2), ("last", 1, -1)):
        marks = ", ".join("?" * (len(keys) + 3))
        statement = session.prepare(
            f"INSERT INTO {table} (family, {', '.join(keys)},"
            f" {column}_day) VALUES ({marks[3:]}) USING TIMESTAMP ?"
        )
        statement.is_idempotent = True
        rows = [(*row[:-2], row[place] + CQL_DATE_ZERO, sign * row[place]) for row in found]
        execute_concurrent_with_args(
            session, statement, rows, concurrency=64, raise_on_first_error=True
        )


def note_ledger(
    session: Session, family: Family, generation: int, lines: Iterable[Mapping[str, int]]
) -> None:
    """The ledger of one generation, a row for each partition.

    Nothing is erased yet: erased is 0.
    """
    columns = ("partition", "committed", "counted", "duplicate", "conflict", "unreadable")
    statement = session.prepare(
        f"INSERT INTO batch_ledger (family, generation, {', '.join(columns)}, erased)"
        f" VALUES (?, ?, {', '.join('?' * len(columns))}, 0)"
    )
    statement.is_idempotent = True
    for line in lines:
        session.execute(statement, [family.name, generation, *(line[name] for name in columns)])
