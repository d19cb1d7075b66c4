"""The rows of a key period are a function of the set of its sightings, and of how far it has come.

However the sightings were cut into lots, ordered and repeated.
"""

from collections import Counter
from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tally.algebra.parts import Histogram, KeyedSum, Part, Sum, Uniques, Value
from tally.events.identity import sensor_key
from tally.people.heard import (
    MAC_CLASSES,
    PERSONAL_CLASSES,
    DeviceState,
    Sighting,
    read_presence_state,
)
from tally.people.presence import KeyPeriod, RowKey, period_rows
from tally.people.visits import (
    WINDOW_MINUTES,
    Device,
    PeriodHours,
    VisitRules,
    read_device,
    read_presences,
    static_days,
)
from tests.laws.algebra.test_merge_controls import SEARCH
from tests.laws.events.test_visits import strongest_by_minute

PARTS: tuple[Part, ...] = (
    *(Sum(name) for name in ("visits", "passes", "bounces", "stay_seconds", "device_minutes")),
    *(Sum("device_windows"), Histogram("stay_minutes"), Uniques("visitors")),
    *(Sum("returns"), Histogram("interval_seconds"), KeyedSum("observed_seconds")),
)
RULES = VisitRules(gap_minutes=5, min_stay_minutes=3, static_minutes=40, closed_minutes=15)
# Of two days: the border between them is the minute 45.
HOURS = PeriodHours(-1395, 1485, [(20, 70)])
SPAN = 120

sighting = st.builds(
    Sighting,
    number=st.integers(0, 4).map(lambda device: device << 100),
    mac_class=st.sampled_from(MAC_CLASSES),
    seconds=st.integers(0, 60 * SPAN),
    dbm=st.integers(-92, -70),
)
# Devices that are there for a while, so that presences join, and some are static.
stay = st.builds(
    lambda number, first, minutes, dbm: [
        Sighting(number << 100, "fixed", 60 * (first + minute), dbm) for minute in range(minutes)
    ],
    st.integers(0, 4),
    st.integers(0, SPAN),
    st.integers(1, 45),
    st.integers(-86, -75),
)
histories = st.lists(sighting.map(lambda one: [one]) | stay, max_size=8).map(
    lambda lots: [one for lot in lots for one in lot]
)


def rows(period: KeyPeriod) -> dict[RowKey, list[Value]]:
    """Rows that hold anything."""
    zeros = [part.zero for part in PARTS]
    values = {row: period.values(row) for row in period.rows}
    return {row: value for row, value in values.items() if value != zeros}


def at_once(come: Sequence[Sighting]) -> dict[RowKey, list[Value]]:
    period = KeyPeriod(PARTS, RULES, HOURS)
    period.add_sightings(come)
    return rows(period)


@given(histories, st.randoms(), st.integers(1, 9))
def test_any_lots_in_any_order_with_any_duplicates_give_the_rows_of_all_at_once(
    come: list[Sighting], random: Random, lot: int
) -> None:
    shuffled = [*come, *come[::2]]
    random.shuffle(shuffled)
    period = KeyPeriod(PARTS, RULES, HOURS)
    for begin in range(0, len(shuffled), lot):
        period.add_sightings(shuffled[begin : begin + lot])

    assert rows(period) == at_once(come)


@given(histories, st.randoms())
def test_a_period_that_is_over_has_in_both_layers_the_same_rows(
    come: list[Sighting], random: Random
) -> None:
    period = KeyPeriod(PARTS, RULES, HOURS)
    period.add_sightings(come, reached=10 * SPAN)
    devices: dict[int, DeviceState] = {}
    for one in random.sample(come, len(come)):
        devices.setdefault(one.number, DeviceState()).add_sighting(one, HOURS.day(one.minute))

    heard_by = (
        (Device(number, one.mac_class), one.minutes_since(0)) for number, one in devices.items()
    )
    rebuilt = list(period_rows(heard_by, PARTS, RULES, HOURS))

    zeros = [part.zero for part in PARTS]
    assert {one.key: one.values for one in rebuilt if one.values != zeros} == rows(period)
    heard_in = Counter(
        minute - minute % WINDOW_MINUTES
        for device in devices.values()
        for minute in device.minutes_since(0)
    )
    assert {one.key[0]: one.device_minutes for one in rebuilt} == heard_in


@given(histories, st.integers(1, 9))
def test_how_a_device_stands_is_what_all_its_minutes_say(come: list[Sighting], lot: int) -> None:
    period = KeyPeriod(PARTS, RULES, HOURS)
    for begin in range(0, len(come), lot):
        period.add_sightings(come[begin : begin + lot])
        for device in period.devices.values():
            if device.mac_class == "access_point":
                continue
            found, anew = (
                device.presence,
                read_presence_state(device.minutes_since(0), RULES, HOURS),
            )
            assert found is not None and anew is not None
            if anew.visit_minutes >= RULES.static_minutes:
                # Nothing of the day counts, whenever the shop opens.
                found = found._replace(was_open=anew.was_open)
            assert found == anew


@given(histories, st.integers(1, 9))
def test_what_is_told_as_changed_is_all_that_differs(come: list[Sighting], lot: int) -> None:
    period = KeyPeriod(PARTS, RULES, HOURS)
    for begin in range(0, len(come), lot):
        before = rows(period)
        told = period.add_sightings(come[begin : begin + lot])
        after = rows(period)
        differ = {row[0] for row in {*before, *after} if before.get(row) != after.get(row)}
        assert differ <= told


