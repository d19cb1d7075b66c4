"""Outbox: windows that a rebuild changed, stored under its token until they are announced.

A crash after the flip therefore loses no restatement.
"""

from collections.abc import Iterator
from datetime import date
from zlib import crc32

from cassandra.cluster import Session

from batch_layer.views.publish.announcements import Announcements, Restatement
from batch_layer.views.publish.pointer import PointerTable
from runtime.cassandra.writes import write_rows
from tally.families.family import Family
from tally.time.instants import assume_utc, format_utc

_BUCKETS = 16
INSERT_WINDOW = (
    "INSERT INTO restated_window"
    " (family, generation, bucket, store_id, window_start, earlier_generation)"
    " VALUES (?, ?, ?, ?, ?, ?)"
)


def bucket_number(store_id: str) -> int:
    """The bucket (partition) of restated_window that takes the store's windows."""
    # hash() would not do: the workers that write and the run that reads are different processes.
    return crc32(store_id.encode()) % _BUCKETS


class Outbox:
    """The restatements of one family that are stored and not yet sent."""

    def __init__(self, session: Session, family: Family) -> None:
        self._session, self._family = session, family.name

    def open_run(self, generation: int, day: date) -> None:
        """Note, before the first window is stored, that the generation may have some.

        `day`: any day that it will publish.
        """
        # Prepared, like every statement with a day: as text the driver writes no date before the
        # year 1000.
        insert = "INSERT INTO restatement_run (family, generation, day) VALUES (?, ?, ?)"
        write_rows(self._session, insert, [(self._family, generation, day)])

    def send(self, generation: int, announcements: Announcements) -> None:
        """Announce every stored window of a published generation, then delete them.

        After a crash in between some are announced once more.
        """
        announcements.send_restatements(self._windows(generation))
        self._delete_windows(generation)

    def send_remaining(self, table: PointerTable, announcements: Announcements) -> None:
        """Announce the windows that earlier runs published and did not announce.

        Windows of runs that can no longer publish are deleted.
        """
        runs = self._session.execute(
            "SELECT generation, day FROM restatement_run WHERE family = %s", [self._family]
        )
        # All rows are fetched first: they are deleted below, while the driver would still be
        # fetching pages of them.
        for run in list(runs):
            has_flipped = table.has_flipped(run.generation, run.day.date())
            # None: that run may be about to flip, and announces its windows itself.
            if has_flipped:
                self.send(run.generation, announcements)
            elif has_flipped is False:
                self._delete_windows(run.generation)

    def _windows(self, generation: int) -> Iterator[Restatement]:
        select = (
            "SELECT store_id, window_start, earlier_generation FROM restated_window"
            " WHERE family = %s AND generation = %s AND bucket = %s"
        )
        for bucket in range(_BUCKETS):
            for row in self._session.execute(select, [self._family, generation, bucket]):
                start = format_utc(assume_utc(row.window_start))
                yield Restatement.for_window(
                    self._family, row.store_id, start, row.earlier_generation, generation
                )

    def _delete_windows(self, generation: int) -> None:
        # Nothing is written there any more: a retried delete, with a later timestamp, hides only
        # windows that are announced.
        write_rows(
            self._session,
            "DELETE FROM restated_window WHERE family = ? AND generation = ? AND bucket = ?",
            [(self._family, generation, bucket) for bucket in range(_BUCKETS)],
        )
        # The run is deleted last: as long as its row exists, the next rebuild returns to its
        # windows.
        write_rows(
            self._session,
            "DELETE FROM restatement_run WHERE family = ? AND generation = ?",
            [(self._family, generation)],
        )
