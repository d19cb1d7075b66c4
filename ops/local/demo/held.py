"""Waits until the master dataset holds what has been sent, while more is being sent."""

import time
from collections.abc import Callable

from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_fixed

from ops.lag import Waiting
from tally.errors import StackError

# Some triggers of the master's ingest.
DEADLINE_SECONDS = 180


def wait_until_held(
    waiting: Callable[[], Waiting], deadline_seconds: float = DEADLINE_SECONDS
) -> None:
    """Return when the master holds all that was served when it was called, whatever comes since.

    Raises StackError after the deadline.
    """
    # A store that goes on sending is never caught up with: a lag of none would be chance.
    since = time.monotonic()

    @retry(
        retry=retry_if_exception_type(LookupError),
        stop=stop_after_delay(deadline_seconds),
        wait=wait_fixed(1),
        reraise=True,
    )
    def held() -> None:
        """One look. Raises LookupError while the oldest unread record may be of before."""
        if waiting().master >= time.monotonic() - since:
            raise LookupError

    try:
        held()
    except LookupError as error:
        raise StackError(
            f"the master dataset is still behind after {deadline_seconds:.0f} s;"
            " see `tally status` and the logs"
        ) from error
