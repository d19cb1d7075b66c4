"""A receipt of now: sent to the gateway like a till does, and awaited in the API's answers."""

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from ingest.senders.gateway_client import connect_gateway
from ops.local.demo.waits import Say, wait_until
from tally.config.settings import Settings
from tally.errors import ApiError, BodyRefused, GatewayUnavailable, StackError
from tally.time.instants import format_utc, to_millis
from tally.time.windows import WINDOW, window_start
from web.client import ApiClient

# A separate store: the audit compares the other stores with the package of receipts.
STORE = "live"
LINES = (
    {"item": "Milk 1l", "price": 0.99, "amount": 2},
    {"item": "Bread", "price": 2.49, "amount": 1},
)
DEADLINE_SECONDS = 60.0
_POLL_SECONDS = 0.1


def time_receipt(settings: Settings, say: Say, now: datetime | None = None) -> float:
    """Seconds from before sending a receipt until it is served. Raises StackError if too many."""
    now = now or datetime.now(UTC)
    receipt = live_receipt(now)
    started = time.monotonic()
    with ApiClient(settings.api, "demo", DEADLINE_SECONDS) as api:
        # The store may have receipts of an earlier run in this quarter hour: one more is awaited.
        before = count_receipts(api, now) or 0
        send_receipt(settings, receipt)
        taken = time.monotonic() - started
        wait_until_served(
            lambda: (count_receipts(api, now) or 0) > before,
            lambda: "the receipt was taken and is not served",
        )
    seconds = time.monotonic() - started
    say(
        f"a receipt of store {STORE} at {receipt['happened_at']}:"
        f" taken after {taken:.2f} s, served after {seconds:.1f} s"
    )
    return seconds


def send_receipt(settings: Settings, receipt: dict[str, Any]) -> None:
    """Send a receipt to the gateway. Raises StackError when the gateway does not accept it."""
    try:
        with connect_gateway(settings.gateway, retry_seconds=0) as gateway:
            gateway.post_accepted("/v1/events/pos", [json.dumps(receipt).encode()])
    except (BodyRefused, GatewayUnavailable) as error:
        raise StackError(f"demo: a receipt was not taken: {error}; see its log") from error


def live_receipt(now: datetime, store: str = STORE) -> dict[str, Any]:
    """A receipt as the fields of a message; prices in major units, the number by the instant."""
    receipt = {"vendor_fiscal_module": "demo", "transaction_id": to_millis(now)}
    place = {"happened_at": format_utc(now), "operation_id": store}
    return {**place, **receipt, "transactions": list(LINES)}


def count_receipts(api: ApiClient, now: datetime, store: str = STORE) -> int | None:
    """The transactions in the store's window as the API answers; None while it knows none."""
    start = window_start(now)
    question = {"store": store, "from": format_utc(start), "to": format_utc(start + WINDOW)}
    try:
        (row,) = api.get("/v1/metrics/transactions", question)["rows"]
    except ApiError as error:
        if error.status is None:
            raise
        return None
    value: int | None = row["value"]
    return value


def wait_until_served(
    is_served: Callable[[], bool],
    missing: Callable[[], str],
) -> None:
    """Return when it is served. Raises StackError, with what is missing, after a minute."""
    seconds = DEADLINE_SECONDS
    hint = f"after {seconds:.0f} s; `tally status` and `tally doctor` say why"
    wait_until(is_served, lambda: f"demo: {missing()} {hint}", seconds, _POLL_SECONDS)
