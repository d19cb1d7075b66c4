"""`python -m batch_layer.views.rebuild`: rebuilds views from the master and publishes them at once.

The order is token, pin, compute, write, check, flip: readers never see half a rebuild, and a late
run cannot go back to earlier numbers.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import date
from functools import partial
from itertools import compress
from uuid import uuid4

from cassandra.cluster import Session
from pyspark.errors import PythonException

from batch_layer.views.compute.plan import PlannedDay, list_planned_days, plan_rebuild
from batch_layer.views.compute.scope import RebuildRequest, build_store_request
from batch_layer.views.publish.pointer import PointerTable
from batch_layer.views.publish.publication import PublicationResult, RebuildJob, has_work, publish
from runtime.connect import cassandra_session
from runtime.process.job import run_job
from runtime.registry.sources import FAMILIES
from runtime.registry.stores import StoreEntry, load_families, load_stores
from runtime.spark.checkpoint import root_cause
from runtime.spark.configuration import SHORT_RUN_JAVA
from runtime.spark.session import build_session
from schemas.source import BadSource
from tally.config.settings import Settings
from tally.errors import StackError, TallyError
from tally.families.family import Family
from tally.time.windows import parse_days

# Errors that executors raise when Cassandra does not answer, or not in time; any other error is a
# fault of this code.
_UNAVAILABLE_ERRORS = (
    *("CassandraWriteTimeout", "CassandraTimeout", "OperationTimedOut", "NoHostAvailable"),
    *("Unavailable", "ReadTimeout", "WriteTimeout", "ReadFailure", "WriteFailure"),
    "ConnectionShutdown",
)


@dataclass(frozen=True)
class Report:
    """Result of one run: counts of what was published, and the highest generation's number.

    skipped: days left out, which other runs have published meanwhile.
    changed_windows: against the generation before. A family with nothing to do publishes nothing: 0
    days, generation 0.
    """

    run: str
    days: int
    rows: int
    changed_windows: int
    seconds: float
    generation: int
    skipped: int = 0


def main(argv: Sequence[str] | None = None) -> int:
    """Rebuild; return the exit code: 0 published or nothing to do, 1 failed, 78 refused, 2 usage.

    With --json one object is printed on standard output.
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
    dirty = "days that have records beyond their generation (default)"
    what.add_argument("--dirty", action="store_true", help=dirty)
    parser.add_argument("--store", help="by whose clock the --days are")
    parser.add_argument("--family", type=_family, help="only this one (default: all)")
    parser.add_argument(
        "--dry-run", action="store_true", help="list what would be rebuilt, and why"
    )
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
            request = RebuildRequest("full" if given.full else "dirty")
        else:
            request = _to_request(*days, given.store, settings)
        known = load_families(settings)
        families = [known[given.family]] if given.family else [*known.values()]
        with cassandra_session(settings) as session:
            if given.dry_run:
                print_plan(plan_all(session, settings, request, families), is_json=given.json)
                return
            build_spark = partial(build_session, settings, "tally-rebuild")
            job = RebuildJob(build_spark, session, settings, request, families)
            with _translate_executor_errors():
                report = rebuild(job)
        found = asdict(report)
        print(json.dumps(found) if given.json else f"rebuild {report.run}: {found}")

    return run_job("rebuild", work)


def _to_request(first: date, last: date, store: str | None, settings: Settings) -> RebuildRequest:
    if store is None:
        return RebuildRequest("days", first, last)
    entry = load_stores(settings.stores_file).get(store, StoreEntry())
    # A store's day lies on two UTC days: rebuilding one of them would leave half of it unchanged.
    return build_store_request(first, last, entry.clock(settings.default_timezone))


def _family(name: str) -> str:
    try:
        if name in FAMILIES:
            return name
        reason = f"{name!r} is none of {', '.join(FAMILIES)}"
    except BadSource as error:
        # BadSource is a ValueError: argparse would report a wrong name without the reason.
        reason = str(error)
    raise argparse.ArgumentTypeError(reason)


def rebuild(job: RebuildJob) -> Report:
    """Rebuild the job's families one after the other; one that fails does not stop the others.

    Raises TallyError when a check of a family fails or its flip is refused, once the others are
    published.
    """
    started = time.monotonic()
    # At once: most of the time is spent waiting for answers of Kafka, and mostly nothing is dirty.
    with ThreadPoolExecutor(len(job.families)) as pool:
        have_work = [*pool.map(partial(has_work, job), job.families)]
    published, failures = list[PublicationResult](), list[TallyError]()
    for family in compress(job.families, have_work):
        try:
            published.append(publish(job, family))
        except TallyError as error:
            print(f"{family.name}: {error}", file=sys.stderr, flush=True)
            failures.append(error)
    if len(failures) == 1:
        raise failures[0]
    if failures:
        raise TallyError("; ".join(map(str, failures)))
    return Report(
        run=uuid4().hex[:12],
        days=max((result.days for result in published), default=0),
        rows=sum(result.rows for result in published),
        changed_windows=sum(result.changed_windows for result in published),
        seconds=round(time.monotonic() - started, 1),
        # Each family counts its own generations: the highest shows that something was published.
        generation=max((result.generation for result in published), default=0),
        skipped=sum(result.skipped for result in published),
    )


def plan_all(
    session: Session, settings: Settings, request: RebuildRequest, families: Iterable[Family]
) -> list[PlannedDay]:
    """What a rebuild would do now, family by family; nothing is written."""
    plans = (
        plan_rebuild(
            session, settings, request, family, PointerTable(session, family.name).current()
        )
        for family in families
    )
    return [line for plan in plans for line in list_planned_days(settings, plan)]


def print_plan(lines: Sequence[PlannedDay], *, is_json: bool) -> None:
    """Print the plan: one JSON object, or a line for each family and day."""
    if is_json:
        days = [line._asdict() | {"day": line.day.isoformat()} for line in lines]
        print(json.dumps({"days": days}))
        return
    for line in lines:
        partitions = f"{len(line.partitions)} partitions"
        print(f"{line.family} {line.day}: {line.records:,} records, {partitions}: {line.reason}")
    print(f"{len(lines)} days to rebuild")


@contextmanager
def _translate_executor_errors() -> Iterator[None]:
    """Turn an executor's error about a silent Cassandra into a StackError, as in the driver."""
    try:
        yield
    except PythonException as error:
        # Only the text of an executor's error arrives: `tally.errors.CassandraTimeout: Cassandra:
        # …`.
        cause = root_cause(str(error))
        if cause.partition(":")[0].rpartition(".")[2] not in _UNAVAILABLE_ERRORS:
            raise
        text = f"an executor ended: {cause}; `tally doctor` looks for the cause"
        raise StackError(text) from error


def _with_first_compiler(settings: Settings) -> Settings:
    """The settings with only the JVM's first compiler, unless other JVM options are set.

    Measured on a year of receipts, a run of well under a minute: 46 s of the JVM's processor time
    instead of 91 s.
    """
    java = settings.spark_java_options or SHORT_RUN_JAVA
    return settings.model_copy(update={"spark_java_options": java})


if __name__ == "__main__":
    sys.exit(main())
