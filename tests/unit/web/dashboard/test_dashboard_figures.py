from datetime import date, timedelta
from zoneinfo import ZoneInfo

import pytest

from runtime.registry.sources import SALES
from serving.cells.cells import Cell, build_cells
from serving.merge.served import UNKNOWN, ServedWindow, Status
from serving.questions.stores import Store
from serving.reports.comparison import change_percent
from tally.algebra.merge import MergedWindow, WindowSource
from tally.time.day_clock import DayClock
from tally.time.windows import TimeRange
from tests.support.serving.serving_world import at
from web.dashboard.shared.addresses import Period, parse_period
from web.dashboard.shared.figures import (
    Card,
    CoverageCounts,
    Day,
    Figures,
    PeriodCells,
    compute_figures,
    main_currency,
)

ROME = DayClock.from_zone(ZoneInfo("Europe/Rome"))
STORE = Store("367", "367", ROME, "EUR")
MONDAY = date(2017, 9, 18)
NEWEST = date(2017, 11, 12)


def sold(
    gross: int, source: WindowSource = "batch", status: Status = "final", currency: str = "USD"
) -> ServedWindow:
    parts = {
        "receipts": 2,
        "gross_minor": gross,
        "returns_minor": 0,
        "voids_minor": 0,
        "discounts_minor": 0,
        "returned_receipts": 0,
        "non_sales_minor": 0,
        "units_milli": 1500,
    }
    return ServedWindow(MergedWindow(source, 2, {(currency,): parts}), status)


EMPTY = ServedWindow(MergedWindow("batch", 0, {}), "final")
SPEED = sold(70, "speed", "provisional")


def quarter(start: str, window: ServedWindow) -> Cell:
    (cell,) = build_cells(
        [SALES], [TimeRange(at(start), at(start) + timedelta(minutes=15))], [(window,)]
    )
    return cell


def shown(*found: Cell, before: tuple[Cell, ...] = (), days: int = 2) -> Figures:
    now = PeriodCells(
        Period(MONDAY + timedelta(days=days - 1), days).days, found, at("2017-09-20T02:00")
    )
    return compute_figures(
        now,
        PeriodCells(Period(MONDAY + timedelta(days=days - 8), days).days, before, None),
        ROME,
        "USD",
    )


def test_revenue_of_a_day_is_split_by_the_layer_that_answered() -> None:
    found = shown(
        quarter("2017-09-18T10:00", sold(100)),
        quarter("2017-09-18T10:15", SPEED),
        quarter("2017-09-18T10:30", sold(5)),
    )

    assert found.days == (Day(MONDAY, 105, 70), Day(date(2017, 9, 19), None, None))


def test_late_evening_belongs_to_the_next_local_day() -> None:
    found = shown(quarter("2017-09-18T22:30", sold(100)))

    assert found.days == (Day(MONDAY, None, None), Day(date(2017, 9, 19), 100, None))


def test_hour_of_the_week_is_a_mean_over_the_hours_that_are_known() -> None:
    found = shown(
        quarter("2017-09-18T08:00", sold(1)),
        quarter("2017-09-25T08:00", EMPTY),
        quarter("2017-09-19T08:00", UNKNOWN),
    )

    assert (found.heat[0][10], found.heat[1][10], found.heat[0][8]) == (1.0, None, None)


def test_cards_are_sums_and_the_basket_is_a_ratio_of_sums() -> None:
    earlier = quarter("2017-09-11T10:00", sold(200))

    found = shown(
        quarter("2017-09-18T10:00", sold(300)),
        quarter("2017-09-18T10:15", sold(100)),
        before=(earlier,),
    )

    assert found.cards == (
        Card("revenue", 400, 100.0),
        Card("transactions", 4, 100.0),
        Card("average_basket", 100.0, 0.0),
        Card("units", 3.0, 100.0),
    )


def week(windows: dict[str, ServedWindow], last: date, other: ServedWindow) -> PeriodCells:
    """Seven days of Rome in which every other quarter hour is `other`."""
    slots = Period(last, 7).quarter_hours(STORE).slots
    known = {at(start): window for start, window in windows.items()}
    return PeriodCells(
        Period(last, 7).days,
        build_cells([SALES], slots, [(known.get(start, other),) for start, _ in slots]),
        None,
    )


def test_period_that_is_not_over_is_compared_with_the_same_part_of_the_one_before() -> None:
    now = week(
        {"2017-09-18T08:00": sold(300), "2017-09-19T08:00": SPEED, "2017-09-17T22:00": EMPTY},
        date(2017, 9, 24),
        UNKNOWN,
    )
    before = week(
        {"2017-09-11T08:00": sold(200), "2017-09-12T08:00": sold(5_000)}, date(2017, 9, 17), EMPTY
    )

    found = compute_figures(now, before, ROME, "USD")

    assert (found.cards[0], found.compared_quarters) == (Card("revenue", 370, 50.0), 2)


