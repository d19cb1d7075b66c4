"""What the evaluator remembers, as the brokers keep it, and which days it has to evaluate anew."""

from dataclasses import replace
from datetime import date
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator
from msgspec import structs

from alerting.alert.ids import Chain, alert_id
from alerting.alert.published import PublishedAlert
from alerting.episodes.fold import IDLE_STATE, Episode, FoldState
from alerting.evaluate.scope.scope import find_changed_days
from alerting.evaluate.state.chain_memory import ForcedEnd
from alerting.evaluate.state.memory import EvaluatedDay, PartitionMemory, restore_memories
from runtime.processor.step import Input
from runtime.registry.sources import SALES
from schemas.loader import record_schema
from tally.alerts.tick import SpeedEpoch, Tick
from tally.errors import UnrecoverableError
from tally.families.epochs import EpochIncrease, Epochs
from tally.time.instants import to_millis
from tests.support.serving.serving_world import at, flip

CHAIN = Chain("busy", "367", "none")
HOUR = 3_600_000
START = to_millis(at("2026-03-29T00:00"))
DAY_MILLIS = 24 * HOUR


def alert(window: int = START) -> PublishedAlert:
    return PublishedAlert(
        alert_id=alert_id(CHAIN, 1, window),
        chain=CHAIN,
        version=1,
        edge="raise",
        window=window,
        state="provisional",
        raised_at=window + HOUR,
        start=window,
    )


def settled_episode(window: int, ended: int) -> list[PublishedAlert]:
    raised = structs.replace(alert(window), state="confirmed", ended=ended)
    end = structs.replace(
        raised,
        alert_id=alert_id(CHAIN, 1, ended, "clear"),
        edge="clear",
        window=ended,
        of=raised.alert_id,
    )
    return [raised, end]


def filled() -> PartitionMemory:
    memory = PartitionMemory(2)
    memory.chains.store_alert(alert())
    is_open = FoldState(open=Episode(START - HOUR, START - HOUR, 1))
    memory.chains.set_days(CHAIN, {START: is_open}, None)
    memory.chains.set_days(CHAIN, {START + HOUR: FoldState(run=1, since=START)}, None)
    memory.mark_evaluated(("sales", date(2026, 3, 29)), EvaluatedDay(7, 2, SpeedEpoch(2, 5)))
    memory.begin_store(("sales", "367"), START)
    memory.merge_tick(Tick(n=3, at=START + HOUR, through={"sales": START}))
    memory.close()
    return memory


def stored(memory: PartitionMemory) -> list[Input]:
    return [Input(one.topic, 2, 0, 0, one.key, one.value) for one in memory.drain()]


def seen(memory: PartitionMemory) -> object:
    told, line = memory.chains.alerts_since(CHAIN, 0), memory.chains.fold_line(CHAIN)
    return told, dict(line.entries), memory.evaluated_days, memory.silent_from, memory.last_tick


def test_memory_comes_back_as_it_was_stored_and_is_given_out_once() -> None:
    memory = filled()
    state = stored(memory)

    assert seen(restore_memories(state)[2]) == seen(memory)
    assert (stored(memory), memory.has_news) == ([], False)


def test_of_a_key_the_last_record_counts_and_one_without_value_deletes_it() -> None:
    memory = filled()
    state = stored(memory)
    memory.chains.set_days(CHAIN, {START: IDLE_STATE}, START + HOUR)
    memory.chains.store_alert(alert(START + HOUR))
    memory.forget_before(START + HOUR)

    later = restore_memories([*state, *stored(memory)])[2]

    assert seen(later) == seen(memory)
    # The raise of before the horizon is open: it stays.
    ids = [alert_id(CHAIN, 1, window) for window in (START, START + HOUR)]
    assert [*later.chains.alerts_since(CHAIN, 0)] == ids
    assert [*later.chains.fold_line(CHAIN).entries] == [START + HOUR]
    assert later.evaluated_days == {}


def test_state_is_as_its_schema_says() -> None:
    memory = filled()
    memory.chains.set_days(CHAIN, {START: IDLE_STATE}, START + HOUR)
    memory.chains.force_end(CHAIN, START + HOUR, ForcedEnd("resolved", "ann", "the till was off"))
    for told in settled_episode(START - HOUR, START):
        memory.chains.store_alert(told)
    memory.forget_before(0)
    schema = Draft202012Validator(record_schema("alert-episodes"))

    kinds = set()
    for one in memory.drain():
        value = None if one.value is None else msgspec.json.decode(one.value)
        record: dict[str, Any] = {"key": (one.key or b"").decode(), "value": value, "headers": {}}
        assert [error.message for error in schema.iter_errors(record)] == []
        assert not schema.is_valid({**record, "value": {"more": 1}})
        kinds.add(record["key"][0])
    assert kinds == {*"ehfrgsc"}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"e|1", b"{}"),
        (b"f|busy|367|none|soon", b"{}"),
        (b"f|busy|367|1", b"{}"),
        (b"h|busy|367|none|1", b"[]"),
        (b"r|busy|367|none|1", b"{}"),
        (b"d|busy|367|none|1", b"{}"),
        (b"g|sales|2026-02-30", b"{}"),
        (b"x", b"1"),
        (b"\xff", b"1"),
        (None, b""),
        (b"c", b"no tick"),
    ],
)
def test_state_that_cannot_be_read_is_refused(key: bytes | None, value: bytes) -> None:
    with pytest.raises(UnrecoverableError, match="offset 9"):
        restore_memories([Input("alert-episodes", 2, 9, 0, key, value)])


