"""The families of all sources with the visit rules of the stores file, for both layers."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from runtime.registry.sources import FAMILIES
from runtime.registry.stores import StoreEntry, load_stores
from runtime.registry.visit_entry import VisitEntry
from tally.config.settings import Settings
from tally.families.family import Family
from tally.families.visit_rules import EVER, DatedVisitRules, StoreVisitRules
from tally.people.visits import MINUTE_SECONDS


def load_families(settings: Settings) -> dict[str, Family]:
    """Every family by name; those that are read from presences have the rules of each store.

    Raises BadSettings for a stores file that does not fit.
    """
    rules = store_visit_rules(load_stores(settings.stores_file), settings.default_timezone)
    return {
        name: replace(family, visit_rules=rules) if family.reading else family
        for name, family in FAMILIES.items()
    }


def store_visit_rules(entries: Mapping[str, StoreEntry], default_zone: str) -> StoreVisitRules:
    """The rules of all stores whose rules differ, or once differed, from the defaults."""
    with_rules = {store: entry for store, entry in entries.items() if any(_visit_entries(entry))}
    return StoreVisitRules(
        {store: tuple(_to_dated_rules(entry, default_zone)) for store, entry in with_rules.items()}
    )


def _visit_entries(entry: StoreEntry) -> Iterator[VisitEntry | None]:
    yield entry.visits
    yield from (changed.get("visits") for changed in entry.changes.values())


def _to_dated_rules(entry: StoreEntry, default_zone: str) -> Iterator[DatedVisitRules]:
    first = entry.visits or VisitEntry()
    yield DatedVisitRules(EVER, first.rules, first.revision)
    clock = entry.clock(default_zone)
    for day, changed in entry.changes.items():
        # Rules begin by the store's own clock, like its key periods.
        if (visits := changed.get("visits")) is not None:
            begins = clock.start_of_day(day).timestamp()
            yield DatedVisitRules(int(begins) // MINUTE_SECONDS, visits.rules, visits.revision)
