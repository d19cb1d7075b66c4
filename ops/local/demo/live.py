"""A receipt of this very second: sent to the gateway, and asked of the API until it is served.

It is sent as a till sends it.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import httpx
from tenacity import RetryError, retry, retry_if_result, stop_after_delay, wait_fixed

from tally.errors import StackError
from tally.instants import instant_text
from tally.settings import Settings
from tally.windows import WINDOW, window_start

# A store of its own: the audit compares the others with what the package of receipts holds.
STORE = "live"
LINES = (
    {"item": "Milk 1l", "price": 0.99, "amount": 2},
    {"item": "Bread", "price": 2.49, "amount": 1},
)
DEADLINE_SECONDS = 60.0
_POLL_SECONDS = 0.1


def serve_one(
    settings: Settings,
    say: Callable[[str], None],
    now: datetime | None = None,
) -> float:
    """Seconds from before the receipt was sent until the API served it.

    Raises StackError when it does not within a minute.
    """
    now = now or datetime.now(UTC)
    receipt = live_receipt(now)
    started = time.monotonic()
    with httpx.Client(timeout=DEADLINE_SECONDS) as client:
        # The store may have sold in this quarter hour already, in an earlier run: one more is
        # waited for.
        before = served_receipts(client, settings, now) or 0
        send_receipt(client, settings, receipt)
        taken = time.monotonic() - started
        wait_until(
            lambda: (served_receipts(client, settings, now) or 0) > before,
            lambda: "the receipt was taken and is not served",
        )
    seconds = time.monotonic() - started
    say(
        f"a receipt of store {STORE} at {receipt['happened_at']}:"
        f" taken after {taken:.2f} s, served after {seconds:.1f} s"
    )
    return seconds


def send_receipt(client: httpx.Client, settings: Settings, receipt: dict[str, Any]) -> None:
    """Gives a receipt to the gateway. Raises StackError when it is not taken."""
    answer = client.post(f"http://{settings.gateway}/v1/events/pos", json=receipt)
    if answer.status_code != httpx.codes.ACCEPTED:
        raise StackError(
            f"demo: the gateway answered {answer.status_code} to a receipt:"
            f" {answer.text[:200]}; see its log"
        )


def live_receipt(now: datetime, store: str = STORE) -> dict[str, Any]:
    """A receipt of the instant, by field of the message; prices in major units.

    Its number is the instant's, so that another run's is another receipt.
    """
    number = int(now.timestamp() * 1000)
    return {
        "happened_at": instant_text(now),
        "operation_id": store,
        "vendor_fiscal_module": "demo",
        "transaction_id": number,
        "transactions": list(LINES),
    }


def served_receipts(
    client: httpx.Client, settings: Settings, now: datetime, store: str = STORE
) -> int | None:
    """Transactions of the store's window at the instant as the API tells them.

    None while it knows nothing of the store or the window.
    """
    start = window_start(now)
    asked = {"store": store, "from": instant_text(start), "to": instant_text(start + WINDOW)}
    answer = client.get(f"http://{settings.api}/v1/metrics/transactions", params=asked)
    if answer.status_code != httpx.codes.OK:
        return None
    (row,) = answer.json()["rows"]
    value: int | None = row["value"]
    return value


def wait_until(
    served: Callable[[], bool],
    missing: Callable[[], str],
) -> None:
    """Returns when it is served. Raises StackError after a minute, with what is missing."""
    again = retry(
        retry=retry_if_result(lambda done: not done),
        stop=stop_after_delay(DEADLINE_SECONDS),
        wait=wait_fixed(_POLL_SECONDS),
    )
    try:
        again(served)()
    except RetryError as error:
        raise StackError(
            f"demo: {missing()} after {DEADLINE_SECONDS:.0f} s;"
            " `tally status` and `tally doctor` say why"
        ) from error
