"""A reference model of one store: a log in offset order, what each layer holds of a window, and
what a full recompute says.

It restates the rules of docs/guarantees.md in a few lines of plain Python; of the pipeline it
shares the values of tally/algebra/merge.py and, where a law is of any part, the part's own values.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial, reduce

from hypothesis import strategies as st

from tally.algebra.merge import Axes, MergedWindow, Parts, WindowState
from tally.algebra.parts import Part, Sum, Value
from tally.families.kind import ADDITIVE

Merge = Callable[[WindowState | None, WindowState | None, bool], MergedWindow]
WINDOWS = (0, 1)
EPOCH = 1
AMOUNT = Sum("amount")
merge_window = partial(ADDITIVE.merge, (AMOUNT,))


@dataclass(frozen=True)
class Event:
    """One committed record.

    `identity` may come again: a resend (same window, amount and currency) or a conflict.
    """

    identity: str
    window: int
    offset: int
    amount: int
    currency: str = "USD"

    @property
    def at(self) -> int:
        """Its instant, in an order that is not that of the offsets."""
        return self.amount * 7 % 5


@dataclass(frozen=True)
class Cut:
    """How far each layer is: batch holds the log below `batch`; speed has accepted the first
    `speed[w]` records of window w."""

    batch: int
    speed: tuple[int, ...]


def logs(conflicts: bool = True) -> st.SearchStrategy[list[Event]]:
    """Logs of up to 12 records; every record may come again as it was, and with conflicts also
    in another shape."""
    payloads = st.tuples(
        st.sampled_from(WINDOWS), st.integers(0, 9), st.sampled_from(["USD", "EUR"])
    )
    records = st.lists(st.tuples(st.sampled_from("abcdef"), payloads), max_size=12)
    return records.map(lambda found: _events(found, conflicts))


def _events(records: Sequence[tuple[str, tuple[int, int, str]]], conflicts: bool) -> list[Event]:
    first: dict[str, tuple[int, int, str]] = {}
    for identity, payload in records:
        first.setdefault(identity, payload)
    kept = [(identity, payload if conflicts else first[identity]) for identity, payload in records]
    return [
        Event(identity, payload[0], offset, *payload[1:])
        for offset, (identity, payload) in enumerate(kept)
    ]


def cuts(log: Sequence[Event]) -> st.SearchStrategy[Cut]:
    """Any prefix for batch, any prefix of each window for speed."""
    speed = st.tuples(*(st.integers(0, len(of_window(log, window))) for window in WINDOWS))
    return st.builds(Cut, st.integers(0, len(log)), speed)


def of_window(log: Iterable[Event], window: int) -> list[Event]:
    """The window's records in offset order."""
    return sorted(
        (event for event in log if event.window == window), key=lambda event: event.offset
    )


def first_copies(log: Iterable[Event]) -> dict[str, Event]:
    """Of each identity the copy with the lowest offset."""
    found: dict[str, Event] = {}
    for event in sorted(log, key=lambda event: event.offset):
        found.setdefault(event.identity, event)
    return found


def speed_state(
    log: Sequence[Event], window: int, accepted: int, part: Part = AMOUNT
) -> WindowState | None:
    """What the speed layer holds after the first `accepted` records of the window: it knows of
    no other window."""
    return speed_of(of_window(log, window)[:accepted], part)


def speed_of(received: Iterable[Event], part: Part = AMOUNT) -> WindowState | None:
    """The state of a set of records of one window, in whatever order and however often they
    came; no record, no row."""
    kept = first_copies(received)
    return WindowState(EPOCH, len(kept), values_of(kept.values(), part)) if kept else None


def batch_state(
    log: Sequence[Event], window: int, until: int, part: Part = AMOUNT
) -> WindowState | None:
    """What a rebuild over the log below `until` holds: conflicts whose first copy lies in
    another window are excluded."""
    held = [event for event in log if event.offset < until]
    here, everywhere = first_copies(of_window(held, window)), first_copies(held)
    counted = [event for event in here.values() if everywhere[event.identity].window == window]
    excluded = [event for event in here.values() if everywhere[event.identity].window != window]
    # As in the tables: a row for every currency of the window, a zero where all of it is excluded.
    emptied: dict[Axes, Parts] = {(event.currency,): {part.name: part.zero} for event in excluded}
    values = {**emptied, **values_of(counted, part)}
    return WindowState(EPOCH, len(here), values, values_of(excluded, part)) if here else None


def recomputed(log: Sequence[Event], window: int, cut: Cut, part: Part = AMOUNT) -> Value:
    """The window's total from scratch over the longer of the two prefixes, without the conflicts
    that batch has seen.

    Of a part that takes nothing back it is batch's prefix as soon as batch has left one out."""
    accepted = of_window(log, window)[: cut.speed[window]]
    held = [event for event in log if event.offset < cut.batch]
    longer = first_copies({*accepted, *of_window(held, window)})
    taken_back = {one for one, event in first_copies(held).items() if event.window != window}
    seen_by_batch = {event.identity for event in of_window(held, window)}
    left_out = taken_back & seen_by_batch
    if left_out and not part.is_invertible:
        longer = first_copies(of_window(held, window))
    return value_of((event for one, event in longer.items() if one not in left_out), part)


def served(
    merge: Merge, log: Sequence[Event], window: int, cut: Cut, part: Part = AMOUNT
) -> MergedWindow:
    """The merge of both sides at the cut."""
    return merge(
        speed_state(log, window, cut.speed[window], part),
        batch_state(log, window, cut.batch, part),
        False,
    )


def values_of(events: Iterable[Event], part: Part = AMOUNT) -> dict[Axes, Parts]:
    """The part's value by currency."""
    by_currency: dict[Axes, list[Event]] = {}
    for event in events:
        by_currency.setdefault((event.currency,), []).append(event)
    return {axes: {part.name: value_of(some, part)} for axes, some in by_currency.items()}


def value_of(events: Iterable[Event], part: Part = AMOUNT) -> Value:
    """The part's value of the events; that of AMOUNT is added up here, by hand."""
    some = list(events)
    if part is AMOUNT:
        return sum(event.amount for event in some)
    return part.fold([event.at for event in some], [event.amount for event in some])


def total(window: MergedWindow, part: Part = AMOUNT) -> Value:
    """All currencies together; a missing window is the zero here, its source says what it is."""
    held = (parts[part.name] for parts in (window.values or {}).values())
    return reduce(part.plus, held, part.zero)
