"""`python -m speed_layer.receipts_job`: the raw receipts, in a separate Spark application.

A failure or delay of this job never affects the views.
"""

import sys

from runtime.process.job import lower_process_priority
from runtime.registry.sources import SALES
from speed_layer import driver
from speed_layer.receipts import QUERY, start_receipts
from speed_layer.supervisor import QueryDefinition

# The job keeps no state, and a micro-batch of so many records fits into this heap.
MEMORY, MAX_RECORDS = "1g", 100_000
RECEIPTS_QUERY = QueryDefinition(
    QUERY,
    (SALES.topic,),
    (),
    lambda context, records, start_position: start_receipts(records, context.settings),
    # Any bound gives the same rows: there is no state, and the lower offset of two writes wins.
    lambda settings: MAX_RECORDS,
)


def main() -> int:
    """Run the job and return its exit code (runtime/process/job.py)."""
    lower_process_priority()
    own_heap = {"spark_memory": MEMORY}
    return driver.main(
        "receipts",
        lambda: [RECEIPTS_QUERY],
        adapt_settings=lambda settings: settings.model_copy(update=own_heap),
    )


if __name__ == "__main__":
    sys.exit(main())
