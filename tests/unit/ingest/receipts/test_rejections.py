"""Every reason that one message can show, with the field it names."""

from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from schemas import loader
from tally.errors import RejectedEvent
from tests.unit.ingest.messages import (
    MILK,
    POS,
    RULES,
    TRAFFIC,
    encoded,
    interval,
    pos,
    receipt,
    with_line,
    without,
)

GOOD = encoded(POS)
DEEP = encoded(pos(note="")).replace(b'""', b"[" * 40 + b"]" * 40)
# Of the contract, and written by nobody yet (schemas/topics.yaml).
NOT_HERE = {
    *("unreadable", "wrong_key", "conflict", "circuit_open", "not_xml", "key_destroyed"),
    # Of what the gateway makes of a body.
    *("reading_failed", "letters_left_out"),
    # Of a source whose records do not split.
    "interval_crosses_window",
}

BAD_RECEIPTS: list[tuple[Any, str, str]] = [
    (b"", "not_json", ""),
    (GOOD[:-1], "not_json", ""),
    (b"\xef\xbb\xbf" + GOOD, "not_json", ""),
    (GOOD.replace(b"0.99", b"NaN"), "not_json", ""),
    (GOOD.replace(b"0.99", b"Infinity"), "not_json", ""),
    (GOOD.replace(b"0.99", b"0,99"), "not_json", ""),
    (GOOD.replace(b"Milk", b"M\xffilk"), "not_utf8", ""),
    (GOOD.replace(b'"Milk 1l"', b'"\\ud800"'), "not_json", ""),
    (DEEP, "too_deep", ""),
    (b"[" * 100_000, "too_deep", ""),
    (encoded(pos(note="x" * 1_000_000)), "too_large", ""),
    (b"[]", "wrong_type", ""),
    (GOOD[:-1] + b', "kind": "sale", "kind": "void"}', "duplicate_field", "/kind"),
    (GOOD.replace(b'"amount"', b'"price" : 3, "amount"'), "duplicate_field", "/price"),
    (pos(schema_version=2), "unknown_schema_version", "/schema_version"),
    (without(POS, "happened_at"), "missing_field", "/happened_at"),
    (without(POS, "operation_id"), "missing_field", "/operation_id"),
    (without(POS, "transactions"), "missing_field", "/transactions"),
    (pos(transactions=[MILK, without(MILK, "amount")]), "missing_field", "/transactions/1/amount"),
    (pos(happened_at=1505861283), "wrong_type", "/happened_at"),
    (pos(happened_at="2017-09-19 22:48"), "timestamp_not_rfc3339", "/happened_at"),
    (pos(happened_at="2017-02-30T00:00:00Z"), "timestamp_not_rfc3339", "/happened_at"),
    (pos(happened_at="2016-12-31T23:59:60Z"), "timestamp_not_rfc3339", "/happened_at"),
    (pos(happened_at="2017-09-19T22:48:03"), "timestamp_without_zone", "/happened_at"),
    (pos(happened_at="2017-09-20T12:05:01Z"), "future_time", "/happened_at"),
    (pos(happened_at="1999-12-31T23:59:59.999Z"), "clock_reset", "/happened_at"),
    (pos(happened_at="2106-01-01T00:00:00Z"), "future_time", "/happened_at"),
    (pos(operation_id=True), "wrong_type", "/operation_id"),
    (pos(operation_id=-1), "wrong_type", "/operation_id"),
    (pos(operation_id="a b"), "out_of_range", "/operation_id"),
    (pos(operation_id="'; DROP TABLE sales_15min; --"), "out_of_range", "/operation_id"),
    (pos(transaction_id="x" * 129), "out_of_range", "/transaction_id"),
    (pos(vendor_fiscal_module=None), "wrong_type", "/vendor_fiscal_module"),
    (pos(kind="gift"), "out_of_range", "/kind"),
    (pos(currency="usd"), "out_of_range", "/currency"),
    (pos(loyalty_id=7), "wrong_type", "/loyalty_id"),
    (pos(voids={"vendor_fiscal_module": 1}), "missing_field", "/voids/transaction_id"),
    (
        pos(
            voids={
                "vendor_fiscal_module": 5,
                "transaction_id": 1,
                "happened_at": "2017-09-19T23:00:00Z",
            }
        ),
        "out_of_range",
        "/voids/happened_at",
    ),
    (
        pos(voids={"vendor_fiscal_module": 5, "transaction_id": 1, "happened_at": "2017-09-19"}),
        "timestamp_not_rfc3339",
        "/voids/happened_at",
    ),
    (pos(transactions=[]), "out_of_range", "/transactions"),
    (pos(transactions=[MILK] * 1001), "out_of_range", "/transactions"),
    (pos(transactions={}), "wrong_type", "/transactions"),
    (pos(transactions=["Milk"]), "wrong_type", "/transactions/0"),
    (with_line(item=""), "out_of_range", "/transactions/0/item"),
    (with_line(price="free"), "wrong_type", "/transactions/0/price"),
    (with_line(price="1e3"), "wrong_type", "/transactions/0/price"),
    (with_line(price=True), "wrong_type", "/transactions/0/price"),
    (with_line(price=10**13), "out_of_range", "/transactions/0/price"),
    (GOOD.replace(b"0.99", b"1e400"), "out_of_range", "/transactions/0/price"),
    (GOOD.replace(b"0.99", b"1e-400"), "out_of_range", "/transactions/0/price"),
    (GOOD.replace(b"0.99", b"9" * 5000), "out_of_range", ""),
    (GOOD.replace(b"0.99", b"1e99999999999999999999"), "out_of_range", ""),
    (with_line(amount=0.0005), "out_of_range", "/transactions/0/amount"),
    (with_line(amount=10**12), "out_of_range", "/transactions/0/amount"),
    (with_line(price=9_999_999_999_999, amount=2), "out_of_range", "/transactions/0/total"),
    (with_line(item_id="a\nb"), "out_of_range", "/transactions/0/item_id"),
    (pos(net_total="7.00"), "total_mismatch", "/net_total"),
]
BAD_INTERVALS: list[tuple[Any, str, str]] = [
    ({**TRAFFIC, "in": -1}, "out_of_range", "/in"),
    ({**TRAFFIC, "out": "2"}, "wrong_type", "/out"),
    ({**TRAFFIC, "in": 2.5}, "wrong_type", "/in"),
    ({**TRAFFIC, "interval_seconds": 0}, "out_of_range", "/interval_seconds"),
    ({**TRAFFIC, "interval_seconds": 3601}, "out_of_range", "/interval_seconds"),
    (without(TRAFFIC, "device_id"), "missing_field", "/device_id"),
    ({**TRAFFIC, "heartbeat": True}, "out_of_range", "/in"),
    ({**TRAFFIC, "revision": -1}, "out_of_range", "/revision"),
    ({**TRAFFIC, "heartbeat": "yes"}, "wrong_type", "/heartbeat"),
    ({"sensor": "accc00000001", **without(TRAFFIC, "store_id")}, "unknown_sensor", "/sensor"),
]


