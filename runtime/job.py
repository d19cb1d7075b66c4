"""How a job ends: one line about an error, an exit code, a note for whoever watches.

The exit code says whether a new start may heal the error.
"""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from confluent_kafka import KafkaException

from tally.errors import Refused, TallyError

DONE, FAILED = 0, 1
# EX_CONFIG of sysexits.h: started again it would end the same way, so nobody starts it again by
# himself.
REFUSED = 78
# File that takes {"code", "reason"} of the end of this process; set by whoever starts it.
EXIT_FILE = "TALLY_EXIT_FILE"


def run_job(name: str, work: Callable[[], None]) -> int:
    """Exit code of the work: DONE, FAILED or REFUSED.

    DONE when it returns, FAILED on an error that a new start may heal, REFUSED on one that it
    cannot. Raises whatever is no error of Tally's or Kafka's.
    """
    try:
        work()
    except TallyError as error:
        return _ended(name, REFUSED if isinstance(error, Refused) else FAILED, str(error))
    except KafkaException as error:
        return _ended(
            name, FAILED, f"Kafka: {error.args[0].str()}; `tally doctor` looks for the cause"
        )
    return DONE


def end_now(name: str, reason: str) -> NoReturn:
    """Ends the process as FAILED from whichever thread calls, nothing closed.

    For one whose main thread does not come back.
    """
    os._exit(_ended(name, FAILED, reason))


def _ended(name: str, code: int, reason: str) -> int:
    print(f"{name}: {reason}", file=sys.stderr, flush=True)
    if file := os.environ.get(EXIT_FILE):
        arriving = Path(f"{file}.arriving")
        arriving.write_text(json.dumps({"code": code, "reason": reason}), "utf-8")
        arriving.rename(file)
    return code
