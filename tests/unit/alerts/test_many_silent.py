"""Silences of many stores at once: told of as one, whichever partitions the stores lie in."""

import json
from collections.abc import Sequence

import pytest
from msgspec import structs

from tally.alerts.delivery.body import alert_message_id
from tally.alerts.delivery.deciding import DeliveryRules
from tally.alerts.delivery.desk import Desk
from tally.alerts.delivery.records import TickTime, WebhookMessage, kept_value, parsed_kept
from tally.alerts.message import Alert
from tests.unit.alerts.deliveries import (
    NOON,
    SECOND,
    Town,
    alert,
    channel,
    decisions,
    desk_with,
    end_of,
    later,
    messages,
)


def silence(number: int, tick: int = 1) -> Alert:
    """A store of this number is silent, as a tick has it."""
    one = alert(number, store_id=f"{number}", metric="traffic")
    return structs.replace(one, evidence=structs.replace(one.evidence, tick=tick))


class Desks:
    """The partitions of one process, in a region with so many stores in each."""

    def __init__(self, count: int, peers: int, kind: str = "silence") -> None:
        self.kept: dict[int, list[WebhookMessage]] = {number: [] for number in range(count)}
        town = Town(kind=kind, peers=peers)
        self.desks = {
            number: Desk(
                DeliveryRules(),
                town,
                number,
                lambda: {at: desk.memory for at, desk in self.desks.items()},
            )
            for number in range(count)
        }
        for desk in self.desks.values():
            desk.settle(channel())
        self.pass_ticks(1)

    def pass_ticks(self, count: int, order: Sequence[int] = ()) -> list[WebhookMessage]:
        """The messages that so many ticks bring about, partition by partition."""
        found = []
        for _ in range(count):
            for number in order or [*self.desks]:
                time = self.desks[number].memory.time
                tick = TickTime(n=time.n + 1, at=(time.at or NOON) + 5 * SECOND)
                made = messages(self.desks[number].pass_time(tick))
                self.kept[number] += made
                found += made
        return found


def test_a_few_silent_stores_are_told_after_two_ticks() -> None:
    desk = desk_with(town=Town(kind="silence", peers=6))
    for number in (1, 2, 3):
        assert decisions(desk.take(silence(number))) == [("held", "many silent")]
    assert [messages(later(desk, 5 * SECOND)) for _ in range(2)] == [[], []]

    [group] = messages(later(desk, 5 * SECOND))

    assert group.kind == "group"


def test_a_silent_region_is_told_as_one_until_a_generation_speaks() -> None:
    desk = desk_with(town=Town(kind="silence", peers=6))
    raised = [silence(number) for number in range(1, 5)]
    for one in raised:
        desk.take(one)
    [region] = [one for _ in range(9) for one in messages(later(desk, 5 * SECOND))]
    told = json.loads(region.body)["data"]
    assert (region.kind, told["region"], told["stores"]) == ("silence", "west", 4)

    desk.take(structs.replace(raised[0], state="confirmed"))
    desk.take(structs.replace(raised[1], state="retracted"))
    [spoken] = messages(later(desk, 5 * SECOND))

    assert spoken.message_id == alert_message_id(structs.replace(raised[0], state="confirmed"))


def test_two_stores_are_no_crowd_however_small_the_region() -> None:
    desk = desk_with(town=Town(kind="silence", peers=2))
    for number in (1, 2):
        desk.take(silence(number))

    found = [messages(later(desk, 5 * SECOND)) for _ in range(3)]

    assert [len(one) for one in found] == [0, 0, 1]


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0)])
def test_a_region_whose_stores_lie_in_all_partitions_is_told_of_once(
    order: tuple[int, ...],
) -> None:
    # Of two stores in each partition one is silent, and in one of them both: five of eight.
    town = Desks(4, peers=2)
    for number in range(5):
        town.desks[number % 4].take(silence(number))

    [region] = town.pass_ticks(9, order)

    told = json.loads(region.body)["data"]
    assert (region.kind, told["alerts"], told["stores"]) == ("silence", 5, 5)


