"""Named moments at which a test can have the process killed or frozen.

So each step of a delivery is shown to survive a crash.
"""

import os
import signal
from dataclasses import dataclass, field

from tally.errors import TallyError

AFTER_POLL = "after_poll"
# Between the two halves of a delivery: the output is sent and the position is not kept yet, or the
# other way round.
BETWEEN = "between_output_and_position"
BEFORE_OFFSETS = "before_offsets"
AFTER_OFFSETS = "after_offsets"
BEFORE_COMMIT = "before_commit"
AFTER_COMMIT = "after_commit"
NAMES = (AFTER_POLL, BETWEEN, BEFORE_OFFSETS, AFTER_OFFSETS, BEFORE_COMMIT, AFTER_COMMIT)


@dataclass
class Faults:
    """Sends this process SIGKILL, or SIGSTOP, when the named moment comes for the nth time.

    Without a name it does nothing.
    """

    name: str = ""
    nth: int = 1
    sent: signal.Signals = signal.SIGKILL
    _seen: int = field(default=0, init=False)

    @classmethod
    def parse(cls, text: str) -> "Faults":
        """From `name:nth` or `name:nth:SIGSTOP`, e.g. `before_commit:3`.

        Empty text is no fault. Raises TallyError for anything else.
        """
        name, nth, sent, *more = (*text.split(":"), "", "")
        if text and (
            name not in NAMES
            or not nth.isdigit()
            or sent not in ("", "SIGKILL", "SIGSTOP")
            or any(more)
        ):
            raise TallyError(
                f"TALLY_FAULT={text}: write name:nth or name:nth:SIGSTOP with a name of"
                f" {', '.join(NAMES)}, or unset it"
            )
        return cls(name, int(nth or 1), signal.Signals[sent or "SIGKILL"])

    def reach(self, name: str) -> None:
        """The moment has come."""
        if name != self.name:
            return
        self._seen += 1
        if self._seen == self.nth:
            os.kill(os.getpid(), self.sent)
