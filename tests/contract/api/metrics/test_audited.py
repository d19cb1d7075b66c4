"""The audit asks the API by the catalogue: in each family each metric that is a sum, whole and by
its dimensions, and what the answers claim of themselves."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from ops.audit.by_catalogue import (
    ApiComparison,
    AuditedFamily,
    StoreDayStarts,
    SumMetric,
    compare_answers,
    sum_metrics,
)
from ops.audit.master import WindowKey
from ops.audit.oracle import Sample
from runtime.registry.sources import SALES, TRAFFIC
from tally.algebra.merge import Axes, Parts
from tally.algebra.parts import Max, Sum
from tally.families.family import Family
from tally.families.generation import Generation
from tests.support.questions.api_suite import Ask
from tests.support.serving.serving_example import DIRTY, NEW, SETTLED
from tests.support.serving.serving_world import MemoryViews, at, of_sales

Values = dict[WindowKey, dict[Axes, Parts]]


def sold(receipts: int, gross: int, returns: int = 0) -> Parts:
    return {
        "receipts": receipts,
        "gross_minor": gross,
        "returns_minor": returns,
        "voids_minor": 0,
        "discounts_minor": 0,
        "returned_receipts": 0,
        "non_sales_minor": 0,
        "rounding_minor": 0,
        "units_milli": 1000 * receipts,
    }


# What the example world serves, as the master would have it.
SOLD: Values = {
    ("367", at(f"{SETTLED}T10:00")): {("USD",): sold(2, 300)},
    ("367", at(f"{SETTLED}T10:15")): {("USD",): sold(3, 700, 100)},
    ("367", at(f"{SETTLED}T10:30")): {("USD",): sold(2, 900)},
    ("367", at(f"{SETTLED}T11:00")): {("USD",): sold(2, 800)},
    ("367", at(f"{NEW}T08:00")): {("USD",): sold(4, 1000)},
    ("367", at(f"{DIRTY}T09:00")): {("USD",): sold(1, 250)},
    ("406", at(f"{SETTLED}T10:00")): {("USD",): sold(1, 90)},
    ("500", at(f"{SETTLED}T10:00")): {("EUR",): sold(2, 60), ("USD",): sold(1, 10)},
}
PEOPLE = (
    *("visitors_in", "groups_in", "visitors_in_with_passers", "passers_by", "at_the_door"),
    *("closed_footfall", "inner_footfall", "shared_footfall", "staff_footfall"),
)
LEVELS = ("occupancy", "occupancy_residue")
NOBODY = {part.name: part.zero for part in TRAFFIC.parts}
COUNTED: Values = {
    ("367", at(f"{SETTLED}T10:00")): {(): NOBODY | {"entries": 10}},
}


@pytest.fixture
def families(views: MemoryViews) -> list[AuditedFamily]:
    """Both families, with what they must show and what is published of them."""
    claims: dict[str, dict[Any, Generation]] = {"sales": {}, "traffic": {}}
    for family, claim in views.world.pointers:
        claims[family.name][claim.day] = claim
    return [
        AuditedFamily(family, values, claims[family.name], StoreDayStarts("UTC", {}))
        for family, values in ((SALES, SOLD), (TRAFFIC, COUNTED))
    ]


def asker(ask: Ask) -> Any:
    """The rows of the API in this process."""

    def rows(metric: str, window: Mapping[str, str], by: Sequence[str]) -> Iterable[Any]:
        dimensions = {"by": ",".join(by)} if by else {}
        answer = ask(f"/v1/metrics/{metric}", **window, **dimensions)
        assert answer.status_code == 200, answer.text
        return list(answer.json()["rows"])

    return rows


def compared(
    rows: Callable[..., Any], families: Sequence[AuditedFamily], windows: int = 4
) -> ApiComparison:
    """One question at a time: the application of a test has one event loop."""
    found = compare_answers(rows, families, Sample(windows, seed=1), readers=1)
    assert found is not None
    return found


def told(found: ApiComparison) -> set[tuple[str, str, Any, Any]]:
    """Store, metric, expected and got of each difference."""
    return {(one.store, one.metric, one.expected, one.got) for one in found.differences}


def only(
    family: AuditedFamily, window: WindowKey, values: dict[Axes, Parts] | None = None
) -> AuditedFamily:
    """The family with one window, of these values if they are given."""
    return replace(family, values={window: values or dict(family.values[window])})


def test_every_sum_of_every_family_is_asked_whole_and_by_its_dimensions(
    ask: Ask, families: list[AuditedFamily]
) -> None:
    asked: set[tuple[str, tuple[str, ...]]] = set()
    rows = asker(ask)

    def noting(metric: str, window: Mapping[str, str], by: Sequence[str]) -> Any:
        asked.add((metric, tuple(by)))
        return rows(metric, window, by)

    found = compared(noting, families, windows=60)

    assert (found.differences, found.windows, found.equal, found.ok) == ([], 60, 60, True)
    sums = {"transactions", "revenue", "gross_revenue", "discounts", "rounding", "units"}
    people = {(name, ()) for name in (*LEVELS, *PEOPLE)}
    assert asked == {(name, by) for name in sums for by in ((), ("currency",))} | people


def test_a_wrong_value_of_one_part_is_found_in_each_metric_that_has_it(
    ask: Ask, views: MemoryViews, families: list[AuditedFamily]
) -> None:
    window = ("406", at(f"{SETTLED}T10:00"))
    [place] = [place for place, one in enumerate(views.world.rows) if one.store_id == "406"]
    stored = views.world.rows[place]
    wrong = stored.row._replace(parts=of_sales(1, 91))
    views.world.rows[place] = replace(stored, row=wrong)

    found = compared(asker(ask), [only(families[0], window), families[1]])

    assert (found.ok, found.windows, found.equal) == (False, 4, 2)
    assert told(found) == {
        ("406", "revenue", 90, 91),
        ("406", "revenue currency=USD", 90, 91),
        ("406", "gross_revenue", 90, 91),
        ("406", "gross_revenue currency=USD", 90, 91),
    }


def test_a_wrong_value_of_another_family_than_sales_is_found(
    ask: Ask, families: list[AuditedFamily]
) -> None:
    [window] = COUNTED
    more = only(families[1], window, {(): {**COUNTED[window][()], "entries": 11}})

    found = compared(asker(ask), [families[0], more], windows=60)

    of_entries = ("visitors_in", *LEVELS)
    assert told(found) == {("367", name, 11, 10) for name in of_entries}


def test_money_of_several_currencies_is_compared_by_currency_alone(
    ask: Ask, families: list[AuditedFamily]
) -> None:
    window = ("500", at(f"{SETTLED}T10:00"))
    wrong: dict[Axes, Parts] = {("EUR",): sold(2, 61), ("USD",): sold(1, 10)}

    found = compared(asker(ask), [only(families[0], window, wrong)])

    assert told(found) == {
        ("500", "revenue currency=EUR", 61, 60),
        ("500", "gross_revenue currency=EUR", 61, 60),
    }


def test_a_currency_that_the_answer_does_not_name_is_a_difference(
    ask: Ask, families: list[AuditedFamily]
) -> None:
    window = ("406", at(f"{SETTLED}T10:00"))
    wrong: dict[Axes, Parts] = {**SOLD[window], ("CHF",): sold(1, 5)}

    found = told(compared(asker(ask), [only(families[0], window, wrong)]))

    assert ("406", "revenue currency=CHF", 5, None) in found
    assert ("406", "transactions", 2, 1) in found


def test_an_answer_that_claims_more_than_its_generation_is_a_difference(
    ask: Ask, families: list[AuditedFamily]
) -> None:
    rows = asker(ask)

    def boasting(metric: str, window: Mapping[str, str], by: Sequence[str]) -> Any:
        return [{**row, "status": "final"} for row in rows(metric, window, by)]

    found = compared(boasting, [only(families[0], ("367", at(f"{NEW}T08:00")))])

    assert ("367", "transactions: speed, final", 4, 4) in told(found)


def answering(value: int | None, source: str) -> Callable[..., Any]:
    """Rows of an API that says this of every window."""

    def rows(_metric: str, _window: Mapping[str, str], by: Sequence[str]) -> Any:
        row = {"value": value, "source": source, "status": "provisional", "complete": False}
        return [{**row, "by": dict.fromkeys(by)}]

    return rows


def test_a_window_with_records_that_is_missing_is_a_difference(
    families: list[AuditedFamily],
) -> None:
    sold_new = only(families[0], ("367", at(f"{NEW}T08:00")))

    found = told(compared(answering(None, "missing"), [sold_new]))

    assert ("367", "transactions", 4, None) in found


def test_an_empty_window_may_be_missing_where_no_generation_covers_it(
    families: list[AuditedFamily],
) -> None:
    ends = {("367", at(f"{day}T08:00")): {("USD",): sold(4, 1000)} for day in (SETTLED, NEW)}
    traffic = replace(families[1], values={key: {(): NOBODY | {"entries": 4}} for key in ends})

    nobody = compared(answering(None, "missing"), [replace(traffic, claims={})], windows=8)
    covered = compared(answering(None, "missing"), [traffic], windows=8)

    null = compared(answering(None, "speed"), [replace(traffic, claims={})], windows=8)

    # Of eight windows four lie anywhere between the two that have records, one of them on the day
    # that nobody covers.
    assert (nobody.equal, covered.equal, null.equal) == (4, 1, 0)


def test_an_answer_without_a_row_is_a_difference(families: list[AuditedFamily]) -> None:
    found = compared(lambda *_: [], [only(families[1], ("367", at(f"{SETTLED}T10:00")))])

    should = dict.fromkeys(PEOPLE, 0) | dict.fromkeys((PEOPLE[0], *LEVELS), 10)
    assert told(found) == {("367", name, value, None) for name, value in should.items()}
    nothing: Values = {("367", at(f"{SETTLED}T10:00")): {(): NOBODY}}
    assert not compared(lambda *_: [], [replace(families[1], values=nothing)]).ok


def test_a_metric_is_asked_if_it_is_a_sum_of_parts_that_add_up() -> None:
    queues = Family("sales", (), (Max("gross_minor"), Sum("receipts"), Sum("units_milli")), 1)

    assert [one.id for one in sum_metrics(queues)] == ["transactions", "units"]
    assert sum_metrics(SALES)[-1] == SumMetric("units", {"units_milli": 1}, 1000, ("currency",))


def test_the_currency_is_asked_first_and_all_dimensions_together_too() -> None:
    metric = SumMetric("waits", {"waits": 1}, 1, ("aisle", "currency"))

    assert metric.dimension_sets == [("currency",), ("aisle",), ("aisle", "currency"), ()]


@pytest.mark.parametrize(("milli", "units"), [(3000, 3), (2500, 2.5), (1, 0.001), (0, 0)])
def test_a_value_that_is_divided_is_whole_where_it_is(milli: int, units: float) -> None:
    [metric] = [one for one in sum_metrics(SALES) if one.id == "units"]

    found = metric.value([{**sold(0, 0), "units_milli": milli}])

    assert (found, type(found)) == (units, type(units))


def test_a_family_without_windows_and_a_year_that_no_answer_has_are_not_asked(
    ask: Ask, families: list[AuditedFamily]
) -> None:
    sales, traffic = families
    old: Values = {("367", at("0001-01-01T12:00")): {("USD",): sold(1, 1)}}
    none = replace(traffic, values={})

    found = compared(asker(ask), [replace(sales, values={**SOLD, **old}), none])

    assert found.ok and found.windows == 4
    assert {one.start[:4] for one in found.differences} == set()
    assert compare_answers(asker(ask), [replace(sales, values=old), none], Sample(4, 1), 1) is None
