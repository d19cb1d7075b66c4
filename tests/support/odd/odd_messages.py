"""Messages that no till should send and some day one does: by name, with what becomes of each,
and a seeded mutator of good ones."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.support.odd.odd import ACCEPTED, MILK, STORE, Odd, body_of, identifier_of, pos, raw
from tests.support.odd.odd_numbers import names_and_sizes, numbers


def odd_messages(now: datetime | None = None) -> list[Odd]:
    """Every odd message, all of another identity, happened a minute before `now` unless its time
    is what is odd."""
    at = (now or datetime.now(UTC)) - timedelta(minutes=1)
    made = [
        *numbers(at),
        *names_and_sizes(at),
        *_texts(at),
        *_bytes(at),
        *_times(at),
        *_fields(at),
        *_large(at),
        *_intervals(at),
    ]
    assert len({odd.name for odd in made}) == len(made)
    return made


def _texts(at: datetime) -> list[Odd]:
    return [
        raw("lone high surrogate", "not_json", at, '"here"', r'"\ud800"'),
        raw("lone low surrogate in a name", "not_json", at, '"unknown"', r'"\udc00"'),
        pos("emoji by surrogate pair", ACCEPTED, at, line={"item": "\U0001f95b"}),
        pos("NUL in an item", ACCEPTED, at, line={"item": "a\0b"}),
        pos(
            "item with a line break and a forged log line",
            ACCEPTED,
            at,
            line={"item": "milk\r\nlevel=error msg=forged"},
        ),
        pos("item with HTML", ACCEPTED, at, line={"item": "<script>alert(1)</script>"}),
        pos(
            "item that is a formula",
            ACCEPTED,
            at,
            line={"item": '=HYPERLINK("http://example.org")'},
        ),
        pos("item with right-to-left override", ACCEPTED, at, line={"item": "milk\u202eklim"}),
        pos(
            "store that drops tables",
            "out_of_range",
            at,
            {"operation_id": "'; DROP TABLE sales_15min; --"},
        ),
        pos("store dot", "out_of_range", at, {"operation_id": "."}),
        pos("store dot dot", "out_of_range", at, {"operation_id": ".."}),
        pos("receipt number with colons", ACCEPTED, at, {"transaction_id": "0:42:colons"}),
        pos(
            "receipt number with a control character",
            "out_of_range",
            at,
            {"transaction_id": "42\x01"},
        ),
    ]


def _bytes(at: datetime) -> list[Odd]:
    good = body_of("good", at).encode()
    return [
        Odd("empty", "pos", b"", "not_json"),
        Odd("white space only", "pos", b" \t ", "not_json"),
        Odd("cut in the middle", "pos", good[: len(good) // 2], "not_json"),
        Odd("byte order mark", "pos", b"\xef\xbb\xbf" + good, "not_json"),
        Odd("UTF-16", "pos", good.decode().encode("utf-16"), "not_utf8"),
        Odd("NUL bytes behind", "pos", good + b"\0\0", "not_json"),
        Odd("two objects", "pos", good + b" " + good, "not_json"),
        Odd("a list", "pos", b"[" + good + b"]", "wrong_type"),
        Odd("null", "pos", b"null", "wrong_type"),
        raw("byte that is no UTF-8", "not_utf8", at, "Milk", b"M\xff"),
        raw("overlong UTF-8", "not_utf8", at, "Milk", b"M\xc0\xaf"),
        raw(
            "duplicate key",
            "duplicate_field",
            at,
            '"unknown": "here"',
            '"kind": "sale", "kind": "void"',
        ),
        raw(
            "duplicate key in unknown fields",
            "duplicate_field",
            at,
            '"here"',
            '{"a": 1, "\\u0061": 2}',
        ),
        raw(
            "line breaks of all kinds between fields",
            ACCEPTED,
            at,
            '"unknown"',
            '\r\n\n\r\t"unknown"',
        ),
    ]


def _times(at: datetime) -> list[Odd]:
    given = {
        "year 0": ("0000-01-01T00:00:00Z", "timestamp_not_rfc3339"),
        "year 1": ("0001-01-01T00:00:00Z", "clock_reset"),
        "a day that the Gregorian reform left out": ("1582-10-10T12:00:00Z", "clock_reset"),
        "year 2000": ("2000-01-01T00:00:00Z", ACCEPTED),
        "year 9999": ("9999-12-31T23:59:59Z", "future_time"),
        "year 10000": ("10000-01-01T00:00:00Z", "timestamp_not_rfc3339"),
        "year 300000": ("+300000-01-01T00:00:00Z", "timestamp_not_rfc3339"),
        "before year 1 by its offset": ("0001-01-01T00:00:00+14:00", "timestamp_not_rfc3339"),
        "leap second": ("2016-12-31T23:59:60Z", "timestamp_not_rfc3339"),
        "offset of 24 hours": ("2017-09-19T22:48:03+24:00", "timestamp_not_rfc3339"),
        "no offset": ("2017-09-19T22:48:03", "timestamp_without_zone"),
        "30 February": ("2017-02-30T00:00:00Z", "timestamp_not_rfc3339"),
        "Arabic digits": ("٢٠١٧-09-19T22:48:03Z", "timestamp_not_rfc3339"),
    }
    odd = [pos(name, outcome, at, {"happened_at": text}) for name, (text, outcome) in given.items()]
    milliseconds = int(at.timestamp() * 1000)
    return [
        *odd,
        pos("tomorrow", "future_time", at, {"happened_at": (at + timedelta(days=1)).isoformat()}),
        pos("time as milliseconds", "wrong_type", at, {"happened_at": milliseconds}),
        pos(
            "nine hundred digits of a second",
            ACCEPTED,
            at,
            {"happened_at": f"{at:%Y-%m-%dT%H:%M:%S}.{'1' * 900}Z"},
        ),
    ]


def _fields(at: datetime) -> list[Odd]:
    return [
        pos("currency for tests", "out_of_range", at, {"currency": "XTS"}),
        pos("no currency", "out_of_range", at, {"currency": "XXX"}),
        pos("currency that is none", "out_of_range", at, {"currency": "ZZZ"}),
        pos("version of tomorrow", "unknown_schema_version", at, {"schema_version": 2}),
        pos("kind that is a list", "wrong_type", at, {"kind": ["sale"]}),
        pos("loyalty id as a number", "wrong_type", at, {"loyalty_id": 31198570044}),
        pos("void of nothing", "missing_field", at, {"kind": "void", "voids": {}}),
        pos(
            "known name inside an unknown field",
            ACCEPTED,
            at,
            {"note": {"store_id": "other", "event_id": None, "fingerprint": 1}},
        ),
        pos(
            "names of the canonical record",
            ACCEPTED,
            at,
            {"gross_minor": "x", "lines": 7, "store_id": [], "event_id": {}},
        ),
    ]


def _large(at: datetime) -> list[Odd]:
    """Receipts of about 800 kB, all of one store: together more than one batch to any database
    may hold."""
    lines = [{**MILK, "item": "é" * 256, "category": "ä" * 100} for _ in range(1000)]
    made = []
    for number in range(20):
        name = f"receipt of 800 kB, number {number}"
        receipt = json.loads(body_of(name, at, {"transactions": lines}))
        made.append(Odd(name, "pos", json.dumps(receipt, ensure_ascii=False).encode(), ACCEPTED))
    return made


def _intervals(at: datetime) -> list[Odd]:
    start = at.replace(minute=at.minute - at.minute % 15, second=0, microsecond=0)
    good = {
        "store_id": STORE,
        "device_id": "door",
        "happened_at": start.isoformat(),
        "interval_seconds": 1,
        "in": 3,
        "out": 2,
    }

    def interval(name: str, outcome: str, **changes: Any) -> Odd:
        return Odd(
            name,
            "traffic",
            json.dumps({**good, "device_id": identifier_of(name), **changes}).encode(),
            outcome,
        )

    return [
        interval(
            "interval across windows",
            ACCEPTED,
            interval_seconds=900,
            # Over before `at`, whatever minute of the quarter hour that is.
            happened_at=(start - 1.5 * WINDOW).isoformat(),
        ),
        interval("interval of an hour and a second", "out_of_range", interval_seconds=3601),
        interval("interval with a count below zero", "out_of_range", **{"in": -1}),
        interval("interval with half a person", "wrong_type", **{"in": 0.5}),
        interval("interval with whole persons as decimals", ACCEPTED, **{"in": 3.0}),
        interval("interval with ten million persons", "out_of_range", out=10**7),
        interval("interval of a device with a colon", ACCEPTED, device_id="aa:bb"),
        interval("interval with a long unknown name", "too_large", **{"n" * 300: 1}),
        interval("interval of year 1", "clock_reset", happened_at="0001-01-01T00:00:00Z"),
    ]


WINDOW = timedelta(minutes=15)
