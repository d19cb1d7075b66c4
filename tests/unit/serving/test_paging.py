from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from serving.api import paging
from serving.api.grains import slots
from serving.api.question import StoreSlots
from tests.serving_world import at

UTC = ZoneInfo("UTC")


def asked(count: int, days: int, grain: str = "1d") -> list[StoreSlots]:
    return [StoreSlots(str(n), UTC, slots(at("2017-01-02"), at(f"2017-01-{2 + days:02d}"), grain, UTC)) for n in range(count)]


def flat(page: list[StoreSlots]) -> list[tuple[str, object]]:
    return [(store.store_id, slot) for store in page for slot in store.slots]


@given(st.integers(1, 4), st.integers(1, 9), st.integers(1, 40))
def test_pages_hold_every_row_once_and_never_more_than_the_limit(stores: int, days: int, limit: int) -> None:
    whole, found = asked(stores, days), list[tuple[str, object]]()
    after: int | None = 0
    while after is not None:
        page, after = paging.page_of(whole, after, limit)
        assert 1 <= len(flat(page)) <= limit
        found += flat(page)
    assert found == flat(whole)


def test_page_of_long_rows_ends_where_it_would_cost_too_much() -> None:
    weeks = paging.MOST_WINDOWS // (7 * 96)
    whole = [StoreSlots("1", UTC, slots(at("2010-01-04"), at("2018-01-01"), "1w", UTC))]
    page, after = paging.page_of(whole, 0, 10_000)
    assert (len(flat(page)), after) == (weeks, weeks)


def test_page_beyond_the_end_is_empty() -> None:
    assert paging.page_of(asked(2, 3), 6, 10) == ([], None)


def test_next_address_keeps_the_other_parameters() -> None:
    parameters = [("store", "a,b"), ("after", "5"), ("tz", "Europe/Rome")]
    assert paging.next_address("/v1/metrics/revenue", parameters, 10) == "/v1/metrics/revenue?store=a%2Cb&tz=Europe%2FRome&after=10"
