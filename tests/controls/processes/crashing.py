"""Wrong on purpose: `python -m tests.controls.processes.crashing before_commit:3` is the shipped
normaliser that kills itself when it comes to that moment for the third time;
`before_commit:3:SIGSTOP` freezes itself.

The failpoints are those of runtime/processor/delivery.py.
"""

import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field
from typing import ClassVar, Self

from typing_extensions import override

from ingest.normaliser.__main__ import main
from runtime.processor.delivery import FAILPOINTS, Failpoints
from tally.config.settings import Settings
from tests.controls.guard import refuse_outside_tests

SIGNALS = {"": signal.SIGKILL, "SIGSTOP": signal.SIGSTOP}


@dataclass
class Crash(Failpoints):
    """Sends this process the signal when the named moment comes for the nth time."""

    names: ClassVar[Sequence[str]] = FAILPOINTS
    settings: InitVar[Settings]
    name: str
    nth: int = 1
    sent: signal.Signals = signal.SIGKILL
    _seen: int = field(default=0, init=False)

    def __post_init__(self, settings: Settings) -> None:
        refuse_outside_tests(settings)

    @classmethod
    def of(cls, text: str, settings: Settings, names: Sequence[str] = ()) -> Self:
        """From `name:nth` or `name:nth:SIGSTOP`, the name one of these. Raises ValueError."""
        known = names or cls.names
        name, nth, sent, *more = (*text.split(":"), "", "")
        if name not in known or not nth.isdigit() or sent not in SIGNALS or any(more):
            raise ValueError(f"{text}: write name:nth[:SIGSTOP] with a name of {', '.join(known)}")
        return cls(settings, name, int(nth), SIGNALS[sent])

    @override
    def hit(self, name: str) -> None:
        """The moment has come."""
        if name != self.name:
            return
        self._seen += 1
        if self._seen == self.nth:
            os.kill(os.getpid(), self.sent)


if __name__ == "__main__":
    sys.exit(main(Crash.of(sys.argv[1], Settings.load())))
