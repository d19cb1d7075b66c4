"""Two stores as an evaluator of alerts meets them: receipts that come late too, both layers, ticks,
hints, erasures, and a rule that is edited.

Six windows, three a day, all numbered from 0. Every action takes a number from 0 to 255 and picks
by it among what is possible.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import count
from typing import NamedTuple

WINDOWS, DAY = 6, 3
# A partition each.
STORES = (0, 1)
DAYS = range(WINDOWS // DAY)
AMOUNTS = (1, 2, 2, -1)


class Broken(Exception):
    """Raised when subscribers are told what they must never be told, or not told what they must."""


def must(holds: bool, otherwise: str) -> None:
    """Raises Broken."""
    if not holds:
        raise Broken(otherwise)


class Row(NamedTuple):
    """What a layer holds of a window: distinct events, and the sum of their amounts."""

    events: int = 0
    amount: int = 0

    def plus(self, amount: int) -> "Row":
        return Row(self.events + 1, self.amount + amount)


class Served(NamedTuple):
    """What the views say of a window; covered where a generation covers it and speed knows no
    more."""

    row: Row
    is_covered: bool


@dataclass
class Receipt:
    """One receipt in a store's log, with the instant of its arrival."""

    window: int
    amount: int
    arrived: int
    is_erased: bool = False


Rows = dict[tuple[int, int], Row]


class Published(NamedTuple):
    """A generation of a day, by store and window: before `covered` all its windows are whole.

    `erased`: receipts of the day that it knows to be erased, which stands for its epoch.
    """

    token: int
    rows: Rows
    covered: int
    erased: int


UNPUBLISHED = Published(0, {}, 0, 0)


class Rebuild(NamedTuple):
    """A rebuild between its pin and its flip, of some of the days."""

    by_day: Mapping[int, Published]


class Hint(NamedTuple):
    """Something of this window may have changed."""

    window: int


class TickOfTime(NamedTuple):
    """All that had arrived before `at` is in the speed rows; windows before it are closed.

    `edit`: first window of the rule's second version, once somebody has written one.
    """

    at: int
    edit: int | None


class Probe(NamedTuple):
    """How long the logs were at an instant."""

    at: int
    ends: tuple[int, ...]


