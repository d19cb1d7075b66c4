from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.questions.grains import Resets, slots
from serving.questions.question import StoreSlots
from tally.errors import BadQuery
from tally.time.instants import UTC_CLOCK
from tests.support.serving.serving_world import at
from web.api.numbers import pages as paging
from web.api.requests.shared import MetricCursor, decode_cursor, page_address


def asked(count: int, days: int, grain: str = "1d") -> list[StoreSlots]:
    return [
        StoreSlots(
            str(n),
            UTC_CLOCK,
            slots(at("2017-01-02"), at(f"2017-01-{2 + days:02d}"), grain, UTC_CLOCK),
        )
        for n in range(count)
    ]


def flat(page: list[StoreSlots]) -> list[tuple[str, object]]:
    return [(store.store_id, slot) for store in page for slot in store.slots]


def place(page: list[StoreSlots]) -> MetricCursor:
    return MetricCursor(page[-1].store_id, int(page[-1].slots[-1].end.timestamp()), {})


@given(st.integers(1, 4), st.integers(1, 9), st.integers(1, 40), st.integers(1, 3))
def test_pages_hold_every_stretch_once_and_never_more_rows_than_the_limit(
    stores: int, days: int, limit: int, rows_each: int
) -> None:
    whole = [replace(store, rows_per_slot=rows_each) for store in asked(stores, days)]
    page, has_more = paging.cut_page(whole, None, limit)
    found = flat(page)
    while has_more:
        assert 1 <= len(flat(page)) <= max(1, limit // rows_each)
        page, has_more = paging.cut_page(whole, place(page), limit)
        found += flat(page)
    assert found == flat(whole)


def test_page_of_long_rows_ends_where_it_would_cost_too_much() -> None:
    weeks = paging.MAX_WINDOWS // (7 * 96)
    whole = [StoreSlots("1", UTC_CLOCK, slots(at("2010-01-04"), at("2018-01-01"), "1w", UTC_CLOCK))]
    page, has_more = paging.cut_page(whole, None, 10_000)
    assert (flat(page), has_more) == (flat(whole)[:weeks], True)


def test_page_of_levels_pays_for_what_it_reads_ahead_of_its_first_stretch() -> None:
    # Of a thousand stores a quarter hour before midnight is a thousand windows, and a day of each.
    last = slots(at("2017-01-02T23:45"), at("2017-01-03"), "15m", UTC_CLOCK)
    whole = [StoreSlots(str(n), UTC_CLOCK, last, resets=Resets(UTC_CLOCK)) for n in range(1_000)]

    page, has_more = paging.cut_page(whole, None, 10_000)

    most = paging.MAX_WINDOWS // 96
    assert (len(page), has_more) == (most, True)
    assert (page[-1].store_id, page[-1].slots[-1].end) == (str(most - 1), at("2017-01-03"))


@pytest.mark.parametrize(
    "place",
    [
        MetricCursor("9", 1483401600, {}),
        MetricCursor("0", 1483401601, {}),
        MetricCursor("0", 0, {}),
        MetricCursor("1", 1483574400, {}),
    ],
)
def test_place_that_is_not_there_is_refused(place: MetricCursor) -> None:
    with pytest.raises(BadQuery, match="no cursor of this question"):
        paging.cut_page(asked(2, 3), place, 10)


def test_address_of_a_page_keeps_the_other_parameters() -> None:
    parameters = [("store", "a,b"), ("after", "5"), ("tz", "Europe/Rome")]
    found = page_address("/v1/metrics/revenue", parameters, MetricCursor("a", 0, {"sales": 7}))
    before, after = found.split("&after=")
    assert before == "/v1/metrics/revenue?store=a%2Cb&tz=Europe%2FRome"
    assert decode_cursor(after, MetricCursor) == MetricCursor("a", 0, {"sales": 7})


@given(st.text(max_size=80))
def test_text_is_a_cursor_or_refused(text: str) -> None:
    try:
        assert isinstance(decode_cursor(text, MetricCursor), MetricCursor | None)
    except BadQuery as error:
        assert error.field == "after"
