"""What is personal is blacked out, what looks like it is kept, and the cost is linear."""

import json
import sys
import time
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tally.people.personal import is_barcode
from tally.people.redact import MARK, is_personal, redact_message, redact_text, redact_value
from tests.support.stack.nominal_processor import lowest_ratio

CARDS = [
    "4111111111111111",
    "4012888888881881",
    "4222222222222",
    "5555555555554444",
    "2223003122003222",
    "378282246310005",
    "30569309025904",
    "3530111333300000",
    "6011111111111117",
    "6304000000000000",
    "2200000000000004",
    "4917610000000000003",
]
OTHERS = [
    *CARDS,
    "4111 1111 1111 1111",
    "4111-1111-1111-1111",
    "3782 822463 10005",
    "DE89370400440532013000",
    "GB29 NWBK 6016 1331 9268 19",
    "ann@example.org",
    "ann.o'hara+x@mail.example.co.uk",
    "aa:bb:cc:dd:ee:ff",
    "AA-BB-CC-DD-EE-0F",
    "aabb.ccdd.eeff",
    "+49 171 1234567",
    "+14155552671",
    "(555) 123-4567",
    "555-123-4567",
    "030 1234567",
    "06 12 34 56 78",
    "0049 171 1234567",
]
KEPT = [
    "1505861283000",
    "1505861283000000",
    "1505861283000000000",
    "4111111111111112",
    "0.4111111111111111",
    "2017-09-19T22:48:03+00:00",
    "2017-09-19 22:48",
    "Milk 1l",
    "12 x 1.5 l",
    "2017-01-01",
    "192.168.1.10",
    "31198570044",
    "12:30:45",
    "AB12CD",
    "item-4711-x",
    "@home",
    "a@b",
    "3.14159265358979",
    "1234567890",
    "00001234567890123",
    "9" * 30,
    "DE00370400440532013000",
    "5000-7000",
    "1/2/3",
]
NAMES = [
    "loyalty_id",
    "LoyaltyId",
    "customer",
    "customer_name",
    "name",
    "first name",
    "e-mail",
    "phoneNumber",
    "iban",
    "MAC",
    "device_mac",
    "pan",
]


@pytest.mark.parametrize("personal", OTHERS)
def test_what_is_personal_is_blacked_out_of_texts_and_messages(personal: str) -> None:
    assert redact_text(f"for {personal}, thanks") == f"for {MARK}, thanks"
    for message in (
        f"x {personal}",
        json.dumps({"note": personal}),
        json.dumps({"n": [f"a {personal} b"]}),
        f'{{"note": "{personal}',
    ):
        clean = redact_message(message.encode()).decode()
        assert personal not in clean and MARK in clean


@pytest.mark.parametrize("text", KEPT)
def test_what_is_not_is_kept(text: str) -> None:
    assert redact_text(text) == text
    assert redact_message(text.encode()) == text.encode()
    assert (
        redact_message(json.dumps({"note": text}).encode()) == json.dumps({"note": text}).encode()
    )


@pytest.mark.parametrize(
    "text", ["2 4111111111111111", "4111 1111 1111 1111 3", "2017 4111 1111 1111 1111 2"]
)
def test_a_card_beside_other_numbers_is_found(text: str) -> None:
    assert "1111" not in redact_text(text)


def test_thousand_barcodes_are_kept_where_barcodes_are_expected() -> None:
    random = Random(9)
    for _ in range(1000):
        for length in (13, 14):
            code = gtin(random, length)
            assert is_barcode(code)
            message = json.dumps(
                {"item": code, "item_id": int(code) if code[0] != "0" else code, "ean": code}
            ).encode()
            assert (redact_value("item", code), redact_message(message)) == (code, message)


def gtin(random: Random, length: int) -> str:
    body = "".join(random.choices("0123456789", k=length - 1))
    total = sum(
        int(digit) * (3 if place % 2 == 0 else 1) for place, digit in enumerate(reversed(body))
    )
    return body + str(-total % 10)


def luhn(digits: str) -> bool:
    """The textbook form, independent of the code under test."""
    total = 0
    for place, digit in enumerate(reversed(digits)):
        doubled = int(digit) * (place % 2 + 1)
        total += doubled - 9 if doubled > 9 else doubled
    return total % 10 == 0


@given(st.from_regex(r"4[0-9]{15}|5[1-5][0-9]{14}|3[47][0-9]{13}", fullmatch=True))
def test_a_number_of_an_issuer_is_a_card_if_and_only_if_its_check_digit_is_right(
    digits: str,
) -> None:
    assert (redact_text(digits) == MARK) == luhn(digits)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "value",
    [
        '"Xaver1"',
        "8675",
        '["Xaver1", 8675]',
        '{"a": {"b": "Xaver1"}}',
        '"Xa\\"ver1 Xaver1"',
        "true",
    ],
)
def test_the_value_of_a_personal_name_is_blacked_out_wherever_the_message_is_cut(
    name: str, value: str
) -> None:
    whole = f'{{"store": 1, "deep": [{{"{name}": {value}, "kept": "milk"}}], "last": 2}}'
    assert is_personal(name)

    assert json.loads(redact_message(whole.encode()))["deep"][0] == {name: MARK, "kept": "milk"}
    for end in range(len(whole)):
        clean = redact_message(whole[:end].encode()).decode()
        assert "Xav" not in clean and "867" not in clean


