"""`tally doctor`: one check per line, with its finding and, if it failed, the fix."""

import platform
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version

from cassandra import DriverException

from ops.local.machine import artifacts, machine
from ops.local.processes import probes, supervisor, watching
from ops.local.processes.addresses import variable
from ops.local.processes.service import Service, Site
from ops.local.services import catalogue, kafka, pipeline
from ops.local.stack.control import ServiceStatus, service_status
from ops.topic_configuration import partition_count
from runtime.connect import cassandra_session, kafka_admin
from runtime.spark.jvm_classes import classes_jar
from schemas import loader
from tally.errors import StackError, TallyError

NEEDED_GIGABYTES = 1.0
PACKAGES = ("pyspark", "apache-airflow", "confluent-kafka", "cassandra-driver")
# Speed rows have write timestamps near 1970, which these guardrails would warn of or refuse.
GUARDRAILS = ("minimum_timestamp_warn_threshold", "minimum_timestamp_fail_threshold")


@dataclass(frozen=True)
class Check:
    """The outcome of one check; `fix` is empty when it is ok."""

    ok: bool
    detail: str
    fix: str = ""


def checks(site: Site) -> Iterator[tuple[str, Check]]:
    """Yield the name and outcome of each check, as soon as it is known."""
    yield "java", _outcome(lambda: _java(site))
    yield "versions", Check(True, _versions())
    yield "jvm parts", _outcome(lambda: _parts(site))
    yield "disk and folder", _outcome(lambda: _folder(site))
    for service in catalogue.list_services(site).values():
        yield service.name, _service(site, service)
    yield "watcher", _watcher(site)
    # Only for running services: a refused connection would repeat the finding above.
    if supervisor.is_alive(site, catalogue.SERVICES["kafka"]):
        yield "topics", _outcome(lambda: _topics(site))
        # A hanging transaction blocks every reader of committed records, and the Python clients
        # cannot list it.
        yield "transactions", _outcome(lambda: _transactions(site))
    if supervisor.is_alive(site, catalogue.SERVICES["cassandra"]):
        yield "cassandra guardrails", _outcome(lambda: _guardrails(site))
        yield "gaps", _outcome(lambda: pipeline.gaps(site.settings))
        yield "tills", _outcome(lambda: pipeline.tills(site.settings))
    needed = (catalogue.SERVICES[name] for name in ("kafka", "cassandra"))
    if all(supervisor.is_alive(site, service) for service in needed):
        yield "lag", _outcome(lambda: pipeline.lag(site.settings))


def _outcome(look: Callable[[], str]) -> Check:
    """Run a check; the message of its error has the form `what; fix`."""
    try:
        return Check(True, look())
    except TallyError as error:
        what, _, fix = str(error).partition("; ")
        return Check(False, what, fix)


def _java(site: Site) -> str:
    java = machine.check_java(site.environment)
    return f"{java}, version {machine.java_version(java)}, with {machine.VECTOR_MODULE}"


def _versions() -> str:
    return ", ".join(
        [f"python {platform.python_version()}", *(f"{name} {version(name)}" for name in PACKAGES)]
    )


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
        return _outcome(lambda: _free_ports(site, service))
    if status.state in ("failed", "failing", "stalled"):
        return Check(
            False, f"{status.state}: {status.reason}; see {status.log}", _cure(service, status)
        )
    # A running process may hang.
    if not service.is_ready(site):
        return Check(
            False,
            f"pid {status.pid} does not answer, see {status.log}",
            f"tally down {service.name}; tally up {service.name}",
        )
    return Check(
        True,
        f"{status.state}, pid {status.pid}" + (f", {status.address}" if status.address else ""),
    )


def _cure(service: Service, status: ServiceStatus) -> str:
    if status.state == "stalled":
        return (
            f"look into its log; if that does not help, tally down {service.name};"
            f" tally up {service.name}"
        )
    return (
        f"none is needed, it is tried again at {status.next_try}"
        if status.next_try
        else f"tally up {service.name}"
    )


def _watcher(site: Site) -> Check:
    if watching.has_started_services(site) and not watching.is_running(site):
        return Check(False, "none runs: what ends by itself stays down", "tally up")
    return Check(
        True, "starts again what ends by itself" if watching.is_running(site) else "none is needed"
    )


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
    hanging = kafka.hanging_transactions(site.settings, site.environment)
    if hanging:
        where = ", ".join(
            f"{row['Topic']}-{row['Partition']} from offset {row['StartOffset']}" for row in hanging
        )
        raise StackError(
            f"hanging: {where}; end each with Kafka's tool:"
            " TransactionsCommand abort --topic --partition --start-offset"
        )
    return f"none hangs, {len(kafka.open_transactions(site.settings, site.environment))} open"


def _guardrails(site: Site) -> str:
    try:
        with cassandra_session(site.settings, "") as session:
            rows = session.execute("SELECT name, value FROM system_views.settings")
            found = {row.name: row.value for row in rows if row.name in GUARDRAILS}
    except DriverException as error:
        raise StackError(f"cassandra: {error}; look into its log") from error
    bad = [f"{name}={value}" for name, value in found.items() if value is not None]
    if bad:
        raise StackError(
            f"{', '.join(bad)} would refuse logical write timestamps;"
            " remove them from cassandra.yaml"
        )
    return "no least write timestamp is set"
