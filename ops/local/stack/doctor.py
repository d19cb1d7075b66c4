"""`tally doctor`: one check per line, with its finding and, if it failed, the fix."""

import platform
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from typing import TypeAlias, TypeVar

from cassandra import DriverException
from cassandra.cluster import Session
from cassandra.protocol import ErrorMessage
from confluent_kafka import KafkaException

from ops.conflicts import till_conflicts
from ops.lag import WaitingSeconds, read_waiting
from ops.local import artifacts, machine
from ops.local.processes import probes, supervisor
from ops.local.processes.addresses import variable
from ops.local.processes.service import Service, Site
from ops.local.services import catalogue, nodes
from ops.local.stack.control import service_status
from ops.local.stack.watcher import has_started_services, watcher_runs
from ops.provision import partition_count
from runtime.connect import cassandra_session, kafka_admin
from runtime.records.gaps import read_gaps
from runtime.spark.configuration import classes_jar
from schemas import loader
from tally.config.settings import Settings
from tally.errors import StackError, TallyError

NEEDED_GIGABYTES = 1.0
PACKAGES = ("pyspark", "apache-airflow", "confluent-kafka", "cassandra-driver")
# Speed rows have write timestamps near 1970, which these guardrails would warn of or refuse.
GUARDRAILS = ("minimum_timestamp_warn_threshold", "minimum_timestamp_fail_threshold")
# Older findings were reported when they were new, and no action can remove them.
RECENT = timedelta(days=31)
SHOWN = 3
Row = TypeVar("Row")
RowReader: TypeAlias = Callable[[Session], list[Row]]


@dataclass(frozen=True)
class Check:
    """The outcome of one check; `fix` is empty when it is ok."""

    ok: bool
    detail: str
    fix: str = ""


def checks(site: Site) -> Iterator[tuple[str, Check]]:
    """Yield the name and outcome of each check, as soon as it is known."""
    yield "java", _outcome(_java, site)
    packages = (f"{name} {version(name)}" for name in PACKAGES)
    yield "versions", Check(True, ", ".join([f"python {platform.python_version()}", *packages]))
    yield "jvm parts", _outcome(_parts, site)
    yield "disk and folder", _outcome(_folder, site)
    for service in catalogue.list_services(site).values():
        yield service.name, _service(site, service)
    yield "watcher", _watcher(site)
    # Only for running services: a refused connection would repeat the finding above.
    has_kafka, has_cassandra = (
        supervisor.is_alive(site, service) for service in (nodes.KAFKA, nodes.CASSANDRA)
    )
    if has_kafka:
        yield "topics", _outcome(_topics, site)
        # A hanging transaction blocks every reader of committed records, and the Python clients
        # cannot list it.
        yield "transactions", _outcome(_transactions, site)
    if has_cassandra:
        yield "cassandra guardrails", _outcome(_guardrails, site)
        yield "gaps", _outcome(_gaps, site)
        yield "tills", _outcome(_tills, site)
    if has_kafka and has_cassandra:
        yield "lag", _outcome(lambda site: check_lag(site.settings), site)


def _outcome(look: Callable[[Site], str], site: Site) -> Check:
    try:
        return Check(True, look(site))
    except TallyError as error:
        # Each such message has the form `what; fix`.
        what, _, fix = str(error).partition("; ")
        return Check(False, what, fix)


def _java(site: Site) -> str:
    java = machine.check_java(site.environment)
    return f"{java}, version {machine.java_version(java)}, with {machine.VECTOR_MODULE}"


def _parts(site: Site) -> str:
    cache = site.settings.cache
    missing = [part for part in artifacts.PARTS if not artifacts.part_is_complete(cache, part)]
    if not classes_jar(cache).is_file():
        missing.append("forkless")
    if missing:
        raise StackError(f"{', '.join(missing)} not complete in {cache / 'jars'}; run `make setup`")
    jars = sum(map(len, artifacts.read_lock_file().values()))
    return f"{jars} jars in {cache / 'jars'}, as artifacts.lock has them"


def _folder(site: Site) -> str:
    machine.check_folder(site.home, NEEDED_GIGABYTES, "set TALLY_HOME to another")
    return f"{site.home} can be written, at least {NEEDED_GIGABYTES:g} GB free"


def _service(site: Site, service: Service) -> Check:
    status = service_status(site, service)
    if status.state == "stopped":
        return _outcome(lambda site: _free_ports(site, service), site)
    start = f"tally up {service.name}"
    again = f"tally down {service.name}; {start}"
    what = f"{status.state}: {status.reason}; see {status.log}"
    if status.state == "stalled":
        return Check(False, what, f"look into its log; if that does not help, {again}")
    if status.state in ("failed", "failing"):
        waits = f"none is needed, it is tried again at {status.next_try}"
        return Check(False, what, waits if status.next_try else start)
    # A running process may hang.
    if not service.is_ready(site):
        return Check(False, f"pid {status.pid} does not answer, see {status.log}", again)
    address = f", {status.address}" if status.address else ""
    return Check(True, f"{status.state}, pid {status.pid}{address}")


def _watcher(site: Site) -> Check:
    if watcher_runs(site):
        return Check(True, "starts again what ends by itself")
    if has_started_services(site):
        return Check(False, "none runs: what ends by itself stays down", "tally up")
    return Check(True, "none is needed")