def test_period_that_is_over_is_compared_whole_also_when_clocks_have_changed() -> None:
    now, before = (week({}, last, sold(10)) for last in (date(2017, 11, 5), date(2017, 10, 29)))

    found = compute_figures(now, before, ROME, "USD")

    assert (len(now.cells), len(before.cells), found.compared_quarters) == (672, 676, None)
    assert found.cards[0] == Card("revenue", 6720, change_percent(6720, 6760))


def test_part_that_is_missing_before_is_left_out_of_the_comparison() -> None:
    now = week(
        {"2017-09-18T08:00": sold(300), "2017-09-19T08:00": sold(900)}, date(2017, 9, 24), EMPTY
    )
    before = week({"2017-09-11T08:00": sold(200)}, date(2017, 9, 17), UNKNOWN)

    found = compute_figures(now, before, ROME, "USD")

    assert (found.cards[0], found.compared_quarters) == (Card("revenue", 1200, 50.0), 1)


def test_nothing_known_is_no_zero() -> None:
    found = shown(quarter("2017-09-18T10:00", UNKNOWN))

    assert {card.value for card in found.cards} == {None}


def test_money_of_another_currency_is_named_and_not_added() -> None:
    found = shown(
        quarter("2017-09-18T10:00", sold(300)), quarter("2017-09-18T10:15", sold(9, currency="EUR"))
    )

    assert (found.cards[0].value, found.other_currencies) == (300, ("EUR",))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([EMPTY, sold(1)], CoverageCounts(2, 0, 0, at("2017-09-20T02:00"), at("2017-09-18T10:30"))),
        (
            [EMPTY, SPEED, UNKNOWN],
            CoverageCounts(1, 1, 1, at("2017-09-20T02:00"), at("2017-09-18T10:15")),
        ),
        ([UNKNOWN, UNKNOWN], CoverageCounts(0, 0, 2, at("2017-09-20T02:00"), None)),
    ],
)
def test_coverage_counts_what_each_quarter_hour_is_worth(
    found: list[ServedWindow], expected: CoverageCounts
) -> None:
    starts = ("2017-09-18T10:00", "2017-09-18T10:15", "2017-09-18T10:30")

    assert (
        shown(*(quarter(*pair) for pair in zip(starts, found, strict=False))).coverage == expected
    )


@pytest.mark.parametrize(
    ("coverage", "state"),
    [
        ((2, 0, 0), "complete"),
        ((2, 1, 0), "provisional"),
        ((2, 0, 1), "provisional"),
        ((0, 0, 3), "missing"),
    ],
)
def test_period_is_complete_only_if_every_quarter_hour_is(
    coverage: tuple[int, int, int], state: str
) -> None:
    assert CoverageCounts(*coverage, None, None).state == state


@pytest.mark.parametrize(
    ("value", "previous", "change"),
    [(3, 4, -25.0), (1, 3, -66.7), (5, 0, None), (None, 4, None), (5, None, None)],
)
def test_change_is_unknown_against_zero_or_nothing(
    value: int | None, previous: int | None, change: float | None
) -> None:
    assert change_percent(value, previous) == change


@pytest.mark.parametrize(
    ("currencies", "main"), [(["EUR", "USD"], "USD"), (["EUR", "CHF"], "CHF"), ([], "USD")]
)
def test_main_currency_is_the_stores_own_if_it_was_taken(currencies: list[str], main: str) -> None:
    assert (
        main_currency(
            [quarter("2017-09-18T10:00", sold(1, currency=one)) for one in currencies], "USD"
        )
        == main
    )


def test_period_before_has_as_many_days_and_touches_it() -> None:
    assert Period(MONDAY, 7).shift(-1) == Period(date(2017, 9, 11), 7)
    assert (Period(MONDAY, 7).first, Period(date(2017, 9, 11), 7).last) == (
        date(2017, 9, 12),
        date(2017, 9, 11),
    )


def test_day_of_the_clock_change_has_100_quarter_hours() -> None:
    assert len(Period(date(2017, 10, 29), 1).quarter_hours(STORE).slots) == 100


@pytest.mark.parametrize(
    ("last", "length", "expected"),
    [
        ("2017-09-18", "7", Period(MONDAY, 7)),
        ("", "", Period(NEWEST, 28)),
        ("yesterday", "12", Period(NEWEST, 28)),
        ("0001-01-01", "91", Period(NEWEST, 91)),
    ],
)
def test_address_that_names_no_period_shows_the_newest(
    last: str, length: str, expected: Period
) -> None:
    assert parse_period(last, length, NEWEST) == expected
