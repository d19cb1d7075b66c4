"""A process for tests: counts the records of each key, with its counts in a topic of their own.

`python -m tests.integration.ingest.processor.counter GROUP INPUT OUTPUT STATE [SLOT [CRASH]]`, as
the copier.
"""

import sys
from collections.abc import Sequence

from runtime.processor.service import ProcessorJob
from tests.integration.ingest.processor.copier import run_job
from tests.support.oracles.key_counts import KeyCounts


def count_job(
    group: str, source: str, target: str, state_topic: str, slot: int = 0
) -> ProcessorJob:
    """The job that counts by key."""
    return ProcessorJob(group, (source,), KeyCounts(target, state_topic), slot)


def main(argv: Sequence[str]) -> int:
    """Exit code of counting."""
    slot = int(argv[4]) if len(argv) > 4 else 0
    return run_job(count_job(argv[0], argv[1], argv[2], argv[3], slot), *argv[5:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
