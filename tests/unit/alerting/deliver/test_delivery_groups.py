"""Silences of many stores at once: told of as one, whichever partitions the stores lie in."""

import json
from collections.abc import Sequence

import pytest
from msgspec import structs

from alerting.deliver.engine.engine import DeliveryEngine
from alerting.deliver.engine.groups import MAX_EVALUATION_WAIT, MAX_TICK_LAG
from alerting.deliver.state.attempts import WebhookAnswer
from alerting.deliver.state.body import alert_message_id
from alerting.deliver.state.clock_times import QuietHours
from alerting.deliver.state.controls import Silence
from alerting.deliver.state.records import WebhookMessage, decode_record, encode_record
from alerting.deliver.state.routing import DeliveryRules
from runtime.outbound.records import TickTime
from tally.alerts.message import Alert, AlertWindow
from tally.time.instants import format_utc, from_millis
from tally.time.windows import WINDOW_MILLIS
from tests.unit.alerting.deliver.deliveries import (
    HOUR,
    MINUTE,
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


def in_window(one: Alert, quarters: int) -> Alert:
    """The alert of a quarter hour so much later."""
    instant = format_utc(from_millis(NOON + quarters * WINDOW_MILLIS))
    return structs.replace(one, window=AlertWindow(instant, instant))


def called(desk: DeliveryEngine, millis: int) -> list[WebhookMessage]:
    """The calls that come so much later, each delivered."""
    later(desk, millis)
    calls = desk.begin_attempts(()).calls
    for one in calls:
        desk.record_answer(one, WebhookAnswer(status=204))
    return calls


class Desks:
    """The partitions of one process, in a region with so many stores in each."""

    def __init__(self, count: int, peers: int, kind: str = "silence") -> None:
        self.kept: dict[int, list[WebhookMessage]] = {number: [] for number in range(count)}
        self.town = town = Town(kind=kind, peers=peers)
        self.desks = {
            number: DeliveryEngine(
                DeliveryRules(),
                town,
                number,
                lambda: {at: desk.memory for at, desk in self.desks.items()},
            )
            for number in range(count)
        }
        for desk in self.desks.values():
            desk.apply_control(channel())
        self.pass_ticks(1)

    def pass_ticks(self, count: int, order: Sequence[int] = ()) -> list[WebhookMessage]:
        """The messages that so many ticks bring about, partition by partition."""
        found = []
        for _ in range(count):
            for number in order or [*self.desks]:
                time = self.desks[number].memory.time
                tick = TickTime(n=time.n + 1, at=(time.at or NOON) + 5 * SECOND)
                made = messages(self.desks[number].advance_time(tick))
                self.kept[number] += made
                found += made
        return found


def test_a_few_silent_stores_are_told_once_all_partitions_are_judged() -> None:
    town = Town(kind="silence", peers=6)
    town.judged_at = NOON + MAX_TICK_LAG - 1
    desk = desk_with(town=town)
    for number in (1, 2, 3):
        assert decisions(desk.process_alert(silence(number))) == [("held", "many silent")]
    assert [messages(later(desk, MINUTE)) for _ in range(10)] == [[]] * 10

    town.judged_at += 1
    [group] = messages(later(desk, 5 * SECOND))

    assert group.kind == "group"


def test_a_partition_that_is_never_judged_keeps_nobody_waiting_for_ever() -> None:
    town = Town(kind="silence", peers=6)
    town.judged_at = 0
    desk = desk_with(town=town)
    desk.process_alert(silence(1))
    assert messages(later(desk, MAX_EVALUATION_WAIT - SECOND)) == []

    assert [one.kind for one in messages(later(desk, SECOND))] == ["alert"]


def test_a_silent_region_is_told_as_one_until_a_generation_speaks() -> None:
    desk = desk_with(town=Town(kind="silence", peers=6))
    raised = [silence(number) for number in range(1, 5)]
    for one in raised:
        desk.process_alert(one)
    [region] = [one for _ in range(9) for one in messages(later(desk, 5 * SECOND))]
    told = json.loads(region.body)["data"]
    assert (region.kind, told["region"], told["stores"]) == ("summary", "west", [*"1234"])

    desk.process_alert(structs.replace(raised[0], state="confirmed"))
    desk.process_alert(structs.replace(raised[1], state="retracted"))
    [spoken] = messages(later(desk, 5 * SECOND))

    assert spoken.message_id == alert_message_id(structs.replace(raised[0], state="confirmed"))


def test_two_stores_are_no_crowd_however_small_the_region() -> None:
    desk = desk_with(town=Town(kind="silence", peers=2))
    for number in (1, 2):
        desk.process_alert(silence(number))

    assert [one.kind for one in messages(later(desk, 5 * SECOND))] == ["group"]


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0)])
def test_a_region_whose_stores_lie_in_all_partitions_is_told_of_once(
    order: tuple[int, ...],
) -> None:
    # Of two stores in each partition one is silent, and in one of them both: five of eight.
    town = Desks(4, peers=2)
    for number in range(5):
        town.desks[number % 4].process_alert(silence(number))

    [region] = town.pass_ticks(9, order)

    told = json.loads(region.body)["data"]
    assert (region.kind, told["alerts"], sorted(told["stores"])) == ("summary", 5, [*"01234"])


