"""`python -m serving.stock.adapter`: movements of stock to the system that TALLY_STOCK_TARGET
names."""

import sys
from contextlib import closing
from threading import Event

from runtime.connect import NORMALISER_ANCHOR
from runtime.job import run_until_stopped
from runtime.outbound.addresses import allowed_networks
from runtime.outbound.caller import CheckedCaller
from runtime.outbound.calls import CallsUnderWay
from runtime.outbound.secrets import FILE, SigningKeys
from runtime.processor.build import ProcessorJob
from runtime.processor.moments import Moments
from runtime.processor.service import serve
from serving.stock.adapter.inventory import InventoryApi
from serving.stock.adapter.step import PlacedCall, StockAdapter
from serving.stock.adapter.target import read_target
from tally.settings import Settings
from tally.stock.modes import CallAnswer

GROUP = "stock-adapter"


def main(moments: Moments = Moments()) -> int:
    """Exit code of the adapter.

    0 when told to stop, 1 on an error that a new start may heal, 78 when it was refused.
    """

    def work(stopped: Event) -> None:
        settings = Settings.load()
        with closing(adapter(settings)) as step:
            serve(settings, adapter_job(step, slot=settings.stock_adapter_slot), moments, stopped)

    return run_until_stopped(GROUP, work)


def adapter(settings: Settings, prefix: str = "") -> StockAdapter:
    """The step by the settings; `prefix` names topics of its own (tests).

    Raises BadSettings for a target or networks that do not fit.
    """
    target = read_target(settings.stock_target)
    caller = CheckedCaller(allowed_networks(settings.webhook_networks))
    keys = SigningKeys(settings.webhook_secrets or settings.home / FILE)
    api = InventoryApi(target, caller, keys)
    return StockAdapter(calls_of(api), target.desk, target.is_of, prefix)


def calls_of(api: InventoryApi) -> CallsUnderWay[PlacedCall, CallAnswer]:
    """Calls to a system, on a thread of their own."""
    return CallsUnderWay(
        lambda placed: api.ask(placed.asked),
        lambda placed: (placed.partition, placed.asked.call.movement_id),
        lambda error: CallAnswer(error=f"{type(error).__name__}: {error}"[:200]),
    )


def adapter_job(step: StockAdapter, group: str = GROUP, slot: int = 0) -> ProcessorJob:
    """The job of the step; `group` is its own in tests."""
    movements, ticks = step.topics
    # A movement that is gone was never told, and that is for somebody to know.
    return ProcessorJob(
        group,
        step.topics,
        step,
        slot,
        anchor=NORMALISER_ANCHOR,
        hints=(ticks,),
        begun=(movements,),
    )


if __name__ == "__main__":
    sys.exit(main())
