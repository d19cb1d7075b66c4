"""`python -m batch_layer.views.rebuild`: views computed anew and published by one flip.

They are computed from the master dataset.

Token first, then the pin, then compute, write, check, flip: readers never see half a rebuild, and a
late run cannot go back.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import date
from uuid import uuid4

from pyspark.errors import PythonException

from batch_layer.views.publication import RebuildJob, publish
from batch_layer.views.scope import WantedDays, days_of_store
from runtime.causes import root_cause
from runtime.connect import cassandra_session
from runtime.job import run_job
from runtime.sources import FAMILIES
from runtime.spark import build_session
from runtime.sparkconf import SHORT_RUN_JAVA
from runtime.stores import StoreEntry, store_entries
from runtime.visit_rules import families_of
from schemas.source import BadSource
from tally.errors import StackError
from tally.settings import Settings
from tally.windows import parse_days

# What executors raise when Cassandra does not answer, or not in time; anything else is a fault of
# ours.
_SILENCE = (
    *("Unacknowledged", "Unanswered", "OperationTimedOut", "NoHostAvailable", "Unavailable"),
    *("ReadTimeout", "WriteTimeout", "ReadFailure", "WriteFailure", "ConnectionShutdown"),
)


@dataclass(frozen=True)
class Report:
    """What one run did.

    Days and rows published, windows changed against the generation before, the highest generation's
    number. A family in which there was nothing to do publishes nothing: 0 days, generation 0. A dry
    run counts days only.
    """

    run: str
    days: int
    rows: int
    changed_windows: int
    seconds: float
    generation: int


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code: 0 published (or nothing to do), 1 failed, 78 refused, 2 wrong use.

    With --json one object on standard output.
    """
    parser = argparse.ArgumentParser(
        prog="python -m batch_layer.views.rebuild",
        description="Rebuild views from the master dataset.",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--full", action="store_true", help="every day of the master dataset")
    what.add_argument(
        "--days", metavar="A..B", help="UTC days, or with --store its own; both inclusive"
    )
    what.add_argument(
        "--dirty",
        action="store_true",
        help="days that have records beyond their generation (default)",
    )
    parser.add_argument("--store", help="by whose clock the --days are")
    parser.add_argument("--family", type=_family, help="only this one (default: all)")
    parser.add_argument("--dry-run", action="store_true", help="say what would be rebuilt")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args(argv)
    if given.store and not given.days:
        parser.error("--store says by whose clock days are: name them too, as --days A..B")
    try:
        days = parse_days(given.days) if given.days else None
    except ValueError as error:
        parser.error(str(error))

    def work() -> None:
        settings = _with_first_compiler(Settings.load())
        if days is None:
            wanted = WantedDays("full" if given.full else "dirty")
        else:
            wanted = _wanted(*days, given.store, settings)
        known = families_of(settings)
        families = [known[given.family]] if given.family else [*known.values()]
        with cassandra_session(settings) as session:
            spark = build_session(settings, "tally-rebuild")
            job = RebuildJob(spark, session, settings, wanted, given.dry_run, families)
            with _executors_in_one_line():
                report = rebuild(job)
        print(
            json.dumps(asdict(report)) if given.json else f"rebuild {report.run}: {asdict(report)}"
        )

    return run_job("rebuild", work)


def _wanted(first: date, last: date, store: str | None, settings: Settings) -> WantedDays:
    if store is None:
        return WantedDays("days", first, last)
    entry = store_entries(settings.stores_file).get(store, StoreEntry())
    # A store's day lies on two UTC days: one of them alone would leave half of it as it was.
    return days_of_store(first, last, entry.clock(settings.default_timezone))


def _family(name: str) -> str:
    try:
        if name in FAMILIES:
            return name
        reason = f"{name!r} is none of {', '.join(FAMILIES)}"
    except BadSource as error:
        # A ValueError: argparse would call the name wrong, and keep the reason to itself.
        reason = str(error)
    raise argparse.ArgumentTypeError(reason)


def rebuild(job: RebuildJob) -> Report:
    """The job's families rebuilt, one after the other.

    Raises TallyError when a check fails or the flip is refused; nothing of that family is published
    then.
    """
    started = time.monotonic()
    published = [publish(job, family) for family in job.families]
    return Report(
        run=uuid4().hex[:12],
        days=max(one.days for one in published),
        rows=sum(one.rows for one in published),
        changed_windows=sum(one.changed_windows for one in published),
        seconds=round(time.monotonic() - started, 1),
        # Each family counts its own: it says that something was published, and finds the highest.
        generation=max(one.generation for one in published),
    )


@contextmanager
def _executors_in_one_line() -> Iterator[None]:
    """Cassandra's silence towards an executor becomes a StackError, as that towards the driver."""
    try:
        yield
    except PythonException as error:
        # Of an executor's error only the text arrives: `runtime.writes.Unanswered: Cassandra: …`.
        cause = root_cause(str(error))
        if cause.partition(":")[0].rpartition(".")[2] not in _SILENCE:
            raise
        raise StackError(
            f"an executor ended: {cause}; `tally doctor` looks for the cause"
        ) from error


def _with_first_compiler(settings: Settings) -> Settings:
    """The settings, with the JVM's first compiler alone unless other JVM options are set.

    Measured on a year of receipts, a run of well under a minute: 46 s of the JVM's processor time
    in place of 91 s.
    """
    return settings.model_copy(
        update={"spark_java_options": settings.spark_java_options or SHORT_RUN_JAVA}
    )


if __name__ == "__main__":
    sys.exit(main())