def test_tick_that_is_not_evaluated_to_its_end_is_kept_with_the_flips_of_before() -> None:
    memory = filled()
    memory.merge_tick(Tick(flips={"sales": 4, "traffic": 4}, epoch={"sales": SpeedEpoch(2)}))

    memory.close(unfinished=["sales"])

    assert (memory.last_tick.flips, memory.last_tick.epoch) == ({"traffic": 4}, {})
    assert memory.has_news
    assert restore_memories(stored(memory))[2].last_tick == memory.last_tick


def test_day_has_moved_when_another_generation_serves_with_the_cause_of_a_higher_epoch() -> None:
    memory = filled()
    days = [date(2026, 3, number) for number in (27, 28, 29)]
    for day in days[1:]:
        memory.mark_evaluated(("sales", day), EvaluatedDay(7, SALES.epoch, is_whole=True))
    raised = replace(flip("2026-03-28", 8, "2026-03-29T01:00", 0), epoch=SALES.epoch + 1)
    first, same = (
        replace(flip(f"2026-03-{day}", number, "2026-03-29T01:00", 0), epoch=SALES.epoch)
        for day, number in ((27, 5), (29, 7))
    )

    found = find_changed_days(
        memory, "sales", days, {days[0]: first, days[1]: raised, days[2]: same}, Epochs(SALES.epoch)
    )

    assert found.days == (days[1], days[0])
    assert found.evaluated[days[1]] == EvaluatedDay(8, SALES.epoch + 1, is_whole=True)
    assert found.retraction_reasons == {days[1]: "erasure"}


def test_of_days_with_revised_rules_of_stores_the_definition_has_changed() -> None:
    memory = filled()
    days = [date(2026, 3, number) for number in (28, 29)]
    for day in days:
        memory.mark_evaluated(("wifi", day), EvaluatedDay(7, 5))
    served = {
        day: replace(flip(str(day), 8, "2026-03-30T01:00", 0), epoch=6 + number)
        for number, day in enumerate(days)
    }

    found = find_changed_days(
        memory, "wifi", days, served, Epochs(5, increases=(EpochIncrease(days[0], 1),))
    )

    assert found.retraction_reasons == {days[0]: "definition", days[1]: "erasure"}


def test_days_left_to_the_speed_layer_have_moved_when_its_epoch_rises() -> None:
    memory = filled()
    day = date(2026, 3, 29)
    noon = to_millis(at("2026-03-29T12:00"))
    evaluated = EvaluatedDay(7, 1, SpeedEpoch(1), covered_until=noon)
    memory.mark_evaluated(("sales", day), evaluated)
    half = flip("2026-03-29", 7, "2026-03-29T01:00", 0, covered_until="2026-03-29T12:00")
    before = find_changed_days(memory, "sales", [day], {day: half}, Epochs(1))

    memory.merge_tick(Tick(epoch={"sales": SpeedEpoch(1)}))
    same = find_changed_days(memory, "sales", [day], {day: half}, Epochs(1))
    memory.merge_tick(Tick(epoch={"sales": SpeedEpoch(2)}))
    risen = find_changed_days(memory, "sales", [day], {day: half}, Epochs(1))

    assert [one.days for one in (before, same, risen)] == [(day,), (), (day,)]
    assert risen.evaluated == {day: structs.replace(evaluated, speed=SpeedEpoch(2))}


def test_day_of_which_the_same_generation_covers_more_is_evaluated_again() -> None:
    memory, day = filled(), date(2026, 3, 29)
    one, two = (
        {day: flip("2026-03-29", 7, "2026-03-29T01:00", 0, covered_until=f"2026-03-29T{hour}:00")}
        for hour in (12, 13)
    )
    first = find_changed_days(memory, "sales", [day], one, Epochs(1))
    memory.mark_evaluated(("sales", day), first.evaluated[day])

    found = [find_changed_days(memory, "sales", [day], served, Epochs(1)) for served in (one, two)]

    assert [changed.everywhere for changed in found] == [(), (day,)]


def test_settled_alerts_are_packed_and_come_back_only_where_their_windows_are_evaluated() -> None:
    memory = PartitionMemory(2)
    episodes = [settled_episode(START + n * HOUR, START + n * HOUR + HOUR // 2) for n in range(100)]
    for one in (one for episode in episodes for one in episode):
        memory.chains.store_alert(one)
    told = memory.chains.alerts_since(CHAIN, 0)

    memory.forget_before(0)
    state = stored(memory)
    again = restore_memories(state)[2]

    assert [one.key for one in state if one.value][:2] == [
        b"h|busy|367|none|0",
        b"h|busy|367|none|1",
    ]
    assert len([one for one in state if one.value]) == 4
    for chains in (memory.chains, again.chains):
        assert chains.alerts_since(CHAIN, 0) == told
        assert chains.alerts_since(CHAIN, START + 100 * HOUR) == {}
        assert chains.subjects("busy", "367", START + 99 * HOUR) == {"none"}
        assert chains.subjects("busy", "367", START + 100 * HOUR) == set()


def test_raise_whose_end_is_taken_back_leaves_the_pack_and_is_kept_while_it_is_open() -> None:
    memory = PartitionMemory(2)
    raised, end = settled_episode(START, START + HOUR)
    for one in (raised, end):
        memory.chains.store_alert(one)
    memory.forget_before(0)

    memory.chains.store_alert(structs.replace(end, state="retracted"))
    memory.forget_before(START + 500 * DAY_MILLIS)

    for chains in (memory.chains, restore_memories(stored(memory))[2].chains):
        assert chains.open_raises() == [raised]
        assert chains.alerts_since(CHAIN, START)[end.alert_id].state == "retracted"
