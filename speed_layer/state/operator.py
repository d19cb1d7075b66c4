"""Spark's stateful operator of the views: the state of each partition, and the rows from it."""

from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import lru_cache
from itertools import groupby
from typing import Any, TypeAlias

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as T
from pyspark.sql.streaming.stateful_processor import (
    MapState,
    StatefulProcessor,
    StatefulProcessorHandle,
)

from runtime.connect import worker_settings
from speed_layer.state.partition_windows import NEVER, PageKey, PartitionWindows, WindowRow
from speed_layer.state.presence import PartitionPresences, SightingRecord
from speed_layer.state.presence_pages import KeySpan
from speed_layer.state.records import (
    SKIP_REASONS,
    PartitionReport,
    last_read,
    to_record_batch,
    to_records,
    unpack_records,
)
from speed_layer.state.sink import MakeSink, RowSink, SpeedRow, WindowRows, worker_sink
from tally.config.settings import Settings
from tally.families.family import TOTAL_DIM, TOTAL_DIM_VALUE, Family
from tally.people.heard import Sighting
from tally.time.instants import DAY_MILLIS
from tally.time.windows import EPOCH

PartitionState: TypeAlias = PartitionWindows | PartitionPresences


# The state stores the fields by their order, as those of a window (partition_windows.py).
class StoredState(msgspec.Struct, array_like=True):
    """The stored state of a partition beside its pages, and the definition that they are of."""

    frontier: int = NEVER
    pages: list[PageKey] = []
    definition: list[int] = []
    floor: int = NEVER
    # The revisions of the stores' rules by which the pages were read last.
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
    """Yield the rows changed by the records of an operator_input(), by window.

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


# Rows are written in chunks of so many windows, each acknowledged before the next.
WINDOWS_AT_ONCE = 10_000
_ENCODER = msgspec.msgpack.Encoder()
# Each state call is a round trip to the JVM over a socket: values are few and large, and binary,
# which Spark passes unchanged.
BYTES = T.StructType([T.StructField("value", T.BinaryType())])
PAGE_KEY = T.StructType().add("start", T.LongType())
PAGE_KEY = PAGE_KEY.add("number", T.IntegerType())


class WindowOperator(StatefulProcessor):
    """Processes the records of a partition in order of offset; rows are written as a task ends."""

    def __init__(self, families: Sequence[Family], settings: Settings, sink: MakeSink) -> None:
        self._families = {family.topic: family for family in families}
        self._lateness = {
            family.topic: 1000 * settings.lateness_seconds(family) for family in families
        }
        # Settings without folders: a worker that outlives this query reuses its sink for the next.
        self._settings, self._make_sink = worker_settings(settings), sink

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Create the two variables of the state."""
        # Schemas are objects, since each text would cost a call to the JVM. Not in __init__, whose
        # attributes are pickled and sent to every task.
        self._stored = handle.getValueState("partition", BYTES)
        self._pages = _StatePages(handle.getMapState("pages", PAGE_KEY, BYTES))
        self._waiting: list[WindowRows] = []

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        """Process a (topic, partition), given its packed records, and yield its report."""
        topic, partition = key
        # unpack_records() restores the order of offsets, which the shuffle may have changed: of two
        # payloads of one identity the first by offset counts.
        table = unpack_records(stream for frame in rows for stream in frame["records"])
        family = self._families[topic]
        state = self._state(family)
        counted = table.filter(pc.equal(table["left_out"], 0))
        position = table["offset"][-1].as_py() + 1
        count = self._write(family, compute_rows(family, state, counted, position))
        self._stored.update((_ENCODER.encode(to_stored_state(family, state)),))
        offset, crc = last_read(table)
        report = PartitionReport(
            topic,
            int(partition),
            count,
            offset,
            crc,
            late=state.late,
            frontier=state.frontier,
            floor=state.floor,
            **_count_skips(table, state.below_floor),
        )
        yield to_record_batch([report]).to_pandas()

    def close(self) -> None:
        """Block until all rows are acknowledged, before Spark commits. Raises the sink's errors."""
        # Here and not for each partition: rows of all partitions of a task share their batches.
        # Once Spark has committed the state, rows still under way would not be written again.
        if self._waiting:
            self._write_out()
            with self._sink() as sink:
                sink.flush()

    def _state(self, family: Family) -> PartitionState:
        value = self._stored.get()
        stored = msgspec.msgpack.decode(value[0], type=StoredState) if value else StoredState()
        return load_state(family, self._lateness[family.topic], stored, self._pages)

    def _write(self, family: Family, rows: Iterator[WindowRow]) -> int:
        count = 0
        # A window's rows stay together: written apart, one of its currencies would have an earlier
        # count of events than the others.
        for _, window in groupby(rows, key=lambda row: (row.store, row.start)):
            # Before the next window is added, so that the last waits for close(), which flushes.
            if len(self._waiting) >= WINDOWS_AT_ONCE:
                self._write_out()
            self._waiting.append((family, [_to_speed_row(family, row) for row in window]))
            count += len(self._waiting[-1][1])
        return count

    def _write_out(self) -> None:
        with self._sink() as sink:
            sink.write(self._waiting)
        self._waiting = []

    @contextmanager
    def _sink(self) -> Iterator[RowSink]:
        try:
            yield worker_sink(self._make_sink, self._settings)
        except Exception:
            # A producer may have failed for good, and this worker outlives the query: the next try
            # gets a new sink.
            worker_sink.cache_clear()
            raise


class _StatePages(MutableMapping[PageKey, bytes]):
    """The pages in Spark's state as a mapping."""

    def __init__(self, state: MapState) -> None:
        self._state = state

    def __getitem__(self, key: PageKey) -> bytes:
        value = self._state.getValue(key)
        if value is None:
            raise KeyError(key)
        return bytes(value[0])

    def __setitem__(self, key: PageKey, value: bytes) -> None:
        self._state.updateValue(key, (value,))

    def __delitem__(self, key: PageKey) -> None:
        self._state.removeKey(key)

    def __iter__(self) -> Iterator[PageKey]:
        return iter(self._state.keys())

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _to_speed_row(family: Family, row: WindowRow) -> SpeedRow:
    # Day is in days and start in milliseconds since 1970.
    day = row.start // DAY_MILLIS
    return (
        row.store,
        day,
        row.start,
        *row.axes,
        TOTAL_DIM,
        TOTAL_DIM_VALUE,
        row.events,
        *row.parts,
        _epoch(family, day),
    )


def _epoch(family: Family, day: int) -> int:
    # Hardly any family has a raised epoch: a date for each row would be made in vain.
    epochs = family.epochs
    if epochs.raised or epochs.increases:
        return epochs.for_day(EPOCH.date() + timedelta(day))
    return epochs.default


def _count_skips(table: pa.Table, below: int) -> dict[str, int]:
    """Counts of records left out by each reason; `below` more by the partition's own floor."""
    left_out = table["left_out"].to_numpy()
    counts = np.bincount(left_out, minlength=len(SKIP_REASONS)).tolist()
    by_reason = dict(zip(SKIP_REASONS[1:], counts[1:], strict=True))
    return by_reason | {"below_floor": by_reason["below_floor"] + below}
