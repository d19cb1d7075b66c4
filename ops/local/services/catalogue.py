"""All services of the local stack, in start order."""

import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from ops.local.processes import probes
from ops.local.processes.service import Launch, Service, Site
from ops.local.services.nodes import CASSANDRA, KAFKA
from runtime.process.files import REPOSITORY, python_path
from tally.errors import StackError

ServiceNames = tuple[str, ...]
Services = dict[str, Service]
NEW_DAGS_ARE_PAUSED = "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION"


def python_module(module: str, site: Site, **variables: str) -> Launch:
    """The launch of a module of this repository by this Python, independent of the folder."""
    path = {"PYTHONPATH": python_path(site.environment), "PYTHONUNBUFFERED": "1"}
    return Launch((sys.executable, "-m", module), {**path, **variables})


def _normaliser(slot: int) -> Service:
    """One of several normalisers; each has its own identity for the brokers."""
    name, module = f"normaliser-{slot + 1}" if slot else "normaliser", "ingest.normaliser"
    return replace(
        _job(name, module, ("kafka",)),
        launch=lambda site: python_module(module, site, TALLY_NORMALISER_SLOT=str(slot)),
        # The key for the hashes of loyalty ids is in no other process's environment.
        secrets=("TALLY_LOYALTY_KEY",),
    )


def _job(name: str, module: str, needs: ServiceNames, spark_driver: bool = False) -> Service:
    return Service(
        name=name,
        launch=lambda site: python_module(module, site),
        is_ready=lambda site: site.run(f"{name}.ready").exists(),
        needs=needs,
        spark_driver=spark_driver,
        start_seconds=180,
    )


def _web(name: str, module: str, needs: ServiceNames, secrets: ServiceNames = ()) -> Service:
    return Service(
        name=name,
        launch=lambda site: python_module(module, site),
        is_ready=lambda site: probes.is_healthy(str(getattr(site.settings, name))),
        answers=lambda site: probes.responds_http(str(getattr(site.settings, name)), "/healthz"),
        needs=needs,
        settings_names=(name,),
        secrets=secrets,
        http=True,
    )


def launch_airflow(site: Site) -> Launch:
    """The process that runs Airflow's components (SQLite) and ends with them."""
    command = (sys.executable, "-m", "ops.local.services.airflow_run")
    return Launch(command, _airflow_environment(site))


def _airflow_environment(site: Site) -> dict[str, str]:
    host, port = site.settings.airflow.rsplit(":", 1)
    path = f"{Path(sys.executable).parent}:{site.environment.get('PATH', '/usr/bin:/bin')}"
    return {
        "PATH": path,
        "PYTHONPATH": str(REPOSITORY),
        "AIRFLOW_HOME": str(site.data("airflow")),
        "AIRFLOW__CORE__DAGS_FOLDER": str(REPOSITORY / "dags"),
        # Airflow's default would leave the hourly rebuild paused until a person turns it on.
        NEW_DAGS_ARE_PAUSED: site.environment.get(NEW_DAGS_ARE_PAUSED, "False"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        # No login: Airflow listens on loopback, and every local user counts as its owner.
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        # With the one worker and one parsing process below it takes 1.5 GB, not 5.5 GB (measured).
        "AIRFLOW__CORE__PARALLELISM": "2",
        # By default Airflow makes its tasks' logs readable for the group and for others.
        "AIRFLOW__LOGGING__FILE_TASK_HANDLER_NEW_FOLDER_PERMISSIONS": "0o700",
        "AIRFLOW__LOGGING__FILE_TASK_HANDLER_NEW_FILE_PERMISSIONS": "0o600",
        # The default has port 8080, so every task would fail to report.
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://{host}:{port}/execution/",
        "AIRFLOW__API__HOST": host,
        "AIRFLOW__API__PORT": port,
        "AIRFLOW__API__BASE_URL": f"http://{host}:{port}",
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__DAG_PROCESSOR__PARSING_PROCESSES": "1",
        "AIRFLOW__SCHEDULER__ENABLE_HEALTH_CHECK": "False",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        "NO_COLOR": "1",  # the output goes to a log file
    }


AIRFLOW = Service(
    name="airflow",
    launch=launch_airflow,
    is_ready=lambda site: probes.airflow_answers(site.settings),
    answers=lambda site: probes.responds_http(site.settings.airflow, "/api/v2/version"),
    needs=("cassandra",),
    settings_names=("airflow",),
    http=True,
    start_seconds=240,
    stop_seconds=30,
)

SERVICES: Services = {
    service.name: service
    for service in (
        KAFKA,
        CASSANDRA,
        _normaliser(0),
        # Only the gateway needs the vendors' secrets, to verify what their senders send.
        _web("gateway", "ingest.gateway", ("kafka",), ("TALLY_VENDOR_SECRETS",)),
        _job("speed", "speed_layer.job", ("kafka", "cassandra"), spark_driver=True),
        _job("receipts", "speed_layer.receipts_job", ("kafka", "cassandra"), spark_driver=True),
        _job("master", "batch_layer.master.ingest", ("kafka", "cassandra"), spark_driver=True),
        _job("evaluator", "alerting.evaluate", ("kafka", "cassandra")),
        _job("projector", "alerting.publish", ("kafka", "cassandra")),
        _job("dispatcher", "alerting.deliver", ("kafka",)),
        _web("api", "web", ("kafka", "cassandra")),
        AIRFLOW,
    )
}

# Off by default.
STOCK = _job("stock", "inventory.movements", ("kafka", "cassandra"))
STOCK_ADAPTER = _job("stock-adapter", "inventory.sync", ("kafka",))
OPTIONAL = {service.name: service for service in (STOCK, STOCK_ADAPTER)}


def list_services(site: Site) -> Services:
    """All services of this site.

    There is a normaliser for each slot that the settings want, or that was started and not stopped.
    The same holds for stock movements and their adapter, which are off by default.
    """
    # A slot that is not wanted any more but still runs must be visible, so that it can be stopped.
    records = site.run("").glob("normaliser-[0-9]*.json")
    begun = (int(record.stem.rpartition("-")[2]) for record in records)
    slots = range(1, max(site.settings.normalisers, *begun, 1))
    has_target = site.settings.stock_target is not None
    enabled = {"stock": has_target or site.settings.stock_movements, "stock-adapter": has_target}
    stock = (
        service
        for name, service in OPTIONAL.items()
        if enabled[name] or site.trace(name, "json").exists()
    )
    further = {service.name: service for service in (*map(_normaliser, slots), *stock)}
    return {**SERVICES, **further}


def select_services(names: Iterable[str], services: Services = SERVICES) -> list[Service]:
    """The named services, all for no name, in start order. Raises StackError for an unknown one."""
    chosen = set(names) or set(services)
    unknown = sorted(chosen - set(services))
    if unknown:
        raise StackError(f"no service {', '.join(unknown)}; there are {', '.join(services)}")
    return [service for name, service in services.items() if name in chosen]


def with_needs(chosen: Iterable[Service], services: Services = SERVICES) -> list[Service]:
    """The chosen services and all that they need, in start order."""
    needed: set[str] = set()
    waiting = [service.name for service in chosen]
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting.extend(services[name].needs)
    return [service for name, service in services.items() if name in needed]
