"""Windows, money, partitions, identity, redaction: tables of value and expected value."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from tally.errors import BadInstant
from tally.events.identity import event_id, fingerprint, partition_number
from tally.events.ledger import CanonicalLedger, RawLedger, late_pending
from tally.events.money import to_minor_units, to_thousandths
from tally.people.redact import redact_message
from tally.time.instants import format_utc, from_millis, parse_instant
from tally.time.windows import utc_days, window_start, window_starts


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2017-09-19T22:48:03+00:00", "2017-09-19T22:48:03.000Z"),
        ("2017-09-19T22:48:03.123456Z", "2017-09-19T22:48:03.123Z"),
        ("2017-09-20t00:48:03.9999+02:00", "2017-09-19T22:48:03.999Z"),
        ("2017-09-19T17:03:03-05:45", "2017-09-19T22:48:03.000Z"),
        # Spark reads years of four digits only.
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000Z"),
    ],
)
def test_instant_is_read_as_utc_milliseconds(text: str, expected: str) -> None:
    assert format_utc(parse_instant(text, "/happened_at")) == expected


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("2017-09-19T22:48:03", "without_zone"),
        ("19.09.2017 22:48", "not_rfc3339"),
        ("1505861283", "not_rfc3339"),
        ("2017-02-29T00:00:00Z", "not_rfc3339"),
        ("2017-09-19T22:48:60Z", "not_rfc3339"),
        ("0001-01-01T00:00:00+14:00", "not_rfc3339"),
        ("2017-09-19T22:48:03٠Z", "not_rfc3339"),
    ],
)
def test_instant_that_is_none_is_refused_and_told_what_is_wrong(text: str, kind: str) -> None:
    with pytest.raises(BadInstant) as caught:
        parse_instant(text, "/happened_at")

    assert caught.value.kind == kind
    assert str(caught.value).startswith(f"/happened_at: {text!r}")


@pytest.mark.parametrize(
    ("amount", "currency", "expected"),
    [
        ("0.125", "USD", 13),
        ("0.135", "USD", 14),
        ("-0.125", "EUR", -13),
        ("7.5", "JPY", 8),
        ("1.2345", "KWD", 1235),
    ],
)
def test_money_is_rounded_half_up_in_minor_units(amount: str, currency: str, expected: int) -> None:
    assert to_minor_units(Decimal(amount), currency) == expected


def test_amount_with_four_decimals_is_refused() -> None:
    with pytest.raises(ValueError, match="more than 3 decimals"):
        to_thousandths(Decimal("0.0001"))


def test_event_on_a_window_border_belongs_to_the_later_window() -> None:
    border = datetime(2017, 9, 19, 22, 45, tzinfo=UTC)

    assert window_start(border) == border
    assert window_starts(border, border.replace(hour=23, minute=15)) == [
        border,
        border.replace(hour=23, minute=0),
    ]


def test_days_of_a_span_are_utc_days_with_an_exclusive_end() -> None:
    assert utc_days(datetime(2017, 1, 1, tzinfo=UTC), datetime(2017, 1, 2, tzinfo=UTC)) == [
        date(2017, 1, 1)
    ]
    assert utc_days(datetime(2017, 1, 1, tzinfo=UTC), datetime(2017, 1, 1, tzinfo=UTC)) == []


def test_partition_of_a_store_is_fixed_for_ever() -> None:
    check_value = 0xCBF43926  # the published check value of CRC-32, of the text 123456789

    assert [partition_number("123456789", count) for count in (1, 4, 7)] == [
        0,
        check_value % 4,
        check_value % 7,
    ]
    assert {partition_number(str(store), 4) for store in range(100)} == {0, 1, 2, 3}


def test_fingerprint_does_not_depend_on_the_order_of_fields() -> None:
    assert (
        fingerprint({"a": 1, "b": [2]})
        == fingerprint({"b": [2], "a": 1})
        != fingerprint({"a": 1, "b": [3]})
    )
    assert event_id("pos", "1", "123", "0", "42") == "pos:1:123:0:42"


def test_kafka_millis_are_exact() -> None:
    assert format_utc(from_millis(1505861283001)) == "2017-09-19T22:48:03.001Z"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (b"mail ann@example.org", b"mail [redacted]"),
        (b"card 4111-1111-1111-1111.", b"card [redacted]."),
        (b'{"price": 1234.99, "n": 31198570044}', b'{"price": 1234.99, "n": 31198570044}'),
        (b"\xff not text 4111111111111111", b"\xff not text [redacted]"),
    ],
)
def test_what_looks_personal_is_redacted_and_the_rest_kept(message: bytes, expected: bytes) -> None:
    assert redact_message(message) == expected


def test_removing_a_record_from_any_bin_breaks_the_ledger() -> None:
    assert (
        RawLedger("posTransactionTopic", 0, committed=10, canonical=9, dead_letter=1).difference
        == 0
    )
    assert (
        RawLedger("posTransactionTopic", 0, committed=10, canonical=8, dead_letter=1).difference
        == 1
    )
    whole = {
        "committed": 10,
        "master": 10,
        "counted": 7,
        "duplicate": 2,
        "conflict": 1,
        "erased": 0,
        "unreadable": 0,
    }
    assert CanonicalLedger("sales", 0, **whole).holds
    assert not any(
        CanonicalLedger("sales", 0, **{**whole, name: whole[name] + 1}).holds for name in whole
    )


def test_late_pending_is_never_negative() -> None:
    assert (late_pending(5, 3), late_pending(3, 5)) == (2, 0)