def test_half_of_a_region_over_all_partitions_is_told_store_by_store() -> None:
    town = Desks(4, peers=2)
    for number in range(4):
        town.desks[number].process_alert(silence(number))

    found = town.pass_ticks(9)

    assert [one.kind for one in found] == ["alert"] * 4


def test_a_store_that_joins_a_silent_region_later_is_counted_with_it() -> None:
    town = Desks(2, peers=2)
    for number in range(3):
        town.desks[number % 2].process_alert(silence(number))
    assert [one.kind for one in town.pass_ticks(4)] == ["summary"]

    town.desks[1].process_alert(silence(3, tick=2))

    assert town.pass_ticks(9) == []
    # It stays so, though by now it is the only one of which no generation has spoken.
    for number in range(3):
        town.desks[number % 2].process_alert(structs.replace(silence(number), state="retracted"))
    assert town.pass_ticks(9) == []


@pytest.mark.parametrize("seconds", [10, 15, 25, 60])
def test_lots_of_an_evaluator_far_apart_are_one_crowd(seconds: int) -> None:
    # Of one pass over 457 stores in four partitions: its ticks count as judged when it is over.
    town = Desks(4, peers=115)
    town.town.judged_at = NOON - 1
    found: list[WebhookMessage] = []
    for lot in range(20):
        for number in range(lot * 23, min(457, (lot + 1) * 23)):
            town.desks[number % 4].process_alert(silence(number))
        found += town.pass_ticks(seconds // 5)
    town.town.judged_at = town.desks[0].memory.time.at
    found += town.pass_ticks(3)

    assert [one.kind for one in found] == ["summary"]
    data = json.loads(found[0].body)["data"]
    assert data["alerts"] == (457 if seconds < 60 else 15 * 23)
    assert sum(len(desk.memory.held) for desk in town.desks.values()) == 457


def test_silences_of_other_windows_and_other_rules_make_no_crowd() -> None:
    desk = desk_with(town=Town(kind="silence", peers=3))
    for number, quarters in ((1, 0), (2, 1), (3, 4)):
        desk.process_alert(in_window(silence(number), quarters))
    desk.process_alert(structs.replace(silence(4), rule_id="another-silence"))

    [group] = messages(later(desk, 5 * SECOND))

    assert (group.kind, len(json.loads(group.body)["data"]["alerts"])) == ("group", 4)


@pytest.mark.parametrize("hold", ["quiet", "silence"])
def test_a_crowd_that_falls_silent_within_another_hold_is_one_message_behind_it(hold: str) -> None:
    town = Town(kind="silence", peers=40)
    night = (QuietHours("mon-sun", "12:00", "20:00"),) if hold == "quiet" else ()
    desk = desk_with(channel(quiet=night), town=town)
    if hold == "silence":
        desk.apply_control(Silence(silence_id="s", starts=NOON, ends=NOON + 7 * HOUR))
    for number in range(40):
        desk.process_alert(silence(number))
    during = [one for _ in range(6) for one in called(desk, HOUR)]

    after = [one for _ in range(6) for one in called(desk, HOUR)]

    assert (during, [one.kind for one in after]) == ([], ["summary"])
    assert len(json.loads(after[0].body)["data"]["stores"]) == 40


def test_partitions_of_another_process_are_not_counted() -> None:
    # Its desks have had no tick: of eight stores four are ours, and three of those are silent.
    town = Desks(4, peers=2)
    for number in (2, 3):
        town.desks[number].restore([])
    for number in range(3):
        town.desks[number % 2].process_alert(silence(number))

    assert [one.kind for one in town.pass_ticks(9, (0, 1))] == ["summary"]


def test_what_was_told_as_one_is_so_after_a_restart() -> None:
    town = Desks(1, peers=4)
    kept = [one for number in range(3) for one in town.desks[0].process_alert(silence(number))]
    kept += [channel()]
    for _ in range(4):
        made = later(town.desks[0], 5 * SECOND)
        kept += [decode_record(value) for one in made if (value := encode_record(one))]
    assert [one.kind for one in messages(kept)] == ["summary"]

    town.desks[0].restore(kept)
    town.desks[0].process_alert(structs.replace(silence(0), state="retracted"))

    assert town.pass_ticks(5) == []


def test_an_end_within_a_silent_region_tells_nobody_of_a_raise_that_nobody_has() -> None:
    town = Desks(1, peers=4)
    for number in range(3):
        town.desks[0].process_alert(silence(number))
    town.pass_ticks(4)

    found = town.desks[0].process_alert(end_of(silence(0), 9, store_id="0"))

    assert decisions(found) == [("held", "raise not sent")]
    assert town.pass_ticks(5) == []