class Shop:
    """All that an evaluator reads."""

    def __init__(self) -> None:
        self.tokens = count(1)
        self.now = 0
        self.edit: int | None = None
        self.logs: tuple[list[Receipt], ...] = tuple([] for _ in STORES)
        self.speed_at = [0 for _ in STORES]
        self.front = [0 for _ in STORES]
        self.speed_rows: Rows = {}
        self.pointers: dict[int, Published] = {}
        self.rebuilds: list[Rebuild] = []
        self.hints: list[tuple[int, int]] = []
        # Notices of a rebuild that crashed before it sent them: the next one does.
        self.owed: list[tuple[int, int]] = []
        self.published: dict[tuple[int, int], Published] = {}
        self.probes: list[Probe] = []
        self.inputs: tuple[list[Hint | TickOfTime], ...] = tuple([] for _ in STORES)

    # Actions.

    def sell(self, pick: int) -> None:
        """A receipt arrives, of this window or of one of the two before it."""
        window = max(0, min(self.now, WINDOWS - 1) - pick // 2 % 3)
        receipt = Receipt(window, AMOUNTS[pick // 6 % 4], self.now)
        self.logs[pick % 2].append(receipt)

    def pass_time(self, _pick: int) -> None:
        """The next window begins."""
        self.now = min(self.now + 1, WINDOWS)

    def probe(self, _pick: int) -> None:
        """A ticker reads where the logs end."""
        self.probes.append(Probe(self.now, tuple(map(len, self.logs))))

    def read(self, pick: int) -> None:
        """The speed layer counts up to three receipts: its rows first, the hints after them."""
        store, begin = pick % 2, self.speed_at[pick % 2]
        for receipt in self.logs[store][begin : begin + 1 + pick // 2 % 3]:
            # Two windows behind the front is too late for it.
            if receipt.window > self.front[store] - 2:
                place = (store, receipt.window)
                self.speed_rows[place] = self.speed_rows.get(place, Row()).plus(receipt.amount)
                self.hints.append(place)
            self.speed_at[store] += 1
            self.front[store] = max(self.front[store], receipt.window)

    def hint(self, pick: int) -> None:
        """A hint arrives, any of those on their way, and perhaps once more later."""
        if self.hints:
            place = pick % len(self.hints)
            store, window = self.hints.pop(place) if pick & 64 else self.hints[place]
            self.deliver_hint(store, window)

    def tick(self, _pick: int) -> None:
        """A tick arrives in each partition, if there is something to be told by one."""
        instants = self.known_until()
        for store in STORES if instants else ():
            self.inputs[store].append(TickOfTime(max(instants), self.edit))

    def pin(self, pick: int) -> None:
        """A rebuild of one of the days or of both takes its token and what the logs hold now."""
        if len(self.rebuilds) < 2:
            token, rows = next(self.tokens), self.master_rows()
            days = [day for day in DAYS if pick >> day & 1] or DAYS
            made = {day: Published(token, rows, self.now, self._erased(day)) for day in days}
            self.rebuilds.append(Rebuild(made))

    def flip(self, pick: int) -> None:
        """A rebuild publishes; a crash right after it may delay the hints of what has changed."""
        if not self.rebuilds:
            return
        self.hints += self.owed
        self.owed = []
        made = self.rebuilds.pop(pick % len(self.rebuilds)).by_day
        for day, new in made.items():
            old = self.pointers.get(day)
            if old is not None and old.token > new.token:
                continue
            self.pointers[day] = self.published[day, new.token] = new
            if old is not None:
                both = sorted({*old.rows, *new.rows})
                changed = [one for one in both if old.rows.get(one) != new.rows.get(one)]
                notices = self.hints if pick & 4 else self.owed
                notices += [one for one in changed if one[1] // DAY == day]

    def erase(self, pick: int) -> None:
        """A receipt's amount is to be forgotten: from the next rebuild on it is."""
        log = self.logs[pick % 2]
        if log:
            place = pick // 2 % len(log)
            log[place] = replace(log[place], is_erased=True)

    def change(self, _pick: int) -> None:
        """The rule's second version is written, once: two windows in a row instead of one."""
        if self.edit is None:
            self.edit = self.effective_from(_pick)

    # What controls do otherwise.

    def deliver_hint(self, store: int, window: int) -> None:
        """The hint is in the partition."""
        self.inputs[store].append(Hint(window))

    def known_until(self) -> list[int]:
        """Instants before which all that had arrived has been read."""
        return [
            probe.at
            for probe in self.probes
            if all(self.speed_at[store] >= probe.ends[store] for store in STORES)
        ]

    def effective_from(self, pick: int) -> int:
        """First window of a version that is written now."""
        return min(self.now + 1 + pick % 2, WINDOWS)

    def is_old_epoch(self, window: int, pointers: Mapping[int, Published]) -> bool:
        """Whether an erasure has put the speed rows of its day out of force: ticks, which are of
        the first epoch, say nothing of it any more."""
        return pointers.get(window // DAY, UNPUBLISHED).erased > 0

    # What follows from them.

    def master_rows(self) -> Rows:
        """What a rebuild computes from all that has arrived."""
        rows: Rows = {}
        for store in STORES:
            for one in self.logs[store]:
                amount = 0 if one.is_erased else one.amount
                rows[store, one.window] = rows.get((store, one.window), Row()).plus(amount)
        return rows

    def served(self, store: int, window: int, pointers: Mapping[int, Published]) -> Served | None:
        """The richer row of both layers; None where neither can say."""
        batch = pointers.get(window // DAY, UNPUBLISHED)
        counted, is_covered = batch.rows.get((store, window)), window < batch.covered
        speed = self.speed_rows.get((store, window))
        if speed is not None and not batch.erased and speed.events > (counted or Row()).events:
            return Served(speed, False)
        if counted is None and not is_covered:
            return None
        return Served(counted or Row(), is_covered)

    def _erased(self, day: int) -> int:
        found = (one for log in self.logs for one in log if one.window // DAY == day)
        return sum(one.is_erased for one in found)
