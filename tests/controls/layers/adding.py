"""Wrong on purpose: a sink that adds what is new to what the table holds, as a first attempt would,
in place of absolute totals.

A repeated micro-batch, a restored checkpoint or a second driver adds again. `python -m
tests.controls.layers.adding` is the shipped job with it.
"""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import uuid4

from typing_extensions import override

from runtime.connect import CQL_DATE_ZERO
from speed_layer.job import main
from speed_layer.state.sink import RowSink, SpeedRow, WindowRows, row_columns
from tally.config.settings import Settings
from tally.families.family import Family
from tests.controls.guard import refuse_outside_tests


class AddingSink(RowSink):
    """Adds what has changed since it last saw a row: it knows nothing of what others, or it
    before a restart, have added."""

    def __init__(self, settings: Settings) -> None:
        refuse_outside_tests(settings)
        super().__init__(settings)
        self._last: dict[tuple[object, ...], list[int]] = {}

    @override
    def write(self, windows: Sequence[WindowRows]) -> None:
        """The rows, with the increments added to what is there."""
        super().write(
            [(family, [self._added(family, row) for row in rows]) for family, rows in windows]
        )

    @override
    def timestamp(self, family: Family, row: SpeedRow) -> int:
        """Microseconds since 1970: the last to write wins."""
        return int(time.time() * 1_000_000)

    def _added(self, family: Family, row: SpeedRow) -> SpeedRow:
        columns = row_columns(family)
        first = columns.index("events")
        key, totals = row[:first], list(row[first:-1])
        before = self._last.get(key, [0] * len(totals))
        self._last[key] = totals
        held = self._held(family, columns[first:-1], key)
        return (
            *key,
            *(there + now - then for there, now, then in zip(held, totals, before, strict=True)),
            row[-1],
        )

    def _held(self, family: Family, columns: Sequence[str], key: tuple[object, ...]) -> list[int]:
        store_id, day, start, *others = key
        assert isinstance(day, int)
        where = " AND ".join(f"{name} = ?" for name in ("store_id", "day", *family.row_key))
        names = ", ".join(f'"{name}"' for name in columns)
        select = self._session.prepare(f"SELECT {names} FROM {family.speed_table} WHERE {where}")
        row = self._session.execute(select, (store_id, day + CQL_DATE_ZERO, start, *others)).one()
        return [*row] if row else [0] * len(columns)


@dataclass(frozen=True)
class Adding:
    """Makes a sink that remembers nothing of another start."""

    start: str = field(default_factory=lambda: uuid4().hex)

    def __call__(self, settings: Settings) -> AddingSink:
        """The sink of one worker."""
        return AddingSink(settings)


if __name__ == "__main__":
    # Before Spark is started: the workers, who make the sink, come long after it.
    refuse_outside_tests(Settings.load())
    # By its full name, for the workers have to find it.
    from tests.controls.layers.adding import Adding as Shipped

    sys.exit(main(sink=Shipped()))
