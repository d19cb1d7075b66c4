"""The state of a partition by the kind of its family, and its rows of a micro-batch's records."""

from collections.abc import Iterator, MutableMapping
from functools import lru_cache
from typing import TypeAlias

import msgspec
import pyarrow as pa

from speed_layer.prefix import NEVER, PageKey, Prefix, WindowRow
from speed_layer.presence import HeardRecord, Presences
from speed_layer.presence_pages import KeySpan
from speed_layer.records import columns_of
from tally.families import Family
from tally.heard import Sighting

PartitionState: TypeAlias = Prefix | Presences


# Kept in the state by the order of its fields, as a window is (window.py).
class Kept(msgspec.Struct, array_like=True):
    """What is kept of a partition beside its pages.

    Its frontier, which pages there are, by which definition they were made, its floor, and by which
    revisions of the stores' rules they were read last.
    """

    frontier: int = NEVER
    pages: list[PageKey] = []
    definition: list[int] = []
    floor: int = NEVER
    revised: list[tuple[int, int]] = []


def state_of(
    family: Family,
    lateness: int,
    kept: Kept,
    pages: MutableMapping[PageKey, bytes],
) -> PartitionState:
    """The state of a partition; `lateness` in milliseconds.

    That of another definition begins anew, and leaves what it held to the rebuild.
    """
    held = set(kept.pages)
    state: PartitionState
    if family.reading is None:
        state = Prefix(lateness, pages, kept.frontier, held, floor=kept.floor)
    else:
        state = Presences(family, lateness, pages, kept.frontier, held, floor=kept.floor)
        state.is_revised = kept.revised != _revised(family)
    if kept.definition != definition_of(family):
        state.forget()
    return state


def kept_of(family: Family, state: PartitionState) -> Kept:
    """What is to be kept of the state."""
    held, told = sorted(state.held), definition_of(family)
    return Kept(state.frontier, held, told, state.floor, _revised(family))


def rows_of(
    family: Family,
    state: PartitionState,
    table: pa.Table,
    position: int,
) -> Iterator[WindowRow]:
    """The rows that the records of a table (speed_layer.views.told()) change, window by window.

    `position` is how far the partition was read, exclusive.
    """
    if not table.num_rows:
        return iter(())
    if isinstance(state, Prefix):
        return state.take(columns_of(table, family))
    return state.take(list(_heard(table)), position)


def definition_of(family: Family) -> list[int]:
    """What rows of a family are told apart by, when they are computed in another way."""
    told = [family.epoch]
    for one in family.raised:
        told += [one.first.toordinal(), one.last.toordinal(), one.epoch]
    return told


def _revised(family: Family) -> list[tuple[int, int]]:
    return [(one.since.toordinal(), one.more) for one in family.epochs.revised]


def _heard(table: pa.Table) -> Iterator[HeardRecord]:
    heard = ("store_id", "device_hash", "mac_class", "at", "rssi_dbm")
    told = (*heard, "period_start", "period_end", "open_at")
    columns = (table[name].to_pylist() for name in told)
    for store, device, mac_class, at, dbm, *period in zip(*columns, strict=True):
        sighting = Sighting(_number(device), mac_class, at // 1000, dbm)
        *span, opening = period
        yield HeardRecord(store, KeySpan(*span), sighting, opening)


# One device is heard many times.
@lru_cache(100_000)
def _number(digits: str) -> int:
    return int(digits, 16)
