"""Odd messages by their numbers, names and sizes."""

from datetime import datetime
from typing import Any

from tests.support.odd.odd import ACCEPTED, MILK, Odd, pos, raw


def numbers(at: datetime) -> list[Odd]:
    """Numbers that one of the parts behind cannot hold."""

    def here(name: str, outcome: str, number: str) -> Odd:
        return raw(f"{name} in an unknown field", outcome, at, '"here"', number)

    return [
        here("2,000 digits", ACCEPTED, "1." + "3" * 2000),
        here("whole number of 900 digits", ACCEPTED, "9" * 900),
        here("whole number of 5,000 digits", "out_of_range", "9" * 5000),
        here("number of 40,000 digits", "too_large", "0." + "7" * 40_000),
        here("exponent of 400", ACCEPTED, "1e400"),
        here("exponent of 20 digits", "out_of_range", "1e99999999999999999999"),
        here("minus zero", ACCEPTED, "-0.0"),
        here("whole number beyond 64 bits", ACCEPTED, "18446744073709551616"),
        raw("price of 2,000 digits", "out_of_range", at, "0.99", "0." + "9" * 2000),
        raw("price 1e400", "out_of_range", at, "0.99", "1e400"),
        raw("price minus zero", ACCEPTED, at, "0.99", "-0.0"),
        raw("price with a comma", "not_json", at, "0.99", "0,99"),
        raw("NaN", "not_json", at, "0.99", "NaN"),
        raw("Infinity", "not_json", at, "0.99", "-Infinity"),
        pos("price as the text NaN", "wrong_type", at, line={"price": "NaN"}),
        pos("amount of a trillion", "out_of_range", at, line={"amount": 10**12}),
        pos(
            "receipt of more than ten to the twelve",
            "out_of_range",
            at,
            {"transactions": [_dear(900_000_000)] * 12},
        ),
        pos(
            "receipt of just below ten to the twelve",
            ACCEPTED,
            at,
            {"transactions": [_dear(900_000_000)] * 11},
        ),
    ]


def _dear(price: int) -> dict[str, Any]:
    return {"item": "ring", "price": price, "amount": 1}


def names_and_sizes(at: datetime) -> list[Odd]:
    deep: Any = "bottom"
    for _ in range(60):
        deep = [deep]
    return [
        pos("name of 256 characters", ACCEPTED, at, {"n" * 256: 1}),
        pos("name of 257 characters", "too_large", at, {"n" * 257: 1}),
        pos("name of 60,000 characters", "too_large", at, {"n" * 60_000: 1}),
        pos("name of 60,000 characters inside", "too_large", at, {"note": [{"n" * 60_000: 1}]}),
        pos("empty name", ACCEPTED, at, {"": 1}),
        pos("unknown text of 16,000 characters", ACCEPTED, at, {"note": "x" * 16_000}),
        pos("unknown text of 20,000 characters", "too_large", at, {"note": "x" * 20_000}),
        pos(
            "50,000 unknown fields", "too_large", at, {f"f{number}": 1 for number in range(50_000)}
        ),
        pos("nested 60 deep", "too_deep", at, {"note": deep}),
        raw("nested 100,000 deep", "too_deep", at, '"here"', "[" * 100_000 + "]" * 100_000),
        pos("a thousand and one lines", "out_of_range", at, {"transactions": [MILK] * 1001}),
        pos("a thousand lines", ACCEPTED, at, {"transactions": [MILK] * 1000}),
        pos("above a million bytes", "too_large", at, {"note": "x" * 1_000_000}),
        pos("item of 257 characters", "out_of_range", at, line={"item": "i" * 257}),
    ]
