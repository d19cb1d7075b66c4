"""Levels: entries less exits since the store's day began, at the end of each stretch."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from serving.cells.cells import Cell, FamilyWindows, weakest_status
from serving.cells.coverage import NO_SENSORS, WindowSensorSeconds
from serving.questions.question import STORE_ZONE, StoreSlots
from serving.questions.resets import Resets
from serving.questions.stores import StoreRegistry
from tally.errors import BadQuery
from tally.families.family import Family
from tally.time.day_clock import zone_name
from tally.time.windows import WINDOW, TimeRange


def with_resets(
    stores: Sequence[StoreSlots], grain: str, registry: StoreRegistry
) -> list[StoreSlots]:
    """The stores, each with its resets; stretches of local days become the store's own days.

    Raises BadQuery for days of another zone than the store's.
    """
    own: dict[Resets, tuple[TimeRange, ...]] = {}
    found = []
    for asked in stores:
        store = registry.store(asked.store_id)
        resets = Resets(store.clock)
        slots = asked.slots
        if grain == "1d":
            _check_zone(asked, resets)
            # Cached: a thousand stores have few zones, and few times at which their days begin.
            if resets not in own:
                days = (slot.start.astimezone(asked.zone).date() for slot in slots)
                own[resets] = tuple(map(resets.day_on, days))
            slots = own[resets]
        found.append(replace(asked, slots=slots, resets=resets))
    return found


def level_cells(
    families: Sequence[Family],
    asked: StoreSlots,
    windows: Iterable[FamilyWindows],
    seen: Iterable[WindowSensorSeconds] = NO_SENSORS,
) -> list[Cell]:
    """A cell for each stretch, of all windows from the reset before its end to its end.

    The windows ascend and fill asked.span exactly. A missing window leaves the level unknown until
    the next reset.
    """
    assert asked.resets is not None
    stream, start = zip(windows, seen, strict=False), asked.span.start
    day = asked.resets.day(start)
    held = Cell(day)
    found = []
    # In one pass: a separate sum for each stretch would read a day's windows a hundred times.
    for slot in asked.slots:
        while start < slot.end:
            if start >= day.end:
                day = asked.resets.day(start)
                held = Cell(day)
            held.add(families, *next(stream))
            start += WINDOW
        found.append(_level_at_end(held, slot))
    return found


def _level_at_end(held: Cell, slot: TimeRange) -> Cell:
    """The state of the cell at the end of a stretch."""
    if not held.has_all_windows:
        # People who came or went in the missing window may be inside or not, and later windows
        # cannot show it.
        return Cell(
            slot,
            known=held.known,
            windows=held.windows,
            sources={"missing"},
            statuses={weakest_status(held.statuses - {"final", "restated"})},
        )
    # Copied, for the walk goes on to add to these collections.
    return replace(
        held,
        slot=slot,
        parts={family: dict(rows) for family, rows in held.parts.items()},
        sources={*held.sources},
        statuses={*held.statuses},
        sensor_coverage=replace(held.sensor_coverage, sensors=dict(held.sensor_coverage.sensors)),
    )


def _check_zone(asked: StoreSlots, resets: Resets) -> None:
    for slot in (asked.slots[0], asked.slots[-1]):
        # Compared by name: a question may also name the zone that the store had on these days.
        day = slot.start.astimezone(asked.zone).date()
        wanted = resets.clock.on(day).zone.key
        shown = zone_name(asked.zone, slot.start)
        if shown != wanted:
            raise BadQuery(
                "tz",
                f"tz: a level's days are the store's own, of {wanted} for store"
                f" {asked.store_id}, and not of {shown}; ask with tz={STORE_ZONE}",
                (STORE_ZONE,),
            )
