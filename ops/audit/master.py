"""The master dataset on disk, read by DuckDB and independent of the pipeline's code."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import unquote

import duckdb
import pyarrow as pa
from deltalake import DeltaTable

from ops.audit.queries import COPIES, IS_AGAIN, VALUED, WAITING, part_query
from tally.algebra.merge import Axes, Parts
from tally.config.settings import Settings
from tally.errors import TallyError
from tally.families.family import Family
from tally.people.heard import MAC_CLASSES
from tally.time.windows import WINDOW


@dataclass(frozen=True)
class OffsetSpan:
    """Offsets [first, until) of one partition, and how many committed records Kafka keeps there."""

    first: int
    until: int
    committed: int


WindowKey = tuple[str, datetime]
WindowValues = Mapping[Axes, Parts]
ValuesByWindow = Mapping[WindowKey, WindowValues]
# By partition of a topic.
OffsetSpans = Mapping[int, OffsetSpan]
# The first excluded offset, by (day, partition).
Pins = Mapping[tuple[date, int], int]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECONDS = int(WINDOW.total_seconds())
# floor: an instant before 1970 is negative, and a cast would round it into the next window.
_WINDOW = f"CAST(floor(epoch(happened_at) / {_SECONDS}) AS BIGINT) * {_SECONDS}"

_VIEW = """
    CREATE VIEW master AS SELECT * FROM read_parquet(
        [{files}], hive_partitioning = true, hive_types = {{'event_date': DATE}})
"""
_TABLES = """
    CREATE TABLE span ("partition" INTEGER, first BIGINT, until BIGINT);
    CREATE TABLE pin (event_date DATE, "partition" INTEGER, pinned BIGINT);
    CREATE TABLE reached ("partition" INTEGER, until BIGINT)
"""
# A text search comes first: few records have the field, and it saves parsing all others.
_LEFT_OUT = f"""{COPIES}
    SELECT rule, count(*) FROM (SELECT json_extract_string(value, '$.rule') AS rule FROM copies
        WHERE copy = 1 AND event_id IS NOT NULL AND contains(value, '"rule":'))
    WHERE rule IS NOT NULL GROUP BY rule ORDER BY rule
"""
# A vendor-specific kind of line, which counts as an article until it is mapped by a setting.
_UNMAPPED = f"""{COPIES}
    SELECT store_id, word, count(*), max(event_date) FROM (
        SELECT store_id, event_date,
               unnest(json_extract_string(value, '$.extra.transactions.*.unmapped_type')) AS word
        FROM copies WHERE copy = 1 AND contains(value, '"unmapped_type":'))
    GROUP BY store_id, word ORDER BY ALL
"""
_FATES = f"""{COPIES}
    SELECT "partition", count(*) FILTER (event_id IS NOT NULL AND copy = 1 AND {IS_AGAIN}),
           count(*) FILTER (event_id IS NOT NULL AND copy > 1 AND {IS_AGAIN}),
           count(*) FILTER (event_id IS NOT NULL AND NOT {IS_AGAIN}),
           count(*) FILTER (event_id IS NULL)
    FROM copies JOIN span USING ("partition")
    WHERE "offset" >= first AND "offset" < until GROUP BY ALL
"""
# Not distinct, so that a record that the master holds twice is found.
_ROWS = """
    SELECT "partition", count(*) FROM master JOIN span USING ("partition")
    WHERE source = ? AND "offset" >= first AND "offset" < until GROUP BY ALL
"""
_CANONICAL_OF_RAW = """
    WITH readable AS (SELECT DISTINCT ON ("partition", "offset")
                             CAST(json_extract(value, '$.raw_partition') AS INTEGER) AS raw,
                             CAST(json_extract(value, '$.raw_offset') AS BIGINT) AS raw_offset
                      FROM master WHERE source = ? AND event_id IS NOT NULL)
    SELECT raw, count(DISTINCT raw_offset), count(*)
    FROM readable JOIN span ON raw = span."partition"
    WHERE raw_offset >= first AND raw_offset < until GROUP BY ALL
