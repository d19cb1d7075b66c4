"""The rows of a partition of sightings are a function of its records in their order: of no cut into
micro-batches, of no restart."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from speed_layer.state.presence import MINUTE_MILLIS, PartitionPresences, SightingRecord
from speed_layer.state.presence_pages import KeySpan
from tally.families.epochs import EVER, DatedVisitRules, StoreVisitRules
from tally.families.family import Family
from tally.families.kind import DERIVED
from tally.people.heard import MAC_CLASSES, NEVER, Sighting
from tally.people.presence import KeyPeriod
from tally.people.visits import UNKNOWN_HOURS, parse_period_hours
from tests.laws.layers.test_presence import PARTS, RULES

RULES_OF_STORES = StoreVisitRules(
    {store: (DatedVisitRules(EVER, RULES),) for store in ("367", "406")}
)
FAMILY = Family("wifi", ("mac_class",), PARTS, epoch=1, kind=DERIVED, visit_rules=RULES_OF_STORES)
# Minutes: key periods of a store, and how long they take sightings after their end.
LENGTH, LATENESS = 60, 30
Rows = dict[tuple[str, int, str], tuple[Any, ...]]


def _record(
    store: str, sighting: Sighting, length: int, opening: str = UNKNOWN_HOURS
) -> SightingRecord:
    begin = sighting.minute - sighting.minute % length
    return SightingRecord(store, KeySpan(begin, begin + length), sighting, opening)


sightings = st.builds(
    lambda device, mac_class, minute, dbm: Sighting(
        device << 100 | device, mac_class, 60 * minute, dbm
    ),
    st.integers(0, 3),
    st.sampled_from(MAC_CLASSES),
    st.integers(0, 200),
    st.integers(-88, -75),
)
heard = st.builds(
    _record,
    st.sampled_from(["367", "406"]),
    sightings,
    # A setting that has changed: periods that overlap, and such as begin together.
    st.sampled_from([LENGTH, LENGTH, 40, 2 * LENGTH]),
    # And hours that have.
    st.sampled_from([UNKNOWN_HOURS, "0-9,30-35", "closed"]),
)
logs = st.lists(heard, max_size=40)


def written(
    log: Sequence[SightingRecord], cuts: Sequence[int]
) -> Iterator[tuple[PartitionPresences, Rows]]:
    """The state after each micro-batch, and the rows that it tells; begun again from what is kept
    after each cut."""
    state = PartitionPresences(LATENESS * MINUTE_MILLIS, {}, family=FAMILY)
    bounds = sorted({0, len(log), *(cut for cut in cuts if cut < len(log))})
    for begin, end in pairwise(bounds):
        kept = dict(state.pages), state.frontier, set(state.page_keys)
        state = PartitionPresences(LATENESS * MINUTE_MILLIS, *kept, family=FAMILY)
        told = list(state.take(log[begin:end], end))
        yield state, {(row.store, row.start, row.axes[0]): row.parts for row in told}


def taken(
    log: Sequence[SightingRecord], cuts: Sequence[int]
) -> tuple[Rows, int, PartitionPresences]:
    """The last row told of each window, how many records were late, and the state."""
    state = PartitionPresences(LATENESS * MINUTE_MILLIS, {}, family=FAMILY)
    rows: Rows = {}
    late = 0
    for state, told in written(log, cuts):
        rows |= told
        late += state.late
    return rows, late, state


def by_the_rule(
    log: Sequence[SightingRecord], family: Family = FAMILY, lateness: int = LATENESS
) -> tuple[Rows, int]:
    """Every window's row, read at once from the sightings that came in time."""
    frontier: dict[str, int] = defaultdict(lambda: NEVER)
    accepted: dict[tuple[str, KeySpan], list[Sighting]] = defaultdict(list)
    openings: dict[tuple[str, KeySpan], str] = {}
    late = 0
    for one in log:
        reached = frontier[one.store]
        own = (span for store, span in accepted if store == one.store)
        over = [span for span in own if span.end + lateness <= reached]
        if one.period.end + lateness <= reached or any(
            one.period.start < span.end for span in over
        ):
            late += 1
            continue
        accepted[one.store, one.period].append(one.sighting)
        openings.setdefault((one.store, one.period), one.opening)
        frontier[one.store] = max(reached, one.sighting.minute)
    rows: Rows = {}
    for (store, span), of_period in accepted.items():
        rules = family.visit_rules.rules_for(store, span.start)
        period = KeyPeriod(PARTS, rules, parse_period_hours(openings[store, span], *span))
        period.add_sightings(of_period, frontier[store])
        for start, mac_class in period.rows:
            key = store, start * MINUTE_MILLIS, mac_class
            values = period.values((start, mac_class))
            so_far = rows.get(key, tuple(part.zero for part in PARTS))
            columns = zip(PARTS, so_far, values, strict=True)
            rows[key] = tuple(part.plus(one, other) for part, one, other in columns)
    return rows, late


def holding(rows: Rows) -> Rows:
    zeros = tuple(part.zero for part in PARTS)
    return {key: row for key, row in rows.items() if row != zeros}


@given(logs, st.lists(st.integers(0, 40), max_size=8))
def test_rows_and_late_records_are_those_of_the_rule_for_any_cut(
    log: list[SightingRecord], cuts: list[int]
) -> None:
    rows, late, _ = taken(log, cuts)

    expected, expected_late = by_the_rule(log)
    assert (holding(rows), late) == (holding(expected), expected_late)