@pytest.mark.parametrize(
    "message",
    [
        rb'{"loyalty\u005fid": "Xaver1"}',
        rb'{"loyalty_id"  :  "Xaver1"',
        b"{'loyalty_id': 'Xaver1'}",
        b"loyalty_id=Xaver1&x=1",
        b'{"a": "b, "loyalty_id": "Xaver1"}',
        rb'{"p": "{\"loyalty_id\": \"Xaver1\"}"}',
        b"loyalty_id: Xaver1\nnext: 2",
        '{"loyalty_id": "Xaver1"}'.encode("utf-16"),
        '{"loyalty_id": "Xaver1"}'.encode("utf-16-be"),
        b'\xff{"LOYALTY-ID":"Xaver1',
        rb'{"loyalty_id": "a\u0022 Xaver1"}',
        rb'{"note": "\u0034111 1111 1111 1111 Xaver1@example.org"}',
        b'{"loyalty_id": Xaver1}',
        rb'{"p": "{\"note\": \"\\u0034111111111111111 Xaver1@mail.org\"}"}',
    ],
)
def test_broken_and_escaped_messages_hide_nothing(message: bytes) -> None:
    clean = redact_message(message).replace(b"\0", b"")

    assert b"Xaver1" not in clean and b"111111" not in clean


def test_a_personal_value_is_not_left_in_another_field() -> None:
    message = (
        b'{"note": "for Xaver1-99", "loyalty_id": "Xaver1-99", "name": "Al", "item": "Alu foil,'
        b' Xaver1-99"}'
    )

    assert (
        redact_message(message)
        == b'{"note": "for [redacted]", "loyalty_id": "[redacted]", "name": "[redacted]", "item":'
        b' "Alu foil, [redacted]"}'
    )


def test_a_message_with_nothing_personal_is_kept_byte_by_byte() -> None:
    message = b'{"a" :1.10, "b":"\\u0041\\n\\u00e9", "c":[1,2]}\xff\0'

    assert redact_message(message) is message


UNITS = [
    "a",
    "@",
    "a@b.",
    "4",
    "4 ",
    "4444 ",
    "4111111111111112 ",
    "a@b.cc ",
    '"name":1,',
    "name=",
    '"name":[',
    "loyalty",
    "\\u0041a",
    "\\",
    "DE89370400440532013001 ",
    "+1 ",
    "aa:",
    "030 12",
    "(",
    '"',
    '"loyalty" ',
    "é@",
    "1,",
    " ",
    "\\\\u0034",
]


@pytest.mark.parametrize("unit", UNITS)
def test_cost_is_linear_in_the_length(unit: str) -> None:
    assert_linear(unit)


@pytest.mark.parametrize("unit", [*UNITS, "a@" + "b" * 60, "a.", "4 1"])
def test_a_million_bytes_cost_no_more_than_a_few_times_what_reading_them_as_json_costs(
    unit: str,
) -> None:
    # No absolute time: what a machine takes differs. A million digits, the worst of these, take
    # four to five and a half times as long as reading.
    message = (unit * (1_000_000 // len(unit))).encode()
    numbers = ("[" + "0," * 499_999 + "0]").encode()

    found = lowest_ratio(lambda: seconds(message), lambda: seconds(numbers, json.loads), 8)

    assert found < 8


@settings(max_examples=25, deadline=None)
@given(st.text(min_size=1, max_size=12))
def test_cost_is_linear_whatever_is_repeated(unit: str) -> None:
    assert_linear(unit)


def assert_linear(unit: str) -> None:
    small, large = ((unit * (size // len(unit))).encode() for size in (25_000, 200_000))
    # Eight times the length: a quadratic cost would be 64 times. The floor keeps the clock's own
    # grain out.
    found = lowest_ratio(lambda: seconds(large), lambda: max(seconds(small), 0.0005), 24)

    assert found < 24


def seconds(message: bytes, work: Callable[[bytes], object] = redact_message) -> float:
    """The best of three, in processor time: other processes do not count."""
    # `make coverage` counts lines: that costs Python code its time, and the parser of JSON none.
    tracing = sys.gettrace()
    sys.settrace(None)
    taken = []
    for _ in range(3):
        begun = time.process_time()
        work(message)
        taken.append(time.process_time() - begun)
    sys.settrace(tracing)
    return min(taken)
