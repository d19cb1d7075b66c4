"""`python -m inventory.sync`: sends stock movements to the system in TALLY_STOCK_TARGET."""

import sys
from contextlib import closing
from threading import Event

from inventory.sync.calls import CallAnswer, CallAttempt
from inventory.sync.engine import StockAdapter
from inventory.sync.target import InventoryApi, read_target
from runtime.connect import NORMALISER_ANCHOR
from runtime.outbound.caller import build_caller
from runtime.outbound.step import PendingCalls
from runtime.process.job import run_until_stopped
from runtime.processor.delivery import Failpoints
from runtime.processor.service import ProcessorJob, run_processor
from tally.config.settings import Settings

GROUP = "stock-adapter"


def main(failpoints: Failpoints = Failpoints()) -> int:
    """Run the adapter and return its exit code.

    0 after a stop signal, 1 on an error that a restart may cure, 78 when the start was refused.
    """

    def work(stopped: Event) -> None:
        settings = Settings.load()
        with closing(adapter(settings)) as step:
            run_processor(
                settings, adapter_job(step, slot=settings.stock_adapter_slot), failpoints, stopped
            )

    return run_until_stopped(GROUP, work)


def adapter(settings: Settings, prefix: str = "") -> StockAdapter:
    """The step of the settings; `prefix` names topics of tests. Raises BadSettings."""
    target = read_target(settings.stock_target)
    api = InventoryApi(target, build_caller(settings))
    return StockAdapter(build_calls(api), target.make_engine, target.covers_store, prefix)


def build_calls(api: InventoryApi) -> PendingCalls[CallAttempt, CallAnswer]:
    """Calls to a system, made on a thread of their own."""
    return PendingCalls(lambda placed: api.make_call(placed.call), CallAnswer)


def adapter_job(step: StockAdapter, group: str = GROUP, slot: int = 0) -> ProcessorJob:
    """The processor job that runs the step; tests use a `group` of their own."""
    movements, ticks = step.topics
    # A movement lost from the topic was never sent, and an operator has to know that.
    return ProcessorJob(
        group,
        step.topics,
        step,
        slot,
        anchor=NORMALISER_ANCHOR,
        hint_topics=(ticks,),
        earliest_topics=(movements,),
    )


if __name__ == "__main__":
    sys.exit(main())
