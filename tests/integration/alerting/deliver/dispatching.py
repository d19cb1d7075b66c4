"""A process for tests: the shipped dispatcher on topics of its own, or a wrong one.

`python -m tests.integration.alerting.deliver.dispatching PREFIX RULES [CRASH [WRONG]]`, settings
from the environment; RULES: the topic of rules. Prints `ready` on stdout when it has its
partitions. CRASH: `name:nth`, "" for none, by the failpoints of a transaction and of
tests.controls.alerts.dispatchers; WRONG: a name of WRONG_PARTS there.
"""

import sys
from collections.abc import Sequence

from alerting.deliver.__main__ import build_dispatcher, dispatch_job
from runtime.processor.delivery import FAILPOINTS, Failpoints
from tally.config.settings import Settings
from tests.controls.alerts.dispatchers import OWN_FAILPOINTS, watched_parts
from tests.controls.processes.crashing import Crash
from tests.integration.ingest.processor.copier import run_job


def main(argv: Sequence[str]) -> int:
    """Exit code of dispatching."""
    prefix, rules, crash, wrong, *_ = (*argv, "", "")
    settings = Settings.load()
    failpoints = (
        Crash.of(crash, settings, (*FAILPOINTS, *OWN_FAILPOINTS)) if crash else Failpoints()
    )
    parts = watched_parts(settings, failpoints, wrong)
    step = build_dispatcher(settings, prefix, rules, parts)
    try:
        job = dispatch_job(step, prefix, settings.dispatcher_slot)
        return run_job(job, failpoints=failpoints)
    finally:
        step.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
