"""Wrong on purpose: `python -m tests.controls.processes.crashing_evaluator before_commit:3` is the
shipped evaluator that kills itself when it comes to that moment for the third time."""

import sys

from alerting.evaluate.__main__ import main
from tally.config.settings import Settings
from tests.controls.processes.crashing import Crash

if __name__ == "__main__":
    sys.exit(main(Crash.of(sys.argv[1], Settings.load())))