def stay(
    device: int, minutes: Iterable[int], opening: str = UNKNOWN_HOURS, length: int = 2 * LENGTH
) -> list[SightingRecord]:
    """A device that is heard in these minutes, and well."""
    sightings = (Sighting(device, "fixed", 60 * minute, -78) for minute in minutes)
    return [_record("367", one, length, opening) for one in sightings]


# Over for a moment, until who was there before the hour is told of: for a successor that reads both
# at once the window is as it was.
OVER_FOR_A_MOMENT = [
    *stay(1, range(16, 20)),
    *stay(2, [40]),
    *stay(1, [9, 10, 11, 14]),
]
# Long enough before the shop opens for a cleaner, until it is still there when it has opened.
OPENS = "60-110"
CLEANER_FOR_A_MOMENT = [
    *stay(1, range(4), OPENS),
    *stay(2, [20], OPENS),
    *stay(1, range(44, 60), OPENS),
    *stay(1, range(60, 64), OPENS),
    *stay(2, [100], OPENS),
]


# The device turns out to be on the network: the first writer had counted it as a probe.
@example(
    [
        _record("367", Sighting(1, "random_probe", 0, -75), LENGTH),
        _record("367", Sighting(1, "random_associated", 60, -75), LENGTH),
    ],
    [1],
    [],
)
# The number of an access point comes as one of a device, before or after: the access point's row
# was written, and no later one would empty it.
@example(
    [
        _record("367", Sighting(1, "access_point", 0, -75), LENGTH),
        _record("367", Sighting(1, "random_probe", 0, -75), LENGTH),
    ],
    [],
    [1],
)
@example(
    [
        _record("367", Sighting(1, "fixed", 0, -75), LENGTH),
        _record("367", Sighting(1, "access_point", 60 * 20, -75), LENGTH),
    ],
    [1],
    [],
)
@example(OVER_FOR_A_MOMENT, [5], [4])
@example(CLEANER_FOR_A_MOMENT, [21], [11])
@given(logs, st.lists(st.integers(0, 40), max_size=8), st.lists(st.integers(0, 40), max_size=8))
def test_a_writer_that_ended_leaves_nothing_that_its_successor_s_other_cuts_do_not_mend(
    log: list[SightingRecord], cuts: list[int], other_cuts: list[int]
) -> None:
    assert left_in_the_table(log, cuts, other_cuts) == holding(by_the_rule(log)[0])


@pytest.mark.parametrize(
    ("log", "cut", "other"), [(OVER_FOR_A_MOMENT, 5, 4), (CLEANER_FOR_A_MOMENT, 21, 11)]
)
def test_who_writes_only_what_differs_leaves_what_was_so_for_a_moment(
    log: list[SightingRecord], cut: int, other: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tally.people.presence.transient_windows", lambda *_: set())

    assert left_in_the_table(log, [cut], [other]) != holding(by_the_rule(log)[0])


def left_in_the_table(
    log: Sequence[SightingRecord], cuts: Sequence[int], other_cuts: Sequence[int]
) -> Rows:
    """Rows by position, as in the table: of a writer that ended anywhere, and of one that begins at
    the first record again and reads to the end."""
    ended = log[: max(cuts, default=0)]
    table: dict[tuple[str, int, str], tuple[int, tuple[Any, ...]]] = {}
    for read, some in ((ended, cuts), (log, other_cuts)):
        bounds = sorted({len(read), *(cut for cut in some if 0 < cut < len(read))})
        for end, (_, told) in zip(bounds, written(read, some), strict=False):
            for key, parts in told.items():
                table[key] = max(table.get(key, (-1, parts)), (end, parts), key=lambda one: one[0])

    return holding({key: parts for key, (_, parts) in table.items()})


@given(logs, st.lists(st.integers(0, 40), max_size=8))
def test_only_periods_that_may_still_change_are_kept(
    log: list[SightingRecord], cuts: list[int]
) -> None:
    alone = [one for one in log if one.store == "367"]
    _, _, state = taken(alone, cuts)

    accepted, frontier = set[KeySpan](), NEVER
    for one in alone:
        over = [span for span in accepted if span.end + LATENESS <= frontier]
        is_late = any(one.period.start < span.end for span in over)
        if one.period.end + LATENESS > frontier and not is_late:
            accepted.add(one.period)
            frontier = max(frontier, one.sighting.minute)
    running = [span for span in accepted if span.end + LATENESS > frontier]
    living = {one.key for one in accepted if any(one.overlaps(other) for other in running)}
    assert {*state.pages} == state.page_keys
    assert {key for key, number in state.page_keys if number >= 0} == living


@given(logs)
def test_one_store_s_clock_changes_nothing_of_another_s(log: list[SightingRecord]) -> None:
    alone = [one for one in log if one.store == "367"]

    together = {key: row for key, row in taken(log, [])[0].items() if key[0] == "367"}

    assert holding(together) == holding(taken(alone, [])[0])


@given(logs, st.integers(0, 40))
def test_state_of_another_computation_leaves_its_periods_alone_and_reads_the_next_ones_whole(
    log: list[SightingRecord], position: int
) -> None:
    state = taken(log[:position], [])[2]
    state.reset()
    told = list(state.take(log[position:], len(log)))

    later = [one for one in log if one.period.start * MINUTE_MILLIS >= state.floor]
    whole = holding(by_the_rule(later)[0])
    rows = {(row.store, row.start, row.axes[0]): row.parts for row in told}
    assert holding(rows) == whole
    assert all(one in log[position:] for one in later)
