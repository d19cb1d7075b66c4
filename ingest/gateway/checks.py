"""Checks bodies beside the event loop, one after the other, and watches how long each takes."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Thread

from ingest.contract.vendor import VendorBody
from ingest.gateway.submission import CheckedLines, Endpoint, check_lines
from runtime.process.job import exit_failed

# The size of a till's receipt; a larger body would block the event loop for the other senders.
_SMALL_BYTES = 16 * 1024
# No body takes two seconds: after ten, no sender of a larger body gets an answer from this process.
_READY_SECONDS = 10.0
MAX_SECONDS = 60
_POLL_SECONDS = 1.0


class BodyChecker:
    """Checks bodies in one thread.

    A second thread would only take the interpreter away from the event loop once more.
    """

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, "checks")
        self._count = 0
        self._started_at: float | None = None

    async def check(self, body: VendorBody, endpoint: Endpoint, is_ndjson: bool) -> CheckedLines:
        """Check each line of a body; raises as check_lines() does."""
        # The cost of a vendor's body depends on its parts and not on its size.
        is_small = len(body.content) <= _SMALL_BYTES and not is_ndjson
        if is_small and endpoint.messages is None:
            return check_lines(body, endpoint)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self._executor, self._run_check, body, endpoint, is_ndjson
        )

    @property
    def age_seconds(self) -> float:
        """Seconds for which the current check has run; 0 while there is none."""
        begun_at = self._started_at
        return 0.0 if begun_at is None else time.monotonic() - begun_at

    def readiness(self) -> dict[str, object]:
        """Whether the next body would be checked soon, and a line about it."""
        age = self.age_seconds
        return {
            "ok": age < _READY_SECONDS,
            "detail": f"the check under way has run for {age:.1f} s" if age else "none under way",
        }

    def start_watchdog(
        self, most_looks: int = MAX_SECONDS, look_seconds: float = _POLL_SECONDS
    ) -> None:
        """Start a thread that ends the process when one check hangs.

        A check hangs when `most_looks` looks in a row, one every `look_seconds` seconds, see it.
        """
        Thread(
            target=self._end_when_hung,
            args=(most_looks, look_seconds),
            name="check-watch",
            daemon=True,
        ).start()

    def close(self) -> None:
        """Start no further check."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _run_check(self, body: VendorBody, endpoint: Endpoint, is_ndjson: bool) -> CheckedLines:
        self._count += 1
        self._started_at = time.monotonic()
        try:
            return check_lines(body, endpoint, is_ndjson)
        finally:
            self._started_at = None

    def _end_when_hung(self, most_looks: int, look_seconds: float) -> None:
        # Looks are counted, not seconds: after a freeze of the whole process the check runs first.
        count, looks = 0, 0
        while looks < most_looks:
            time.sleep(look_seconds)
            is_same = self._started_at is not None and count == self._count
            looks, count = looks + 1 if is_same else 0, self._count
        # The process ends at once: the thread that hangs cannot be asked to close anything.
        exit_failed(
            "gateway",
            f"one body is checked for {most_looks * look_seconds:.0f} s; start the gateway again",
        )
