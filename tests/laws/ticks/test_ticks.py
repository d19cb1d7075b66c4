"""Ticks: facts that add up in any order, and watermarks that say nothing untrue of any pipeline."""

from hypothesis import given
from hypothesis import strategies as st

from tally.alerts.tick import NO_TICK, SpeedEpoch, Tick, is_known, last_closed_end, merge_ticks
from tally.time.windows import WINDOW_MILLIS
from tests.laws.ticks.tick_world import Op, Teller, World, histories

_few = st.integers(0, 3)
_names = st.sampled_from(["a", "b"])
ticks = st.builds(
    Tick,
    n=_few,
    at=_few,
    through=st.dictionaries(_names, _few),
    epoch=st.dictionaries(_names, st.builds(SpeedEpoch, _few, _few)),
    flips=st.dictionaries(_names, _few),
    rules_until=_few,
)
A_NIGHT = 100


@given(ticks, ticks, ticks)
def test_ticks_add_up_in_any_order_and_however_often_they_come(
    one: Tick, other: Tick, third: Tick
) -> None:
    assert merge_ticks(one, merge_ticks(other, third)) == merge_ticks(
        merge_ticks(one, other), third
    )
    assert merge_ticks(one, other) == merge_ticks(other, one)
    assert merge_ticks(one, merge_ticks(one, other)) == merge_ticks(one, other)
    assert merge_ticks(one, one) == one


@given(ticks)
def test_tick_that_says_nothing_changes_nothing_and_each_comes_back_from_its_bytes(
    one: Tick,
) -> None:
    assert merge_ticks(one, NO_TICK) == one == Tick.decode(one.value)


def test_of_two_epochs_the_higher_speaks_alone() -> None:
    earlier = Tick(through={"a": 9, "b": 9}, epoch={"a": SpeedEpoch(2, 50), "b": SpeedEpoch(2)})
    later = Tick(through={"a": 4}, epoch={"a": SpeedEpoch(3, 10)})

    assert merge_ticks(earlier, later) == Tick(
        through={"a": 4, "b": 9}, epoch={"a": SpeedEpoch(3, 10), "b": SpeedEpoch(2)}
    )
    assert "a" not in merge_ticks(earlier, Tick(epoch={"a": SpeedEpoch(3)})).through


def test_window_has_closed_once_all_its_families_are_through_its_end_and_the_delay() -> None:
    due = 7 * WINDOW_MILLIS + WINDOW_MILLIS + 60
    tick = Tick(through={"a": due, "b": due - 1})

    assert last_closed_end(tick, ["a"], 60) == 8 * WINDOW_MILLIS
    assert last_closed_end(tick, ["a"], 61) == 7 * WINDOW_MILLIS
    assert last_closed_end(tick, ["a", "b"], 60) == 7 * WINDOW_MILLIS
    assert last_closed_end(tick, ["a", "c"], 0) == last_closed_end(tick, [], 0) == 0


def test_speed_rows_say_nothing_below_the_floor_or_of_a_day_of_a_higher_epoch() -> None:
    tick = Tick(epoch={"a": SpeedEpoch(2, 900)})

    assert is_known(tick, "a", 900, 2) and is_known(tick, "a", 900, 0)
    assert not is_known(tick, "a", 899, 2)
    assert not is_known(tick, "a", 900, 3)
    assert not is_known(tick, "b", 900, 0)


@given(histories)
def test_all_that_a_tick_says_is_read_has_been_read_whatever_is_under_way(
    history: list[list[Op]],
) -> None:
    world = World(iter(history))
    first, second = Teller(world), Teller(world)

    for number in range(1 + len(history) // 4):
        # The second one comes by now and then, with what it knew.
        teller = second if number % 3 == 2 else first

        now = teller.tick()

        assert world.wrong(now) == []
    both = {at: merge_ticks(first.known[at], second.known.get(at, now[at])) for at in first.known}
    assert world.wrong(both) == []


@given(histories)
def test_when_nothing_new_comes_two_ticks_say_so_of_every_partition(
    history: list[list[Op]],
) -> None:
    world = World(iter(history))
    teller = Teller(world)
    for _ in range(len(history) // 5):
        teller.tick()
    world.bursts = iter(())
    world.catch_up()
    world.now += A_NIGHT
    teller.at = world.now

    teller.tick()
    said = teller.tick()

    # Of which definition a partition is read by, its next record tells: until then that of the one
    # before stands.
    known = world.told[world.epoch]
    assert {at: said[at].through["queues"] for at in known} == dict.fromkeys(known, world.now)


def test_family_without_any_record_goes_on_with_the_clock() -> None:
    world = World()
    teller = Teller(world)
    world.now = teller.at = A_NIGHT

    said = teller.tick()

    assert {tick.through["queues"] for tick in said.values()} == {A_NIGHT}
