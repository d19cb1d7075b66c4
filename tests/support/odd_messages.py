"""Messages that no till should send and some day one does: by name, with what becomes of each, and a seeded mutator of good ones."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

STORE = "odd"
ACCEPTED = "accepted"
_MILK = {"item": "Milk 1l", "price": 0.99, "amount": 2}


@dataclass(frozen=True)
class Odd:
    """One message: kind `pos` or `traffic`, and its outcome, `accepted` or the reason of its rejection."""

    name: str
    kind: str
    body: bytes
    outcome: str


def odd_messages(now: datetime | None = None) -> list[Odd]:
    """Every odd message, all of another identity, happened a minute before `now` unless its time is what is odd."""
    at = (now or datetime.now(UTC)) - timedelta(minutes=1)
    made = [*_numbers(at), *_names_and_sizes(at), *_texts(at), *_bytes(at), *_times(at), *_fields(at), *_large(at), *_intervals(at)]
    assert len({odd.name for odd in made}) == len(made)
    return made


def mutations(seed: int, count: int, now: datetime | None = None) -> Iterator[bytes]:
    """`count` POS messages, each a good one with one to three things changed; the same ones for the same seed and `now`."""
    random, at = Random(seed), (now or datetime.now(UTC)) - timedelta(minutes=1)
    for number in range(count):
        body = _body(f"m{seed}-{number}", at, {"note": {"shift": [1, 2.5, None, True, "späti"]}}).encode()
        for _ in range(random.choice((1, 1, 2, 3))):
            body = random.choice(_MUTATORS)(body, random)
        yield body


def _identifier(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", name)[:64]


def _body(name: str, at: datetime, fields: dict[str, Any] | None = None, line: dict[str, Any] | None = None) -> str:
    receipt = {
        "happened_at": at.isoformat(timespec="milliseconds"), "operation_id": STORE, "vendor_fiscal_module": 1,
        "transaction_id": _identifier(name), "transactions": [{**_MILK, **(line or {})}], **(fields or {}),
    }  # fmt: skip
    return json.dumps(receipt)


def _pos(name: str, outcome: str, at: datetime, fields: dict[str, Any] | None = None, line: dict[str, Any] | None = None) -> Odd:
    return Odd(name, "pos", _body(name, at, fields, line).encode(), outcome)


def _raw(name: str, outcome: str, at: datetime, old: str, new: str | bytes) -> Odd:
    """The good message with one piece of its text replaced by what no encoder would write."""
    body = _body(name, at, {"unknown": "here"}).encode()
    assert old.encode() in body
    return Odd(name, "pos", body.replace(old.encode(), new.encode() if isinstance(new, str) else new, 1), outcome)


def _numbers(at: datetime) -> list[Odd]:
    return [
        _raw("2,000 digits in an unknown field", ACCEPTED, at, '"here"', "1." + "3" * 2000),
        _raw("whole number of 900 digits in an unknown field", ACCEPTED, at, '"here"', "9" * 900),
        _raw("whole number of 5,000 digits in an unknown field", "out_of_range", at, '"here"', "9" * 5000),
        _raw("number of 40,000 digits in an unknown field", "too_large", at, '"here"', "0." + "7" * 40_000),
        _raw("exponent of 400 in an unknown field", ACCEPTED, at, '"here"', "1e400"),
        _raw("exponent of 20 digits in an unknown field", "out_of_range", at, '"here"', "1e99999999999999999999"),
        _raw("minus zero in an unknown field", ACCEPTED, at, '"here"', "-0.0"),
        _raw("whole number beyond 64 bits in an unknown field", ACCEPTED, at, '"here"', "18446744073709551616"),
        _raw("price of 2,000 digits", "out_of_range", at, "0.99", "0." + "9" * 2000),
        _raw("price 1e400", "out_of_range", at, "0.99", "1e400"),
        _raw("price minus zero", ACCEPTED, at, "0.99", "-0.0"),
        _raw("price with a comma", "not_json", at, "0.99", "0,99"),
        _raw("NaN", "not_json", at, "0.99", "NaN"),
        _raw("Infinity", "not_json", at, "0.99", "-Infinity"),
        _pos("price as the text NaN", "wrong_type", at, line={"price": "NaN"}),
        _pos("amount of a trillion", "out_of_range", at, line={"amount": 10**12}),
        _pos("receipt of more than ten to the twelve", "out_of_range", at, {"transactions": [_dear(900_000_000)] * 12}),
        _pos("receipt of just below ten to the twelve", ACCEPTED, at, {"transactions": [_dear(900_000_000)] * 11}),
    ]


def _dear(price: int) -> dict[str, Any]:
    return {"item": "ring", "price": price, "amount": 1}


def _names_and_sizes(at: datetime) -> list[Odd]:
    deep: Any = "bottom"
    for _ in range(60):
        deep = [deep]
    return [
        _pos("name of 256 characters", ACCEPTED, at, {"n" * 256: 1}),
        _pos("name of 257 characters", "too_large", at, {"n" * 257: 1}),
        _pos("name of 60,000 characters", "too_large", at, {"n" * 60_000: 1}),
        _pos("name of 60,000 characters inside", "too_large", at, {"note": [{"n" * 60_000: 1}]}),
        _pos("empty name", ACCEPTED, at, {"": 1}),
        _pos("unknown text of 16,000 characters", ACCEPTED, at, {"note": "x" * 16_000}),
        _pos("unknown text of 20,000 characters", "too_large", at, {"note": "x" * 20_000}),
        _pos("50,000 unknown fields", "too_large", at, {f"f{number}": 1 for number in range(50_000)}),
        _pos("nested 60 deep", "too_deep", at, {"note": deep}),
        _raw("nested 100,000 deep", "too_deep", at, '"here"', "[" * 100_000 + "]" * 100_000),
        _pos("a thousand and one lines", "out_of_range", at, {"transactions": [_MILK] * 1001}),
        _pos("a thousand lines", ACCEPTED, at, {"transactions": [_MILK] * 1000}),
        _pos("above a million bytes", "too_large", at, {"note": "x" * 1_000_000}),
        _pos("item of 257 characters", "out_of_range", at, line={"item": "i" * 257}),
    ]


def _texts(at: datetime) -> list[Odd]:
    return [
        _raw("lone high surrogate", "not_json", at, '"here"', r'"\ud800"'),
        _raw("lone low surrogate in a name", "not_json", at, '"unknown"', r'"\udc00"'),
        _pos("emoji by surrogate pair", ACCEPTED, at, line={"item": "\U0001f95b"}),
        _pos("NUL in an item", ACCEPTED, at, line={"item": "a\0b"}),
        _pos("item with a line break and a forged log line", ACCEPTED, at, line={"item": "milk\r\nlevel=error msg=forged"}),
        _pos("item with HTML", ACCEPTED, at, line={"item": "<script>alert(1)</script>"}),
        _pos("item that is a formula", ACCEPTED, at, line={"item": '=HYPERLINK("http://example.org")'}),
        _pos("item with right-to-left override", ACCEPTED, at, line={"item": "milk\u202eklim"}),
        _pos("store that drops tables", "out_of_range", at, {"operation_id": "'; DROP TABLE sales_15min; --"}),
        _pos("store dot", "out_of_range", at, {"operation_id": "."}),
        _pos("store dot dot", "out_of_range", at, {"operation_id": ".."}),
        _pos("receipt number with colons", ACCEPTED, at, {"transaction_id": "0:42:colons"}),
        _pos("receipt number with a letter that is no ASCII", "out_of_range", at, {"transaction_id": "42é"}),
    ]


def _bytes(at: datetime) -> list[Odd]:
    good = _body("good", at).encode()
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
        _raw("byte that is no UTF-8", "not_utf8", at, "Milk", b"M\xff"),
        _raw("overlong UTF-8", "not_utf8", at, "Milk", b"M\xc0\xaf"),
        _raw("duplicate key", "duplicate_field", at, '"unknown": "here"', '"kind": "sale", "kind": "void"'),
        _raw("duplicate key in unknown fields", "duplicate_field", at, '"here"', '{"a": 1, "\\u0061": 2}'),
        _raw("line breaks of all kinds between fields", ACCEPTED, at, '"unknown"', '\r\n\n\r\t"unknown"'),
    ]


def _times(at: datetime) -> list[Odd]:
    given = {
        "year 0": ("0000-01-01T00:00:00Z", "timestamp_not_rfc3339"),
        "year 1": ("0001-01-01T00:00:00Z", ACCEPTED),
        "a day that the Gregorian reform left out": ("1582-10-10T12:00:00Z", ACCEPTED),
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
    odd = [_pos(name, outcome, at, {"happened_at": text}) for name, (text, outcome) in given.items()]
    milliseconds = int(at.timestamp() * 1000)
    return [
        *odd,
        _pos("tomorrow", "future_time", at, {"happened_at": (at + timedelta(days=1)).isoformat()}),
        _pos("time as milliseconds", "wrong_type", at, {"happened_at": milliseconds}),
        _pos("nine hundred digits of a second", ACCEPTED, at, {"happened_at": f"{at:%Y-%m-%dT%H:%M:%S}.{'1' * 900}Z"}),
    ]


def _fields(at: datetime) -> list[Odd]:
    return [
        _pos("currency for tests", "out_of_range", at, {"currency": "XTS"}),
        _pos("no currency", "out_of_range", at, {"currency": "XXX"}),
        _pos("currency that is none", "out_of_range", at, {"currency": "ZZZ"}),
        _pos("version of tomorrow", "unknown_schema_version", at, {"schema_version": 2}),
        _pos("kind that is a list", "wrong_type", at, {"kind": ["sale"]}),
        _pos("loyalty id as a number", "wrong_type", at, {"loyalty_id": 31198570044}),
        _pos("void of nothing", "missing_field", at, {"kind": "void", "voids": {}}),
        _pos("known name inside an unknown field", ACCEPTED, at, {"note": {"store_id": "other", "event_id": None, "fingerprint": 1}}),
        _pos("names of the canonical record", ACCEPTED, at, {"gross_minor": "x", "lines": 7, "store_id": [], "event_id": {}}),
    ]


def _large(at: datetime) -> list[Odd]:
    """Receipts of about 800 kB, all of one store: together more than one batch to any database may hold."""
    lines = [{**_MILK, "item": "é" * 256, "category": "ä" * 100} for _ in range(1000)]
    made = []
    for number in range(20):
        name = f"receipt of 800 kB, number {number}"
        receipt = json.loads(_body(name, at, {"transactions": lines}))
        made.append(Odd(name, "pos", json.dumps(receipt, ensure_ascii=False).encode(), ACCEPTED))
    return made


def _intervals(at: datetime) -> list[Odd]:
    start = at.replace(minute=at.minute - at.minute % 15, second=0, microsecond=0)
    good = {"store_id": STORE, "device_id": "door", "happened_at": start.isoformat(), "interval_seconds": 1, "in": 3, "out": 2}

    def interval(name: str, outcome: str, **changes: Any) -> Odd:
        return Odd(name, "traffic", json.dumps({**good, "device_id": _identifier(name), **changes}).encode(), outcome)

    return [
        interval("interval across windows", "interval_crosses_window", interval_seconds=900, happened_at=(start - WINDOW / 2).isoformat()),
        interval("interval with a count below zero", "out_of_range", **{"in": -1}),
        interval("interval with half a person", "wrong_type", **{"in": 0.5}),
        interval("interval with whole persons as decimals", ACCEPTED, **{"in": 3.0}),
        interval("interval with ten million persons", "out_of_range", out=10**7),
        interval("interval of a device with a colon", ACCEPTED, device_id="aa:bb"),
        interval("interval with a long unknown name", "too_large", **{"n" * 300: 1}),
        interval("interval of year 1", ACCEPTED, happened_at="0001-01-01T00:00:00Z"),
    ]


WINDOW = timedelta(minutes=15)


def _cut(body: bytes, random: Random) -> bytes:
    return body[: random.randrange(len(body) + 1)]


def _flip(body: bytes, random: Random) -> bytes:
    place = random.randrange(len(body) + 1)
    return body[:place] + bytes([random.randrange(256)]) + body[place + 1 :]


def _insert(body: bytes, random: Random) -> bytes:
    place = random.randrange(len(body) + 1)
    return body[:place] + random.choice(_PIECES) + body[place:]


def _double(body: bytes, random: Random) -> bytes:
    begin, end = sorted(random.randrange(len(body) + 1) for _ in range(2))
    return body[:end] + body[begin:end] + body[end:]


def _drop(body: bytes, random: Random) -> bytes:
    begin = random.randrange(len(body) + 1)
    return body[:begin] + body[begin + random.randint(1, 12) :]


def _replace_value(body: bytes, random: Random) -> bytes:
    """The value behind one colon is another: mostly still JSON, with a wrong type or an extreme value."""
    colons = [place for place, byte in enumerate(body) if byte == ord(":")]
    if not colons:
        return body
    place = random.choice(colons) + 1
    rest = body[place:]
    ends = [found for mark in (b",", b"}", b"]") if (found := rest.find(mark)) >= 0]
    return body[:place] + random.choice(_VALUES) + (rest[min(ends) :] if ends else b"")


def _add_field(body: bytes, random: Random) -> bytes:
    """One more field, of a known or an unknown name, with any of the values."""
    return body.replace(b"{", b"{" + random.choice(_NAMES) + b":" + random.choice(_VALUES) + b",", 1)


_NAMES = (b'"kind"', b'"currency"', b'"voids"', b'"numbering_epoch"', b'"loyalty_id"', b'"customer"', b'"x"', b'"store_id"', b'"\\u0078"')
_PIECES = (
    b'"', b"\\", b"{", b"}", b"[", b"]", b":", b",", b"\0", b"\xff", b"\xef\xbb\xbf", b"\\u0000", b"\\ud800", b"9" * 50, b"-", b"e",
    b'"x":1,', b'"kind":"void",', b'"currency":"JPY",', b'"transaction_id":1,', b'"loyalty_id":"ann",', b"4111111111111111",
)  # fmt: skip
_VALUES = (
    b"null", b"true", b"0", b"-1", b"1e400", b"1e-400", b"1" * 400, b"0." + b"3" * 1200, b'""', b'"x"', b"[]", b"{}", b"[[[[1]]]]",
    b'"' + b"y" * 300 + b'"', b'{"a":{"b":1}}', b"999999999", b'"2017-09-19T22:48:03Z"', b'"9999-01-01T00:00:00Z"',
    b'"0001-01-01T00:00:00Z"', b'"\\u0000"', b'"\xf0\x9f\xa5\x9b"', b"NaN", b'"return"', b'"EUR"', b"2.5", b'"."',
)  # fmt: skip
_MUTATORS = (_cut, _flip, _insert, _double, _drop, *(_replace_value,) * 7, *(_add_field,) * 3)
