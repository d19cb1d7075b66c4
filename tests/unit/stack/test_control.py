"""Order of starts and stops."""

from pathlib import Path

import pytest

from ops.local.processes.service import Site
from ops.local.services import catalogue
from ops.local.stack import control
from tally.config.settings import Settings
from tally.errors import RestartNeeded, StackError
from tests.unit.stack.conftest import MakeService


def test_service_starts_when_what_it_needs_is_ready(site: Site, service: MakeService) -> None:
    told: list[str] = []
    broker, reader = service("broker"), service("reader", needs=("broker",))

    control.up(site, [broker, reader], told.append)

    assert [line.partition(" after")[0] for line in told] == [
        "broker: starting",
        "broker: ready",
        "reader: starting",
        "reader: ready",
    ]


def test_failure_keeps_only_those_down_that_need_it(site: Site, service: MakeService) -> None:
    broker, reader, other = (
        service("broker", "exit 1"),
        service("reader", needs=("broker",)),
        service("other"),
    )

    with pytest.raises(StackError, match="reader: not started, it needs broker"):
        control.up(site, [broker, reader, other], print)

    states = {
        name: status.state for name, status in control.status(site, [broker, reader, other]).items()
    }
    assert states == {"broker": "failed", "reader": "stopped", "other": "running"}


def test_what_others_need_stops_last_and_kafka_after_all(site: Site, service: MakeService) -> None:
    told: list[str] = []
    services = [
        service("kafka"),
        service("cassandra"),
        service("speed", needs=("kafka", "cassandra")),
        service("idle"),
    ]
    control.up(site, services, print)

    control.down(site, services, told.append)

    assert told == ["speed: stopped", "idle: stopped", "cassandra: stopped", "kafka: stopped"]


def test_down_of_what_does_not_run_says_nothing(site: Site, service: MakeService) -> None:
    told: list[str] = []

    control.down(site, [service()], told.append)

    assert told == []


def test_once_ready_hook_runs_on_every_up(site: Site, service: MakeService) -> None:
    calls: list[str] = []
    job = service(once_ready=lambda site: calls.append("provision"))

    control.up(site, [job], print)
    control.up(site, [job], print)

    assert calls == ["provision", "provision"]


def test_error_of_the_hook_is_the_services_failure(site: Site, service: MakeService) -> None:
    def refuse(site: Site) -> None:
        raise StackError("topic sales has 4 partitions")

    with pytest.raises(StackError, match="job: topic sales has 4 partitions"):
        control.up(site, [service(once_ready=refuse)], print)


def test_service_that_runs_with_less_than_it_has_is_restarted_once(
    site: Site, service: MakeService
) -> None:
    pids: list[int | None] = []

    def knows_after_a_restart(site: Site) -> None:
        pids.append(control.status(site, [job])["job"].pid)
        if len(pids) == 1:
            raise RestartNeeded("table sales_15min")

    job = service(once_ready=knows_after_a_restart)
    told: list[str] = []

    control.up(site, [job], told.append)

    assert [line.partition(" after")[0] for line in told] == [
        "job: starting",
        "job: restarting (table sales_15min)",
        "job: starting",
        "job: ready",
    ]
    assert len(set(pids)) == 2


def test_service_that_a_restart_does_not_mend_has_failed(site: Site, service: MakeService) -> None:
    def never_knows(site: Site) -> None:
        raise RestartNeeded("table sales_15min")

    with pytest.raises(StackError, match="job: table sales_15min"):
        control.up(site, [service(once_ready=never_knows)], print)


def test_needs_are_started_too_in_start_order() -> None:
    chosen = catalogue.with_needs(catalogue.select_services(["speed"]))

    assert [service.name for service in chosen] == ["kafka", "cassandra", "speed"]


def test_no_name_means_every_service() -> None:
    names = [service.name for service in catalogue.select_services(())]

    assert names == [
        "kafka",
        "cassandra",
        "normaliser",
        "gateway",
        "speed",
        "receipts",
        "master",
        "evaluator",
        "projector",
        "dispatcher",
        "api",
        "airflow",
    ]


def test_a_normaliser_for_each_slot_that_is_wanted_or_was_started(site: Site) -> None:
    def slots(settings: Settings) -> dict[str, str]:
        found = catalogue.list_services(Site(settings, site.environment))
        return {
            name: one.launch(site).environment["TALLY_NORMALISER_SLOT"]
            for name, one in found.items()
            if "normaliser" in name
        }

    assert slots(site.settings) == {"normaliser": "0"}
    wanted = site.settings.model_copy(update={"normalisers": 3})
    assert slots(wanted) == {"normaliser": "0", "normaliser-2": "1", "normaliser-3": "2"}
    # Once started it is looked after and stopped, whatever the settings say by then.
    site.run("").mkdir(parents=True, exist_ok=True)
    site.run("normaliser-2.json").touch()
    assert slots(site.settings) == {"normaliser": "0", "normaliser-2": "1"}


def test_stock_movements_and_their_adapter_are_off_unless_somebody_wants_them(site: Site) -> None:
    def stock_of(**changed: object) -> list[str]:
        settings = site.settings.model_copy(update=changed)
        found = catalogue.list_services(Site(settings, site.environment))
        return [name for name in found if "stock" in name]

    assert stock_of() == []
    assert stock_of(stock_movements=True) == ["stock"]
    assert stock_of(stock_target=Path("target.json")) == ["stock", "stock-adapter"]
    # Once started it is looked after and stopped, whatever the settings say by then.
    site.run("").mkdir(parents=True, exist_ok=True)
    site.run("stock.json").touch()
    assert stock_of() == ["stock"]


def test_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(StackError, match="no service kafak; there are kafka, cassandra"):
        catalogue.select_services(["kafak"])
