"""Dense receipts of one day: three stores that sell every half minute, sent as far as a test
asks, with their oracle."""

import json
from collections import defaultdict
from datetime import UTC, datetime, timedelta

from ingest.senders.replay.run import KafkaChannel
from tally.config.settings import Settings
from tally.time.instants import format_utc
from tally.time.windows import window_start
from tests.support.clients.readers import METRICS, Told

STORES = ("1", "2", "3")
DAY = datetime(2017, 3, 1, tzinfo=UTC)
SPAN = (DAY, DAY + timedelta(days=1))
WINDOW = timedelta(minutes=15)
RECEIPTS_A_WINDOW = 30
SENT_TWICE = 10  # each tenth receipt
Cell = tuple[str, datetime]


class DenseDay:
    """Sends the day in event-time order; what it has sent is what every view must come to."""

    def __init__(self, settings: Settings) -> None:
        self._channel = KafkaChannel(settings, "posTransactionTopic")
        self._sent = 0
        self._totals: dict[Cell, list[int]] = defaultdict(lambda: [0, 0])

    @property
    def told(self) -> set[Told]:
        """What the API has to say of all that was sent: a value for each store, window start and
        metric."""
        return {
            (*cell, metric, value)
            for cell, totals in self._totals.items()
            for metric, value in zip(METRICS, totals, strict=True)
        }

    def send_until(self, windows: float) -> None:
        """Everything before that many windows of the day have passed, acknowledged by the
        broker."""
        end = round(windows * RECEIPTS_A_WINDOW)
        for number in range(self._sent, end):
            for store in STORES:
                self._send(store, number)
        self._sent = end
        self._channel.flush()

    def _send(self, store: str, number: int) -> None:
        happened_at, cents = DAY + number * WINDOW / RECEIPTS_A_WINDOW, 100 + number
        line = {"item": "Milk 1l", "price": cents / 100, "amount": 1}
        message = {
            "happened_at": format_utc(happened_at),
            "operation_id": int(store),
            "transaction_id": number,
            "vendor_fiscal_module": 1,
            "transactions": [line],
        }
        for _ in range(2 if number % SENT_TWICE == 0 else 1):
            self._channel.send(store, json.dumps(message).encode())
        total = self._totals[(store, window_start(happened_at))]
        total[0] += 1
        total[1] += cents
