"""When the stores that send data of a family, or should send it, are silent."""

from collections.abc import Iterable, Mapping
from datetime import timedelta

from alerting.evaluate.snapshot.calendar import start_of_window, utc_span
from alerting.evaluate.state.memory import FamilyStore, PartitionMemory
from serving.questions.active_stores import FamilyStoreIds, FirstDays
from tally.alerts.tick import NO_TICK

_ONE_DAY = timedelta(days=1)


def missing_store_key(family: str, store_id: str) -> FamilyStore:
    """The key under which a memory keeps from when on a store should send data of a family."""
    return f"{family}?", store_id


def begin_missing_stores(
    memory: PartitionMemory, expected: Mapping[str, Iterable[str]], since: int | None = None
) -> None:
    """Note from when on stores that should send, and never have, are silent in their open hours.

    `since`: start of a window, milliseconds since 1970 (UTC); the default is the current window, so
    that no rule calls for alerts of the past.
    """
    start = start_of_window(memory.tick.at) if since is None else since
    for family, store_ids in expected.items():
        for store_id in store_ids:
            key = missing_store_key(family, store_id)
            if key not in memory.silent_from and (family, store_id) not in memory.silent_from:
                memory.begin_store(key, start)


def all_stores(
    active: Mapping[str, Iterable[str]], expected: Mapping[str, Iterable[str]]
) -> FamilyStoreIds:
    """The stores by family that send data or should send it."""
    found = {family: {*store_ids} for family, store_ids in active.items()}
    for family, store_ids in expected.items():
        found.setdefault(family, set()).update(store_ids)
    return found


def begin_stores(memory: PartitionMemory, stores: FirstDays) -> None:
    """Note from when on each store is silent where it sends nothing.

    The first event of a store says nothing about the hours before it arrived, and a till with a
    wrong clock may have its first event in any month. So a store begins with the window in which it
    was first seen; stores known at the evaluator's first pass begin with the day after their first
    event.
    """
    is_first = memory.last_tick == NO_TICK
    for family, first_days in stores.items():
        for store_id, first_day in first_days.items():
            if (family, store_id) not in memory.silent_from:
                day_after = utc_span(first_day + _ONE_DAY).start
                start = day_after if is_first else start_of_window(memory.tick.at)
                memory.begin_store((family, store_id), start)