@given(histories)
def test_rows_are_those_of_the_closed_presences_read_one_by_one(come: list[Sighting]) -> None:
    found = at_once(come)
    wanted: Counter[str] = Counter()
    last = max((one.minute for one in come), default=0)
    for number in {one.number for one in come}:
        own = [one for one in come if one.number == number]
        read = read_presences(strongest_by_minute((one.seconds, one.dbm) for one in own), RULES)
        classes = {one.mac_class for one in own}
        is_carried = classes <= {*PERSONAL_CLASSES} and classes != {"random_probe"}
        if not is_carried:
            continue
        static = static_days(read, RULES, HOURS)
        closed = [
            one
            for one in read
            if one.last + RULES.gap_minutes < last and HOURS.day(one.first) not in static
        ]
        visits = [one for one in closed if one.is_visit]
        wanted["visits"] += len(visits)
        wanted["stay_seconds"] += sum(60 * one.minutes for one in visits)
        wanted["passes"] += len(closed) - len(visits)

    names = [part.name for part in PARTS]
    sums = {
        name: sum(values[names.index(name)] for values in found.values())
        for name in ("visits", "stay_seconds", "passes")
    }
    assert sums == {name: wanted[name] for name in sums}


@given(histories)
def test_a_visit_is_in_the_window_in_which_it_begins(come: list[Sighting]) -> None:
    assert all(start % WINDOW_MINUTES == 0 for start, _ in at_once(come))


@given(histories)
def test_access_point_is_there_in_each_minute_that_says_so_and_visits_nobody(
    come: list[Sighting],
) -> None:
    said = [one._replace(mac_class="access_point") for one in come]

    found = at_once(said)

    minutes = {(one.number, one.minute) for one in said}
    seconds: Counter[tuple[int, int]] = Counter()
    for number, minute in minutes:
        seconds[minute - minute % WINDOW_MINUTES, sensor_key(number)] += 60
    names = [part.name for part in PARTS]
    observed = {
        (start, key): total
        for (start, _), values in found.items()
        for key, total in values[names.index("observed_seconds")]
    }
    assert observed == seconds
    assert not any(
        values[names.index(name)]
        for values in found.values()
        for name in ("visits", "passes", "device_minutes", "device_windows")
    )


def test_random_probes_are_nobody_s_visit() -> None:
    @given(histories)
    def holds(come: list[Sighting]) -> None:
        probes = [one._replace(mac_class="random_probe") for one in come]
        found = at_once(probes)
        assert {mac_class for _, mac_class in found} <= {"random_probe"}
        assert all(values[0] == values[1] == 0 for values in found.values())

    holds()


def test_counted_as_people_random_probes_break_that() -> None:
    @SEARCH
    @given(histories)
    def holds(come: list[Sighting]) -> None:
        people = [one._replace(mac_class="fixed") for one in come]
        assert all(values[0] == values[1] == 0 for values in at_once(people).values())

    with pytest.raises(AssertionError):
        holds()


def test_late_sighting_that_joins_two_visits_empties_the_window_of_the_second() -> None:
    rules = VisitRules()
    period = KeyPeriod(PARTS, rules, HOURS._replace(open_at=None))

    def hear(*minutes: int) -> set[int]:
        return period.add_sightings(Sighting(7, "fixed", 60 * minute, -60) for minute in minutes)

    hear(*range(600, 606), *range(630, 641))
    hear(700)
    names = [part.name for part in PARTS]
    visits, seconds = names.index("visits"), names.index("stay_seconds")
    first: RowKey = (600, "fixed")
    second: RowKey = (630, "fixed")
    assert [period.values(row)[visits] for row in (first, second)] == [1, 1]

    assert {first[0], second[0]} <= hear(618)
    assert [period.values(row)[visits] for row in (first, second)] == [1, 0]
    assert [period.values(row)[seconds] for row in (first, second)] == [41 * 60, 0]


@pytest.mark.parametrize(("heard_at", "visits"), [(10, 0), (14, 0), (15, 0), (16, 1), (17, 1)])
def test_a_visit_counts_once_the_store_has_come_further_than_its_gap(
    heard_at: int, visits: int
) -> None:
    period = KeyPeriod(PARTS, RULES, HOURS._replace(open_at=None))
    period.add_sightings(Sighting(7, "fixed", 60 * minute, -60) for minute in range(6, 11))

    # Of another device, minute by minute: nothing of the first is heard again.
    for minute in range(11, heard_at + 1):
        period.add_sightings([Sighting(8, "fixed", 60 * minute, -90)])

    assert period.values((0, "fixed"))[0] == visits


@pytest.mark.parametrize(
    ("minutes", "returns", "intervals"),
    [
        (range(10), 0, [60]),
        ([0, 5, 10], 0, [300]),
        # Weak minutes are none in which it was heard near by.
        ([0, 2, 4, 5], 0, [100]),
        ([*range(10), *range(40, 50), *range(80, 85)], 2, [60, 60, 60]),
    ],
    ids=["each minute", "sparse", "uneven", "came three times"],
)
def test_a_visit_brings_how_often_it_was_heard_and_whether_it_is_the_first(
    minutes: Sequence[int], returns: int, intervals: list[int]
) -> None:
    heard_at = dict.fromkeys(minutes, -60) | {1000: -90}

    found = read_device(Device(1, "fixed"), heard_at, RULES, HOURS).contributions

    told = [parts for _, parts in found if "visits" in parts]
    assert sum(parts["returns"] for parts in told) == returns
    assert [parts["interval_seconds"] for parts in told] == intervals
