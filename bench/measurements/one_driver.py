"""`python -m bench.measurements.one_driver`: the raw receipts, with a record limit, in the driver
of the views.

Tally does not run this way; the job exists for comparison.
"""

import sys
from dataclasses import replace

from speed_layer import driver
from speed_layer.job import define_views_query
from speed_layer.receipts_job import RECEIPTS_QUERY

MAX_RECORDS = 2_000


def main() -> int:
    """Run the job; returns its exit code (runtime/process/job.py)."""
    return driver.main(
        "speed layer",
        lambda: [
            define_views_query(),
            replace(RECEIPTS_QUERY, most_records=lambda settings: MAX_RECORDS),
        ],
    )


if __name__ == "__main__":
    sys.exit(main())
