"""Why one window is answered as it is.

It says what each layer holds of it, which generation serves the day, and which side won.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from serving.merge.firsts import covers
from serving.merge.gaps import topics_of, touching
from serving.merge.reading import StoreDays, read_pointers, read_store
from serving.merge.served import FamilyReading, batch_side, is_dirty, serve_windows
from serving.merge.views import Gap, Published, ViewReader
from serving.query.instants import UTC_ZONE, shown
from serving.query.question import check_years, instant
from tally.errors import BadQuery, UnknownName
from tally.families import FAMILIES, Family
from tally.merge import MISSING, Axes, Parts, WindowState
from tally.partitions import partition_of
from tally.settings import Settings
from tally.windows import WINDOW, window_start


class ExplainQuery(BaseModel):
    """Parameters of an explanation."""

    model_config = ConfigDict(extra="forbid")
    store: Annotated[str, Field(max_length=1_000, description="one store id")]
    window: Annotated[
        str, Field(max_length=1_000, description="any instant in the window, with offset")
    ]
    family: Annotated[str, Field("sales", description="view family: sales, traffic")]


async def explanation(views: ViewReader, query: ExplainQuery, settings: Settings) -> dict[str, Any]:
    """The served window, both layers' rows, and the generation with its pins.

    Also one sentence why, and what keeps it from being final. Raises BadQuery, UnknownName,
    ViewsUnreachable.
    """
    family = FAMILIES.get(query.family)
    if family is None:
        raise UnknownName(
            "family",
            f"there is no view family {query.family[:64]!r}; there are {', '.join(FAMILIES)}",
        )
    if len(query.window) <= len("2017-09-19"):
        # A date alone names a day of some zone, not a window.
        raise BadQuery(
            "window", f"window: {query.window!r}: expected an instant as 2017-09-19T22:45:00Z"
        )
    asked = instant(query.window, "window", UTC_ZONE)
    check_years("window", asked)
    start, partition = window_start(asked), partition_of(query.store, settings.partitions)
    pointers = await read_pointers(views, family, [start.date()], settings.final_patience_seconds)
    reading = await read_store(views, pointers, StoreDays(query.store, partition, [start.date()]))
    gaps = touching(
        await views.gaps(topics_of(family)),
        (start, start + WINDOW),
        {partition},
        settings.future_tolerance_seconds,
    )
    return {
        "family": family.name,
        "store": query.store,
        "window": {"start": shown(start), "end": shown(start + WINDOW)},
        **_sides(reading, start),
        "speed_offsets": await views.speed_until(family),
        "because": _because(reading, start),
        "not_final_because": reasons(reading, pointers.master_behind_since, start, gaps),
    }


def _sides(reading: FamilyReading, start: datetime) -> dict[str, Any]:
    (served,) = serve_windows(reading, [start])
    published = reading.published.get(start.date())
    return {
        "served": {
            "source": served.merged.source,
            "events": served.merged.events,
            "status": served.status,
            "complete": served.status != "provisional",
            "rows": (
                None
                if served.merged.values is None
                else _rows(reading.family, served.merged.values)
            ),
        },
        "batch": _state(reading.family, reading.batch.get(start)),
        "speed": _state(reading.family, reading.speed.get(start)),
        "generation": None if published is None else _generation(published),
        "partition": reading.partition,
        "master_until": reading.master_until.get(start.date(), 0),
        "dirty": published is not None and is_dirty(reading, start.date()),
    }


def _because(reading: FamilyReading, start: datetime) -> str:
    """The rule of tally/merge.py that decided, as a sentence."""
    published = reading.published.get(start.date())
    speed, row = reading.speed.get(start), reading.batch.get(start)
    batch = batch_side(published, reading.batch, start)
    (served,) = serve_windows(reading, [start])
    if served.merged is MISSING:
        return "missing: no generation covers the window and the speed layer has no row of it"
    if speed is None or batch is None:
        alone = (
            "batch: the speed layer has no row"
            if speed is None
            else "speed: no generation covers the window, and none has a row"
        )
        return (
            alone
            if row is not None or speed is not None
            else "batch: covered without a row in either layer, a true zero"
        )
    if speed.epoch != batch.epoch:
        return (
            f"{served.merged.source}:"
            f" the higher definition epoch wins (batch {batch.epoch}, speed {speed.epoch})"
        )
    if speed.events != batch.events:
        return (
            f"{served.merged.source}:"
            f" the side that has seen more events wins (batch {batch.events}, speed {speed.events})"
        )
    return f"batch: both have seen the same {batch.events} events, so they are the same events"


def reasons(
    reading: FamilyReading, behind_since: datetime | None, start: datetime, gaps: Sequence[Gap]
) -> list[str]:
    """What keeps the window from being final, a sentence each; nothing if it is."""
    published = reading.published.get(start.date())
    found = []
    if published is None or not covers(published, start):
        until = (
            "no rebuild has published its day"
            if published is None
            else f"its day is covered {_covered(published)}"
        )
        found.append(f"no generation covers the window: {until}")
    elif is_dirty(reading, start.date()):
        found.append(
            "the master holds records of the day that the generation does not;"
            " the next rebuild takes them in"
        )
    if behind_since is not None:
        found.append(
            f"the master ingest last had read everything at {shown(behind_since)};"
            " see `tally status`"
        )
    for one in reading.findings:
        found.append(
            f"till {one.till_id}: {one.conflicts} of its {one.records} records of the day bear"
            " numbers that were used before; if its numbers begin again, give the store"
            " `numbering: daily` or `numbering: yearly` in the stores file"
        )
    return found + [
        f"records of {gap.topic}-{gap.partition} from {gap.from_offset} to {gap.until_offset} are"
        f" gone: {gap.reason}"
        for gap in gaps
    ]


def _covered(published: Published) -> str:
    return f"from {shown(published.covered_from)} to {shown(published.covered_until)}"


def _state(family: Family, state: WindowState | None) -> dict[str, Any] | None:
    if state is None:
        return None
    return {
        "epoch": state.epoch,
        "events": state.events,
        "rows": _rows(family, state.values),
        "excluded": _rows(family, state.excluded),
    }


def _rows(family: Family, values: Mapping[Axes, Parts]) -> list[dict[str, Any]]:
    return [
        {**dict(zip(family.axes, axes, strict=True)), **parts}
        for axes, parts in sorted(values.items())
    ]


def _generation(published: Published) -> dict[str, Any]:
    return {
        "generation": published.generation,
        "epoch": published.epoch,
        "table_version": published.table_version,
        "covered_from": shown(published.covered_from),
        "covered_until": shown(published.covered_until),
        "flipped_at": shown(published.flipped_at),
        "pinned": dict(published.pinned),
        "through": {partition: shown(until) for partition, until in published.through.items()},
    }