def _free_ports(site: Site, service: Service) -> str:
    for name, (host, port) in service.ports(site.settings).items():
        if not machine.port_is_free(host, port):
            raise StackError(
                f"stopped, and its port {port} is busy;"
                f" end what holds it or set {variable(name)}={host}:PORT"
            )
    return "stopped" + (", its ports are free" if service.settings_names else "")


def _topics(site: Site) -> str:
    found = kafka_admin(site.settings).list_topics(timeout=probes.TIMEOUT_SECONDS).topics
    present = {name: len(topic.partitions) for name, topic in found.items()}
    expected = {
        name: partition_count(entry["kind"], site.settings)
        # Not every topic has the settings' partition count: a chronicle has one partition.
        for name, entry in loader.topics().items()
    }
    wrong = [
        f"{name} {present.get(name, 0)} for {count}"
        for name, count in expected.items()
        if present.get(name, 0) != count
    ]
    if wrong:
        raise StackError(
            f"partitions: {', '.join(wrong)};"
            " set TALLY_PARTITIONS as before, or use a new TALLY_HOME"
        )
    counted = Counter(expected.values()).most_common()
    return ", ".join(f"{topics} with {count} partitions" for count, topics in counted)


def _transactions(site: Site) -> str:
    hanging = nodes.hanging_transactions(site.settings, site.environment)
    if hanging:
        where = ", ".join(
            f"{row['Topic']}-{row['Partition']} from offset {row['StartOffset']}" for row in hanging
        )
        raise StackError(
            f"hanging: {where}; end each with Kafka's tool:"
            " TransactionsCommand abort --topic --partition --start-offset"
        )
    return f"none hangs, {len(nodes.open_transactions(site.settings, site.environment))} open"


def _guardrails(site: Site) -> str:
    try:
        with cassandra_session(site.settings, "") as session:
            rows = session.execute("SELECT name, value FROM system_views.settings")
            found = [row for row in rows if row.name in GUARDRAILS]
    except DriverException as error:
        raise StackError(f"cassandra: {error}; look into its log") from error
    bad = [f"{row.name}={row.value}" for row in found if row.value is not None]
    if bad:
        raise StackError(
            f"{', '.join(bad)} would refuse logical write timestamps;"
            " remove them from cassandra.yaml"
        )
    return "no least write timestamp is set"


def check_lag(settings: Settings) -> str:
    """The longest wait as text. Raises StackError from half of its limit on, or if unknown."""
    try:
        with cassandra_session(settings) as session:
            waiting = read_waiting(settings, session)
    except (KafkaException, DriverException) as error:
        raise StackError(
            f"cannot be read: {error}; look into the logs of kafka and cassandra"
        ) from error
    if late := list(late_readers(settings, waiting)):
        raise StackError(
            f"{', '.join(late)};"
            " `tally status` and the logs of these services say why they do not read"
        )
    longest = max(waiting.normaliser, waiting.speed, waiting.master)
    return f"no unread record has waited longer than {longest:.0f} s"


def late_readers(settings: Settings, waiting: WaitingSeconds) -> Iterator[str]:
    """Yield each reader that waits for more than half of its limit, and what comes at it."""
    canonical = settings.canonical_retention_hours * 3600
    refuse, drop = "the gateway refuses messages", "Kafka drops what it has not read"
    limits = {
        "normaliser": (settings.raw_backlog_seconds, refuse),
        "speed": (canonical, drop),
        "master": (canonical, drop),
    }
    for name, (limit, end) in limits.items():
        seconds = getattr(waiting, name)
        # At half of the limit there is time left to act.
        if seconds > limit / 2:
            hours = f"{seconds / 3600:.1f} h, at {limit / 3600:.1f} h"
            yield f"{name}: a record has waited for {hours} {end}"


def _gaps(site: Site) -> str:
    accepted = _read_table(site, read_gaps)
    since = datetime.now(UTC) - RECENT
    new = [gap for gap in accepted if gap.noted_at > since]
    if new:
        where = ", ".join(
            f"{gap.topic}-{gap.partition} {gap.from_offset} to {gap.until_offset}"
            for gap in new[:SHOWN]
        )
        raise StackError(
            f"{len(new)} in the last {RECENT.days} days: {where};"
            " send again what was lost; `tally audit` names them all"
        )
    return f"none in the last {RECENT.days} days, {len(accepted)} in all"


def _tills(site: Site) -> str:
    since = str((datetime.now(UTC) - RECENT).date())
    found = _read_table(site, till_conflicts)
    new = [till for till in found if till.is_open and till.day > since]
    if new:
        who = ", ".join(
            f"store {till.store_id} till {till.till_id} on {till.day}"
            f" ({till.conflicts} of {till.records})"
            for till in new[:SHOWN]
        )
        raise StackError(
            f"receipts bear numbers used before: {who};"
            " `tally conflicts list` says what to do with each"
        )
    return f"no conflict of the last {RECENT.days} days is open"


def _read_table(site: Site, read: RowReader[Row]) -> list[Row]:
    try:
        with cassandra_session(site.settings) as session:
            return read(session)
    except (DriverException, ErrorMessage) as error:
        raise StackError(f"cassandra: {error}; look into its log") from error
