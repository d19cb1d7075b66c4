"""Explains one window: what each layer holds, which generation serves it, which layer decided."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from runtime.records.gaps import AcceptedGap
from runtime.registry.sources import FAMILIES
from serving.disclosure import SmallCells
from serving.merge.reading import StoreDays, read_gaps, read_pointers, read_store
from serving.merge.served import UNSETTLED, FamilyReading, batch_state, is_dirty, serve_windows
from serving.questions.question import check_years, instant
from serving.questions.stores import StoreRegistry
from serving.storage.views import ViewReader
from tally.algebra.merge import Axes, Parts, WindowState
from tally.config.settings import Settings
from tally.errors import BadQuery, UnknownName
from tally.events.identity import describe_conflicts, partition_number
from tally.families.family import Family
from tally.families.generation import Generation
from tally.time.instants import UTC_CLOCK, format_instant
from tally.time.windows import WINDOW, window_start


@dataclass(frozen=True)
class WindowQuestion:
    """The window to explain, by any instant in it; each part is text as it was received."""

    store: str
    window: str
    family: str


async def explain_window(
    views: ViewReader, question: WindowQuestion, registry: StoreRegistry, settings: Settings
) -> dict[str, Any]:
    """What is served and why, by field. Raises BadQuery, UnknownName, ViewsUnreachable."""
    if (family := FAMILIES.get(question.family)) is None:
        # Cut, for a name of any length has to fit into one line.
        named = f"there is no view family {question.family[:64]!r}"
        raise UnknownName("family", f"{named}; there are {', '.join(FAMILIES)}")
    if len(question.window) <= len("2017-09-19"):
        # A date alone names a day of some zone, not a window.
        expected = "expected an instant as 2017-09-19T22:45:00Z"
        raise BadQuery("window", f"window: {question.window!r}: {expected}")
    asked = instant(question.window, "window", UTC_CLOCK)
    check_years("window", asked)
    start, partition = window_start(asked), partition_number(question.store, settings.partitions)
    behind = registry.store(question.store).input_days(settings.key_days)
    own, *near = behind(start) if family.reading is not None else (start.date(),)
    pointers = await read_pointers(views, family, [own], settings.final_patience_seconds, near)
    reading = await read_store(views, pointers, StoreDays(question.store, partition, [own], behind))
    span, tolerance = (start, start + WINDOW), settings.future_tolerance_seconds
    gaps = await read_gaps(views, [family], span, {partition}, tolerance)
    is_withheld = SmallCells(settings.privacy_smallest_cell, registry).covers(family)
    sides = _layer_fields(reading, start)
    return {
        "family": family.name,
        "store": question.store,
        "window": {"start": format_instant(start), "end": format_instant(start + WINDOW)},
        **(_without_numbers(sides) if is_withheld else sides),
        "speed_offsets": await views.speed_until(family),
        "not_final_because": reasons(reading, pointers.master_behind_since, start, gaps),
    }


def _without_numbers(sides: Mapping[str, Any]) -> dict[str, Any]:
    # In every window alike: a row that exists belongs to someone, and to show some windows only
    # would reveal which those are.
    return {
        **sides,
        "served": {**sides["served"], "source": "mixed", "events": None, "rows": None},
        "batch": None,
        "speed": None,
        "because": (
            "withheld: what the layers hold of a quarter hour may be of few devices"
            " (TALLY_PRIVACY_SMALLEST_CELL)"
        ),
    }


def _layer_fields(reading: FamilyReading, start: datetime) -> dict[str, Any]:
    # By the reader's own function, so that the explanation is of what is served.
    (served,) = serve_windows(reading, [start])
    published, values = reading.published.get(start.date()), served.merged.values
    return {
        "served": {
            "source": served.merged.source,
            "events": served.merged.events,
            "status": served.status,
            "complete": served.status not in UNSETTLED,
            "rows": None if values is None else _rows(reading.family, values),
        },
        "batch": _state(reading.family, reading.batch.get(start)),
        "speed": _state(reading.family, reading.speed.get(start)),
        "generation": None if published is None else _generation(published),
        "partition": reading.partition,
        "master_until": reading.master_until.get(start.date(), 0),
        "dirty": published is not None and is_dirty(reading, reading.input_days(start)),
        # By the kind that decided: another rule would explain another answer.
        "because": reading.family.kind.explain_choice(
            reading.speed.get(start),
            batch_state(published, reading.batch, start),
            published is not None and published.covers(start),
        ),
    }


def reasons(
    reading: FamilyReading,
    behind_since: datetime | None,
    start: datetime,
    gaps: Sequence[AcceptedGap],
) -> list[str]:
    """The reasons that keep the window from being final, a sentence each; empty if it is final."""
    published = reading.published.get(start.date())
    found = list[str]()
    if published is None:
        found.append("no generation covers the window: no rebuild has published its day")
    elif not published.covers(start):
        begin, end = map(format_instant, (published.covered_from, published.covered_until))
        covered = f"its day is covered from {begin} to {end}"
        found.append(f"no generation covers the window: {covered}")
    # A day without a generation is dirty too, and the line above says why.
    elif is_dirty(reading, reading.input_days(start)):
        found.append(
            "the master holds records of the day that the generation does not;"
            " the next rebuild takes them in"
        )
    elif serve_windows(reading, [start])[0].merged.source == "speed":
        found.append("the speed layer has counted more than the generation")
    if behind_since is not None:
        found.append(
            f"the master ingest last had read everything at {format_instant(behind_since)};"
            " see `tally status`"
        )
    for till in reading.findings:
        found.append(f"till {till.till_id}: {describe_conflicts(till.records, till.conflicts)}")
    return found + [
        f"records of {gap.topic}-{gap.partition} from {gap.from_offset} to {gap.until_offset} are"
        f" gone: {gap.reason}"
        for gap in gaps
    ]


def _state(family: Family, state: WindowState | None) -> dict[str, Any] | None:
    if state is None:
        return None
    return {
        "epoch": state.epoch,
        "events": state.events,
        "rows": _rows(family, state.values),
        "excluded": _rows(family, state.excluded),
    }


def _rows(
    family: Family,
    values: Mapping[Axes, Parts],
) -> list[dict[str, Any]]:
    return [
        {**dict(zip(family.axes, axes, strict=True)), **parts}
        for axes, parts in sorted(values.items())
    ]


def _generation(published: Generation) -> dict[str, Any]:
    return {
        "generation": published.generation,
        "epoch": published.epoch,
        "table_version": published.table_version,
        "covered_from": format_instant(published.covered_from),
        "covered_until": format_instant(published.covered_until),
        "flipped_at": format_instant(published.flipped_at),
        "pinned": dict(published.pinned),
        "through": {
            partition: format_instant(until) for partition, until in published.through.items()
        },
    }
