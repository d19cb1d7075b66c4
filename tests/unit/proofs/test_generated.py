"""The generated load has everything in it that it promises, and its oracle agrees with sums done
by hand."""

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ingest.installation.arrival import Arrival, Rules
from ingest.sources.sales.contract import normalise as normalised_receipt
from ingest.sources.traffic.contract import normalise as normalised_interval
from tally.config.settings import Settings
from tests.support.oracles.plain_oracle import counted_by_window, counted_once, event_of
from tests.support.oracles.pos_oracle import PARTS
from tests.support.sources.generated import LATE_BY, STORES, Scale, hourly, load, of_this_second

NOW = datetime.now(UTC).replace(microsecond=0)
MOMENTS = [NOW, datetime(2017, 10, 29, 1, 30, tzinfo=UTC), datetime(2000, 1, 10, tzinfo=UTC)]
PEOPLE = ("entries", "exits", "passers_by", "entries_with_passers")
BY_HAND = ("receipts", "gross_minor", "returns_minor", "voids_minor", "units_milli")


def message(number: int = 1, at: str = "2017-10-29T00:50:00+00:00", **fields: Any) -> bytes:
    line = {"item": "Milk", "price": 0.125, "amount": 1}
    base = {
        "happened_at": at,
        "operation_id": 7,
        "vendor_fiscal_module": 1,
        "transaction_id": number,
        "transactions": [line],
    }
    return json.dumps({**base, **fields}).encode()


@pytest.mark.parametrize("now", MOMENTS)
def test_load_has_every_kind_in_every_currency_and_ends_now(now: datetime) -> None:
    made = load(1, now)

    fields = [
        json.loads(sending.message)
        for sending in [*made.on_time, *made.late]
        if sending.source == "pos"
    ]
    assert {(one.get("kind", "sale"), one["currency"]) for one in fields} == {
        (kind, currency)
        for kind in ("sale", "return", "void")
        for currency in ("USD", "EUR", "JPY", "BHD")
    }
    assert {one["operation_id"] for one in fields} == {*STORES}
    assert all(sending.sent_at <= now for sending in made.on_time) and now - made.on_time[
        -1
    ].sent_at < timedelta(hours=1)
    assert all(
        datetime.fromisoformat(json.loads(sending.message)["happened_at"]) < now - LATE_BY
        for sending in made.late
        if sending.source == "pos"
    )


@pytest.mark.parametrize("source", ["pos", "traffic"])
@pytest.mark.parametrize("now", MOMENTS)
def test_load_has_resends_conflicts_and_late_ones(now: datetime, source: str) -> None:
    made = load(1, now)
    sent = [event_of(sending.message) for sending in made.on_time if sending.source == source]

    kinds = Counter(_relation(one, other) for one, other in _pairs(sent))

    assert kinds["resend"] > 5 and kinds["conflict"] > 2 and len(made.late) > 10
    assert (kinds["moved"] > 2) == (source == "pos")
    assert (
        made.expected(source) != made.expected_speed(source),
        len(made.expected(source)) > 300,
    ) == (True, True)


def _pairs(events: list[Any]) -> list[tuple[Any, Any]]:
    first: dict[Any, Any] = {}
    return [
        (first[one.identity], one)
        for one in events
        if first.setdefault(one.identity, one) is not one
    ]


def _relation(one: Any, other: Any) -> str:
    return (
        "moved"
        if one.cell[1] != other.cell[1]
        else "resend"
        if one.parts == other.parts
        else "conflict"
    )


def test_equal_seeds_are_equal_loads() -> None:
    assert load(3, NOW, Scale(50, 50)) == load(3, NOW, Scale(50, 50)) != load(4, NOW, Scale(50, 50))


def test_posts_of_the_hours_hold_everything_in_order() -> None:
    made = load(1, NOW)

    posted = [
        one for source, messages in hourly(made.on_time) if source == "pos" for one in messages
    ]

    assert posted == [sending.message for sending in made.on_time if sending.source == "pos"]


def test_receipts_of_this_second_happen_now_in_every_store() -> None:
    stores = {event_of(sending.message).cell[:2] for sending in of_this_second(1, NOW)}

    assert len(stores) == len(STORES) and max(start for _, start in stores) <= NOW


@pytest.mark.parametrize(
    ("fields", "parts"),
    [
        ({}, (1, 13, 0, 0, 1000)),
        (
            {"currency": "JPY", "transactions": [{"item": "a", "price": "1.5", "amount": 1}]},
            (1, 2, 0, 0, 1000),
        ),
        ({"currency": "BHD"}, (1, 125, 0, 0, 1000)),
        ({"kind": "return"}, (0, 0, 13, 0, -1000)),
        ({"kind": "void"}, (0, 0, 0, 13, 0)),
        (
            {
                "transactions": [
                    {"item": "a", "price": 3, "amount": -2},
                    {"item": "b", "price": 1, "amount": "0.5"},
                ]
            },
            (1, 50, 600, 0, -1500),
        ),
        (
            {"transactions": [{"item": "a", "price": 3, "amount": 2, "total": "5.99"}]},
            (1, 599, 0, 0, 2000),
        ),
    ],
)
def test_parts_are_as_counted_by_hand(fields: dict[str, Any], parts: tuple[int, ...]) -> None:
    assert told(event_of(message(**fields)).parts) == parts


def told(parts: tuple[int, ...]) -> tuple[int, ...]:
    """Of all parts the five that are counted by hand here; the others are nothing."""
    by_name = dict(zip(PARTS, parts, strict=True))
    found = tuple(by_name.pop(name) for name in BY_HAND)
    assert not by_name["discounts_minor"] and not by_name["non_sales_minor"]
    return found


def test_first_copy_counts_once_and_a_moved_one_counts_in_its_window_alone() -> None:
    moved = message(at="2017-10-29T01:20:00Z")
    events = [event_of(one) for one in (message(), message(), moved, message(2))]

    here, there = (
        ("7", datetime(2017, 10, 29, hour, minute, tzinfo=UTC), "USD")
        for hour, minute in ((0, 45), (1, 15))
    )
    once, by_window = (
        {cell: told(parts) for cell, parts in cells.items()}
        for cells in (counted_once(events), counted_by_window(events))
    )
    assert once == {here: (2, 26, 0, 0, 2000)}
    assert by_window == {here: (2, 26, 0, 0, 2000), there: (1, 13, 0, 0, 1000)}


@pytest.mark.parametrize("now", MOMENTS)
def test_normaliser_adds_what_the_plain_oracle_adds(now: datetime) -> None:
    rules, arrival = (
        Rules.from_settings(Settings.load({})),
        Arrival(now + timedelta(minutes=1), 0, 0),
    )
    made = load(2, now, Scale(300, 60)).on_time

    for sending in made:
        expected = event_of(sending.message)
        if sending.source == "pos":
            receipt = normalised_receipt(sending.message, arrival, rules)
            got = tuple(getattr(receipt, name) for name in PARTS)
        else:
            interval = normalised_interval(sending.message, arrival, rules)
            got = tuple(getattr(interval, name) for name in PEOPLE)
        assert got == expected.parts, sending.message
