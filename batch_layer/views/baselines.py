"""`python -m batch_layer.views.baselines`: makes tonight's baseline snapshot.

The snapshot fixes which generation of each day the rules compare with, from the first local day
that has not begun in any time zone. One conditional write decides: a repeated or concurrent run
finds the stored snapshot.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import date, datetime
from itertools import chain

from cassandra.cluster import Session
from cassandra.query import SimpleStatement

from batch_layer.views.publish.pointer import PointerTable, execute_transaction, read_serially
from runtime.connect import cassandra_session
from runtime.kafka.broker_clock import read_broker_time
from runtime.process.job import run_job
from runtime.records.control_copies import BASELINES, copy_table
from runtime.registry.sources import FAMILIES
from tally.alerts.baseline import (
    SLOWEST,
    BaselineSnapshot,
    build_snapshot,
    first_served_day,
    parse_snapshot,
)
from tally.config.settings import Settings
from tally.errors import StackError
from tally.time.instants import assume_utc, format_utc
from tally.time.windows import ONE_DAY

_SERIES = "nightly"
_INSERT = (
    "INSERT INTO baseline_snapshot (series, first_day, made_at, days)"
    " VALUES (%s, %s, %s, %s) IF NOT EXISTS"
)
_SELECT_DAY = (
    "SELECT first_day, made_at, days FROM baseline_snapshot WHERE series = %s AND first_day = %s"
)
_SELECT_OLDEST = (
    "SELECT first_day FROM baseline_snapshot WHERE series = %s ORDER BY first_day ASC LIMIT 1"
)


@dataclass(frozen=True)
class SnapshotReport:
    """One snapshot: its number, first local day, when it was made, and the count of days by family.

    `made`: whether this run made it.
    """

    number: int
    first_day: str
    made_at: str
    days: dict[str, int]
    made: bool


def main(argv: Sequence[str] | None = None) -> int:
    """Make the snapshot and return the exit code: 0 it exists, 1 failed, 2 wrong use.

    With --json one object is printed on standard output.
    """
    parser = argparse.ArgumentParser(
        prog="python -m batch_layer.views.baselines",
        description="Snapshot of what is usual, for rules that compare with it from tomorrow on.",
    )
    parser.add_argument(
        "--since",
        metavar="DATE",
        type=_date,
        help="then also one for each day from here to the first snapshot that there is, of what"
        " serves now: for simulations of a past that was there before any snapshot",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args(argv)

    def work() -> None:
        settings = Settings.load()
        with cassandra_session(settings) as session:
            reports = [*make_snapshots(session, lambda: read_broker_time(settings), given.since)]
            copy_table(session, settings.control_copies_path, BASELINES)
        if given.json:
            tonight, *earlier = reports
            print(json.dumps({**asdict(tonight), "earlier": len(earlier)}))
        else:
            print(*map(_report_line, reports), sep="\n")

    return run_job("baselines", work)


def make_snapshots(
    session: Session, now: Callable[[], datetime], since: date | None = None
) -> Iterator[SnapshotReport]:
    """Make the snapshot of now, and with `since` those before all others; yield them as stored.

    `now`: by the brokers' clock. Raises StackError when it took too long, or when it is unknown
    whether the snapshot was written.
    """
    started, made_at = time.monotonic(), now()
    served = {name: PointerTable(session, name).current() for name in FAMILIES}
    if time.monotonic() - started > SLOWEST.total_seconds():
        # Its first day may have begun somewhere by now, and be judged by another snapshot.
        raise StackError("baselines: reading the pointers took over an hour; run it again")
    yield _store_snapshot(session, build_snapshot(first_served_day(made_at), made_at, served))
    # There is no baseline before the first day served, however early `since` is.
    first = min(chain.from_iterable(served.values()), default=date.max)
    since = max(since or date.max, first)
    # Snapshots are added backwards, each before all existing ones: no day changes its snapshot.
    while since < (oldest := _read_oldest(session)):
        yield _store_snapshot(session, build_snapshot(oldest - ONE_DAY, made_at, served))


def _store_snapshot(session: Session, snapshot: BaselineSnapshot) -> SnapshotReport:
    values = [_SERIES, snapshot.first_day, snapshot.made_at, snapshot.days_text]
    # The outcome may be this run's write, an earlier run's, or unknown: the row that is read back
    # is final.
    execute_transaction(session, SimpleStatement(_INSERT), values)
    found = read_serially(session, _SELECT_DAY, _SERIES, snapshot.first_day)
    if not found:
        raise StackError(
            f"baselines: the snapshot of {snapshot.first_day} was not written;"
            " look at `tally status` and run it again"
        )
    [row] = found
    stored = parse_snapshot(row.first_day.date(), assume_utc(row.made_at), row.days)
    days = {family: len(family_days) for family, family_days in sorted(stored.days.items())}
    first, made_at = stored.first_day.isoformat(), format_utc(stored.made_at)
    return SnapshotReport(stored.number, first, made_at, days, stored.made_at == snapshot.made_at)


def _read_oldest(session: Session) -> date:
    oldest: date = read_serially(session, _SELECT_OLDEST, _SERIES)[0].first_day.date()
    return oldest


def _date(text: str) -> date:
    return date.fromisoformat(text)


def _report_line(report: SnapshotReport) -> str:
    days = ", ".join(f"{name} {count}" for name, count in report.days.items())
    how = "made" if report.made else "was there"
    baseline = f"baseline {report.number}, from {report.first_day} on, {how}"
    return f"{baseline}; days of each family: {days}"


if __name__ == "__main__":
    sys.exit(main())
