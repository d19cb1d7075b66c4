"""The doctor of a stack whose readers stand still."""

from collections.abc import Iterator
from datetime import UTC, datetime

import httpx
import pytest

from ops.local.stack import catalogue, control, doctor, pipeline
from ops.local.stack.service import Site
from tally.errors import StackError
from tests.conftest import make_site

SERVICES = catalogue.named(["kafka", "cassandra", "normaliser", "gateway"])


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """What a receipt needs to be taken and read, on a home of its own."""
    site = make_site(tmp_path_factory.mktemp("behind"))
    try:
        control.up(site, SERVICES, print)
        yield site
    finally:
        control.down(site, catalogue.named(()), print)


def test_doctor_tells_of_readers_that_are_behind_before_records_are_lost(running: Site) -> None:
    normaliser = catalogue.named(["normaliser"])
    control.down(running, normaliser, print)
    patient = pipeline.lag(running.settings)
    httpx.post(
        f"http://{running.settings.gateway}/v1/events/pos", json=receipt(), timeout=30
    ).raise_for_status()
    hasty = running.settings.model_copy(update={"raw_backlog_seconds": 0.001})

    with pytest.raises(
        StackError,
        match=r"normaliser: a record has waited for 0\.0 h, at 0\.0 h the gateway refuses messages",
    ):
        pipeline.lag(hasty)

    assert patient.startswith("no unread record has waited longer than")
    found = dict(doctor.checks(running))
    assert [found[name].ok for name in ("lag", "gaps", "tills")] == [True, True, True]


def receipt() -> dict[str, object]:
    """A receipt of now that nobody will read."""
    line = {"item": "Milk 1l", "price": 0.99, "amount": 2}
    now = datetime.now(UTC).isoformat()
    return {
        "happened_at": now,
        "operation_id": "unread",
        "vendor_fiscal_module": 1,
        "transaction_id": 1,
        "transactions": [line],
    }
