"""Which days that are over get other numbers by a change of the stores file."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta

from runtime.stores import StoreEntry
from runtime.visit_entry import VisitEntry
from tally.errors import BadSettings

# What answers of days of before are made with, whenever they are asked for.
MOVING = (
    *("tz", "day_starts", "opening_hours", "sensors", "access_points", "visits"),
    *("country", "subdivision", "groups"),
)


@dataclass(frozen=True)
class MovedSpan:
    """Local days of a store that are over, first to last inclusive, whose answers change.

    `first` None: since its first day.
    """

    store: str
    field: str
    first: date | None
    last: date


def moved_spans(
    before: Mapping[str, StoreEntry], after: Mapping[str, StoreEntry], today: date
) -> list[MovedSpan]:
    """By store and field the closed days that change, of the stores that both know."""
    return [
        span
        for store in sorted(before.keys() & after.keys())
        for name in MOVING
        for span in _spans(store, name, before[store], after[store], today)
    ]


def refuse_unrevised(
    before: Mapping[str, StoreEntry], after: Mapping[str, StoreEntry], today: date
) -> None:
    """Raise BadSettings where visit rules of days that have begun change under their revision."""
    for store in sorted(before.keys() & after.keys()):
        both = before[store], after[store]
        for day in _borders(*both):
            was, is_now = (one.on(day).visits or VisitEntry() for one in both)
            if day <= today and was.rules != is_now.rules and is_now.revision <= was.revision:
                since = "" if day == date.min else f" from {day} on"
                raise BadSettings(
                    f"stores: store {store}: visits{since} change, and windows of these days are"
                    f" counted already; give them `revision: {was.revision + 1}`, and they are"
                    " counted anew"
                )


def _spans(
    store: str, name: str, before: StoreEntry, after: StoreEntry, today: date
) -> Iterator[MovedSpan]:
    borders = _borders(before, after)
    first: date | None = None
    # Between two borders neither changes. One more, at which nothing differs any more: what is
    # over ends yesterday.
    for day in (*(one for one in borders if one < today), today):
        was, is_now = (_value(one.on(day), name) for one in (before, after))
        differs = day < today and was != is_now
        if differs and first is None:
            first = day
        elif not differs and first is not None:
            begins = None if first == date.min else first
            yield MovedSpan(store, name, begins, day - timedelta(days=1))
            first = None


def _value(entry: StoreEntry, name: str) -> object:
    # The same rules under another revision are counted anew, to the same numbers.
    return (entry.visits or VisitEntry()).rules if name == "visits" else getattr(entry, name)


def _borders(before: StoreEntry, after: StoreEntry) -> list[date]:
    """The days from which on either may say something else, ascending."""
    return sorted({date.min, *before.changes, *after.changes})
