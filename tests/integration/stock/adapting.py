"""A process for tests: the shipped stock adapter on topics of its own.

`python -m tests.integration.stock.adapting PREFIX [CRASH]`, settings from the environment. Prints
`ready` on stdout when it has its partitions. CRASH: as tests.controls.processes.crashing has it.
"""

import sys
from collections.abc import Sequence

from inventory.sync.__main__ import adapter, adapter_job
from tally.config.settings import Settings
from tests.integration.ingest.processor.copier import run_job


def main(argv: Sequence[str]) -> int:
    """Exit code of the adapter."""
    prefix, *crash = argv
    settings = Settings.load()
    step = adapter(settings, prefix)
    try:
        return run_job(adapter_job(step, prefix, settings.stock_adapter_slot), *crash)
    finally:
        step.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