def test_half_of_a_region_over_all_partitions_is_told_store_by_store() -> None:
    town = Desks(4, peers=2)
    for number in range(4):
        town.desks[number].take(silence(number))

    found = town.pass_ticks(9)

    assert [one.kind for one in found] == ["alert"] * 4


def test_a_store_that_joins_a_silent_region_later_is_counted_with_it() -> None:
    town = Desks(2, peers=2)
    for number in range(3):
        town.desks[number % 2].take(silence(number))
    assert [one.kind for one in town.pass_ticks(4)] == ["silence"]

    town.desks[1].take(silence(3, tick=2))

    assert town.pass_ticks(9) == []
    # It stays so, though by now it is the only one of which no generation has spoken.
    for number in range(3):
        town.desks[number % 2].take(structs.replace(silence(number), state="retracted"))
    assert town.pass_ticks(9) == []


def test_a_region_is_told_of_when_nobody_is_waited_for_any_more() -> None:
    town = Desks(2, peers=3)
    for number in range(4):
        town.desks[number % 2].take(silence(number))
    assert town.pass_ticks(2) == []
    town.desks[0].take(silence(4, tick=3))

    [region] = town.pass_ticks(9)

    assert json.loads(region.body)["data"]["stores"] == 5


def test_silences_of_other_ticks_and_other_families_make_no_crowd() -> None:
    desk = desk_with(town=Town(kind="silence", peers=3))
    desk.take(silence(1, tick=10))
    desk.take(silence(2, tick=11))
    desk.take(silence(3, tick=14))
    desk.take(structs.replace(silence(4, tick=11), metric="sales"))

    [group] = [one for _ in range(3) for one in messages(later(desk, 5 * SECOND))]

    assert (group.kind, len(json.loads(group.body)["data"]["alerts"])) == ("group", 4)


def test_partitions_of_another_process_are_not_counted() -> None:
    # Its desks have had no tick: of eight stores four are ours, and three of those are silent.
    town = Desks(4, peers=2)
    for number in (2, 3):
        town.desks[number].restore([])
    for number in range(3):
        town.desks[number % 2].take(silence(number))

    assert [one.kind for one in town.pass_ticks(9, (0, 1))] == ["silence"]


def test_what_was_told_as_one_is_so_after_a_restart() -> None:
    town = Desks(1, peers=4)
    kept = [one for number in range(3) for one in town.desks[0].take(silence(number))]
    kept += [channel()]
    for _ in range(4):
        made = later(town.desks[0], 5 * SECOND)
        kept += [parsed_kept(value) for one in made if (value := kept_value(one))]
    assert [one.kind for one in messages(kept)] == ["silence"]

    town.desks[0].restore(kept)
    town.desks[0].take(structs.replace(silence(0), state="retracted"))

    assert town.pass_ticks(5) == []


def test_an_end_within_a_silent_region_tells_nobody_of_a_raise_that_nobody_has() -> None:
    town = Desks(1, peers=4)
    for number in range(3):
        town.desks[0].take(silence(number))
    town.pass_ticks(4)

    found = town.desks[0].take(end_of(silence(0), 9, store_id="0"))

    assert decisions(found) == [("held", "raise not sent")]
    assert town.pass_ticks(5) == []


def test_the_cap_of_a_minute_is_of_all_partitions_and_each_tells_its_own_storm() -> None:
    town = Desks(2, peers=9, kind="threshold")
    for desk in town.desks.values():
        desk.settle(channel(most_a_minute=3))
    found = [decisions(town.desks[number % 2].take(alert(number)))[0] for number in range(8)]
    assert found == [("send", "")] * 3 + [("suppressed", "storm")] * 5

    storms = [one for one in town.pass_ticks(12) if one.kind == "storm"]

    assert [json.loads(one.body)["data"]["alerts"] for one in storms] == [2, 3]
    assert len({one.message_id for one in storms}) == 2
