"""Windows that a rebuild changed, kept under its token until they are told.

A crash after the flip leaves nobody untold.
"""

from collections.abc import Iterator
from datetime import UTC, date
from zlib import crc32

from cassandra.cluster import Session

from batch_layer.views.announcements import Announcements, Restatement
from batch_layer.views.pointer import PointerTable
from runtime.writes import write_rows
from tally.families import Family
from tally.instants import instant_text

_BUCKETS = 16
KEEP_WINDOW = (
    "INSERT INTO restated_window"
    " (family, generation, bucket, store_id, window_start, earlier_generation)"
    " VALUES (?, ?, ?, ?, ?, ?)"
)


def bucket_of(store_id: str) -> int:
    """Which of a generation's partitions of restated_window takes the store's windows."""
    # Not hash(): the workers that write and the run that reads are different processes.
    return crc32(store_id.encode()) % _BUCKETS


class Outbox:
    """The restatements of one family that are kept and not yet sent."""

    def __init__(self, session: Session, family: Family) -> None:
        self._session, self._family = session, family.name

    def open(self, generation: int, day: date) -> None:
        """Note, before the first window is kept, that the generation has some.

        `day`: any day that it will publish.
        """
        # Prepared, as everywhere that a day is given: as text the driver writes no date before the
        # year 1000.
        insert = "INSERT INTO restatement_run (family, generation, day) VALUES (?, ?, ?)"
        write_rows(self._session, insert, [(self._family, generation, day)])

    def send(self, generation: int, announcements: Announcements) -> None:
        """Tell every kept window of a published generation, then forget them.

        A crash in between tells some once more.
        """
        announcements.restate(self._windows(generation))
        self._forget(generation)

    def send_left(self, table: PointerTable, announcements: Announcements) -> None:
        """Tell what earlier runs published and did not tell.

        What they can no longer publish is forgotten.
        """
        runs = self._session.execute(
            "SELECT generation, day FROM restatement_run WHERE family = %s", [self._family]
        )
        # All at once: the rows are deleted below, while the driver would still be fetching pages of
        # them.
        for run in list(runs):
            has_flipped = table.has_flipped(run.generation, run.day.date())
            # None is neither: that run may be about to flip, and tells them itself.
            if has_flipped:
                self.send(run.generation, announcements)
            elif has_flipped is False:
                self._forget(run.generation)

    def _windows(self, generation: int) -> Iterator[Restatement]:
        select = (
            "SELECT store_id, window_start, earlier_generation FROM restated_window"
            " WHERE family = %s AND generation = %s AND bucket = %s"
        )
        for bucket in range(_BUCKETS):
            for row in self._session.execute(select, [self._family, generation, bucket]):
                start = instant_text(row.window_start.replace(tzinfo=UTC))
                yield Restatement.of(
                    self._family, row.store_id, start, row.earlier_generation, generation
                )

    def _forget(self, generation: int) -> None:
        # Nobody writes there any more: a delete that is tried again, of a later instant then, hides
        # nothing but what is told.
        write_rows(
            self._session,
            "DELETE FROM restated_window WHERE family = ? AND generation = ? AND bucket = ?",
            [(self._family, generation, bucket) for bucket in range(_BUCKETS)],
        )
        # Last: as long as the run is there, the next rebuild comes back to its windows.
        write_rows(
            self._session,
            "DELETE FROM restatement_run WHERE family = ? AND generation = ?",
            [(self._family, generation)],
        )
