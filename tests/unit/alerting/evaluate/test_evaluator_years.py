"""What an evaluator tells of alerts that are older than what it may evaluate: each state once."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal

import pytest

from alerting.rules.rule import Rule, Threshold
from tally.alerts.message import Alert
from tally.config.settings import Settings
from tests.support.evaluation.evaluating import DAY, SILENT, Watched, Watching
from tests.support.serving.serving_world import flip, sale

# 400 days are evaluated, 430 are remembered.
BEYOND = (1, 2, 60, 399, 400, 401, 429, 430, 431, 432, 433, 440, 460, 520)
ALL_DAY = replace(SILENT, for_=1)
STUCK = Rule(
    rule_id="stuck",
    metric="transactions",
    condition=Threshold(">=", Decimal(5)),
    clear=Threshold("<=", Decimal(2)),
)


def day_of(number: int) -> str:
    """The day that is so many days after DAY."""
    return str(date.fromisoformat(DAY) + timedelta(days=number))


def tick_daily(store: Watched, days: Iterable[int]) -> list[Alert]:
    return [one for number in days for one in store.tick(f"{day_of(number)}T12:02")]


def repeated(alerts: Iterable[Alert]) -> list[tuple[str, str]]:
    counted = Counter((one.alert_id, one.state) for one in alerts)
    return [of for of, times in counted.items() if times > 1]


def ended_after_60_days(watched: Watching) -> tuple[Watched, str]:
    """A store that was silent from DAY to the day that is returned too, with generations of both
    days; the second of them is not evaluated yet."""
    store, last = watched(ALL_DAY, settings=Settings(default_timezone="UTC")), day_of(60)
    for start, generation in ((f"{DAY}T08:00", 1), (f"{last}T10:00", 2)):
        store.world.rows.append(sale(store.store, start, 1, 100))
        store.world.rows.append(sale(store.store, start, 1, 100, generation=generation))
    store.tick(f"{DAY}T12:02")
    store.publish(flip(DAY, 1, f"{day_of(1)}T01:00", 0))
    tick_daily(store, (1, 60))
    store.publish(flip(last, 2, f"{day_of(61)}T01:00", 0))
    return store, last


@pytest.mark.parametrize("rule", [ALL_DAY, STUCK], ids=["closed store", "numbers that stop"])
def test_alert_that_is_open_for_longer_than_is_evaluated_is_told_once(
    watched: Watching, rule: Rule
) -> None:
    store = watched(rule)
    store.world.rows.append(sale(store.store, f"{DAY}T08:00", 7 if rule is STUCK else 1, 700))
    [raised] = store.tick(f"{DAY}T12:02")

    assert tick_daily(store, BEYOND) == []

    store.begin_again()
    assert tick_daily(store, (521, 522, 900, 901)) == []
    assert [one.alert_id for one in store.alerts] == [raised.alert_id]


def test_restated_day_of_the_end_leaves_an_old_raise_and_its_end_as_they_were(
    watched: Watching,
) -> None:
    store, last = ended_after_60_days(watched)
    tick_daily(store, [61])
    ended = {one.of: one.alert_id for one in store.alerts if one.edge == "clear"}
    raised = next(iter(ended))
    of_both = [one for one in store.alerts if raised in (one.alert_id, one.of)]
    assert [(one.edge, one.state) for one in of_both] == [
        ("raise", "provisional"),
        ("raise", "confirmed"),
        ("clear", "provisional"),
        ("clear", "confirmed"),
    ]
    tick_daily(store, (399, 431, 444))

    store.begin_again()
    store.world.rows.append(sale(store.store, f"{last}T10:00", 1, 100, generation=3))
    store.publish(flip(last, 3, f"{day_of(445)}T09:00", 0))
    store.hint(f"{last}T10:00")
    tick_daily(store, (445, 446))

    assert repeated(store.alerts) == []
    assert [one for one in store.alerts if raised in (one.alert_id, one.of)] == of_both


def test_late_data_within_the_horizon_still_takes_back_an_end_of_a_year_ago(
    watched: Watching,
) -> None:
    store, last = ended_after_60_days(watched)
    tick_daily(store, (61, 399))
    store.begin_again()

    # The receipt was of another store: there was no sale on that day.
    store.world.rows[:] = [
        one for one in store.world.rows if str(one.row.window_start.date()) != last
    ]
    store.publish(flip(last, 3, f"{day_of(445)}T09:00", 0))
    told = store.hint(f"{last}T10:00") + tick_daily(store, [445])

    # The end is no end any more, and the raise behind it is of the same episode now.
    assert sorted((one.edge, one.state) for one in told) == [
        ("clear", "retracted"),
        ("raise", "retracted"),
    ]
    assert repeated(store.alerts) == []
    [first, *_] = store.alerts
    assert first.alert_id not in {one.alert_id for one in told}


def test_state_of_an_open_alert_does_not_grow_with_time_and_settled_ones_lie_together(
    watched: Watching,
) -> None:
    store = watched(ALL_DAY)
    store.world.rows.append(sale(store.store, f"{DAY}T08:00", 1, 100))
    store.tick(f"{DAY}T12:02")
    tick_daily(store, BEYOND)

    kept = {one.key: one.value for one in store.state}
    kinds = Counter((key or b"").decode()[0] for key, value in kept.items() if value is not None)

    assert {kind: kinds[kind] for kind in "ehfr"} == {"e": 1, "h": 0, "f": 1, "r": 0}
