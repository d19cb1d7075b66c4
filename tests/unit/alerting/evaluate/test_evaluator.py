"""The evaluator over rows in memory: what hints, ticks and generations make it tell."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal

import pytest

from alerting.evaluate import step
from alerting.evaluate.step import TICKS, UPDATES
from alerting.rules.rule import Threshold
from runtime.processor.step import Input
from tally.config.settings import Settings
from tally.errors import RetryLater
from tally.families.family import Family
from tally.families.generation import Generation
from tests.support.evaluation.evaluating import BUSY, DAY, SILENT, Watching, said, sold
from tests.support.serving.serving_world import flip, sale


def test_window_above_the_threshold_is_told_once_when_a_tick_closes_it(watched: Watching) -> None:
    store = watched(BUSY)
    sold(store, "09:00", 7)

    assert store.hint(f"{DAY}T09:00") == []
    assert store.tick(f"{DAY}T09:15") == []
    [told] = store.tick(f"{DAY}T09:17")

    assert (told.state, told.window.start, told.value) == ("provisional", f"{DAY}T09:00:00Z", 7)
    assert (told.threshold, told.raised_at, told.late) == (5, f"{DAY}T09:17:00Z", False)
    assert [one.source for one in told.evidence.read] == ["speed"]
    assert store.hint(f"{DAY}T09:00") == store.tick(f"{DAY}T09:18") == []


def test_eager_rule_tells_before_the_window_is_over(watched: Watching) -> None:
    store = watched(replace(BUSY, evaluate="eager"))
    store.tick(f"{DAY}T09:01")
    sold(store, "09:00", 7)

    assert said(store.hint(f"{DAY}T09:00")) == [("raise", "provisional", "09:00")]


def test_generation_confirms_and_a_later_one_retracts_and_one_more_tells_a_second_occurrence(
    watched: Watching,
) -> None:
    store = watched(BUSY)
    sold(store, "09:00", 7)
    [first] = store.tick(f"{DAY}T09:17")

    sold(store, "09:00", 7, generation=1)
    store.publish(flip(DAY, 1, f"{DAY}T09:40", 0, covered_until=f"{DAY}T09:15"))
    [confirmed] = store.tick(f"{DAY}T09:41")
    sold(store, "09:00", 8, generation=2)
    store.world.rows[-1] = sale(store.store, f"{DAY}T09:00", 8, 300, receipts=3, generation=2)
    store.publish(flip(DAY, 2, f"{DAY}T10:40", 0, covered_until=f"{DAY}T09:15"))
    [retracted] = store.tick(f"{DAY}T10:41")
    sold(store, "09:00", 9, generation=3)
    store.publish(flip(DAY, 3, f"{DAY}T11:40", 0, covered_until=f"{DAY}T09:15"))
    [again] = store.tick(f"{DAY}T11:41")

    assert [one.alert_id for one in (confirmed, retracted)] == [first.alert_id] * 2
    assert (confirmed.state, confirmed.value) == ("confirmed", 7)
    assert confirmed.evidence.read[0].generation == 1
    assert (retracted.state, retracted.reason, retracted.value) == ("retracted", "late_data", 3)
    assert (again.state, again.occurrence, again.late) == ("confirmed", 2, True)
    assert again.supersedes == first.alert_id


def test_confirmation_has_the_value_of_the_window_that_calls_for_it_now(
    watched: Watching,
) -> None:
    store = watched(replace(BUSY, for_=2, clear=Threshold("<=", Decimal(-1))))
    for time, events in (("09:00", 7), ("09:15", 8)):
        sold(store, time, events)
    store.tick(f"{DAY}T09:17")
    [raised] = store.tick(f"{DAY}T09:32")
    # The generation knows of more: the run was long enough a quarter hour before.
    for time, events in (("08:45", 6), ("09:00", 7)):
        sold(store, time, events, generation=1)
    fewer = sale(store.store, f"{DAY}T09:15", 8, 300, receipts=3, generation=1)
    store.world.rows.append(fewer)
    store.publish(flip("2026-11-23", 1, f"{DAY}T09:40", 0))
    store.publish(flip(DAY, 1, f"{DAY}T09:40", 0, covered_until=f"{DAY}T09:30"))

    [confirmed] = store.tick(f"{DAY}T09:41")

    assert (confirmed.alert_id, confirmed.window) == (raised.alert_id, raised.window)
    assert (raised.value, raised.episode.judged) == (8, f"{DAY}T09:15:00Z")
    assert (confirmed.value, confirmed.episode.judged) == (7, f"{DAY}T09:00:00Z")
    assert confirmed.threshold == 5


@pytest.mark.parametrize("begins", ["covered_from", "covered_until"])
def test_day_that_no_rebuild_will_ever_cover_is_settled_once_a_later_one_is_covered(
    watched: Watching, begins: str
) -> None:
    # Of a gap at 08:30 the day is covered up to there for good; of the day on which a family
    # began from there on.
    store = watched(BUSY, settings=Settings(default_timezone="UTC"))
    sold(store, "09:00", 7)
    sold(store, "09:30", 8)
    sold(store, "09:15", 1)
    store.tick(f"{DAY}T09:17")
    store.tick(f"{DAY}T09:47")
    store.world.rows = [one for one in store.world.rows if one.row.events != 8]
    for time, events in (("09:00", 7), ("09:15", 1), ("09:30", 3)):
        sold(store, time, events, generation=1)
    store.publish(flip(DAY, 1, f"{DAY}T23:50", 0, **{begins: f"{DAY}T08:30"}))
    assert [one for one in store.tick("2026-11-25T00:50") if one.state != "provisional"] == []

    store.publish(flip("2026-11-25", 2, "2026-11-26T00:50", 0))
    told = store.tick("2026-11-26T00:51")

    states = [(one.edge, one.state, one.window.start[11:16]) for one in told]
    assert ("raise", "confirmed", "09:00") in states
    assert ("clear", "confirmed", "09:15") in states
    assert ("raise", "retracted", "09:30") in states
    assert store.tick("2026-11-26T00:52") == []


def test_clear_is_an_alert_of_its_own_and_goes_on_after_a_restart(watched: Watching) -> None:
    store = watched(BUSY)
    sold(store, "09:00", 7)
    sold(store, "09:15", 4)
    sold(store, "09:30", 1)
    [raised] = store.tick(f"{DAY}T09:17")
    store.begin_again()

    assert store.tick(f"{DAY}T09:32") == []
    [cleared] = store.tick(f"{DAY}T09:47")

    assert (cleared.edge, cleared.of, cleared.value) == ("clear", raised.alert_id, 1)
    assert cleared.episode.ended == f"{DAY}T09:30:00Z"


def test_silence_is_told_once_and_not_while_the_pipeline_stands_still(watched: Watching) -> None:
    store = watched(SILENT)
    sold(store, "08:00", 3)

    # An hour behind by the clock: nothing has been read since.
    assert store.tick(f"{DAY}T09:30", through=f"{DAY}T08:16") == []
    assert store.tick(f"{DAY}T09:31", through=f"{DAY}T08:32") == []
    told = store.tick(f"{DAY}T09:32", through=f"{DAY}T09:31")

    assert said(told) == [("raise", "provisional", "08:30")]
    assert (told[0].value, told[0].metric) == (None, "sales")
    assert told[0].episode.start == f"{DAY}T08:15:00Z"
    assert said(store.tick(f"{DAY}T10:00")) == []


def test_flip_between_the_reading_and_the_commit_is_evaluated_again(
    watched: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = watched(BUSY)
    sold(store, "09:00", 7)
    store.tick(f"{DAY}T09:17")
    sold(store, "09:00", 7, generation=1)
    store.world.rows.append(sale("367", f"{DAY}T09:00", 8, 300, receipts=3, generation=2))
    store.publish(flip(DAY, 1, f"{DAY}T09:40", 0, covered_until=f"{DAY}T09:15"))
    later = flip(DAY, 2, f"{DAY}T09:41", 0, covered_until=f"{DAY}T09:15")
    read = store.views.current_generations

    async def flipped_behind(family: Family, days: Sequence[date]) -> dict[date, Generation]:
        found = await read(family, days)
        if found and later not in found.values():
            store.publish(later)
        return found

    monkeypatch.setattr(store.views, "current_generations", flipped_behind)

    assert said(store.tick(f"{DAY}T09:41")) == [("raise", "confirmed", "09:00")]
    store.begin_again()
    assert [one.state for one in store.tick(f"{DAY}T09:42")] == ["retracted"]
    assert store.hint(f"{DAY}T09:00") == []


def test_without_any_hint_the_alerts_are_the_same(watched: Watching) -> None:
    def alerts(*, with_hints: bool) -> list[tuple[str, str]]:
        store = watched(BUSY, SILENT)
        for minute, events in (("09:00", 7), ("09:15", 1), ("09:30", 6)):
            sold(store, minute, events)
            if with_hints:
                store.hint(f"{DAY}T{minute}")
            hour, quarter = minute.split(":")
            store.tick(f"{DAY}T{hour}:{int(quarter) + 16}")
        for number in (1, 2):
            for minute, events in (("09:00", 7), ("09:15", 1), ("09:30", 3 * number)):
                sold(store, minute, events, generation=number)
            store.publish(flip(DAY, number, f"{DAY}T10:40", 0, covered_until=f"{DAY}T10:00"))
            store.tick(f"{DAY}T10:{40 + number}")
        return sorted({one.alert_id: one.state for one in store.alerts}.items())

    assert alerts(with_hints=True) == alerts(with_hints=False) != []


def test_nothing_is_told_and_nothing_kept_while_cassandra_is_away(
    watched: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step, "_RETRY_SECONDS", 0.0)
    store = watched(BUSY)
    sold(store, "09:00", 7)
    store.views.is_down = True
    kept = [*store.state]

    with pytest.raises(RetryLater):
        store.tick(f"{DAY}T09:17")
    store.views.is_down = False

    assert store.state == kept
    assert said(store.tick(f"{DAY}T09:18")) == [("raise", "provisional", "09:00")]


@pytest.mark.parametrize("topic", [TICKS, UPDATES])
@pytest.mark.parametrize("value", [b"", b"{}", b"\xff", b'{"family": 1}', b"[1]", None])
def test_unreadable_record_stops_nobody(watched: Watching, topic: str, value: bytes | None) -> None:
    store = watched(BUSY)
    sold(store, "09:00", 7)

    store.evaluator.process(Input(topic, store.partition, 0, 0, None, value))

    assert said(store.tick(f"{DAY}T09:17")) == [("raise", "provisional", "09:00")]
