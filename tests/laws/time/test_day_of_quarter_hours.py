"""A day's value is the merge of its quarter hours, for every metric of the catalogue: what all
events of the day make at once."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from statistics import mean
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas import loader
from serving.cells.cells import Cell, build_cells, cell_values, level_cells
from serving.merge.served import ServedWindow
from serving.questions import catalogue
from serving.questions.catalogue import Metric
from serving.questions.grains import Resets
from serving.questions.question import StoreSlots
from tally.algebra.merge import Axes, MergedWindow
from tally.families.family import Family
from tally.time.instants import UTC_CLOCK
from tally.time.windows import WINDOW, TimeRange
from tests.laws.algebra.test_merge_controls import SEARCH
from tests.support.serving.serving_world import at

QUARTERS = 8
START = at("2026-11-26T00:00")
# A stock is no merge of what came: it is reckoned from the last count on (test_shelf).
METRICS = [one.id for one in loader.metrics() if catalogue.metric(one.id).stock is None]
RATIOS = [name for name in METRICS if catalogue.metric(name).denominator is not None]
# Of money one currency: several do not add up, and are refused.
VALUES = {
    "currency": ("USD",),
    "mac_class": ("fixed", "random_probe"),
    "item_id": ("tea", "bread"),
}


class Brought(NamedTuple):
    """What one event brings to a family's quarter hour: a number for each part."""

    quarter: int
    axes: Axes
    numbers: tuple[int, ...]


def events_of(family: Family) -> st.SearchStrategy[list[Brought]]:
    axes = st.tuples(*(st.sampled_from(VALUES[axis]) for axis in family.axes))
    numbers = st.tuples(*(st.integers(0, 10**6) for _ in family.parts))
    one = st.builds(Brought, st.integers(0, QUARTERS - 1), axes, numbers)
    return st.lists(one, max_size=12)


def window_of(family: Family, events: Sequence[Brought]) -> ServedWindow:
    """The events as one covered window holds them."""
    by_axes: dict[Axes, list[Brought]] = defaultdict(list)
    for event in events:
        by_axes[event.axes].append(event)
    values = {
        axes: {
            part.name: part.fold([0] * len(some), [event.numbers[place] for event in some])
            for place, part in enumerate(family.parts)
        }
        for axes, some in by_axes.items()
    }
    return ServedWindow(MergedWindow("batch", len(events), values), "final")


def day_of(metric: Metric, windows: Sequence[tuple[ServedWindow, ...]]) -> Cell:
    slot = TimeRange(START, START + QUARTERS * WINDOW)
    if metric.is_level:
        # At its end that is what all events of the day have left, as one quarter hour would.
        asked = StoreSlots("1", UTC_CLOCK, (slot,), resets=Resets(UTC_CLOCK))
        (found,) = level_cells(metric.families, asked, windows)
    else:
        (found,) = build_cells(metric.families, [slot], windows)
    return found


def quarters_of(
    metric: Metric, events: Sequence[Sequence[Brought]]
) -> list[tuple[ServedWindow, ...]]:
    """By quarter hour a window of each family."""
    return [
        tuple(
            window_of(family, [event for event in own if event.quarter == quarter])
            for family, own in zip(metric.families, events, strict=True)
        )
        for quarter in range(QUARTERS)
    ]


def at_once(metric: Metric, events: Sequence[Sequence[Brought]]) -> Any:
    """The day's value, had all happened in one quarter hour."""
    first = [[event._replace(quarter=0) for event in own] for own in events]
    return cell_values(metric, day_of(metric, quarters_of(metric, first)))["value"]


def merged(metric: Metric, windows: Sequence[tuple[ServedWindow, ...]]) -> Any:
    return cell_values(metric, day_of(metric, windows))["value"]


def check(
    metric: Metric,
    events: Sequence[Sequence[Brought]],
    day_value: Callable[[Metric, Sequence[tuple[ServedWindow, ...]]], Any],
) -> None:
    assert day_value(metric, quarters_of(metric, events)) == at_once(metric, events)


@pytest.mark.parametrize("name", METRICS)
@given(data=st.data())
def test_day_is_the_merge_of_its_quarter_hours(name: str, data: st.DataObject) -> None:
    metric = catalogue.metric(name)

    check(metric, [data.draw(events_of(family)) for family in metric.families], merged)


def averaged(metric: Metric, windows: Sequence[tuple[ServedWindow, ...]]) -> Any:
    """The mean of the quarter hours' ratios: what many reports do."""
    slots = [
        TimeRange(START + number * WINDOW, START + (number + 1) * WINDOW)
        for number in range(QUARTERS)
    ]
    found = [
        cell_values(metric, one)["value"] for one in build_cells(metric.families, slots, windows)
    ]
    known = [value for value in found if value is not None]
    return mean(known) if known else None


@pytest.mark.parametrize("name", RATIOS)
def test_with_ratios_averaged_it_is_not(name: str) -> None:
    metric = catalogue.metric(name)

    @SEARCH
    @given(st.tuples(*map(events_of, metric.families)))
    def search(events: tuple[list[Brought], ...]) -> None:
        check(metric, events, averaged)

    with pytest.raises(AssertionError):
        search()
