"""Detects that this gateway has lost brokers that still answer other clients.

A Kafka client whose metadata named no broker at all never asks again (runtime/connect.py). The
gateway would store nothing until the next restart, so the process ends by itself.
"""

from collections.abc import Callable, Sequence
from threading import Event

_EVERY_SECONDS = 15.0
# A single look may meet brokers that are just coming back.
_FAILED_CHECKS = 2


class BrokerConnectivity:
    """Asks each Kafka client of the process whether it reaches a broker."""

    def __init__(
        self, client_probes: Sequence[Callable[[], bool]], brokers_answer: Callable[[], bool]
    ) -> None:
        self._client_probes, self._brokers_answer = client_probes, brokers_answer
        self._failed_checks = 0

    @property
    def is_lost(self) -> bool:
        """Whether at two looks in a row a client reached no broker while a new client did."""
        return self._failed_checks >= _FAILED_CHECKS

    def check(self) -> None:
        """Look once; meant for one thread only."""
        is_cut_off = (
            not all(reaches() for reaches in self._client_probes) and self._brokers_answer()
        )
        self._failed_checks = self._failed_checks + 1 if is_cut_off else 0

    def run(self, ended: Event) -> None:
        """Look at intervals until `ended` is set."""
        while not ended.wait(_EVERY_SECONDS):
            self.check()
