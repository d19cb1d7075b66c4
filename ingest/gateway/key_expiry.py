"""The keys of devices destroyed when their time is over, for as long as a gateway runs."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

import structlog

from runtime.device_keys import DeviceKeys

_EVERY_SECONDS = 60.0
_log = structlog.get_logger()


async def destroy_keys(
    keys: DeviceKeys,
    every_seconds: float = _EVERY_SECONDS,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> None:
    """Destroy for ever what is over, at once and then again and again; the caller cancels it.

    A key that cannot be destroyed is logged, and tried again.
    """
    while True:
        try:
            # A disk may be slow, and the loop has to answer.
            destroyed = await asyncio.to_thread(keys.destroy, now())
        except OSError as error:
            _log.error("keys not destroyed", reason=str(error), next_try_seconds=every_seconds)
        else:
            if destroyed:
                _log.info("keys destroyed", count=destroyed)
        await asyncio.sleep(every_seconds)
