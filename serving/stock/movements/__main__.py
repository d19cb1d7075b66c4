"""`python -m serving.stock.movements`: receipts and stock documents to movements of stock."""

import sys
from contextlib import closing
from threading import Event

from runtime.connect import NORMALISER_ANCHOR
from runtime.job import run_until_stopped
from runtime.processor.build import ProcessorJob
from runtime.processor.moments import Moments
from runtime.processor.service import serve
from serving.merge.cassandra_views import CassandraViews
from serving.stock.movements.filed import FiledReceipts
from serving.stock.movements.step import StockMovements
from tally.settings import Settings

GROUP = "stock"


def main(moments: Moments = Moments()) -> int:
    """Exit code of the process.

    0 when told to stop, 1 on an error that a new start may heal, 78 when it was refused.
    """

    def work(stopped: Event) -> None:
        settings = Settings.load()
        views = CassandraViews(settings)
        filed = FiledReceipts(views.receipts)
        with closing(views), closing(filed):
            step = StockMovements(settings, filed=filed.before)
            serve(settings, stock_job(step, slot=settings.stock_slot), moments, stopped)

    return run_until_stopped(GROUP, work)


def stock_job(step: StockMovements, group: str = GROUP, slot: int = 0) -> ProcessorJob:
    """The job of the step; `group` is its own in tests."""
    # It may be wanted long after the first receipts came. What is gone later is a loss, and told.
    return ProcessorJob(group, step.topics, step, slot, anchor=NORMALISER_ANCHOR, begun=step.topics)


if __name__ == "__main__":
    sys.exit(main())
