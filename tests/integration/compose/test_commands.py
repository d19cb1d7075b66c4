"""Each command line of docker-compose.yml starts its service here, with the same arguments, on a
Spark cluster; a receipt goes through.

Airflow's command lines are those of the local stack (tests/unit/compose), which
tests/integration/stack/test_airflow.py runs.
"""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from tenacity import retry, retry_if_result, stop_after_delay, wait_fixed

from ops.local.processes.service import Service, Site
from ops.local.stack import control
from tests.conftest import make_site
from tests.integration.compose.local import always_up, free_address, local_services
from tests.support import http
from tests.unit.compose.files import own_services

RECEIPT = {
    "happened_at": "2017-09-19T22:48:03+00:00",
    "operation_id": 1,
    "transaction_id": 42,
    "vendor_fiscal_module": 123,
    "transactions": [{"item": "Milk 1l", "price": 0.99, "amount": 2}],
}
QUESTION = {"store": "1", "from": "2017-09-19T22:45:00Z", "to": "2017-09-19T23:00:00Z"}


@pytest.fixture(scope="module")
def running(own_site: Site) -> Iterator[tuple[Site, list[Service]]]:
    """The module's own stack with every service of the compose file up."""
    spark = free_address()
    site = make_site(
        own_site.home,
        **addresses(own_site),
        TALLY_SPARK_MASTER=f"spark://{spark}",
        TALLY_SPARK_MEMORY="1g",
    )
    started = local_services(spark)
    control.up(site, started, print)
    yield site, started
    control.down(site, started, print)


def addresses(site: Site) -> dict[str, str]:
    """TALLY_* variables of a site."""
    return {name: value for name, value in site.environment.items() if name.startswith("TALLY_")}


def test_provision_finds_or_makes_every_topic_and_table(own_site: Site) -> None:
    command = [sys.executable, *own_services()["provision"][1:]]

    assert (
        subprocess.run(
            command, env=dict(own_site.environment), check=False, capture_output=True, text=True
        ).stderr
        == ""
    )


def test_each_command_line_brings_its_service_up(running: tuple[Site, list[Service]]) -> None:
    site, started = running

    states = {name: status.state for name, status in control.status(site, started).items()}

    assert states == dict.fromkeys([*always_up(), "spark-master", "spark-worker-1"], "running")


def test_a_receipt_sent_to_the_gateway_is_answered_by_the_api(
    running: tuple[Site, list[Service]],
) -> None:
    site, _ = running

    sent = http.post(f"http://{site.settings.gateway}/v1/events/pos", json=RECEIPT, timeout=300)

    assert sent.json() == {"accepted": 1, "rejected": []}
    row = counted_row(site.settings.api)
    assert (row["value"], row["source"]) == (1, "speed")


@retry(
    retry=retry_if_result(lambda row: row.get("value") is None),
    stop=stop_after_delay(600),
    wait=wait_fixed(0.5),
)
def counted_row(api: str) -> dict[str, Any]:
    """The receipt's window once the speed layer has counted it; until then the store is unknown."""
    answer = http.get(f"http://{api}/v1/metrics/transactions", params=QUESTION, timeout=300)
    if answer.status_code == httpx.codes.NOT_FOUND:
        return {}
    (row,) = answer.raise_for_status().json()["rows"]
    return dict(row)
