"""Tills that sell all the time: a steady stream of receipts through the gateway, with what it
adds up to."""

import json
import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from tally.time.instants import format_utc
from tests.support.clients.gateway_client import GatewayClient
from tests.support.oracles.plain_oracle import Cell, Parts, counted_once, event_of

STORES = ("live-1", "live-2", "live-3", "live-4")
# Within the allowed lateness: the speed layer has closed no window of it.
LOOKING_BACK = timedelta(minutes=45)
POSTS_A_SECOND = 4


class LiveLoad:
    """A stream of `rate` sales a second, of the last three quarters of an hour, each another
    receipt; every tenth is sent twice."""

    def __init__(self, address: str, rate: int = 200) -> None:
        self.client = GatewayClient(address)
        self._rate = rate
        self._chance = random.Random(rate)
        self._stop = threading.Event()
        self._sent: list[bytes] = []

    @property
    def receipts(self) -> int:
        """How many receipts are acknowledged."""
        return len(self._sent)

    def expected(self) -> dict[Cell, Parts]:
        """What all that was acknowledged adds up to."""
        return counted_once(event_of(message) for message in self._sent)

    @contextmanager
    def selling(self) -> Iterator[None]:
        """Sends until the block ends, and then what is still under way.

        Raises what went wrong with it.
        """
        with ThreadPoolExecutor(1) as till:
            sold = till.submit(self._sell)
            try:
                yield
            finally:
                self._stop.set()
            sold.result()
        self.client.close()

    def _sell(self) -> None:
        due = time.monotonic()
        while not self._stop.wait(max(0.0, due - time.monotonic())):
            # After an outage the pace is the same as before: what was not sold then is not made up.
            due = max(due, time.monotonic() - 1) + 1 / POSTS_A_SECOND
            self._post()

    def _post(self) -> None:
        first = len(self._sent)
        messages = [
            self._receipt(number) for number in range(first, first + self._rate // POSTS_A_SECOND)
        ]
        self.client.post("/v1/events/pos", [*messages, *messages[::10]])
        self._sent += messages

    def _receipt(self, number: int) -> bytes:
        happened_at = datetime.now(UTC) - self._chance.random() * LOOKING_BACK
        line = {"item": "Milk 1l", "price": self._chance.randrange(1, 999) / 100, "amount": 1}
        message = {
            "happened_at": format_utc(happened_at),
            "operation_id": self._chance.choice(STORES),
            "vendor_fiscal_module": 1,
            "transaction_id": number,
            "transactions": [line],
        }
        return json.dumps(message).encode()
