"""What a rebuild finds when it compares what Cassandra holds with what the records say."""

from types import SimpleNamespace
from typing import cast

import pytest

from batch_layer.views.publish.check import (
    SHOWN_WINDOWS,
    ExpectedRow,
    GenerationCheck,
    UnequalWindow,
    WrittenRow,
    WrittenRowReader,
    _check_store_days,
    unequal_windows,
)
from runtime.cassandra.day_spans import DaySpan
from tally.algebra.parts import Sum
from tally.families.family import Family

MONDAY, WEDNESDAY, QUARTER = 17_231 * 86_400_000, 17_233 * 86_400_000, 900_000
OWED = {("1", MONDAY): (2, 2, 300), ("1", WEDNESDAY): (2, 1, 300), ("2", MONDAY): (1, 1, 100)}


def held(store: str, start: int, currency: str, events: int, *parts: int) -> WrittenRow:
    """A row as Cassandra holds it."""
    return WrittenRow(store, start // 86_400_000, start, (currency,), events, parts)


def test_windows_that_are_not_as_the_records_are_found() -> None:
    # One cent less, a row in the next window, and all right in two currencies.
    rows = [
        held("1", MONDAY, "USD", 2, 2, 299),
        held("1", WEDNESDAY + QUARTER, "USD", 2, 1, 300),
        held("2", MONDAY, "USD", 1, 1, 60),
        held("2", MONDAY, "EUR", 1, 0, 40),
    ]

    found = {(one.store, one.start): one.balance for one in unequal_windows(rows, OWED)}

    assert found == {
        ("1", MONDAY): ["+0", "+0", "-1"],
        ("1", WEDNESDAY): ["-2", "-1", "-300"],
        ("1", WEDNESDAY + QUARTER): ["+2", "+1", "+300"],
    }


def test_windows_that_are_as_the_records_are_equal() -> None:
    rows = [
        held("1", MONDAY, "USD", 2, 2, 300),
        held("1", WEDNESDAY, "USD", 2, 1, 300),
        held("2", MONDAY, "USD", 1, 1, 100),
    ]

    assert unequal_windows(rows, OWED) == []


def test_balance_of_a_window_beyond_64_bits_is_a_number_and_no_error() -> None:
    most = 2**63 - 1

    assert unequal_windows([held("1", MONDAY, axis, 1, most) for axis in ("EUR", "USD")], {})[
        0
    ].balance == ["+1", f"+{2 * most}"]


@pytest.mark.parametrize("turned", [False, True])
def test_what_the_executors_saw_adds_up_in_any_order(turned: bool) -> None:
    wrong = [UnequalWindow("1", number, ["+1"]) for number in range(SHOWN_WINDOWS)]
    axes = {"currency": {"1": {"EUR": DaySpan(3, 4)}}}
    one = GenerationCheck(5, [*wrong], {"1": DaySpan(3, 9)}, axes)
    other = GenerationCheck(
        7,
        [*wrong],
        {"1": DaySpan(1, 4), "2": DaySpan(5, 5)},
        {"currency": {"1": {"EUR": DaySpan(2, 3), "USD": DaySpan(9, 9)}}},
    )
    whole = GenerationCheck()

    for some in [other, one] if turned else [one, other]:
        whole.add(some)

    assert (whole.windows, len(whole.unequal)) == (12, SHOWN_WINDOWS)
    assert whole.stores == {"1": (1, 9), "2": (5, 5)}
    assert whole.axes == {"currency": {"1": {"EUR": (2, 4), "USD": (9, 9)}}}


def test_values_of_each_axis_are_seen_with_their_days() -> None:
    queues = Family("queues", ("queue", "desk"), (Sum("arrived"),), epoch=1)
    rows = [
        WrittenRow("1", day, day * 86_400_000, place, 1, (1,))
        for day, place in ((17_231, ("tills", "a")), (17_233, ("tills", "b")))
    ]
    reader = SimpleNamespace(read_rows=lambda _days: rows)
    owed = [(("1", row.day), [ExpectedRow("1", row.start, (1, 1))]) for row in rows]

    found = _check_store_days(owed, cast(WrittenRowReader, reader), queues)

    assert (found.unequal, found.stores) == ([], {"1": (17_231, 17_233)})
    assert found.axes == {
        "queue": {"1": {"tills": (17_231, 17_233)}},
        "desk": {"1": {"a": (17_231, 17_231), "b": (17_233, 17_233)}},
    }
