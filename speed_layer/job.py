"""`python -m speed_layer.job`: one Spark application with a streaming query for each family and one for the raw receipts."""

import argparse
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import structlog
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from runtime.jvm_lock import exclusive_in_jvm
from speed_layer.checkpoint import Position, committed_position
from speed_layer.handover import Driver, settle_handover
from speed_layer.progress import Progress
from speed_layer.receipts import QUERY as RECEIPTS
from speed_layer.receipts import start_receipts
from speed_layer.session import build_session
from speed_layer.source import canonical_stream, refuse_data_loss, retained
from speed_layer.view import start_view
from tally.connect import cassandra_session
from tally.errors import DataLoss, TallyError
from tally.families import FAMILIES, SALES, Family
from tally.lock import exclusive
from tally.settings import Settings

WATCH_SECONDS = 0.2
LOST = ("data loss", "data was lost", "may have been lost", "KAFKA_DATA_LOSS", "OffsetOutOfRange")
# A JVM that has died has stopped its queries.
JVM_GONE = (Py4JError, ConnectionError)
BEGINNING = datetime.fromtimestamp(0, UTC)
log = structlog.get_logger()


@dataclass(frozen=True)
class Planned:
    """One query to start: its name (also of its checkpoint), its topic, and the family whose view it keeps, if any."""

    name: str
    topic: str
    family: Family | None


PLANNED = (*(Planned(family.name, family.topic, family) for family in FAMILIES.values()), Planned(RECEIPTS, SALES.topic, None))


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code: 0 after SIGTERM or SIGINT, 1 when a query failed or could not start."""
    parser = argparse.ArgumentParser(prog="python -m speed_layer.job", description=__doc__)
    parser.add_argument(
        "--starting-offsets", default="{}", metavar="JSON",
        help='where a query without a checkpoint begins, e.g. {"sales": {"0": 12}}; default: the earliest records kept',
    )  # fmt: skip
    given = parser.parse_args(argv).starting_offsets
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    ready = os.environ.get("TALLY_READY_FILE")
    try:
        with _stop_signals() as stop:
            run(Settings.load(), given, stop, lambda: Path(ready).touch() if ready else None)
    except TallyError as error:
        print(f"speed layer: {error}", file=sys.stderr)
        return 1
    return 0


def run(settings: Settings, given: str, stop: threading.Event, on_ready: Callable[[], None]) -> None:
    """Returns once `stop` is set. Raises TallyError when a query cannot start or has failed."""
    with ExitStack() as held:
        for planned in PLANNED:
            held.enter_context(exclusive(settings.checkpoint(planned.name)))
        session = held.enter_context(cassandra_session(settings))
        driver = Driver(held.enter_context(_spark(settings)), session, settings, given)
        for planned in PLANNED:
            held.enter_context(exclusive_in_jvm(driver.spark, settings.checkpoint(planned.name)))
        watched = [held.enter_context(running(driver, planned)) for planned in PLANNED]
        on_ready()
        log.info("ready")
        watch(watched, stop)


@contextmanager
def running(driver: Driver, planned: Planned) -> Iterator[tuple[StreamingQuery, Progress]]:
    """One query running, stopped at the end of the block, and its progress, caught up with its checkpoint."""
    settings, held = driver.settings, retained(driver.settings, planned.topic)
    begins = settle_handover(driver, planned.name, planned.family, held.earliest)
    position = committed_position(settings.checkpoint(planned.name)) or Position(begins.starting, BEGINNING)
    refuse_data_loss(position.until, planned.topic, held)
    log.info("query", name=planned.name, floor=begins.floor, from_offsets=position.until)
    driver.spark.sparkContext.setLocalProperty("spark.scheduler.pool", planned.name)
    records = canonical_stream(driver.spark, settings, planned.topic, begins.starting)
    query = start_view(records, planned.family, begins.floor, settings) if planned.family else start_receipts(records, settings)
    progress = Progress(settings, driver.session, query, planned.family.name if planned.family else None)
    try:
        progress.reached(position)
        yield query, progress
    finally:
        with suppress(*JVM_GONE):
            query.stop()


def watch(watched: Sequence[tuple[StreamingQuery, Progress]], stop: threading.Event) -> None:
    """Passes on progress until `stop` is set. Raises TallyError with the first query that has failed."""
    try:
        while not stop.wait(WATCH_SECONDS):
            for query, progress in watched:
                progress.take()
                if not query.isActive:
                    raise failure(query.name, str(query.exception()))
    except JVM_GONE as error:
        raise TallyError(f"the JVM of the driver has ended ({error}); start the speed layer again") from error


def failure(name: str, reason: str) -> TallyError:
    """Why a query has ended, as one line, with what to do when records are gone."""
    text = " ".join(reason.split())
    if any(sign.lower() in text.lower() for sign in LOST):
        return DataLoss(f"query {name}: Kafka no longer holds what it needs; move its checkpoint folder away: {text[:500]}")
    return TallyError(f"query {name} failed: {_cause(text)}; start again once that is mended: the batch is repeated")


def _cause(text: str) -> str:
    # The Python error at the end of a worker's traceback says more than Spark's wrapping of it.
    found = re.findall(r"((?:\w+\.)*\w*(?:Error|Exception|Unacknowledged|UpdatesNotSent): .{0,300})", text)
    return str(found[-1]) if found else text[:300]


@contextmanager
def _spark(settings: Settings) -> Iterator[SparkSession]:
    spark = build_session(settings)
    try:
        yield spark
    finally:
        with suppress(*JVM_GONE):
            spark.stop()


@contextmanager
def _stop_signals() -> Iterator[threading.Event]:
    """An event that SIGTERM and SIGINT set."""
    stop = threading.Event()
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


if __name__ == "__main__":
    sys.exit(main())
