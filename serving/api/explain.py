"""Why one window is answered as it is: what each layer holds of it, which generation serves the day, and which side won."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from serving.api.instants import UTC_ZONE, shown
from serving.api.question import instant
from serving.merge.reading import StoreDays, read_pointers, read_store
from serving.merge.served import FamilyReading, batch_side, is_dirty, serve_windows
from serving.merge.views import Published, ViewReader
from tally.errors import BadQuery, UnknownName
from tally.families import FAMILIES, Family
from tally.merge import MISSING, Axes, Parts, WindowState
from tally.partitions import partition_of
from tally.windows import WINDOW, window_start


class ExplainQuery(BaseModel):
    """Parameters of an explanation."""

    model_config = ConfigDict(extra="forbid")
    store: Annotated[str, Field(description="one store id")]
    window: Annotated[str, Field(description="any instant in the window, with offset")]
    family: Annotated[str, Field("sales", description="view family: sales, traffic")]


async def explanation(views: ViewReader, query: ExplainQuery, partitions: int) -> dict[str, Any]:
    """The served window, both layers' rows, the generation with its pins, and one sentence why. Raises BadQuery, UnknownName."""
    family = FAMILIES.get(query.family)
    if family is None:
        raise UnknownName("family", f"there is no view family {query.family[:64]!r}; there are {', '.join(FAMILIES)}")
    if len(query.window) <= len("2017-09-19"):
        # A date alone names a day of some zone, not a window.
        raise BadQuery("window", f"window: {query.window!r}: expected an instant as 2017-09-19T22:45:00Z")
    start = window_start(instant(query.window, "window", UTC_ZONE))
    pointers = await read_pointers(views, family, [start.date()])
    reading = await read_store(views, pointers, StoreDays(query.store, partition_of(query.store, partitions), [start.date()]))
    return {
        "family": family.name, "store": query.store, "window": {"start": shown(start), "end": shown(start + WINDOW)},
        **_sides(reading, start), "speed_offsets": await views.speed_until(family), "because": _because(reading, start),
    }  # fmt: skip


def _sides(reading: FamilyReading, start: datetime) -> dict[str, Any]:
    (served,) = serve_windows(reading, [start])
    published = reading.published.get(start.date())
    return {
        "served": {
            "source": served.merged.source, "events": served.merged.events, "status": served.status,
            "complete": served.status != "provisional",
            "rows": None if served.merged.values is None else _rows(reading.family, served.merged.values),
        },
        "batch": _state(reading.family, reading.batch.get(start)),
        "speed": _state(reading.family, reading.speed.get(start)),
        "generation": None if published is None else _generation(published),
        "partition": reading.partition, "master_until": reading.master_until.get(start.date(), 0),
        "dirty": published is not None and is_dirty(reading, start.date()),
    }  # fmt: skip


def _because(reading: FamilyReading, start: datetime) -> str:
    """The rule of tally/merge.py that decided, as a sentence."""
    published = reading.published.get(start.date())
    speed, row = reading.speed.get(start), reading.batch.get(start)
    batch = batch_side(published, reading.batch, start)
    (served,) = serve_windows(reading, [start])
    if served.merged is MISSING:
        return "missing: no generation covers the window and the speed layer has no row of it"
    if speed is None or batch is None:
        alone = "batch: the speed layer has no row" if speed is None else "speed: no generation covers the window, and none has a row"
        return alone if row is not None or speed is not None else "batch: covered without a row in either layer, a true zero"
    if speed.epoch != batch.epoch:
        return f"{served.merged.source}: the higher definition epoch wins (batch {batch.epoch}, speed {speed.epoch})"
    if speed.events != batch.events:
        return f"{served.merged.source}: the side that has seen more events wins (batch {batch.events}, speed {speed.events})"
    return f"batch: both have seen the same {batch.events} events, so they are the same events"


def _state(family: Family, state: WindowState | None) -> dict[str, Any] | None:
    if state is None:
        return None
    return {"epoch": state.epoch, "events": state.events, "rows": _rows(family, state.values), "excluded": _rows(family, state.excluded)}


def _rows(family: Family, values: Mapping[Axes, Parts]) -> list[dict[str, Any]]:
    return [{**dict(zip(family.axes, axes, strict=True)), **parts} for axes, parts in sorted(values.items())]


def _generation(published: Published) -> dict[str, Any]:
    return {
        "generation": published.generation, "epoch": published.epoch, "table_version": published.table_version,
        "covered_until": shown(published.covered_until), "flipped_at": shown(published.flipped_at),
        "pinned": dict(published.pinned), "through": {partition: shown(until) for partition, until in published.through.items()},
    }  # fmt: skip
