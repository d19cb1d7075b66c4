"""The whole year of real receipts through the whole loop, in small micro-batches, with 10,000
answers read meanwhile."""

from tests.support.stack.loop_suite import LoopSuite, Scale


class TestWholeYear(LoopSuite):
    scale = Scale(last=None, answers=10_000, micro_batch_records=1_000)
