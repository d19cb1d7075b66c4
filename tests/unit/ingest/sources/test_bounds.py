"""What is accepted is bounded, whatever it was: every reader of the canonical record takes it,
and nothing else is ever raised."""

import json
from collections import Counter
from dataclasses import replace
from datetime import date, timedelta

import pytest

from ingest.normaliser.normalise import Normaliser
from runtime.processor.step import Input
from schemas import loader
from tally.algebra.parts import MAX_PART
from tally.errors import RejectedEvent
from tests.support.odd.odd import ACCEPTED, Odd
from tests.support.odd.odd_messages import odd_messages
from tests.support.odd.odd_mutations import mutations
from tests.unit.ingest.bounds import FAMILY, NOW, TOPICS, beyond_bounds, outcome, written
from tests.unit.ingest.messages import ARRIVED, MILK, RULES, pos, receipt, with_line

ODD = odd_messages(NOW)


@pytest.mark.parametrize("odd", ODD, ids=[odd.name for odd in ODD])
def test_odd_message_is_what_the_list_says_and_within_bounds(odd: Odd) -> None:
    assert outcome(odd.kind, odd.body) == odd.outcome
    if odd.outcome == ACCEPTED:
        assert beyond_bounds(FAMILY[TOPICS[odd.kind]], written(odd.kind, odd.body)) == []


def test_outcomes_do_not_depend_on_the_minute_of_the_quarter_hour() -> None:
    quarter_hour = NOW.replace(minute=0, second=30, microsecond=0)
    for now in (quarter_hour + timedelta(minutes=minute) for minute in range(15)):
        intervals = [odd for odd in odd_messages(now) if odd.kind == "traffic"]
        assert len(intervals) >= 9
        for odd in intervals:
            assert outcome(odd.kind, odd.body, now) == odd.outcome, (odd.name, now)


def test_there_are_sixty_odd_messages_and_more() -> None:
    assert len(ODD) >= 60 < len({odd.body for odd in ODD})


def test_mutated_messages_are_accepted_within_bounds_or_rejected_for_a_known_reason() -> None:
    outcomes: Counter[str] = Counter()
    for body in mutations(seed=9, count=4000, now=NOW):
        found = outcome("pos", body)
        outcomes[found] += 1
        assert found != ACCEPTED or beyond_bounds("sales", written("pos", body)) == []

    assert set(outcomes) <= {ACCEPTED, *loader.dead_letter_reasons()}
    assert outcomes[ACCEPTED] > 100 and len(outcomes) > 6, outcomes


def test_mutations_are_the_same_for_the_same_seed() -> None:
    assert list(mutations(3, 50, NOW)) == list(mutations(3, 50, NOW)) != list(mutations(4, 50, NOW))


def test_a_message_that_cannot_be_read_has_no_event_time_and_raises_nothing() -> None:
    normaliser = Normaliser(RULES, 4, FAMILY)
    for body in [
        *(odd.body for odd in ODD if odd.kind == "pos"),
        *mutations(seed=5, count=1000, now=NOW),
    ]:
        normaliser.event_time(
            Input("posTransactionTopic", 0, 0, int(NOW.timestamp() * 1000), None, body)
        )


@pytest.mark.parametrize("kind", ["sale", "return", "void"])
def test_a_receipt_of_ten_to_the_twelve_is_taken_and_one_more_is_not(kind: str) -> None:
    dear = {"item": "ring", "price": 999_999_999, "amount": 1}
    rest = {"item": "ring", "price": 10, "amount": 1}

    made = receipt(pos(kind=kind, transactions=[dear] * 10 + [rest]))
    with pytest.raises(RejectedEvent) as rejected:
        receipt(pos(kind=kind, transactions=[dear] * 10 + [rest, {**rest, "price": "0.01"}]))

    assert max(made.gross_minor, made.returns_minor, made.voids_minor) == MAX_PART
    assert (rejected.value.reason, rejected.value.field) == ("out_of_range", "/transactions")


def test_units_are_bounded_like_money() -> None:
    grains = {"item": "rice", "price": 0, "amount": 999_999_999}

    assert receipt(pos(transactions=[grains, {**grains, "amount": 1}])).units_milli == MAX_PART
    with pytest.raises(RejectedEvent, match="/transactions: all lines of a receipt together"):
        receipt(pos(transactions=[grains, {**grains, "amount": "1.001"}]))


def test_what_is_too_large_is_named() -> None:
    with pytest.raises(RejectedEvent) as rejected:
        receipt(pos(small=1, large="x" * 20_000))

    assert (rejected.value.reason, rejected.value.field) == ("too_large", "/large")
    assert "16,384 bytes" in rejected.value.message


@pytest.mark.parametrize(
    ("number", "kept"),
    [
        (b"1505861283000", b"1505861283000"),
        (b"1.10", b"1.10"),
        (b"9223372036854775807", b"9223372036854775807"),
        (b"9223372036854775808", b'"9223372036854775808"'),
        (b"1." + b"3" * 33, b"1." + b"3" * 33),
        (b"1." + b"3" * 34, b'"1.' + b"3" * 34 + b'"'),
        (b"1e300", b"1E+300"),
        (b"1e301", b'"1E+301"'),
        (b"1e-301", b'"1E-301"'),
        (b"4111111111111111", b'"[redacted]"'),
    ],
)
def test_unknown_number_is_kept_as_number_within_bounds_and_as_text_beyond(
    number: bytes, kept: bytes
) -> None:
    body = (
        json.dumps(pos(happened_at=NOW.isoformat(), x=0))
        .encode()
        .replace(b'"x": 0', b'"x": ' + number)
    )

    assert b'"extra":{"x":' + kept + b"}" in written("pos", body)


@pytest.mark.parametrize(
    "at",
    [
        "0001-01-01T00:00:00Z",
        "1582-10-10T12:00:00Z",
        "2000-01-01T00:00:00Z",
        "2017-03-26T01:00:00Z",
    ],
)
def test_history_is_read_from_the_first_day_of_the_calendar_on(at: str) -> None:
    rules = replace(RULES, earliest_event=date.min)

    assert receipt(pos(happened_at=at), rules).happened_at == at.replace("Z", ".000Z")


def test_now_is_accepted_and_the_year_9999_is_the_future() -> None:
    assert receipt(pos(happened_at=ARRIVED.isoformat())).receipts == 1
    with pytest.raises(RejectedEvent, match="lies after its arrival"):
        receipt(pos(happened_at="9999-12-31T23:59:59.999Z"))


def test_line_texts_that_grow_by_being_blacked_out_keep_their_bound() -> None:
    made = receipt(with_line(item="a@b.cc " * 36))

    assert len(made.lines[0].item) <= 256 and "a@b" not in made.lines[0].item


def test_largest_messages_stay_below_the_stated_size() -> None:
    line = {**MILK, "item": "\x01" * 200}
    body = json.dumps(pos(happened_at=NOW.isoformat(), transactions=[line] * 780)).encode()
    assert 0.9 * RULES.max_bytes < len(body) <= RULES.max_bytes

    assert beyond_bounds("sales", written("pos", body)) == []
    with pytest.raises(RejectedEvent, match="at most"):
        receipt(body, replace(RULES, max_bytes=len(body) - 1))
