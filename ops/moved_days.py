"""The past days whose numbers change when the stores file changes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta

from runtime.registry.stores import StoreEntry
from runtime.registry.visit_entry import VisitEntry
from tally.errors import BadSettings

# The fields that answers about past days depend on, at any time of the query.
CHANGING_FIELDS = (
    *("tz", "day_starts", "opening_hours", "sensors", "access_points", "visits"),
    *("country", "subdivision", "groups"),
)


@dataclass(frozen=True)
class ChangedSpan:
    """Past local days of a store, first to last inclusive, whose answers change.

    `first` None means since the store's first day.
    """

    store: str
    field: str
    first: date | None
    last: date


def find_changed_spans(
    before: Mapping[str, StoreEntry], after: Mapping[str, StoreEntry], today: date
) -> list[ChangedSpan]:
    """The past days that change, by store and field, for the stores that are in both files."""
    return [
        span
        for store in sorted(before.keys() & after.keys())
        for name in CHANGING_FIELDS
        for span in _spans(store, name, before[store], after[store], today)
    ]


def check_visit_revisions(
    before: Mapping[str, StoreEntry], after: Mapping[str, StoreEntry], today: date
) -> None:
    """Check that changed visit rules of days that have begun have a higher revision.

    Raises BadSettings when they keep their revision, or lower it.
    """
    for store in sorted(before.keys() & after.keys()):
        both = before[store], after[store]
        for day in _borders(*both):
            was, is_now = (entry.valid_on(day).visits or VisitEntry() for entry in both)
            if day <= today and was.rules != is_now.rules and is_now.revision <= was.revision:
                since = "" if day == date.min else f" from {day} on"
                raise BadSettings(
                    f"stores: store {store}: visits{since} change, and windows of these days are"
                    f" counted already; give them `revision: {was.revision + 1}`, and they are"
                    " counted again"
                )


def _spans(
    store: str, name: str, before: StoreEntry, after: StoreEntry, today: date
) -> Iterator[ChangedSpan]:
    borders = _borders(before, after)
    first: date | None = None
    # Between two borders neither entry changes. Today is added as the last border, at which nothing
    # differs any more: past days end yesterday.
    for day in (*(border for border in borders if border < today), today):
        was, is_now = (_value(entry.valid_on(day), name) for entry in (before, after))
        differs = day < today and was != is_now
        if differs and first is None:
            first = day
        elif not differs and first is not None:
            begins = None if first == date.min else first
            yield ChangedSpan(store, name, begins, day - timedelta(days=1))
            first = None


def _value(entry: StoreEntry, name: str) -> object:
    # The same rules under another revision are recounted, with the same result.
    return (entry.visits or VisitEntry()).rules if name == "visits" else getattr(entry, name)


def _borders(before: StoreEntry, after: StoreEntry) -> list[date]:
    """The days on which either entry may change, in ascending order."""
    return sorted({date.min, *before.changes, *after.changes})
