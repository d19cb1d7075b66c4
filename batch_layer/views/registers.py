"""What a rebuild notes beside the rows, in registers that every run may write again: stores' days, currencies, tills, the ledger."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Any

from cassandra.cluster import Session
from cassandra.concurrent import execute_concurrent_with_args
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tally.families import Family

_EPOCH = date(1970, 1, 1).toordinal()


def note_activity(session: Session, family: Family, fates: DataFrame) -> None:
    """First and last day of each store: two registers by day number (the earlier first day and the later last day win).

    In: record_fates() of all days.
    """
    _note_days(session, "store_activity", fates.where("store_id IS NOT NULL").groupBy("store_id"), [family.name])


def note_currencies(session: Session, family: Family, held: DataFrame) -> None:
    """First and last day of each store's currencies, as note_activity(); nothing of a family without currencies.

    In: held_rows().
    """
    if "currency" in family.axes:
        days = held.select("store_id", "currency", F.date_from_unix_date(F.col("day").cast("int")).alias("event_date"))
        _note_days(session, "store_currency", days.groupBy("store_id", "currency"), [family.name])


def _note_days(session: Session, table: str, grouped: Any, key: Sequence[Any]) -> None:
    spans = grouped.agg(F.min("event_date").alias("first"), F.max("event_date").alias("last"))
    names = [name for name in spans.columns if name not in ("first", "last")]
    found = [(*key, *(row[name] for name in names), row["first"], row["last"]) for row in spans.toLocalIterator()]
    for column, sign in (("first", -1), ("last", 1)):
        marks = ", ".join("?" * (len(names) + 2))
        text = f"INSERT INTO {table} (family, {', '.join(names)}, {column}_day) VALUES ({marks}) USING TIMESTAMP ?"
        statement = session.prepare(text)
        statement.is_idempotent = True
        rows = [(*row[:-2], day := row[-2 if sign < 0 else -1], sign * (day.toordinal() - _EPOCH)) for row in found]
        execute_concurrent_with_args(session, statement, rows, concurrency=64, raise_on_first_error=True)


def note_ledger(session: Session, family: Family, generation: int, lines: Iterable[Mapping[str, int]]) -> None:
    """The ledger of one generation, a row for each partition. Nothing is erased yet: erased is 0."""
    columns = ("partition", "committed", "counted", "duplicate", "conflict", "unreadable")
    statement = session.prepare(
        f"INSERT INTO batch_ledger (family, generation, {', '.join(columns)}, erased) VALUES (?, ?, {', '.join('?' * len(columns))}, 0)"
    )
    statement.is_idempotent = True
    for line in lines:
        session.execute(statement, [family.name, generation, *(line[name] for name in columns)])
