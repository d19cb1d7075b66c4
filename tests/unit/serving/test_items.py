"""What stored receipts add by article: by the rules of the receipts, each receipt once."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.registry.receipt_lines import load_adding_rules
from serving import items
from serving.items import ItemAxis, ItemReader, ItemSums
from tally.errors import BadQuery
from tally.events.receipt_rules import KINDS, LINE_TYPES, LineFacts
from tally.time.windows import TimeRange
from tests.support.serving.raw_receipts import Raw, line, raw
from tests.support.serving.serving_world import MemoryViews, World

DAY = "2026-03-02"
MIDNIGHT = datetime(2026, 3, 2, tzinfo=UTC)
SPAN = TimeRange(MIDNIGHT, MIDNIGHT + timedelta(days=1))
# By article: minor units, units, receipts.
Found = dict[str | None, tuple[Any, Any, Any]]


def sums(*receipts: Raw, by: ItemAxis = "item", span: TimeRange = SPAN) -> ItemSums:
    reader = ItemReader(MemoryViews(World(receipts=[*receipts])))
    (found,) = asyncio.run(reader.sums("1", [span], by))
    return found


def told(found: ItemSums) -> Found:
    names = ("revenue", "units", "transactions")
    return {key: tuple(found.total(name, [key]) for name in names) for key in found.parts}  # type: ignore[misc]


def at(hour: int) -> str:
    return f"{DAY}T{hour:02d}:00:00"


def test_articles_of_several_receipts_are_summed_up() -> None:
    found = sums(
        raw("1", at(9), 1, line("Milk", 200, 2), line("Bread", 300)),
        raw("1", at(10), 2, line("Milk", 100)),
        raw("2", at(9), 1, line("Milk", 999)),
        raw("1", "2026-03-03T00:00:00", 3, line("Milk", 999)),
    )

    assert told(found) == {"Milk": (300, 3, 2), "Bread": (300, 1, 1)}


@pytest.mark.parametrize(
    ("lines", "adds"),
    [
        # A discount takes money, and no units.
        ([line("Milk", 500), line("Milk", -100)], (400, 1, 1)),
        ([line("Milk", 100, -1)], (100, 0, 0)),
        ([line("Milk", -500, -1)], (-500, -1, 0)),
        # Money without an amount.
        ([line("Milk", 80, 0)], (80, 0, 1)),
        ([line("Milk", 500), line("Milk", 700, cancelled=True)], (500, 1, 1)),
        # Half a unit.
        ([{**line("Milk", 50), "amount_milli": 500}], (50, 0.5, 1)),
    ],
)
def test_a_line_adds_what_its_receipt_has_of_it(
    lines: list[dict[str, Any]], adds: tuple[Any, ...]
) -> None:
    assert told(sums(raw("1", at(9), 1, *lines))) == {"Milk": adds}


def test_a_return_and_a_void_that_names_no_receipt_take_off() -> None:
    found = sums(
        raw("1", at(9), 1, line("Milk", 500)),
        raw("1", at(10), 2, line("Milk", -200, -1), kind="return"),
        raw("1", at(11), 3, line("Milk", 100), kind="void"),
    )

    assert told(found) == {"Milk": (200, 0, 1)}


@pytest.mark.parametrize("kind", ["tender", "gift_card_redeemed", "tax", "deposit", "tip"])
def test_what_is_no_article_is_none(kind: str) -> None:
    found = sums(raw("1", at(9), 1, line("Milk", 500), line("Cash", 500, line_type=kind)))

    assert told(found) == {"Milk": (500, 1, 1)}


def test_a_receipt_that_a_rule_leaves_out_adds_nothing() -> None:
    found = sums(
        raw("1", at(9), 1, line("Milk", 500), rule="training"),
        raw("1", at(10), 1, line("Milk", 100), offset=2),
    )

    assert told(found) == {"Milk": (100, 1, 1)}


@pytest.mark.parametrize("closed", [at(8), at(23), "2026-03-03T09:00:00", "2026-04-01T09:00:00"])
@pytest.mark.parametrize("offset", [1, 9])
def test_what_is_taken_back_is_gone_whenever_and_in_whichever_order(
    closed: str, offset: int
) -> None:
    found = sums(
        raw("1", at(9), 5, line("Milk", 500)),
        raw("1", at(9), 6, line("Milk", 100)),
        raw("1", closed, 7, line("Milk", 500), voids=5, offset=offset),
    )

    assert told(found) == {"Milk": (100, 1, 1)}


def test_a_void_of_what_is_not_there_takes_nothing() -> None:
    found = sums(
        raw("1", at(9), 5, line("Milk", 500)),
        raw("1", at(10), 7, line("Milk", 100), voids=4),
    )

    assert told(found) == {"Milk": (500, 1, 1)}


def test_of_several_copies_of_a_receipt_the_first_by_offset_counts() -> None:
    copies = [
        raw("1", at(9), 5, line("Milk", 300), offset=30),
        raw("1", at(9), 5, line("Milk", 200), offset=20),
        # Another instant is another row of the table.
        raw("1", at(8), 5, line("Bread", 100), offset=10),
        raw("1", at(22), 5, line("Milk", 400), offset=40),
        # Read together with what lies between it and the first.
        raw("1", at(23), 6, line("Tea", 50)),
    ]

    found = told(sums(*copies))

    assert found == told(sums(*copies[::-1])) == {"Bread": (100, 1, 1), "Tea": (50, 1, 1)}


def test_lines_without_a_category_are_one_group() -> None:
    milk, bag = line("Milk", 500, category="Dairy"), line("Bag", 10)

    found = sums(raw("1", at(9), 1, milk, bag, line("Bread", 20)), by="category")

    assert told(found) == {"Dairy": (500, 1, 1), None: (30, 2, 1)}


def test_an_article_is_called_as_on_its_newest_receipt() -> None:
    old, new = (line(name, 100, item_id="4001", category=name[:3]) for name in ("Milk", "Oat milk"))

    found = sums(raw("1", at(10), 1, old), raw("1", at(9), 2, new))

    assert (found.names["4001"].item, found.names["4001"].category) == ("Oat milk", "Oat")


def test_sums_beyond_64_bits_are_exact() -> None:
    most = 9_000_000_000_000_000_001

    found = sums(*(raw("1", at(9), number, line("Gold", most)) for number in range(3)))

    assert told(found) == {"Gold": (3 * most, 3, 3)}


def test_a_receipt_may_have_a_thousand_lines() -> None:
    found = sums(raw("1", at(9), 1, *(line(f"item {number % 10}", 1) for number in range(1_000))))

    assert told(found) == {f"item {number}": (100, 100, 1) for number in range(10)}


def test_a_line_that_nobody_can_read_takes_itself_alone() -> None:
    whole = raw("1", at(9), 1, line("Milk", 500))
    torn = whole.stored._replace(lines=("null", '{"item": "Mi', '"a"', *whole.stored.lines))

    assert told(sums(Raw("1", "1", "1", whole.happened_at, torn))) == {"Milk": (500, 1, 1)}


def test_receipts_of_many_pieces_are_read_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(items, "PIECE", 3)
    days = TimeRange(MIDNIGHT, MIDNIGHT + timedelta(days=2))
    # Some close in the same second.
    closed = [MIDNIGHT + timedelta(hours=number // 2) for number in range(90)]

    found = sums(*(raw("1", at, n, line("Milk", 1)) for n, at in enumerate(closed)), span=days)

    assert told(found) == {"Milk": (90, 90, 90)}


@pytest.mark.parametrize(("name", "what"), [("MAX_RECEIPTS", "receipts"), ("MAX_LINES", "lines")])
def test_days_with_more_than_is_read_at_once_are_refused(
    name: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(items, name, 4)
    receipts = [raw("1", at(9), number, line("Milk", 1)) for number in range(5)]

    assert told(sums(*receipts[:4])) == {"Milk": (4, 4, 4)}
    with pytest.raises(BadQuery, match=f"more than 4 {what}.*; ask for fewer days"):
        sums(*receipts)


facts = st.builds(
    LineFacts,
    st.sampled_from(LINE_TYPES),
    st.booleans(),
    st.sampled_from([-1_000, 0, 500, 2_000]),
    st.sampled_from([-250, 0, 999]),
)


@given(st.sampled_from(KINDS), st.lists(st.tuples(st.sampled_from("abc"), facts), max_size=8))
def test_articles_of_any_receipt_add_up_to_what_it_adds(
    kind: str, lines: list[tuple[str, LineFacts]]
) -> None:
    made = [
        {
            **line(item, of.total),
            "amount_milli": of.amount,
            "line_type": of.type,
            "cancelled": of.cancelled,
        }
        for item, of in lines
    ]
    found = sums(raw("1", at(9), 1, *made, kind=kind))

    whole = load_adding_rules().sum_parts(kind, [of for _, of in lines])
    less = ("discounts_minor", "returns_minor", "voids_minor")
    net = whole["gross_minor"] - sum(whole[name] for name in less)
    units = found.total("units", found.parts)
    assert (found.revenue(found.parts), units) == (net, whole["units_milli"] / 1000)
