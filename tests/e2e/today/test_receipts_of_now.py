"""A receipt of this very second goes through the whole loop with the settings as they are, as at
the end of the demo."""

from datetime import UTC, datetime

from ops.local.demo.live import DEADLINE_SECONDS, STORE, time_receipt
from tests.support.stack.loop import Loop


def test_receipts_of_now_are_served_within_a_minute(loop: Loop) -> None:
    told: list[str] = []

    seconds = [time_receipt(loop.settings, told.append) for _ in range(2)]

    print(seconds)
    assert max(seconds) < DEADLINE_SECONDS and all(
        f"of store {STORE} at {datetime.now(UTC):%Y-%m-%d}" in line for line in told
    )
