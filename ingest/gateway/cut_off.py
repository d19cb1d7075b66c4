"""Whether this gateway has lost brokers that answer others.

A Kafka client that was told of no broker at all never asks again (runtime/connect.py). Nothing
would be stored any more, until somebody starts the process again: so it ends by itself.
"""

from collections.abc import Callable, Sequence
from threading import Event

_EVERY_SECONDS = 15.0
# One look may fall between two moments of brokers that are just coming back.
_LOOKS = 2


class CutOff:
    """Looks at the clients of the process, each of which says whether it reaches a broker."""

    def __init__(
        self, reach: Sequence[Callable[[], bool]], brokers_answer: Callable[[], bool]
    ) -> None:
        self._reach, self._brokers_answer = reach, brokers_answer
        self._found = 0

    @property
    def is_sure(self) -> bool:
        """Whether a client reached no broker at two looks in a row, and somebody new did."""
        return self._found >= _LOOKS

    def look(self) -> None:
        """One look; for one thread."""
        is_cut_off = not all(reaches() for reaches in self._reach) and self._brokers_answer()
        self._found = self._found + 1 if is_cut_off else 0

    def go_on(self, ended: Event) -> None:
        """Look again and again until it has ended."""
        while not ended.wait(_EVERY_SECONDS):
            self.look()
