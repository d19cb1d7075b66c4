import doctest
from datetime import date

import pytest

from tests.support.serving.serving_world import at
from web.dashboard.shared import charts, labels
from web.dashboard.shared.addresses import Period
from web.dashboard.shared.figures import Card, CoverageCounts, Day, Figures

WEEK = Period(date(2017, 9, 24), 7)
DAYS = (Day(date(2017, 9, 18), 12345, 500), Day(date(2017, 9, 19), None, None))
HEAT = ((1.5, None), (0.0, 2.0))


def figures(currency: str = "USD") -> Figures:
    return Figures(currency, (), (), DAYS, HEAT, CoverageCounts(1, 0, 0, None, None))


def test_examples_in_the_docstrings_hold() -> None:
    assert doctest.testmod(labels).failed == 0


@pytest.mark.parametrize(
    ("card", "currency", "text"),
    [
        (Card("revenue", 1_234_567, None), "USD", "12,345.67"),
        (Card("revenue", 1_234_567, None), "JPY", "1,234,567"),
        (Card("average_basket", 2949.028, None), "USD", "29.49"),
        (Card("units", 2.5, None), "USD", "2.5"),
        (Card("transactions", 0, None), "USD", "0"),
        (Card("transactions", None, None), "USD", "–"),
    ],
)
def test_value_is_written_in_the_readers_unit(card: Card, currency: str, text: str) -> None:
    assert labels.value_text(card, currency) == text


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (12.34, "▲ 12.3 % vs the 7 days before"),
        (-1.0, "▼ 1.0 % vs the 7 days before"),
        (0.0, "unchanged vs the 7 days before"),
        (None, "nothing to compare with in the 7 days before"),
    ],
)
def test_change_is_said_with_a_sign_and_not_by_a_colour(change: float | None, text: str) -> None:
    assert labels.change_text(Card("revenue", 1, change), WEEK) == text


@pytest.mark.parametrize(
    ("coverage", "text"),
    [
        (
            CoverageCounts(4, 0, 0, at("2017-09-25T02:00"), None),
            "Every record that had arrived by 25 Sep 2017 02:00 UTC is counted.",
        ),
        (
            CoverageCounts(0, 0, 4, None, None),
            "Neither layer knows anything of this period. That is not the same as no sales.",
        ),
        (
            CoverageCounts(2, 1, 1, None, at("2017-09-24T10:00")),
            "Final up to 24 Sep 2017 10:00 UTC; 1 quarter hour may still change; "
            "1 quarter hour has no answer, which is not counted as zero.",
        ),
        (
            CoverageCounts(0, 2, 0, None, None),
            "0 quarter hours are final; 2 quarter hours may still change.",
        ),
    ],
)
def test_badge_says_how_far_the_numbers_go(coverage: CoverageCounts, text: str) -> None:
    assert labels.coverage_text(coverage) == text


def test_bars_stack_batch_and_speed_in_major_units_and_mark_a_day_of_nothing() -> None:
    batch, speed, missing = charts.revenue_by_day(figures(), "UTC")["series"]

    assert (batch["data"], speed["data"], missing["data"]) == (
        [123.45, None],
        [5.0, None],
        [None, 1],
    )


def test_axes_name_what_they_measure() -> None:
    options = charts.revenue_by_day(figures("EUR"), "Europe/Rome")

    assert (options["xAxis"]["name"], options["yAxis"][0]["name"]) == (
        "day (Europe/Rome)",
        "revenue, EUR",
    )
    assert charts.receipts_by_hour_of_week(figures())["xAxis"]["name"] == "hour of the day"


def test_layers_differ_by_pattern_as_well_as_by_colour() -> None:
    batch, speed, _ = charts.revenue_by_day(figures(), "UTC")["series"]

    assert ("decal" in batch["itemStyle"], "decal" in speed["itemStyle"]) == (False, True)


def test_heat_map_leaves_out_hours_that_nobody_knows() -> None:
    options = charts.receipts_by_hour_of_week(figures())

    assert options["series"][0]["data"] == [[0, 0, 1.5], [0, 1, 0.0], [1, 1, 2.0]]
    assert (options["visualMap"]["min"], options["visualMap"]["max"]) == (0, 2.0)
