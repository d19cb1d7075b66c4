"""What the demo waits for: a condition, both layers, or the master while a store keeps sending."""

import operator
import time
from collections.abc import Callable

from tenacity import RetryError, retry, retry_if_result, stop_after_delay, wait_fixed

from ops.lag import Lag, WaitingSeconds
from tally.errors import StackError

Say = Callable[[str], None]
# Enough for several triggers of the master's ingest.
MASTER_SECONDS = 180


def wait_until(
    is_met: Callable[[], bool],
    missing: Callable[[], str],
    deadline_seconds: float,
    poll_seconds: float = 1.0,
) -> None:
    """Return once the condition is met. Raises StackError, with what is missing, if it is late."""
    again = retry(
        retry=retry_if_result(operator.not_),
        stop=stop_after_delay(deadline_seconds),
        wait=wait_fixed(poll_seconds),
    )
    try:
        again(is_met)()
    except RetryError as error:
        raise StackError(missing()) from error


def wait_until_caught_up(lag: Callable[[], Lag], say: Say, deadline_seconds: float) -> None:
    """Return once all records have reached both layers. Raises StackError if they are late."""
    found: list[Lag] = []

    def is_caught_up() -> bool:
        now = lag()
        found[:] = [now]
        if now.total:
            say(
                "records to go:"
                f" normaliser {now.normaliser:,}, speed {now.speed:,}, master {now.master:,}"
            )
        return not now.total

    wait_until(
        is_caught_up,
        lambda: (
            f"still behind after {deadline_seconds:.0f} s: {found[0]};"
            " see `tally status` and the logs"
        ),
        deadline_seconds,
    )


def wait_for_master(
    waiting: Callable[[], WaitingSeconds], deadline_seconds: float = MASTER_SECONDS
) -> None:
    """Return once the master holds all that was served at the call. Raises StackError if late."""
    # While a store keeps sending, the lag reaches zero only by chance.
    since = time.monotonic()
    wait_until(
        # The oldest unread record may be from before the call.
        lambda: waiting().master < time.monotonic() - since,
        lambda: (
            f"the master dataset is still behind after {deadline_seconds:.0f} s;"
            " see `tally status` and the logs"
        ),
        deadline_seconds,
    )