"""
_WINDOW_EVENTS = f"""
    SELECT store_id, {_WINDOW} AS window_epoch, count(DISTINCT event_id)
    FROM master LEFT JOIN pin USING (event_date, "partition")
    WHERE source = ? AND event_id IS NOT NULL AND (NOT ? OR "offset" < pinned) GROUP BY ALL
"""


# The strongest signal of each minute, over all copies of readable records: presences are a set.
_MINUTES = f"""
    SELECT store_id, CAST(json_extract(value, '$.period_start') AS BIGINT),
           CAST(json_extract(value, '$.period_end') AS BIGINT),
           opening,
           json_extract_string(value, '$.device_hash') AS device,
           CAST(floor(epoch(happened_at) / 60) AS BIGINT) AS minute,
           max(CAST(json_extract(value, '$.rssi_dbm') AS INTEGER)),
           max(list_position({list(MAC_CLASSES)}, json_extract_string(value, '$.mac_class'))) - 1
    FROM (
        -- The first record's holds for all of the period: a store's lie in one partition.
        SELECT *, first_value(json_extract_string(value, '$.open_at')) OVER (
            PARTITION BY store_id, json_extract(value, '$.period_start'),
                         json_extract(value, '$.period_end')
            ORDER BY "offset"
        ) AS opening
        FROM master LEFT JOIN reached USING ("partition")
        WHERE source = ? AND event_id IS NOT NULL AND (NOT ? OR "offset" < until)
    )
    GROUP BY ALL ORDER BY ALL
"""


class MasterMinute(NamedTuple):
    """A minute since 1970 (UTC) of a device; `rank`: the class of its address in MAC_CLASSES."""

    store: str
    period_start: int
    period_end: int
    opening: str
    device: str
    minute: int
    dbm: int
    rank: int


@dataclass(frozen=True)
class Fates:
    """Counts of one canonical topic-partition's distinct records in the master, by fate."""

    counted: int = 0
    duplicate: int = 0
    conflict: int = 0
    unreadable: int = 0


