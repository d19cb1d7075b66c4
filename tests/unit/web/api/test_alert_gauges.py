"""The numbers that tell whether alerts themselves are well."""

from typing import Any

import pytest

from alerting.health.watch import AlertFacts, AlertGauge, build_alert_gauges, build_fact_gauges
from alerting.queries.alerts import to_listed
from runtime.outbound.engine import UndeliveredMessages
from tally.alerts.tick import Tick
from tests.support.alerts.alerts import then, told

# Of now, and of 2017.
INSTANTS = (1_795_694_400_000, 1_505_861_283_000)
SECOND = 1_000


def text(now: int, **facts: Any) -> str:
    return "".join(one.text for one in build_fact_gauges(AlertFacts(**facts), now))


@pytest.mark.parametrize("now", INSTANTS)
def test_a_tick_lags_by_the_partition_that_is_furthest_behind(now: int) -> None:
    ticks = {
        0: Tick(through={"sales": now - 7 * SECOND, "traffic": now}),
        1: Tick(through={"sales": now - 65 * SECOND, "traffic": now + 3 * SECOND}),
    }

    assert text(now, ticks=ticks) == (
        "# HELP tally_alerts_tick_lag_seconds"
        " Age of the instant up to which the last partition is read\n"
        "# TYPE tally_alerts_tick_lag_seconds gauge\n"
        'tally_alerts_tick_lag_seconds{family="sales"} 65.0\n'
        'tally_alerts_tick_lag_seconds{family="traffic"} 0.0\n'
    )


def test_a_family_that_some_partition_has_not_spoken_of_lags_for_ever() -> None:
    found = text(9, ticks={0: Tick(through={"sales": 9}), 1: Tick(through={})})

    assert 'tally_alerts_tick_lag_seconds{family="sales"} +Inf\n' in found


@pytest.mark.parametrize("now", INSTANTS)
def test_the_evaluator_is_blind_since_the_oldest_tick_that_was_evaluated_last(now: int) -> None:
    evaluated_at = {0: now - 2 * SECOND, 1: now - 600 * SECOND, 2: now + SECOND}

    assert "tally_evaluator_blind_seconds 600.0\n" in text(now, evaluated_at=evaluated_at)
    # It grows by itself: nobody has to be asked.
    assert "tally_evaluator_blind_seconds 660.0\n" in text(
        now + 60 * SECOND, evaluated_at=evaluated_at
    )


def test_deliveries_wait_as_long_as_the_oldest_and_dead_ones_are_summed() -> None:
    now, waiting = INSTANTS[0], UndeliveredMessages(INSTANTS[0] - 90 * SECOND, 2, 5)
    undelivered = {
        0: {"floor": UndeliveredMessages(now - 30 * SECOND, 1), "office": UndeliveredMessages()},
        1: {"floor": waiting},
        2: {},
    }
    found = text(now, undelivered=undelivered)

    assert 'tally_deliveries_pending_seconds{channel="floor"} 90.0\n' in found
    assert 'tally_deliveries_pending_seconds{channel="office"} 0.0\n' in found
    assert 'tally_deliveries_dead_total{channel="floor"} 3.0\n' in found
    assert 'tally_deliveries_dead_total{channel="office"} 0.0\n' in found
    assert 'tally_deliveries_blocked{channel="floor"} 5.0\n' in found
    assert 'tally_deliveries_blocked{channel="office"} 0.0\n' in found


def test_what_nobody_has_said_is_left_out() -> None:
    assert text(INSTANTS[0]) == ""


def test_each_service_says_how_long_it_took_to_restore() -> None:
    found = text(1, restore_seconds={"evaluator": 3.25, "dispatcher": 0.0})

    assert 'tally_restore_seconds{service="dispatcher"} 0.0\n' in found
    assert 'tally_restore_seconds{service="evaluator"} 3.25\n' in found


def test_open_alerts_by_state_and_those_of_them_that_are_overdue() -> None:
    still = [to_listed(told(1), True, True), to_listed(told(2), True)]
    still += [to_listed(then(told(3), "confirmed"), True)]

    assert "".join(one.text for one in build_alert_gauges(still)) == (
        "# HELP tally_alerts_open Open alerts by state\n"
        "# TYPE tally_alerts_open gauge\n"
        'tally_alerts_open{state="provisional"} 2.0\n'
        'tally_alerts_open{state="confirmed"} 1.0\n'
        "# HELP tally_alerts_overdue Alerts that should be confirmed\n"
        "# TYPE tally_alerts_overdue gauge\n"
        "tally_alerts_overdue 1.0\n"
    )


def test_a_name_that_a_stranger_has_chosen_stays_one_label() -> None:
    hostile = AlertGauge("gauge", "planted", [({"channel": 'a"} 1\nb{c="\\'}, 1.0)])

    head = "# HELP gauge planted\n# TYPE gauge gauge\n"
    assert hostile.text == head + 'gauge{channel="a\\"} 1\\nb{c=\\"\\\\"} 1.0\n'
