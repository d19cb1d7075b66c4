"""Ends a process whose loop hangs in a call that never returns.

So a new one can go on where the brokers say.

Seen with librdkafka 2.16.0: a transactional call that is under way when the broker dies can ignore
its time-out.
"""

import time
from threading import Event, Thread

from runtime.heartbeat import Heartbeat
from runtime.job import end_now

# Longer than all calls of one turn together when each of them takes as long as it may.
MOST_SECONDS = 150
_LOOK_SECONDS = 1.0


class Watchdog:
    """Looks at a heartbeat from a thread of its own.

    `most_looks` of them without a beat end the process.
    """

    def __init__(
        self,
        name: str,
        heartbeat: Heartbeat,
        most_looks: int = MOST_SECONDS,
        look_seconds: float = _LOOK_SECONDS,
    ) -> None:
        self._name = name
        self._heartbeat = heartbeat
        self._most_looks = most_looks
        self._look_seconds = look_seconds

    def begin(self, stopped: Event) -> None:
        """Look until the event is set, and as long again: also an ending may hang."""
        Thread(
            target=self._watch,
            args=(stopped,),
            name="watchdog",
            daemon=True,
        ).start()

    def _watch(self, stopped: Event) -> None:
        # Looks are counted, not seconds: a process that was frozen as a whole has its turn first.
        beats, looks = self._heartbeat.beats, 0
        while looks < self._most_looks:
            time.sleep(self._look_seconds)
            looks = looks + 1 if stopped.is_set() or beats == self._heartbeat.beats else 0
            beats = self._heartbeat.beats
        # From this thread and at once: the one that hangs cannot be asked to close anything.
        end_now(
            self._name,
            f"no sign of life for {self._most_looks * self._look_seconds:.0f} s;"
            " start the process again",
        )
