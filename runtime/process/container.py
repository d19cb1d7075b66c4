"""`python -m runtime.process.container COMMAND…`: runs it as the work of a restarting container.

A refusal is held and not repeated: the container stays up without work. A held container is
unhealthy and its log ends with the reason; a restart by hand tries again.
"""

import signal
import subprocess
import sys
from collections.abc import Sequence

from runtime.process.job import DONE, REFUSED

_STOPS = (signal.SIGTERM, signal.SIGINT)
_BY_SIGNAL = 128


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code, or 128 + the number of the signal that ended it."""
    command = list(sys.argv[1:] if argv is None else argv)
    # The handlers are set before the command starts: a command that misses the stop signal would
    # outlive its container.
    stops = list[int]()
    for number in _STOPS:
        signal.signal(number, lambda number, frame: stops.append(number))
    process = subprocess.Popen(command)
    for number in _STOPS:
        signal.signal(number, lambda number, frame: process.send_signal(number))
    for early in stops:
        process.send_signal(early)
    code = process.wait()
    # Docker would restart it for ever with the same result: held, its log ends with the reason.
    if code == REFUSED:
        print(
            f"{' '.join(command)}: refused and not started again;"
            " correct what is named above, then restart this container",
            flush=True,
        )
        for number in _STOPS:
            signal.signal(number, lambda _number, _frame: sys.exit(DONE))
        signal.pause()
        return DONE
    return code if code >= 0 else _BY_SIGNAL - code


if __name__ == "__main__":
    sys.exit(main())
