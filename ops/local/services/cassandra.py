"""One Cassandra node as a local process."""

from pathlib import Path

from ops import provision
from ops.local.machine.artifacts import class_path
from ops.local.machine.machine import check_java, java_version
from ops.local.processes import probes
from ops.local.processes.service import Launch, Service, Site
from runtime.spark.configuration import FIRST_COMPILER
from runtime.spark.jvm_classes import archive_options

CONFIG = Path(__file__).with_name("config")
# The node takes 870 MB with this heap (measured).
JVM = ("-Xms1g", "-Xmx1g", *FIRST_COMPILER.split())
# Since Java 18 a security manager must be allowed explicitly, and Cassandra 5 installs one.
SECURITY_MANAGER_SINCE = 18
QUICK_START = (
    "-Dcassandra.skip_wait_for_gossip_to_settle=0",  # the node has no peers
    "-Dcassandra.ring_delay_ms=0",
    "-Dcassandra.superuser_setup_delay_ms=0",
    # The precision of the clock for time-outs, which are seconds: the default of 2 ms costs
    # 1.6 % of a core.
    "-Dcassandra.approximate_time_precision_ms=50",
)


def launch(site: Site) -> Launch:
    """The node's command, with its configuration written for this site."""
    java, jars = check_java(site.environment), class_path(site.settings.cache, "cassandra")
    lines = (CONFIG / "cassandra-jvm.options").read_text("utf-8").splitlines()
    configured = (part for line in lines if not line.startswith("#") for part in line.split())
    allow = (
        ("-Djava.security.manager=allow",) if java_version(java) >= SECURITY_MANAGER_SINCE else ()
    )
    properties = (
        f"-Dcassandra.config={_write_config(site).as_uri()}",
        f"-Dcassandra.storagedir={site.data('cassandra')}",
        f"-Dlogback.configurationFile={CONFIG / 'cassandra-logback.xml'}",
        f"-XX:ErrorFile={site.home / 'logs' / 'cassandra-crash.log'}",
        f"-XX:HeapDumpPath={site.home / 'logs'}",
    )
    flags = [*archive_options(site.settings.cache, "cassandra"), *configured]
    options = (*JVM, *flags, *allow, *QUICK_START, *properties)
    main = ("-cp", jars, "org.apache.cassandra.service.CassandraDaemon")
    # Fewer arenas: otherwise each native thread would hold its own part of the memory.
    return Launch((java, *options, *main), {"MALLOC_ARENA_MAX": "2"})


def _write_config(site: Site) -> Path:
    host, native_port = site.settings.cassandra.rsplit(":", 1)
    values = {
        "data": site.data("cassandra"),
        "host": host,
        "native_port": native_port,
        "storage_port": site.settings.cassandra_storage.rsplit(":", 1)[1],
    }
    return site.write_config(CONFIG / "cassandra.yaml", values)


CASSANDRA = Service(
    name="cassandra",
    launch=launch,
    is_ready=lambda site: probes.cassandra_answers(site.settings),
    settings_names=("cassandra", "cassandra_storage"),
    answers=lambda site: probes.responds(site.settings.cassandra, probes.CASSANDRA_HELLO),
    once_ready=lambda site: provision.create_tables(site.settings),
    start_seconds=120,
    stop_seconds=30,
)
