"""A watchdog that ends a process whose loop hangs in a call that never returns.

A new process can then resume from the positions at the brokers.

Seen with librdkafka 2.16.0: a transactional call that is under way when the broker dies can ignore
its time-out.
"""

import time
from threading import Event, Thread

from runtime.process.heartbeat import Heartbeat
from runtime.process.job import exit_failed

# Longer than all calls of one turn together, each with its full time-out.
MAX_SECONDS = 150
_LOOK_SECONDS = 1.0


class Watchdog:
    """Watches a heartbeat from a thread of its own.

    After `most_looks` looks without a beat it ends the process.
    """

    def __init__(
        self,
        name: str,
        heartbeat: Heartbeat,
        most_looks: int = MAX_SECONDS,
        look_seconds: float = _LOOK_SECONDS,
    ) -> None:
        self._name = name
        self._heartbeat = heartbeat
        self._most_looks = most_looks
        self._look_seconds = look_seconds

    def start(self, stopped: Event) -> None:
        """Watch until the event is set, and as long again after it: a shutdown may hang too."""
        thread = Thread(target=self._watch, args=(stopped,), name="watchdog", daemon=True)
        thread.start()

    def _watch(self, stopped: Event) -> None:
        # Looks are counted, not seconds: a process that was frozen as a whole can beat first.
        beats, looks = self._heartbeat.beats, 0
        while looks < self._most_looks:
            time.sleep(self._look_seconds)
            looks = looks + 1 if stopped.is_set() or beats == self._heartbeat.beats else 0
            beats = self._heartbeat.beats
        # The process ends from this thread and at once: the hanging one cannot close anything.
        exit_failed(
            self._name,
            f"no sign of life for {self._most_looks * self._look_seconds:.0f} s;"
            " start the process again",
        )
