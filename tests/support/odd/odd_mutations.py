"""A seeded mutator of good messages."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from random import Random

from tests.support.odd.odd import body_of


def mutations(seed: int, count: int, now: datetime | None = None) -> Iterator[bytes]:
    """`count` POS messages, each a good one with one to three things changed; the same ones for
    the same seed and `now`."""
    random, at = Random(seed), (now or datetime.now(UTC)) - timedelta(minutes=1)
    for number in range(count):
        body = body_of(
            f"m{seed}-{number}", at, {"note": {"shift": [1, 2.5, None, True, "späti"]}}
        ).encode()
        for _ in range(random.choice((1, 1, 2, 3))):
            body = random.choice(_MUTATORS)(body, random)
        yield body


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
    """The value behind one colon is another: mostly still JSON, with a wrong type or an extreme
    value."""
    colons = [place for place, byte in enumerate(body) if byte == ord(":")]
    if not colons:
        return body
    place = random.choice(colons) + 1
    rest = body[place:]
    ends = [found for mark in (b",", b"}", b"]") if (found := rest.find(mark)) >= 0]
    return body[:place] + random.choice(_VALUES) + (rest[min(ends) :] if ends else b"")


def _add_field(body: bytes, random: Random) -> bytes:
    """One more field, of a known or an unknown name, with any of the values."""
    return body.replace(
        b"{", b"{" + random.choice(_NAMES) + b":" + random.choice(_VALUES) + b",", 1
    )


_NAMES = (
    b'"kind"',
    b'"currency"',
    b'"voids"',
    b'"numbering_epoch"',
    b'"loyalty_id"',
    b'"customer"',
    b'"x"',
    b'"store_id"',
    b'"\\u0078"',
)
_PIECES = (
    b'"',
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b",",
    b"\0",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\\u0000",
    b"\\ud800",
    b"9" * 50,
    b"-",
    b"e",
    b'"x":1,',
    b'"kind":"void",',
    b'"currency":"JPY",',
    b'"transaction_id":1,',
    b'"loyalty_id":"ann",',
    b"4111111111111111",
)
_VALUES = (
    b"null",
    b"true",
    b"0",
    b"-1",
    b"1e400",
    b"1e-400",
    b"1" * 400,
    b"0." + b"3" * 1200,
    b'""',
    b'"x"',
    b"[]",
    b"{}",
    b"[[[[1]]]]",
    b'"' + b"y" * 300 + b'"',
    b'{"a":{"b":1}}',
    b"999999999",
    b'"2017-09-19T22:48:03Z"',
    b'"9999-01-01T00:00:00Z"',
    b'"0001-01-01T00:00:00Z"',
    b'"\\u0000"',
    b'"\xf0\x9f\xa5\x9b"',
    b"NaN",
    b'"return"',
    b'"EUR"',
    b"2.5",
    b'"."',
)
_MUTATORS = (_cut, _flip, _insert, _double, _drop, *(_replace_value,) * 7, *(_add_field,) * 3)
