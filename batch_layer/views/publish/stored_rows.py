"""The batch rows that Cassandra holds: all versions of a store's day."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from typing import Any, TypeAlias

from cassandra.cluster import Session

from runtime.cassandra.writes import chunks, prepare_idempotent, read_many
from runtime.connect import CQL_DATE_ZERO
from tally.families.family import Family
from tally.families.versions import RowVersion, VersionChoice, select_versions
from tally.time.instants import assume_utc, to_millis
from tally.time.windows import EPOCH

# Days of one store per query: a query costs the client as much as its answer.
_DAYS_AT_ONCE = 20
# Store, and day in days since 1970.
StoreDay: TypeAlias = tuple[str, int]
# The columns of family.row_key (starts in milliseconds since 1970), and those of value_names().
RowKeyColumns: TypeAlias = tuple[Any, ...]
RowValues: TypeAlias = tuple[Any, ...]
DayRows: TypeAlias = Mapping[RowKeyColumns, RowValues]
BatchRowVersion: TypeAlias = RowVersion[RowKeyColumns, RowValues]
# By day since 1970; a day that nothing serves is absent.
ServedVersions: TypeAlias = Mapping[int, VersionChoice]


def value_names(family: Family) -> tuple[str, ...]:
    """The columns of a row's values, in the order of RowValues."""
    return ("events", *family.part_names, "epoch", *family.exclusion_columns)


def quote_names(names: Iterable[str]) -> str:
    """The names as a list of CQL, for `entries` is a reserved word."""
    return ", ".join(f'"{name}"' for name in names)


def days_since_1970(choices: Mapping[date, VersionChoice]) -> ServedVersions:
    """The same choices by the number of the day."""
    begin = EPOCH.date()
    return {(day - begin).days: choice for day, choice in choices.items()}


class StoredRows:
    """Reads the batch rows of stores and days."""

    def __init__(self, session: Session, family: Family) -> None:
        self._session, self._family = session, family
        names = quote_names((*family.row_key, *value_names(family)))
        text = f"SELECT day, generation, {names} FROM {family.batch_table}"
        self._select = prepare_idempotent(session, f"{text} WHERE store_id = ? AND day IN ?")

    def read(self, keys: Sequence[StoreDay], choices: ServedVersions) -> dict[StoreDay, DayRows]:
        """The rows of each store's day in the chosen generation; a day without one has none."""
        served = [(store_id, day) for store_id, day in keys if day in choices]
        found: dict[StoreDay, DayRows] = {key: {} for key in keys}
        for store_day, versions in self.read_versions(served).items():
            found[store_day] = select_versions(versions, choices[store_day[1]])
        return found

    def read_versions(self, keys: Sequence[StoreDay]) -> dict[StoreDay, list[BatchRowVersion]]:
        """All versions of the rows of each store's day."""
        days: defaultdict[str, list[int]] = defaultdict(list)
        for store_id, day in keys:
            days[store_id].append(day + CQL_DATE_ZERO)
        queries = [
            (store_id, chunk)
            for store_id, of_store in days.items()
            for chunk in chunks(of_store, _DAYS_AT_ONCE)
        ]
        answers = read_many(self._session, self._select, queries)
        versions: dict[StoreDay, list[BatchRowVersion]] = {key: [] for key in keys}
        for (store_id, _), rows in zip(queries, answers, strict=True):
            for day, version in self._parse(rows):
                versions[store_id, day].append(version)
        return versions

    def _parse(self, rows: Iterable[RowValues]) -> Iterator[tuple[int, BatchRowVersion]]:
        length = len(self._family.row_key)
        for day, generation, start, *columns in rows:
            # Values are compared with those to write, in which an instant is a number.
            key = (to_millis(assume_utc(start)), *columns[: length - 1])
            values = tuple(map(to_plain, columns[length - 1 :]))
            # A version without events says that there is no row any more.
            found = None if values[0] is None else values
            yield day.days_from_epoch, (key, generation, found)


def to_plain(value: Any) -> Any:
    """The same value, in one form for what Arrow and what Cassandra's driver give; hashable."""
    if isinstance(value, Mapping):
        return tuple(map(to_plain, value.values()))
    if isinstance(value, list | tuple):
        return tuple(map(to_plain, value))
    return value
