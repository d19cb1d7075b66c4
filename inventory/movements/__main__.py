"""`python -m inventory.movements`: turns receipts and stock documents into movements."""

import sys
from contextlib import closing
from threading import Event

from inventory.movements.filed_receipts import StoredReceiptLookup
from inventory.movements.step import StockMovements
from runtime.connect import NORMALISER_ANCHOR
from runtime.process.job import run_until_stopped
from runtime.processor.delivery import Failpoints
from runtime.processor.service import ProcessorJob, run_processor
from serving.storage.views import ViewReader
from tally.config.settings import Settings

GROUP = "stock"


def main(failpoints: Failpoints = Failpoints()) -> int:
    """Run the process and return its exit code.

    0 after a stop signal, 1 on an error that a restart may cure, 78 when the start was refused.
    """

    def work(stopped: Event) -> None:
        settings = Settings.load()
        views = ViewReader(settings)
        filed = StoredReceiptLookup(views.receipts)
        with closing(views), closing(filed):
            step = StockMovements(settings, filed=filed.find_earlier)
            run_processor(settings, stock_job(step, slot=settings.stock_slot), failpoints, stopped)

    return run_until_stopped(GROUP, work)


def stock_job(step: StockMovements, group: str = GROUP, slot: int = 0) -> ProcessorJob:
    """The processor job that runs the step; tests use a `group` of their own."""
    # It may start long after the first receipts came. Records that expire later: a reported loss.
    return ProcessorJob(
        group, step.topics, step, slot, anchor=NORMALISER_ANCHOR, earliest_topics=step.topics
    )


if __name__ == "__main__":
    sys.exit(main())
