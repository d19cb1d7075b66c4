"""Destroys the keys of devices that have expired, for as long as a gateway runs."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

import structlog

from runtime.records.device_keys import DeviceKeys

_EVERY_SECONDS = 60.0
_log = structlog.get_logger()


async def destroy_keys(
    keys: DeviceKeys,
    every_seconds: float = _EVERY_SECONDS,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> None:
    """Destroy expired keys for good, now and then every `every_seconds` seconds until cancelled.

    A key that cannot be destroyed is logged, and tried again.
    """
    while True:
        try:
            # A slow disk must not block the event loop.
            destroyed = await asyncio.to_thread(keys.destroy, now())
        except OSError as error:
            _log.error("keys not destroyed", reason=str(error), next_try_seconds=every_seconds)
        else:
            if destroyed:
                _log.info("keys destroyed", count=destroyed)
        await asyncio.sleep(every_seconds)
