"""A process for tests: the shipped dispatcher on topics of its own.

`python -m tests.integration.alerts.dispatching PREFIX RULES [CRASH]`, settings from the
environment; RULES: the topic of rules. Prints `ready` on stdout when it has its partitions. CRASH:
as tests.controls.crashing has it.
"""

import sys
from collections.abc import Sequence

from serving.alerts.dispatch.__main__ import dispatch_job, dispatcher
from serving.alerts.dispatch.surroundings import unknown_stores
from tally.settings import Settings
from tests.integration.ingest.copier import run_job


def main(argv: Sequence[str]) -> int:
    """Exit code of dispatching."""
    prefix, rules, *crash = argv
    settings = Settings.load()
    step = dispatcher(settings, unknown_stores, prefix, rules)
    try:
        return run_job(dispatch_job(step, prefix, settings.dispatcher_slot), *crash)
    finally:
        step.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
