"""Two weeks of real receipts through the whole loop, as processes."""

from datetime import date

from tests.support.stack.loop_suite import LoopSuite, Scale


class TestTwoWeeks(LoopSuite):
    scale = Scale(last=date(2017, 1, 14), answers=400, pause_seconds=0.2, http=300)