@pytest.mark.parametrize(("message", "reason", "field"), BAD_RECEIPTS)
def test_bad_receipt_is_rejected_with_reason_and_field(
    message: Any, reason: str, field: str
) -> None:
    with pytest.raises(RejectedEvent) as rejected:
        receipt(message)

    assert (rejected.value.reason, rejected.value.field) == (reason, field)


@pytest.mark.parametrize(("message", "reason", "field"), BAD_INTERVALS)
def test_bad_interval_is_rejected_with_reason_and_field(
    message: Any, reason: str, field: str
) -> None:
    with pytest.raises(RejectedEvent) as rejected:
        interval(message)

    assert (rejected.value.reason, rejected.value.field) == (reason, field)


def test_every_reason_of_one_message_is_in_these_tables() -> None:
    shown = {reason for _, reason, _ in (*BAD_RECEIPTS, *BAD_INTERVALS)}

    assert shown == set(loader.dead_letter_reasons()) - NOT_HERE


@pytest.mark.parametrize(
    "happened_at",
    ["2017-09-20T12:05:00Z", "2000-01-01T00:00:00Z", "2017-09-19t22:48:03.123456789z"],
)
def test_five_minutes_ahead_and_the_past_since_2000_are_taken(happened_at: str) -> None:
    assert receipt(pos(happened_at=happened_at)).receipts == 1


def test_history_before_2000_is_taken_where_the_setting_says_so() -> None:
    older = replace(RULES, earliest_event=date(1970, 1, 1))

    assert receipt(pos(happened_at="1970-01-01T00:00:00Z"), older).receipts == 1
    with pytest.raises(RejectedEvent, match="before 1970-01-01"):
        receipt(pos(happened_at="1969-12-31T23:59:59Z"), older)


def test_interval_may_end_where_its_window_ends() -> None:
    assert (
        interval({**TRAFFIC, "happened_at": "2017-09-19T22:59:00Z"}).event_id
        == "traffic:367:door-1:2017-09-19T22:59:00.000Z"
    )
