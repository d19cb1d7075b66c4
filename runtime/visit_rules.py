"""The families of all sources with the visit rules of the stores file, as both layers take them."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from runtime.sources import FAMILIES
from runtime.stores import StoreEntry, store_entries
from runtime.visit_entry import VisitEntry
from tally.families import Family
from tally.settings import Settings
from tally.visit_rules import EVER, DatedVisitRules, StoreVisitRules
from tally.visits import MINUTE_SECONDS


def families_of(settings: Settings) -> dict[str, Family]:
    """Every family by name; those that are read from presences by the rules of each store.

    Raises BadSettings for a stores file that does not fit.
    """
    rules = store_visit_rules(store_entries(settings.stores_file), settings.default_timezone)
    return {
        name: replace(family, visit_rules=rules) if family.reading else family
        for name, family in FAMILIES.items()
    }


def store_visit_rules(entries: Mapping[str, StoreEntry], default_zone: str) -> StoreVisitRules:
    """The rules of the stores that have others than the defaults, or have had."""
    told = {store: entry for store, entry in entries.items() if any(_visits(entry))}
    return StoreVisitRules(
        {store: tuple(_dated(entry, default_zone)) for store, entry in told.items()}
    )


def _visits(entry: StoreEntry) -> Iterator[VisitEntry | None]:
    yield entry.visits
    yield from (changed.get("visits") for changed in entry.changes.values())


def _dated(entry: StoreEntry, default_zone: str) -> Iterator[DatedVisitRules]:
    first = entry.visits or VisitEntry()
    yield DatedVisitRules(EVER, first.rules, first.revision)
    clock = entry.clock(default_zone)
    for day, changed in entry.changes.items():
        # By the store's own clock, as its key periods begin.
        if (visits := changed.get("visits")) is not None:
            begins = clock.begins(day).timestamp()
            yield DatedVisitRules(int(begins) // MINUTE_SECONDS, visits.rules, visits.revision)