class Master:
    """One version of the master dataset, open for queries."""

    def __init__(self, settings: Settings) -> None:
        path = str(settings.master_path)
        if not DeltaTable.is_deltatable(path):
            raise TallyError(
                f"no master dataset in {path}; start its ingest with `tally up master`"
            )
        table = DeltaTable(path)
        self.version = table.version()
        self._database = duckdb.connect()
        # Without this DuckDB converts instants to dates by the machine's time zone.
        self._database.execute("SET TimeZone = 'UTC'")
        # The view has the files of that version: later appends of the ingest are not read.
        if files := table.file_uris():
            self._database.execute(_VIEW.format(files=_quote_files(files)))
        else:
            # No record has arrived yet.
            schema = pa.schema(table.schema().to_arrow())
            self._database.register("master", schema.empty_table())
        self._database.execute(_TABLES)

    def fates(self, family: str, spans: OffsetSpans) -> dict[int, Fates]:
        """How many records in the spans of the canonical topic have each fate, by partition."""
        rows = self._query_spans(_FATES, family, spans)
        return {partition: Fates(*counts) for partition, *counts in rows}

    def rows(self, family: str, spans: OffsetSpans) -> dict[int, int]:
        """How many rows there are by canonical partition, with repeated coordinates."""
        return dict(self._query_spans(_ROWS, family, spans))

    def count_canonical_by_raw(
        self,
        family: str,
        spans: OffsetSpans,
    ) -> dict[int, tuple[int, int]]:
        """How many raw records have canonical records, and how many they have, by raw partition."""
        rows = self._query_spans(_CANONICAL_OF_RAW, family, spans)
        return {partition: (raw, canonical) for partition, raw, canonical in rows}

    def window_events(self, family: str, pins: Pins | None = None) -> dict[WindowKey, int]:
        """Distinct events by (store, window start in UTC) up to the pins, or of all records."""
        rows = self._query_pinned(_WINDOW_EVENTS, family, pins)
        return {(store, _EPOCH + timedelta(seconds=start)): events for store, start, events in rows}

    def window_values(
        self, family: Family, pins: Pins | None = None
    ) -> dict[WindowKey, dict[Axes, Parts]]:
        """Parts (family's units) by axes, by (store, window start in UTC). Raises TallyError."""
        rows = self._query_pinned(_values_query(family), family.name, pins)
        queries = {part.name: part_query(family.name, part) for part in family.parts}
        found: dict[WindowKey, dict[Axes, Parts]] = {}
        for store, start, *cells in rows:
            axes, parts = cells[: len(family.axes)], cells[len(family.axes) :]
            window = found.setdefault((store, _EPOCH + timedelta(seconds=start)), {})
            window[tuple(axes)] = {
                name: query.value(part)
                for (name, query), part in zip(queries.items(), parts, strict=True)
            }
        return found

    def minutes(
        self,
        family: str,
        pins: Mapping[int, int] | None = None,
    ) -> list[MasterMinute]:
        """The minutes of presences, in order, up to the pins by partition or of all records."""
        self._fill("reached", list((pins or {}).items()))
        rows = self._database.execute(_MINUTES, [family, pins is not None]).fetchall()
        return [MasterMinute(*row) for row in rows]

    def left_out(self, family: str) -> dict[str, int]:
        """How many counted records add nothing, by the rule that excludes them."""
        return dict(self._database.execute(_LEFT_OUT, [family]).fetchall())

    def waiting_voids(self, family: str) -> list[tuple[str, str, date]]:
        """Store, identity and UTC day of counted voids whose receipt is not there."""
        return self._database.execute(WAITING, [family]).fetchall()

    def count_unmapped_words(self, family: str) -> list[tuple[str, str, int, date]]:
        """How many lines have each unmapped word, and the last UTC day, by store and word."""
        return self._database.execute(_UNMAPPED, [family]).fetchall()

    def _query_pinned(self, query: str, family: str, pins: Pins | None) -> list[Any]:
        pinned = pins or {}
        self._fill("pin", [(*place, offset) for place, offset in pinned.items()])
        return self._database.execute(query, [family, pins is not None]).fetchall()

    def _query_spans(self, query: str, family: str, spans: OffsetSpans) -> list[Any]:
        rows = [(number, span.first, span.until) for number, span in spans.items()]
        self._fill("span", rows)
        return self._database.execute(query, [family]).fetchall()

    def _fill(self, table: str, rows: Iterable[tuple[object, ...]]) -> None:
        self._database.execute(f"DELETE FROM {table}")
        if listed := list(rows):
            marks = ", ".join("?" * len(listed[0]))
            self._database.executemany(f"INSERT INTO {table} VALUES ({marks})", listed)


def _values_query(family: Family) -> str:
    # The names come from a source's descriptor, which accepts only letters and digits.
    axes = [f"json_extract_string(value, '$.{axis}') AS {axis}" for axis in family.axes]
    parts = []
    for part in family.parts:
        found = f"json_extract(value, '$.{part.name}')"
        value = f"coalesce({found}, 0)" if part.is_optional else found
        parts.append(part_query(family.name, part).sql(value))
    return f"""{VALUED}
        SELECT {", ".join(["store_id", f"{_WINDOW} AS window_epoch", *axes, *parts])}
        FROM valued LEFT JOIN pin USING (event_date, "partition")
        CROSS JOIN (SELECT ? AS is_pinned)
        WHERE (NOT is_pinned OR "offset" < pinned)
          AND (reversed_at IS NULL OR (is_pinned AND reversed_at >= pinned)) GROUP BY ALL
    """


def _quote_files(uris: Iterable[str]) -> str:
    # Delta writes a space in the home's path as `%20`, DuckDB expects names unescaped.
    return ", ".join(
        "'" + unquote(uri.removeprefix("file://")).replace("'", "''") + "'" for uri in uris
    )
