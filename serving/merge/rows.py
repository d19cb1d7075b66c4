"""What is read of the tables for one question about one family, and the protocol of whoever reads it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Protocol

from tally.families import Family
from tally.merge import WindowState
from tally.windows import utc_days

Span = tuple[datetime, datetime]
States = Mapping[datetime, WindowState]


@dataclass(frozen=True)
class Pointer:
    """The generation that serves one day. `covered_until` exclusive; `pinned`: first offset that it does not include."""

    generation: int
    covered_until: datetime
    flipped_at: datetime
    pinned: Mapping[int, int] = field(default_factory=dict)
    through: Mapping[int, datetime] = field(default_factory=dict)


@dataclass(frozen=True)
class Scope:
    """Which windows of a family are asked: [start, end) in UTC by store; `as_of` for what was published then."""

    family: Family
    spans: Mapping[str, Span]
    as_of: datetime | None = None

    @property
    def days(self) -> list[date]:
        """Every UTC day of any store's span, ascending."""
        return sorted({day for span in self.spans.values() for day in utc_days(*span)})


@dataclass(frozen=True)
class FamilyRows:
    """Both layers' windows by store, and the control rows that say what they are worth.

    `master_until`: (day, partition) to the first offset not yet in the master; `late`: records that the speed layer dropped
    since the oldest of the pointers was flipped.
    """

    pointers: Mapping[date, Pointer]
    speed: Mapping[str, States]
    batch: Mapping[str, States]
    master_until: Mapping[tuple[date, int], int]
    speed_offsets: Mapping[int, int]
    late: int


@dataclass(frozen=True)
class ActiveStore:
    """A store that has rows, and the first and last UTC day of its events in any family."""

    store_id: str
    first_day: date | None
    last_day: date | None


class Views(Protocol):
    """The serving tables. Every method raises ViewsUnreachable rather than leave something out."""

    def read(self, scope: Scope) -> FamilyRows:
        """The rows of both layers in the scope."""

    def active_stores(self) -> list[ActiveStore]:
        """Every store with rows, by store_id ascending."""

    def unknown_stores(self, store_ids: Iterable[str]) -> list[str]:
        """Those of the ids that have never had a row, in the order given."""

    def check(self) -> str:
        """One line about the connection."""
