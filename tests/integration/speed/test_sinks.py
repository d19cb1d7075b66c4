"""What a micro-batch leaves beside the view rows: view updates, activity and currencies of
stores."""

import json
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import pytest

from runtime.kafka.reader import read_to_end
from runtime.registry.sources import SALES
from speed_layer.state.operator import WINDOWS_AT_ONCE
from speed_layer.state.sink import UPDATES_TOPIC
from tally.config.settings import Settings
from tests.integration.speed.query import NOON, SpeedQuery

DAY = timedelta(days=1)


def updates_of(query: SpeedQuery) -> list[dict[str, Any]]:
    """Every view update of the test's store, in order."""
    # Of one store they lie in one partition.
    found = [
        json.loads(message.value() or b"")
        for message in read_to_end(query.settings, [UPDATES_TOPIC])
    ]
    return [update for update in found if update["store_id"] == query.store]


def test_each_changed_window_is_announced_once_in_its_micro_batch(query: SpeedQuery) -> None:
    query.batches([query.sale(1), query.sale(2, currency="EUR")], [query.sale(3)])

    update = {
        "family": "sales",
        "store_id": query.store,
        "window_start": "2017-09-19T12:00:00.000Z",
        "epoch": SALES.epoch,
    }
    assert updates_of(query) == [{**update, "events": 2}, {**update, "events": 3}]


def test_first_and_last_day_of_a_store(query: SpeedQuery) -> None:
    query.batches([query.sale(2, NOON - DAY), query.sale(1)], [query.sale(3, NOON + DAY)])

    text = "SELECT first_day, last_day FROM store_activity WHERE family = 'sales' AND store_id = %s"
    row = query.session.execute(text, [query.store]).one()
    assert (row.first_day.date(), row.last_day.date()) == (date(2017, 9, 18), date(2017, 9, 20))


def test_days_of_a_store_whose_windows_fill_the_last_lot_exactly(query: SpeedQuery) -> None:
    quarters = [number * timedelta(minutes=15) for number in range(WINDOWS_AT_ONCE)]
    query.send(*(query.sale(number, NOON + after) for number, after in enumerate(quarters)))

    query.run()

    text = "SELECT first_day FROM store_activity WHERE family = 'sales' AND store_id = %s"
    assert [row.first_day.date() for row in query.session.execute(text, [query.store])] == [
        NOON.date()
    ]


def test_first_and_last_day_of_each_currency_of_a_store(query: SpeedQuery) -> None:
    query.batches(
        [query.sale(2, NOON - DAY, currency="EUR"), query.sale(1)],
        [query.sale(3, NOON + DAY, currency="EUR")],
    )

    text = (
        "SELECT value, first_day, last_day FROM store_axis WHERE family = 'sales' AND"
        " axis = 'currency' AND store_id = %s"
    )
    found = [
        (row.value, row.first_day.date(), row.last_day.date())
        for row in query.session.execute(text, [query.store])
    ]
    assert found == [
        ("EUR", date(2017, 9, 18), date(2017, 9, 20)),
        ("USD", date(2017, 9, 19), date(2017, 9, 19)),
    ]


@pytest.mark.parametrize(
    "day", [date(2000, 2, 29), date(2017, 12, 31), date.today()], ids=lambda day: str(day.year)
)
def test_receipt_of_any_day_is_written_and_lives_for_the_retention(
    query: SpeedQuery, day: date
) -> None:
    at = datetime.combine(day, time(0, 1), UTC)
    query.send(query.sale(1, at))

    query.run()

    text = (
        "SELECT events, gross_minor, TTL(gross_minor) AS seconds FROM sales_15min WHERE store_id ="
        " %s AND day = %s"
    )
    ((events, cents, seconds),) = query.session.execute(text, [query.store, day])
    lives = timedelta(seconds=seconds)
    assert (events, cents) == (1, 100)
    assert (
        timedelta(0)
        <= timedelta(days=Settings().speed_retention_days) - lives
        < timedelta(minutes=5)
    )


def test_rows_carry_the_register_of_their_window(query: SpeedQuery) -> None:
    query.send(query.sale(1), query.sale(2))

    query.run()

    assert query.rows("WRITETIME(gross_minor)") == [(SALES.epoch * 2**40 + 2,)]
