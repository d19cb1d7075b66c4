"""The newest value of each key, and what is logged of a record that cannot be read."""

import pytest
import structlog

from runtime.processor.step import Input, log_unreadable, newest_values


def record(partition: int, offset: int, key: bytes, value: bytes | None) -> Input:
    return Input("topic", partition, offset, 0, key, value)


def test_of_each_key_the_last_value_counts_in_the_order_of_writing() -> None:
    records = [
        record(0, 0, b"a", b"1"),
        record(1, 0, b"a", b"2"),
        record(0, 1, b"b", b"3"),
        record(0, 2, b"gone", b"4"),
        record(0, 3, b"a", b"5"),
        record(0, 4, b"gone", None),
        record(2, 0, b"c", None),
    ]

    found = newest_values(records, lambda one: int(one.value or b"0"))

    assert {number: [*values.items()] for number, values in found.items()} == {
        0: [(b"b", 3), (b"a", 5)],
        1: [(b"a", 2)],
        2: [],
    }


def test_each_value_is_parsed_and_an_error_is_not_hidden_by_a_later_value() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        newest_values([record(0, 0, b"a", b"x"), record(0, 1, b"a", b"1")], read_number)


def read_number(one: Input) -> int:
    return int(one.value or b"0")


def test_a_record_that_cannot_be_read_is_logged_with_its_place() -> None:
    with structlog.testing.capture_logs() as logged:
        log_unreadable(record(3, 7, b"a", b"x"), ValueError("y" * 500))

    assert logged == [
        {
            "event": "record not understood and left out",
            "log_level": "error",
            "topic": "topic",
            "partition": 3,
            "offset": 7,
            "reason": "y" * 200,
        }
    ]
