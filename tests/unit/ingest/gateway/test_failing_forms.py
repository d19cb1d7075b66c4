"""An error in the reading of one event refuses that event: those beside it are stored."""

import decimal
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from ingest.contract.vendor import (
    MAX_LETTERS,
    SkippedPart,
    VendorBody,
    collect_parts,
    guard_event,
    make_placeholder,
    omission_message,
)
from ingest.gateway.submission import CheckedLines, check_lines, endpoints
from ingest.installation.arrival import Arrival, Rules
from ingest.sources.registry import conversions
from ingest.sources.sales.vendors import poslog as form
from tally.errors import KeysUnreachable, RejectedEvent
from tally.events.identity import CanonicalEvent
from tests.support.sources.poslog import poslog
from tests.unit.ingest.messages import POS, RULES, encoded, pos

FAILED, LEFT_OUT = "reading_failed", "letters_left_out"
NOW = datetime(2017, 9, 19, 23, tzinfo=UTC)
PLAIN = next(one for one in endpoints() if one.path == "/v1/events/pos")
POSLOG = next(one for one in endpoints() if one.path == "/v1/events/pos/poslog")
ERRORS = [decimal.Overflow(), ValueError("x" * 5000), RecursionError(), KeyError(b"\xff")]
ids = [type(error).__name__ for error in ERRORS]


def body(content: bytes = b"x") -> VendorBody:
    return VendorBody(content, NOW, RULES)


def found_of(
    messages: Callable[[VendorBody], Iterator[bytes | SkippedPart]], content: bytes = b"x"
) -> CheckedLines:
    return check_lines(body(content), replace(PLAIN, messages=messages))


def letters_of(found: CheckedLines) -> list[dict[str, Any]]:
    return [json.loads(letter) for _, letter in found.letters]


@pytest.mark.parametrize("error", ERRORS, ids=ids)
def test_a_form_that_fails_on_one_event_loses_no_other(error: Exception) -> None:
    def event(number: int) -> Iterator[bytes]:
        if number == 1:
            raise error
        yield encoded(pos(transaction_id=number))

    def messages(asked: VendorBody) -> Iterator[bytes | SkippedPart]:
        parts = (one for at in range(3) for one in guard_event(event(at), {"number": at}))
        return collect_parts(parts, asked.budget)

    found = found_of(messages)

    assert (len(found.accepted), [line for line, _ in found.rejected]) == (2, [2])
    assert [letter["reason"] for letter in letters_of(found)] == [FAILED]
    assert letters_of(found)[0]["unread"] == {"number": 1}
    assert "x" * 100 not in found.rejected[0][1].message


@pytest.mark.parametrize("error", ERRORS, ids=ids)
def test_a_form_that_fails_between_events_keeps_those_before_it(error: Exception) -> None:
    def messages(_asked: VendorBody) -> Iterator[bytes | SkippedPart]:
        yield encoded(POS)
        raise error

    found = found_of(messages)

    assert (len(found.accepted), found.rejected[0][1].reason) == (1, FAILED)


def test_a_form_that_makes_nothing_of_a_body_but_an_error_is_told_too() -> None:
    def messages(_asked: VendorBody) -> Iterator[bytes | SkippedPart]:
        raise ZeroDivisionError

    assert [letter["reason"] for letter in letters_of(found_of(messages))] == [FAILED]


@pytest.mark.parametrize("error", ERRORS, ids=ids)
def test_a_contract_that_fails_on_one_message_loses_no_other(error: Exception) -> None:
    """What it failed on is stored as what no contract fails on."""

    def check(message: bytes | None, arrival: Arrival, rules: Rules) -> CanonicalEvent:
        if b"43" in (message or b""):
            raise error
        return PLAIN.check(message, arrival, rules)

    lines = [encoded(pos(transaction_id=number)) for number in (42, 43, 44)]
    found = check_lines(body(), replace(PLAIN, messages=lambda _asked: iter(lines), check=check))

    assert (len(found.accepted), found.rejected[0][1].reason) == (2, FAILED)
    (letter,) = letters_of(found)
    assert json.loads(letter["unread"])["transaction_id"] == 43
    with pytest.raises(RejectedEvent, match=type(error).__name__) as refused:
        PLAIN.check(found.letters[0][1], Arrival(NOW, 0, 0), RULES)
    assert refused.value.reason == FAILED


def test_errors_that_are_known_are_for_who_asked() -> None:
    def messages(_asked: VendorBody) -> Iterator[bytes | SkippedPart]:
        raise KeysUnreachable("no key")
        yield b""

    with pytest.raises(KeysUnreachable):
        found_of(messages)


def test_a_receipt_that_cannot_be_read_is_named_in_its_letter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    totals = iter([None, decimal.Overflow(), None])

    def planted(*_given: Any) -> None:
        if (error := next(totals)) is not None:
            raise error

    monkeypatch.setattr(form, "read_net_total", planted)
    sent = "".join(poslog(pos(transaction_id=number)) for number in (42, 43, 44))
    found = check_lines(body(f"<POSLog>{sent}</POSLog>".encode()), POSLOG)

    assert (len(found.accepted), found.rejected_count) == (2, 1)
    assert letters_of(found)[0]["unread"]["transaction_id"] == "43"


@pytest.mark.parametrize("family", conversions())
def test_what_stands_for_events_is_refused_by_each_contract_for_its_reason(family: str) -> None:
    letters = {
        LEFT_OUT: omission_message({"unknown_sensor": 7, "too_large": 2}),
        FAILED: make_placeholder("a part", RejectedEvent(FAILED, "", "why")).placeholder,
    }

    for reason, letter in letters.items():
        assert isinstance(letter, bytes)
        with pytest.raises(RejectedEvent) as refused:
            conversions()[family](letter, Arrival(NOW, 0, 0), RULES)
        assert refused.value.reason == reason


def test_of_refused_events_a_hundred_are_kept_and_the_others_counted_by_reason() -> None:
    bad = [encoded(pos(kind="gift"))] * 150 + [b"7"] * 20 + [b'"%s"' % (b"x" * 2_000_000)]
    found = found_of(lambda _asked: iter(bad), b"x" * 1_000_000)

    assert (found.rejected_count, len(found.letters)) == (171, MAX_LETTERS + 1)
    assert letters_of(found)[-1]["unread"] == {
        "out_of_range": 50,
        "wrong_type": 20,
        "too_large": 1,
    }
    assert letters_of(found)[-1]["message"].startswith("71 more events")
