"""The base of all benchmarks: broker, Cassandra, jobs as processes, numbers, the oracle.

Contenders read the same records in turn, each into its own keyspace; a run whose rows differ from
the oracle gives no number.
"""

import argparse
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeAlias

import msgspec
import psutil
from cassandra.cluster import Session

from bench.lib.compared import Sold, SoldKey, read_rows, refuse_wrong_rows, say
from bench.lib.contenders import Contender
from bench.lib.processes import job_cpu, job_memory, process_cpu
from bench.lib.shown import MeasuredRun
from ingest.sources.sales.record import CanonicalReceipt
from ops import provision
from ops.local.processes.addresses import separate_environment, settings_with_addresses
from ops.local.processes.service import Site
from ops.local.processes.supervisor import working_process
from ops.local.services import catalogue
from ops.local.stack import control
from runtime.connect import cassandra_session, kafka_admin, kafka_producer
from runtime.kafka.producer import enqueue
from runtime.registry.sources import SALES
from speed_layer.session import read_retained_offsets
from tally.config.settings import Settings
from tally.events.identity import partition_number
from tally.time.windows import WINDOW_SECONDS
from tests.support.sources.canonical import receipt

READY_SECONDS, POLL_SECONDS = 180, 0.1
WARM_DAY, WARM_RECORDS, DELETED_SECONDS = datetime(2015, 1, 1, tzinfo=UTC), 20_000, 2.0
Load: TypeAlias = Callable[[], Iterable[CanonicalReceipt]]


@dataclass
class Bench:
    """A separate stack for one benchmark, and its measured runs."""

    site: Site
    settings: Settings
    environment: Mapping[str, str]
    runs: dict[str, list[MeasuredRun]] = field(default_factory=dict)

    def measure(self, contender: Contender, load: Load, **overrides: str) -> MeasuredRun:
        """Measure a warm run of a contender, from the commit of the load to its last record.

        It has new topics and a new keyspace. Raises SystemExit when the rows differ from the
        oracle.
        """
        # A keyspace per run: rows of an earlier run would count as its own.
        keyspace = f"bench_{time.monotonic_ns()}"
        settings = self.settings.model_copy(update={"keyspace": keyspace})
        self._recreate(settings)
        with (
            tempfile.TemporaryDirectory(prefix="bench-checkpoints-") as folder,
            cassandra_session(settings) as session,
        ):
            variables = {
                "TALLY_KEYSPACE": keyspace,
                "TALLY_CHECKPOINTS": f"{folder}/checkpoints",
                "TALLY_READY_FILE": f"{folder}/ready",
            }
            contender.make_tables({**self.environment, **variables})
            expected: dict[SoldKey, Sold] = {}
            publish(settings, count_expected(warm_up(), expected))()
            with running(
                contender, {**self.environment, **variables, **overrides}, Path(folder)
            ) as job:
                wait_until_read(settings, session, job)
                commit = publish(settings, count_expected(load(), expected))
                run = self._measure_load(job, session, settings, commit)
            refuse_wrong_rows(contender.name, read_rows(session), expected)
            session.execute(f"DROP KEYSPACE {keyspace}", timeout=60)
        self.runs.setdefault(contender.name, []).append(run)
        return run

    def _recreate(self, settings: Settings) -> None:
        provision.create_tables(settings)
        admin = kafka_admin(settings)
        for deleted in admin.delete_topics([SALES.topic]).values():
            deleted.result(60)
        # The brokers answer before the topic is deleted, and until then refuse a new topic of its
        # name.
        time.sleep(DELETED_SECONDS)
        provision.create_topics(settings)

    def _measure_load(
        self, job: psutil.Process, session: Session, settings: Settings, commit: Callable[[], int]
    ) -> MeasuredRun:
        processes = {
            service.name: working_process(self.site, service)
            for service in catalogue.select_services(["kafka", "cassandra"])
        }
        # Processor time is measured beside the rate: other load on the machine changes the rate,
        # but hardly the processor time.
        before = {name: process_cpu(process) for name, process in processes.items()} | job_cpu(job)
        records, began = commit(), time.monotonic()
        peaks = wait_until_read(settings, session, job)
        seconds = time.monotonic() - began
        after = {name: process_cpu(process) for name, process in processes.items()} | job_cpu(job)
        return MeasuredRun(
            records / seconds,
            {name: (after[name] - before[name]) / records * 1e6 for name in after},
            peaks,
        )


def count_expected(
    records: Iterable[CanonicalReceipt], expected: dict[SoldKey, Sold]
) -> Iterator[CanonicalReceipt]:
    """Yield the records once each, and add them to the expected rows."""
    for record in records:
        # Summed here, not by the measured code: otherwise its errors would be in both.
        at = int(datetime.fromisoformat(record.happened_at).timestamp())
        key = record.store_id, (at - at % WINDOW_SECONDS) * 1000
        count, cents = expected.get(key, (0, 0))
        expected[key] = count + 1, cents + record.gross_minor
        yield record


