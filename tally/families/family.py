"""A view family: its canonical topic, its kind, and the parts that its rows carry.

The sources define which families there are (runtime/registry/sources.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import Any, NamedTuple

from tally.algebra.level import Level
from tally.algebra.merge import Parts
from tally.algebra.parts import Part, Sum, Value
from tally.families.epochs import Epochs, RaisedEpoch, StoreVisitRules
from tally.families.kind import ADDITIVE, Kind

TOTAL_DIM = "*"
TOTAL_DIM_VALUE = ""
# The only axis that is also a unit: money is counted in it.
CURRENCY = "currency"
# The longest text of a canonical record: above what contracts accept, below a table's key.
MAX_TEXT_BYTES = 4096


class RecordFields(NamedTuple):
    """The fields of a record that rows are computed from: texts and whole numbers.

    `patterns` are regular expressions that texts match, each with the text's name; `name` is the
    reading's, empty where each event has the values of its parts itself. A number that is
    `optional` is 0 where a record has none.
    """

    name: str
    texts: tuple[str, ...]
    numbers: tuple[str, ...]
    patterns: tuple[tuple[str, str], ...] = ()
    optional: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Family:
    """One view family.

    `axes` split a window into rows (e.g. currency); `parts` are what each row counts; `epoch` is
    that of its definition, except on the days that were `raised`.
    """

    name: str
    axes: tuple[str, ...]
    parts: tuple[Part, ...]
    epoch: int
    kind: Kind = ADDITIVE
    raised: tuple[RaisedEpoch, ...] = ()
    # Allowed lateness where no setting says otherwise.
    lateness_seconds: int = 7200
    # What a derived family's operator reads; in other families each event has its parts' values.
    reading: RecordFields | None = None
    # The rules by which the family is read, store by store.
    visit_rules: StoreVisitRules = field(default_factory=StoreVisitRules, hash=False)
    # The field of a store's entry that lists its sensors; None where no sensor is expected.
    listed_as: str | None = None
    # The topic of the messages that are normalised to its records.
    raw_topic: str = ""
    # Whether copies of one identity may lie on different days; they cannot where the identity has
    # the instant.
    copies_move: bool = True

    def __hash__(self) -> int:
        # A set of families is made for each lot of rows, and a family is identified by its name.
        return hash(self.name)

    @cached_property
    def epochs(self) -> Epochs:
        """The epoch of each day's rows."""
        return Epochs(self.epoch, self.raised, self.visit_rules.epoch_increases)

    @cached_property
    def part_names(self) -> tuple[str, ...]:
        """The columns of the parts, in their order."""
        return tuple(part.name for part in self.parts)

    @cached_property
    def fields(self) -> RecordFields:
        """The fields of a record that the family's rows are computed from."""
        names = frozenset(part.name for part in self.parts if part.is_optional)
        return self.reading or RecordFields("", self.axes, self.part_names, optional=names)

    def join_over_time(self, earlier: Parts, later: Parts) -> Parts:
        """Two stretches as one, of the same values of the axes; an absent part is its zero.

        The operation is associative, and {} is its neutral element.
        """
        try:
            # Rows of one family have all its parts.
            return {
                part.name: part.join_over_time(earlier[part.name], later[part.name])
                for part in self.parts
            }
        except KeyError:
            return {
                part.name: part.join_over_time(part.value_in(earlier), part.value_in(later))
                for part in self.parts
                if part.name in earlier or part.name in later
            }

    def join_across_axes(self, rows: Sequence[Parts]) -> Parts:
        """Rows of different values of the axes as one, of the same stretch; part by part.

        A level is evaluated to a number, or None. A part that no row has is left out.
        """
        joined: dict[str, Value] = {}
        for part in self.parts:
            if held := [row[part.name] for row in rows if part.name in row]:
                joined[part.name] = join_across_axes(part, held)
        return joined

    @cached_property
    def sums(self) -> tuple[str, ...]:
        """The parts that are conserved: their total over all rows is that over all events."""
        return tuple(part.name for part in self.parts if isinstance(part, Sum))

    @cached_property
    def are_sums(self) -> bool:
        """Whether all parts are whole numbers that add up, as those of most families."""
        return len(self.sums) == len(self.parts)

    def from_columns(self, columns: Sequence[Any]) -> tuple[Value, ...]:
        """The value of each part, from its column as Cassandra's driver has read it."""
        # By far most rows are of such families and hold no null: no call for each column.
        if self.are_sums and None not in columns:
            return tuple(columns)
        by_part = zip(self.parts, columns, strict=True)
        return tuple(part.from_column(column) for part, column in by_part)

    @property
    def topic(self) -> str:
        """The canonical topic."""
        return self.name

    @property
    def source_topics(self) -> list[str]:
        """The topics that it is computed from: the canonical one, and the raw one before it."""
        return [self.topic, self.raw_topic]

    @property
    def speed_table(self) -> str:
        """The table of the speed layer's rows."""
        return f"{self.name}_15min"

    @property
    def batch_table(self) -> str:
        """The table of the rebuilt rows."""
        return f"batch_{self.name}_15min"

    @property
    def exclusion_columns(self) -> tuple[str, ...]:
        """The batch columns of events that were considered in the window but excluded from it."""
        return tuple(f"excluded_{part}" for part in self.part_names)

    @property
    def row_key(self) -> tuple[str, ...]:
        """Key columns of one row inside its (store_id, day) partition."""
        return ("window_start", *self.axes, "dim", "dim_value")


# For answers only: no layer stores the result, so no definition of rows depends on it. Over time,
# two windows of one item are joined by Part.join_over_time; the rows of two items are not: with
# levels, the later count would discard the level of the other item (10 and 5 gave 5).
def join_across_axes(part: Part, rows: Sequence[Value]) -> Value:
    """The value of the events of all rows, which are of one stretch and of different values.

    A level is evaluated: the sum of the levels of all rows; None where one of them is unknown.

    >>> milk, bread = [[1, Level.encode_count(10)]], [[2, Level.encode_count(5)]]
    >>> join_across_axes(Level("stock"), [milk, bread])
    15
    """
    if isinstance(part, Level):
        levels = [part.at_end(row) for row in rows]
        # Without the item that was never counted the total would be too low, and not say so.
        return None if None in levels else sum(levels)
    # For all other parts it does not matter whether events differ in time or in their axes; sums
    # are not bounded here, because integers cannot overflow.
    return reduce(part.join_over_time, rows)
