"""All services of the local stack, in start order."""

import sys
from collections.abc import Iterable
from dataclasses import replace

from ops.local.processes import probes
from ops.local.processes.service import Launch, Service, Site
from ops.local.services.airflow import AIRFLOW
from ops.local.services.cassandra import CASSANDRA
from ops.local.services.kafka import KAFKA
from runtime.process.repository import python_path
from tally.errors import StackError

ServiceNames = tuple[str, ...]
Services = dict[str, Service]


def python_module(module: str, site: Site, **variables: str) -> Launch:
    """The launch of a module of this repository by this Python, independent of the folder."""
    path = python_path(site.environment)
    return Launch(
        (sys.executable, "-m", module), {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1", **variables}
    )


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
    """A job without HTTP, which is ready when it has touched its ready file."""
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
    begun = [
        int(record.stem.rpartition("-")[2])
        for record in site.run("").glob("normaliser-[0-9]*.json")
    ]
    slots = range(1, max(site.settings.normalisers, *begun, 1))
    more = (*map(_normaliser, slots), *_stock_services(site))
    further = {service.name: service for service in more}
    return {**SERVICES, **further}


def _stock_services(site: Site) -> list[Service]:
    """The stock services that the settings enable, or that were started and not stopped."""
    has_target = site.settings.stock_target is not None
    is_enabled = {
        STOCK.name: has_target or site.settings.stock_movements,
        STOCK_ADAPTER.name: has_target,
    }
    return [
        service
        for name, service in OPTIONAL.items()
        if is_enabled[name] or site.trace(name, "json").exists()
    ]


def select_services(names: Iterable[str], services: Services = SERVICES) -> list[Service]:
    """The services with these names, all services if no name is given, in start order.

    Raises StackError for an unknown name.
    """
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
