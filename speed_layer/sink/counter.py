"""A negative control: a sink that adds up increments in counter columns, as a first attempt would. Never right, only tested.

A repeated micro-batch, a restored checkpoint or a second driver adds again; `TALLY_SINK_REGISTER=events` does not.
"""

from typing import Any

from cassandra.cluster import Session
from cassandra.util import Date
from pyspark.sql import DataFrame, Row

from speed_layer.sink.activity import StoreActivity
from speed_layer.sink.rows import for_workers, row_columns, worker_session
from tally.families import Family
from tally.settings import Settings


def counter_table(family: Family) -> str:
    """Name of the counter table of one family."""
    return f"{family.name}_15min_counter"


def create_counter_table(session: Session, family: Family) -> None:
    """The counter table, made if it is not there; only this control has one."""
    keys = "".join(f", {name} text" for name in (*family.axes, "dim", "dim_value"))
    counters = "".join(f', "{name}" counter' for name in ("events", *family.parts))
    session.execute(
        f"CREATE TABLE IF NOT EXISTS {counter_table(family)} (store_id text, day date, window_start timestamp{keys}{counters}, "
        f"PRIMARY KEY ((store_id, day), {', '.join(family.row_key)}))"
    )


class CounterSink:
    """Adds what has changed since this process last saw a row: it knows nothing of what others, or it before a restart, added."""

    def __init__(self, settings: Settings, family: Family) -> None:
        self._family = family
        self._keys = ("store_id", "day", *family.row_key)
        self._counted = ("events", *family.parts)
        self._session = worker_session(for_workers(settings))
        self._last: dict[tuple[object, ...], tuple[int, ...]] = {}
        create_counter_table(self._session, family)
        self._activity = StoreActivity(family, self._session)
        changes = ", ".join(f'"{name}" = "{name}" + ?' for name in self._counted)
        where = " AND ".join(f"{name} = ?" for name in self._keys)
        self._update = self._session.prepare(f"UPDATE {settings.keyspace}.{counter_table(family)} SET {changes} WHERE {where}")

    def add(self, rows: DataFrame) -> None:
        """The increments of a micro-batch's rows, added."""
        found = rows.collect()
        self._activity.note([self._as_written(row) for row in found])
        for row in found:
            key, totals = tuple(row[name] for name in self._keys), tuple(row[name] for name in self._counted)
            before = self._last.get(key, (0,) * len(totals))
            self._session.execute(self._update, (*(now - then for now, then in zip(totals, before, strict=True)), *key))
            self._last[key] = totals

    def _as_written(self, row: Row) -> list[Any]:
        return [Date(row[name]).days_from_epoch if name == "day" else row[name] for name in row_columns(self._family)]
