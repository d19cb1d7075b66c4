"""The state of a partition by the kind of its family, and its rows for a micro-batch's records."""

from collections.abc import Iterator, MutableMapping
from functools import lru_cache
from typing import TypeAlias

import msgspec
import pyarrow as pa

from speed_layer.input.records import to_records
from speed_layer.state.partition_windows import NEVER, PageKey, PartitionWindows, WindowRow
from speed_layer.state.presence import PartitionPresences, SightingRecord
from speed_layer.state.presence_pages import KeySpan
from tally.families.family import Family
from tally.people.heard import Sighting

PartitionState: TypeAlias = PartitionWindows | PartitionPresences


# The state stores the fields by their order, as those of a window (partition_windows.py).
class StoredState(msgspec.Struct, array_like=True):
    """The stored state of a partition beside its pages.

    It has the frontier, the keys of existing pages, the definition by which they were made, the
    floor, and the revisions of the stores' rules by which they were read last.
    """

    frontier: int = NEVER
    pages: list[PageKey] = []
    definition: list[int] = []
    floor: int = NEVER
    revised: list[tuple[int, int]] = []


def load_state(
    family: Family, lateness: int, kept: StoredState, pages: MutableMapping[PageKey, bytes]
) -> PartitionState:
    """Load the state of a partition; `lateness` in milliseconds.

    A state of another definition is dropped, and its windows are left to the rebuild.
    """
    stored = (lateness, pages, kept.frontier, set(kept.pages))
    state: PartitionState
    if family.reading is None:
        state = PartitionWindows(*stored, floor=kept.floor)
    else:
        is_revised = kept.revised != _revisions(family)
        state = PartitionPresences(*stored, floor=kept.floor, family=family, is_revised=is_revised)
    if kept.definition != definition_numbers(family):
        state.reset()
    return state


def to_stored_state(family: Family, state: PartitionState) -> StoredState:
    """The part of the state to be stored beside its pages."""
    held, definition = sorted(state.page_keys), definition_numbers(family)
    return StoredState(state.frontier, held, definition, state.floor, _revisions(family))


def compute_rows(
    family: Family, state: PartitionState, table: pa.Table, position: int
) -> Iterator[WindowRow]:
    """Yield the rows changed by the records of a table (speed_layer.views.operator_input()), by
    window.

    `position` is how far the partition was read, exclusive.
    """
    if not table.num_rows:
        return iter(())
    if isinstance(state, PartitionWindows):
        return state.take(to_records(table, family))
    return state.take(list(_to_sighting_records(table)), position)


def definition_numbers(family: Family) -> list[int]:
    """Numbers that differ between two definitions of a family whose rows must not be mixed."""
    definition = [family.epoch]
    for days in family.raised:
        definition += [days.first.toordinal(), days.last.toordinal(), days.epoch]
    return definition


def _revisions(family: Family) -> list[tuple[int, int]]:
    return [(revision.since.toordinal(), revision.amount) for revision in family.epochs.increases]


def _to_sighting_records(table: pa.Table) -> Iterator[SightingRecord]:
    heard = ("store_id", "device_hash", "mac_class", "at", "rssi_dbm")
    names = (*heard, "period_start", "period_end", "open_at")
    columns = (table[name].to_pylist() for name in names)
    for store, device, mac_class, at, dbm, *period in zip(*columns, strict=True):
        sighting = Sighting(_device_number(device), mac_class, at // 1000, dbm)
        *span, opening = period
        yield SightingRecord(store, KeySpan(*span), sighting, opening)


# The cache pays, since one device is heard many times.
@lru_cache(100_000)
def _device_number(digits: str) -> int:
    return int(digits, 16)
