"""Reads snapshots of the baselines from Cassandra."""

from datetime import date

from serving.storage import statements
from serving.storage.connection import Connection
from tally.alerts.baseline_snapshot import BaselineSnapshot, parse_snapshot
from tally.time.instants import assume_utc


class CassandraBaselines:
    """A BaselineReader over the connection of the views."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def snapshot_for(self, day: date) -> BaselineSnapshot | None:
        """One row, SERIAL: a row whose writer died is there for all later readers, or for none."""
        rows = await self._connection.rows(statements.BASELINE, (day,), is_serial=True)
        for first_day, made_at, days in rows:
            return parse_snapshot(first_day.date(), assume_utc(made_at), days)
        return None