def publish(settings: Settings, records: Iterable[CanonicalReceipt]) -> Callable[[], int]:
    """Send the records in an open transaction; the returned function commits and counts them.

    All records become visible at once.
    """
    producer = kafka_producer(
        # The longest time-out that the brokers allow: sending a load takes longer than a
        # transaction of Tally.
        settings,
        {"transactional.id": "bench", "transaction.timeout.ms": 120_000},
    )
    producer.init_transactions(60)
    producer.begin_transaction()
    count = 0
    for record in records:
        count += 1
        enqueue(
            producer,
            SALES.topic,
            msgspec.json.encode(record),
            record.store_id,
            partition_number(record.store_id, settings.partitions),
        )
    producer.flush()

    def commit() -> int:
        producer.commit_transaction(60)
        return count

    return commit


def warm_up() -> Iterator[CanonicalReceipt]:
    """Records of an earlier day, enough to compile code and open connections."""
    return (
        receipt(f"warm-{number % 200}", number, WARM_DAY + number * timedelta(seconds=4), 5)
        for number in range(WARM_RECORDS)
    )


def wait_until_read(settings: Settings, session: Session, job: psutil.Process) -> dict[str, float]:
    """Peak memory in MiB, by jvm and python, until the view holds all committed records."""
    end = dict(read_retained_offsets(settings, SALES.topic).end)
    return peaks_until(lambda: read_progress(session) == end, job)


def peaks_until(
    done: Callable[[], bool],
    job: psutil.Process,
) -> dict[str, float]:
    """Peak memory in MiB, by jvm and python, until `done` is true.

    Raises SystemExit when the job has ended.
    """
    peaks = {"jvm": 0.0, "python": 0.0}
    while not done():
        here = job_memory(job)
        peaks = {name: max(peaks[name], mib) for name, mib in here.items()}
        if not job.is_running() or job.status() == psutil.STATUS_ZOMBIE:
            raise SystemExit("the job has ended")
        time.sleep(POLL_SECONDS)
    return peaks


@contextmanager
def own_environment() -> Iterator[dict[str, str]]:
    """The environment of a home for one benchmark only.

    Of Tally's variables only the cache folder is inherited.
    """
    with tempfile.TemporaryDirectory(prefix="bench-home-") as home:
        yield separate_environment(Path(home), os.environ)


@contextmanager
def own_stack(*services: str) -> Iterator[Bench]:
    """Start these services, by default a broker and Cassandra, for one benchmark only."""
    with own_environment() as environment:
        site = Site.from_settings(settings_with_addresses(environment), environment)
        control.up(site, catalogue.select_services(services or ["kafka", "cassandra"]), say)
        try:
            yield Bench(site, site.settings, environment)
        finally:
            control.down(site, catalogue.select_services(()), say)


@contextmanager
def running(
    contender: Contender, environment: Mapping[str, str], folder: Path
) -> Iterator[psutil.Process]:
    """Yield the contender's process once it is ready; it is killed with its children at the end.

    Raises SystemExit when it does not get ready.
    """
    ready = Path(environment["TALLY_READY_FILE"])
    with (folder / "log").open("wb") as log:
        started = subprocess.Popen(
            contender.command, env={**environment}, cwd=contender.folder, stdout=log, stderr=log
        )
        try:
            deadline = time.monotonic() + READY_SECONDS
            while not ready.exists():
                if started.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit(
                        f"{contender.name}: not ready; {(folder / 'log').read_text()[-2000:]}"
                    )
                time.sleep(POLL_SECONDS)
            yield psutil.Process(started.pid)
        finally:
            # Children are killed too: a JVM outlives its Python by seconds, and would affect the
            # numbers of the next run.
            for process in [
                psutil.Process(started.pid),
                *psutil.Process(started.pid).children(recursive=True),
            ]:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            started.wait(30)


def read_progress(session: Session) -> dict[int, int]:
    """The first offset not yet in the view, by partition."""
    rows = session.execute("SELECT partition, until FROM speed_progress WHERE family = 'sales'")
    return {row.partition: row.until for row in rows}


def arguments(description: str | None, runs: int) -> argparse.ArgumentParser:
    """The parser with the options of every benchmark."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--runs", type=int, default=runs, help="measured runs of each contender, in turn"
    )
    parser.add_argument(
        "--against",
        type=Path,
        action="append",
        default=[],
        metavar="CHECKOUT",
        help="another checkout of Tally, set up",
    )
    return parser
