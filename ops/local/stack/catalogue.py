"""Every service of the local stack, in start order."""

import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

from ops.local.stack import probes
from ops.local.stack.airflow import AIRFLOW
from ops.local.stack.cassandra import CASSANDRA
from ops.local.stack.kafka import KAFKA
from ops.local.stack.service import Launch, Service, Site
from runtime.repository import python_path
from tally.errors import StackError


def python_module(
    module: str, site: Site, environment: Mapping[str, str] = MappingProxyType({})
) -> Launch:
    """A module of this repository, run by this Python from wherever `tally` was called."""
    return Launch(
        (sys.executable, "-m", module),
        {"PYTHONPATH": python_path(site.environment), "PYTHONUNBUFFERED": "1", **environment},
    )


def _normaliser(slot: int) -> Service:
    """One of several; each has an identity of its own for the brokers."""
    name, own = (
        f"normaliser-{slot + 1}" if slot else "normaliser",
        {"TALLY_NORMALISER_SLOT": str(slot)},
    )
    # The key that loyalty ids are hashed with is in no other process's environment.
    service = _job(name, "ingest.normaliser", ("kafka",), secrets=("TALLY_LOYALTY_KEY",))
    return replace(service, launch=lambda site: python_module("ingest.normaliser", site, own))


def _job(
    name: str,
    module: str,
    needs: tuple[str, ...],
    *,
    spark_driver: bool = False,
    secrets: tuple[str, ...] = (),
) -> Service:
    """A job without HTTP: ready when it has touched its ready file."""
    return Service(
        name=name,
        launch=lambda site: python_module(module, site),
        is_ready=lambda site: site.run(f"{name}.ready").exists(),
        needs=needs,
        spark_driver=spark_driver,
        secrets=secrets,
        start_seconds=180,
    )


def _web(
    name: str,
    module: str,
    needs: tuple[str, ...],
    secrets: tuple[str, ...] = (),
) -> Service:
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


SERVICES: dict[str, Service] = {
    service.name: service
    for service in (
        KAFKA,
        CASSANDRA,
        _normaliser(0),
        # What vendors' senders know is compared where it arrives, and nowhere else.
        _web("gateway", "ingest.gateway", ("kafka",), ("TALLY_VENDOR_SECRETS",)),
        _job("speed", "speed_layer.job", ("kafka", "cassandra"), spark_driver=True),
        _job("receipts", "speed_layer.receipts_job", ("kafka", "cassandra"), spark_driver=True),
        _job("master", "batch_layer.master.ingest", ("kafka", "cassandra"), spark_driver=True),
        _job("evaluator", "serving.alerts.evaluator", ("kafka", "cassandra")),
        _job("projector", "serving.alerts.projection", ("kafka", "cassandra")),
        _job("dispatcher", "serving.alerts.dispatch", ("kafka", "cassandra")),
        _web("api", "serving", ("kafka", "cassandra")),
        AIRFLOW,
    )
}

# Off unless somebody wants them.
STOCK = _job("stock", "serving.stock.movements", ("kafka", "cassandra"))
STOCK_ADAPTER = _job("stock-adapter", "serving.stock.adapter", ("kafka",))
OPTIONAL = {service.name: service for service in (STOCK, STOCK_ADAPTER)}


def services_of(site: Site) -> dict[str, Service]:
    """Every service of this site.

    There is a normaliser for each slot that its settings want, or that was started and not stopped;
    so are stock movements and the adapter, which are off without a setting.
    """
    # A slot that is wanted no more, and still runs, can be stopped and told of.
    begun = [
        int(record.stem.rpartition("-")[2])
        for record in site.run("").glob("normaliser-[0-9]*.json")
    ]
    more = [
        _normaliser(slot)
        for slot in range(
            1,
            max(site.settings.normalisers, *begun, 1),
        )
    ]
    further = {service.name: service for service in (*more, *_stock_of(site))}
    return {**SERVICES, **further}


def _stock_of(site: Site) -> list[Service]:
    """What somebody has asked for who wants stock movements, or has started."""
    told = site.settings.stock_target is not None
    wanted = {STOCK.name: told or site.settings.stock_movements, STOCK_ADAPTER.name: told}
    return [
        service
        for name, service in OPTIONAL.items()
        if wanted[name] or site.trace(name, "json").exists()
    ]


def named(
    names: Iterable[str],
    services: dict[str, Service] = SERVICES,
) -> list[Service]:
    """The services of these names, all if there are none, in start order.

    Raises StackError for an unknown name.
    """
    asked = set(names) or set(services)
    unknown = sorted(asked - set(services))
    if unknown:
        raise StackError(f"no service {', '.join(unknown)}; there are {', '.join(services)}")
    return [service for name, service in services.items() if name in asked]


def with_needs(
    chosen: Iterable[Service],
    services: dict[str, Service] = SERVICES,
) -> list[Service]:
    """The chosen services and all that they need, in start order."""
    wanted: set[str] = set()
    waiting = [service.name for service in chosen]
    while waiting:
        name = waiting.pop()
        if name not in wanted:
            wanted.add(name)
            waiting.extend(services[name].needs)
    return [service for name, service in services.items() if name in wanted]
