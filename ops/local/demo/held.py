"""Waits until the master dataset holds the records sent so far, while more are being sent."""

import time
from collections.abc import Callable

from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_fixed

from ops.lag import WaitingSeconds
from tally.errors import StackError

# Enough for several triggers of the master's ingest.
DEADLINE_SECONDS = 180


def wait_for_master(
    waiting: Callable[[], WaitingSeconds], deadline_seconds: float = DEADLINE_SECONDS
) -> None:
    """Return when the master holds all records that were served at the time of the call.

    Raises StackError after the deadline.
    """
    # While a store keeps sending, the lag reaches zero only by chance.
    since = time.monotonic()

    @retry(
        retry=retry_if_exception_type(LookupError),
        stop=stop_after_delay(deadline_seconds),
        wait=wait_fixed(1),
        reraise=True,
    )
    def check_stored() -> None:
        """Raises LookupError while the oldest unread record may be from before the call."""
        if waiting().master >= time.monotonic() - since:
            raise LookupError

    try:
        check_stored()
    except LookupError as error:
        raise StackError(
            f"the master dataset is still behind after {deadline_seconds:.0f} s;"
            " see `tally status` and the logs"
        ) from error
