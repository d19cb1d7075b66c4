"""The ranges of a full rebuild: a month each, published by itself, continued after a crash."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from typing import NamedTuple

from cassandra.cluster import Session

from runtime.cassandra.writes import prepare_idempotent, read_many, write_rows
from tally.time.instants import assume_utc

# A full rebuild that was interrupted longer ago begins anew.
_LONGEST_BREAK = timedelta(days=7)


class MonthOfDays(NamedTuple):
    """Days of one month, ascending; `month` is the first day of the month."""

    month: date
    days: Sequence[date]


def split_by_month(days: Iterable[date]) -> list[MonthOfDays]:
    """The days by month, ascending."""
    months: defaultdict[date, list[date]] = defaultdict(list)
    for day in sorted(days):
        months[day.replace(day=1)].append(day)
    return [MonthOfDays(month, of_month) for month, of_month in months.items()]


class RangeProgress:
    """Which ranges a full rebuild of a family has published; empty once it has ended."""

    def __init__(self, session: Session, family: str) -> None:
        self._session, self._family = session, family

    def read(self, now: datetime) -> set[date]:
        """The months that a full rebuild published before it was interrupted."""
        select = "SELECT month, published_at FROM full_rebuild WHERE family = ?"
        [rows] = read_many(
            self._session, prepare_idempotent(self._session, select), [(self._family,)]
        )
        published = {row.month.date(): assume_utc(row.published_at) for row in rows}
        if published and now - max(published.values()) > _LONGEST_BREAK:
            return set()
        return {*published}

    def note(self, month: date, now: datetime) -> None:
        """Note that the range is published."""
        insert = "INSERT INTO full_rebuild (family, month, published_at) VALUES (?, ?, ?)"
        write_rows(self._session, insert, [(self._family, month, now)])

    def end(self, months: Iterable[date]) -> None:
        """Forget these ranges: the next full rebuild begins with the first one."""
        delete = "DELETE FROM full_rebuild WHERE family = ? AND month = ?"
        write_rows(self._session, delete, ((self._family, month) for month in months))
